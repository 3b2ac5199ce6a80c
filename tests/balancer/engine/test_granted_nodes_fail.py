"""When a granted node has failed, as a running engine finds out from what batch system and cloud say."""

from __future__ import annotations

import pytest

from balancer.clock import US, micros
from balancer.drivers.base import NodeStatus
from balancer.drivers.cloud import CloudStatus
from balancer.lifecycle.records import NodeRecord
from balancer.lifecycle.states import NodeState
from balancer.service.failure_detector import Failing

OFFLINE, DOWN, UNREAD = NodeStatus("offline"), NodeStatus("down"), NodeStatus("unknown")
ASLEEP = NodeStatus("down", is_asleep=True)
UP = CloudStatus(False, is_up=True)


def granted(down_since_us=None):
    return NodeRecord(
        name="n1", state=NodeState.OD_ALLOC, since_us=0, reserved_for="r", down_since_us=down_since_us
    )


def looks(*readings, after_s=60, record=None, cloud=None):
    """What each reading, 30 s after the one before it, has to tell of the node n1. None: batch does not list it."""
    failing = Failing(after_s * US)
    return [
        failing.look([record or granted()], {} if status is None else {"n1": status}, cloud, number * 30 * US)
        for number, status in enumerate(readings)
    ]


NOTHING, FAILED = ({}, ()), ({"n1": 0}, ())


@pytest.mark.parametrize("status", [DOWN, None])
def test_a_granted_node_has_failed_when_it_was_down_or_absent_for_the_whole_time(status):
    assert looks(status, status, status) == [NOTHING, NOTHING, FAILED]


def test_a_look_that_finds_it_well_begins_the_time_anew():
    assert looks(DOWN, OFFLINE, DOWN, DOWN) == [NOTHING] * 4


def test_what_cannot_be_read_neither_fails_it_nor_clears_it():
    assert looks(UNREAD, UNREAD, UNREAD, UNREAD) == [NOTHING] * 4
    assert looks(DOWN, UNREAD, DOWN) == [NOTHING, NOTHING, FAILED]
    assert looks(UNREAD, record=granted(5)) == [NOTHING]


def test_a_node_that_sleeps_has_not_failed():
    assert looks(ASLEEP, ASLEEP, ASLEEP) == [NOTHING] * 3


def test_a_host_that_the_cloud_says_is_up_has_not_failed():
    assert looks(DOWN, DOWN, DOWN, cloud={"n1": UP}) == [NOTHING] * 3
    assert looks(DOWN, DOWN, DOWN, cloud={}) == [NOTHING, NOTHING, FAILED]


def test_it_is_told_once_and_taken_back_once():
    assert looks(DOWN, DOWN, DOWN, record=granted(0)) == [NOTHING] * 3
    assert looks(OFFLINE, record=granted(0)) == [({}, ("n1",))]


def test_where_nothing_ever_fails_nothing_does():
    assert Failing(None).look([granted()], {}, None, 10**12) == NOTHING


def test_a_failed_node_is_in_the_ledger_and_survives_a_restart(world):
    w = world(nodes=1, has_cloud=False, reconcile_period_s=0)
    w.asked(1)
    w.fails("n01")
    since_us = w.engine.node("n01").down_since_us
    w.restart()
    assert w.engine.node("n01").down_since_us == since_us
    w.batch.down.clear()
    w.engine.reconcile()
    assert (w.states(), w.engine.failed()) == ({"n01": "OD_ALLOC"}, {})


def test_a_silent_cloud_fails_no_node(world):
    w = world(nodes=1, reconcile_period_s=0)
    w.asked(1)
    w.cloud.hosts = None
    w.fails("n01")
    assert w.engine.failed() == {}


def test_a_replaced_node_comes_back_to_batch_when_it_is_seen_again_and_not_before(world, kit):
    w = world(nodes=2, has_cloud=False, reconcile_period_s=0)
    w.asked(1, replace=True)
    w.fails("n01")
    kit.until(lambda: w.states() == {"n01": "DOWN", "n02": "OD_ALLOC"})
    w.batch.down.clear()
    w.batch.ours.add("n01")
    w.engine.reconcile()  # its mark is taken off
    kit.until(lambda: not w.batch.marked["n01"])
    w.clock.advance_to(w.clock.now_us() + micros(1))
    w.engine.reconcile()
    assert w.states() == {"n01": "OA_IDLE", "n02": "OD_ALLOC"}


@pytest.mark.parametrize("hosts", [None, {"n01": CloudStatus(False, ("vm",))}])
def test_a_replaced_node_that_comes_back_with_a_server_or_nobody_knows_is_kept_from_batch(world, kit, hosts):
    w = world(nodes=2, reconcile_period_s=0)
    w.asked(1, replace=True)
    w.fails("n01")
    kit.until(lambda: w.states() == {"n01": "DOWN", "n02": "OD_ALLOC"})
    w.batch.down.clear()
    w.batch.ours.add("n01")
    w.cloud.hosts = hosts
    w.engine.reconcile()
    w.settled()
    assert w.batch.marked["n01"], "batch may start nothing there"
    assert w.states()["n01"] == "DOWN"


def test_a_replacement_that_nobody_calls_for_still_waits_after_a_restart(world, kit):
    """A restart withdraws requests whose callers do not come back: nobody ever called for this one."""
    w = world(nodes=2, has_cloud=False, reconcile_period_s=0, wait_s=600)
    w.start_job("1.server", "n02")
    w.asked(1, replace=True)
    w.fails("n01")
    (record,) = w.engine.ledger.requests(status="waiting", before=None, limit=10)
    w.restart()
    assert record.replaces
    assert record.request_id not in w.engine._callers._away
    w.end_job("1.server")
    kit.until(lambda: w.engine.ledger.request(record.request_id).nodes == ("n02",))
