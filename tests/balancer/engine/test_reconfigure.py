"""Nodes and settings change while the service runs: what was decided stays, and what cannot be used changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from balancer.ledger.errors import LedgerError

WAIT_US = 600_000_000


def reconfigured(w, nodes, **settings):
    lifecycle = replace(w.engine._writer._configured.settings, **settings)
    w.batch.marked = {name: w.batch.marked.get(name, False) for name in {*w.batch.marked, *nodes}}
    w.engine.reconfigure(nodes, lifecycle, w.engine.settings)


def test_nodes_come_and_go_and_a_request_that_waits_is_met_by_a_new_one(world, kit):
    w = world(nodes=2, wait_s=600, has_cloud=False)
    lent = w.engine.wait_for_request(w.engine.submit_request(1).request_id).record.nodes
    waiting = w.engine.submit_request(2, WAIT_US).request_id
    kit.until(lambda: set(w.states().values()) == {"OD_ALLOC", "OD_RESERVE"})
    reconfigured(w, ["n01", "n02", "n03"])
    kit.until(lambda: w.engine.ledger.request(waiting).status == "granted")
    assert (w.states().keys(), w.states()[lent[0]]) == ({"n01", "n02", "n03"}, "OD_ALLOC")
    w.engine.release_nodes(w.engine.ledger.request(waiting).nodes)
    w.clock.advance_to(w.clock.now_us() + 601_000_000)
    kit.until(lambda: w.settled()["n03"] == "OA_IDLE")
    reconfigured(w, ["n01", "n02"])
    assert w.states().keys() == {"n01", "n02"}
    told = [json.loads(e.body) for e in w.engine.ledger.events(0, 1000) if e.kind == "configured"]
    assert told == [{"added": ["n03"], "removed": []}, {"added": [], "removed": ["n03"]}]
    w.restart()
    assert (w.states().keys(), w.states()[lent[0]]) >= ({"n01", "n02"}, "OD_ALLOC")


def test_the_reserve_grows_at_once(world, kit):
    w = world(nodes=4, has_cloud=False)
    w.settled()
    reconfigured(w, w.names, static_reserve=3)
    kit.until(lambda: list(w.states().values()).count("OD_RESERVE") == 3)


def test_what_cannot_be_used_changes_nothing(world):
    w = world(nodes=2, has_cloud=False)
    lent = w.engine.wait_for_request(w.engine.submit_request(1).request_id).record.nodes
    before, log = w.settled(), w.log()
    with pytest.raises(LedgerError, match=f"node {lent[0]} is OD_ALLOC"):
        reconfigured(w, [name for name in w.names if name not in lent])
    with pytest.raises(ValueError, match="a reserve of 3 nodes cannot be made of"):
        reconfigured(w, w.names, static_reserve=3)
    assert (w.states(), w.log()) == (before, log)
    w.engine.release_nodes(lent)
    assert w.engine.submit_request(1).request_id


def test_a_change_that_cannot_be_stored_changes_nothing(world, monkeypatch):
    w = world(nodes=2, has_cloud=False)
    w.settled()
    with monkeypatch.context() as broken:

        def fails(_):
            raise LedgerError("the disk is full")

        broken.setattr(w.engine.ledger, "commit", fails)
        with pytest.raises(LedgerError, match="full"):
            reconfigured(w, [*w.names, "n03"], static_reserve=2)
    assert w.states().keys() == set(w.names)
    assert w.engine.wait_for_request(w.engine.submit_request(1).request_id).record.status == "granted"
    assert w.states().keys() == set(w.names)
