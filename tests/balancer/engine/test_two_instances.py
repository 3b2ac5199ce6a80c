"""Two services on one ledger: the older one changes nothing and commands nothing any more (T15, I12)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from balancer.http.app import create_app
from balancer.ledger.errors import FencedError
from gates import GATE


def overtake(w):
    """Another engine on the same ledger, as when somebody deletes the lock of a service that sleeps."""
    old = w.engine
    Path(f"{w.db}.lock").unlink()
    w.engine = w._started()
    return old


def records_of(w):
    state = w.engine.ledger.load()
    return state.nodes, state.requests, state.reserves


def test_an_overtaken_service_refuses_every_write_and_says_why(world):
    w = world(nodes=3, reserve=2)
    w.settled()
    old = overtake(w)
    before = w.settled()
    records = records_of(w)
    for call in (
        lambda: old.submit_request(1),
        lambda: old.update_nodes(busy=("n03",), job="1.server"),
        lambda: old.add_reserve(1, 5),
        lambda: old.submit_request(2),
    ):
        with pytest.raises(FencedError, match="another Balancer has taken over"):
            call()
    assert records_of(w) == records
    assert w.states() == before
    assert old.problem().startswith("another Balancer has taken over the ledger")
    refused = create_app(old).test_client().post("/v1/request_nodes", json={"nodes": 1})
    assert (refused.status_code, refused.json["code"]) == (503, "balancer.taken_over")
    assert "balancer_leader 0.0" in create_app(old).test_client().get("/metrics").text
    assert "balancer_leader 1.0" in create_app(w.engine).test_client().get("/metrics").text
    assert w.asked(2).status == "granted"
    old.stop()


def test_an_overtaken_service_starts_no_command(world, kit):
    w = world(nodes=2, wait_s=600)
    w.settled()
    w.batch.gate.clear()  # the old one hangs in a reading, its order to reclaim not given yet
    with kit.running(w.engine.reconcile):
        old = w.engine
        kit.until(lambda: old._commander._readers == [])
        old.submit_request(1)
        Path(f"{w.db}.lock").unlink()
        ledger_of_new = kit.Ledger(w.db, lock_wait_s=0)
        ledger_of_new.take_epoch()
        w.batch.gate.set()
    kit.until(lambda: old.ledger.lease.is_lost)
    polls = len(w.batch.calls)
    kit.until(lambda: len(w.batch.calls) > polls + 5)  # it goes on looking, and that is all
    assert w.batch.commands() == []
    old.stop()
    ledger_of_new.close()
    w.engine = w._started()
    kit.until(lambda: w.settled()["n01"] == "OD_ALLOC")


def test_a_service_that_sleeps_in_the_middle_of_a_save_is_refused_when_it_wakes(world, kit):
    w = world(nodes=2, reserve=2)
    w.settled()
    old, asleep, wake = w.engine, threading.Event(), threading.Event()
    stored = old.ledger.commit

    def slow(entries):
        asleep.set()
        wake.wait()
        stored(entries)

    old.ledger.commit = slow
    with kit.running(lambda: old.submit_request(1)) as answer:
        asleep.wait()
        overtake(w)
        records = records_of(w)
        wake.set()
    assert isinstance(answer[0], FencedError)
    assert records_of(w) == records
    kit.check_replay(w.engine.ledger)
    old.stop()


@pytest.mark.slow
def test_many_changes_of_the_writer_leave_one_history(world, kit):
    w = world(nodes=4, reserve=4)
    w.settled()
    for _ in range(GATE.takeovers):
        nodes = w.engine.submit_request(2).nodes
        old = overtake(w)
        with pytest.raises(FencedError):
            old.release_nodes(nodes)
        w.engine.release_nodes(nodes)
        old.stop()
    epochs = [event.epoch for event in w.engine.ledger.log(0)]
    assert epochs == sorted(epochs)
    assert epochs[-1] == GATE.takeovers + 1
    kit.check_replay(w.engine.ledger)
