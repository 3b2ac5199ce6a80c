"""While people have frozen the service no node changes its pool; everything else goes on."""

from __future__ import annotations

import pytest

from balancer.clock import micros
from balancer.http.app import create_app
from balancer.lifecycle.records import RequestStatus
from balancer.service.freeze import Order

ORDER = Order("ada@batch", "the switch is replaced", "2026-11-22T10:00:00Z")


def test_requests_get_the_reserve_that_is_there_and_no_node_is_taken_from_batch(world):
    w = world(nodes=4, reserve=1)
    w.settled()
    w.freeze.freeze(ORDER)
    assert w.asked(1).status is RequestStatus.GRANTED
    assert w.asked(1).status is RequestStatus.REJECTED
    w.clock.advance_to(w.clock.now_us() + micros(3600))
    assert w.settled() == {"n01": "OD_ALLOC", "n02": "OA_IDLE", "n03": "OA_IDLE", "n04": "OA_IDLE"}
    # Only the mark of the node that was granted is renewed: an older ledger would not know of the grant.
    assert set(w.batch.commands()) == {("reclaim", ("n01",))}


def test_a_node_beyond_the_reserve_stays_until_the_thaw(world):
    w = world(nodes=2, idle_reserve_s=60)
    w.asked(1)
    w.engine.release_nodes(("n01",))
    w.freeze.freeze(ORDER)
    w.clock.advance_to(w.clock.now_us() + micros(3600))
    assert w.settled()["n01"] == "OD_RESERVE"
    assert w.freeze.thaw()
    w.engine.add_reserve(1, 0, keep_us=0)
    w.clock.advance_to(w.clock.now_us() + micros(3600))
    assert w.settled()["n01"] == "OA_IDLE"


def test_the_order_outlives_a_restart_and_is_told(world):
    w = world(nodes=2)
    w.freeze.freeze(ORDER)
    w.restart()
    assert w.asked(1).status is RequestStatus.REJECTED
    http = create_app(w.engine).test_client()
    assert http.get("/v1/status").json["frozen"] == {"by": ORDER.by, "reason": ORDER.reason, "at": ORDER.at}
    assert http.get("/readyz").status_code == 200
    assert "balancer_frozen 1.0" in http.get("/metrics").text


def test_jobs_start_and_end_while_it_is_frozen(world):
    w = world(nodes=2)
    w.freeze.freeze(ORDER)
    w.start_job("1", "n01")
    assert w.settled() == {"n01": "OA_BUSY", "n02": "OA_IDLE"}
    w.end_job("1")
    assert w.settled() == {"n01": "OA_IDLE", "n02": "OA_IDLE"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"by": "x"}'])
def test_a_file_that_cannot_be_read_freezes(world, text):
    w = world(nodes=2)
    w.freeze.path.write_text(text, encoding="utf-8")
    assert w.engine.frozen.by == "unknown"
    assert w.asked(1).status is RequestStatus.REJECTED


def test_thawing_what_is_not_frozen_says_so(world):
    assert not world().freeze.thaw()
