"""I20, I21 and those who wait: nobody waits for the batch system, and nobody is waited for in vain."""

from __future__ import annotations

import pytest

from balancer.clock import micros
from balancer.drivers.base import NodeStatus, RefusedError
from balancer.drivers.cloud import CloudStatus
from balancer.lifecycle.errors import Refused
from balancer.service.callers import CallerGoneError, CallerSettings
from balancer.service.calls import Caller

NOVA, EVE = Caller("nova"), Caller("eve")


def a_while_later(w):
    """All is settled, and what was seen of the nodes is no news any more."""
    w.settled()
    w.clock.advance_to(w.clock.now_us() + micros(100))


def test_a_request_is_durable_before_anybody_looks_at_a_batch_system_that_hangs(world):
    w = world(nodes=1, reserve=1, wait_s=60, reconcile_period_s=0)
    a_while_later(w)
    w.batch.gate.clear()
    record = w.engine.submit_request(1, caller=NOVA)
    assert (record.status, record.owner) == ("waiting", "nova")
    assert w.engine.ledger.request(record.request_id) == record


def test_a_request_ends_at_its_deadline_while_the_batch_system_hangs(world, kit):
    w = world(nodes=1, reserve=1, wait_s=60, reconcile_period_s=0)
    a_while_later(w)
    w.batch.gate.clear()
    record = w.engine.submit_request(1)
    w.engine._reader._release()  # what a paced clock would wait for is not what this test is about
    with kit.running(lambda: w.engine.wait_for_request(record.request_id)) as answer:
        w.clock.advance_to(record.deadline_us)
    assert answer[0].record.status == "rejected"
    w.batch.gate.set()
    assert w.settled() == {"n01": "OD_RESERVE"}


def test_why_nothing_was_granted_is_in_the_answer(world, kit):
    w = world(nodes=1, reserve=1, reconcile_period_s=0)
    a_while_later(w)
    w.batch.fails["status all"] = RefusedError("permission denied")
    record = w.engine.submit_request(1)
    kit.until(lambda: w.engine.problem() is not None)
    assert w.engine.problem() == "the batch system refuses to be read: permission denied"
    w.clock.advance_to(record.deadline_us)
    kit.until(lambda: w.engine.ledger.request(record.request_id).status == "rejected")
    assert w.engine.ledger.request(record.request_id).reason.endswith(": permission denied")


def test_an_epilogue_is_answered_soon_while_the_batch_system_hangs(world, kit):
    w = world(nodes=1, wait_s=600, reconcile_period_s=0, mark_wait_s=0.05)
    w.start_job("1.server", "n01")
    w.engine.submit_request(1)
    w.batch.gate.clear()
    with kit.running(lambda: w.engine.update_nodes(idle=("n01",), job="1.server")) as answer:
        pass
    assert answer == [None]


def test_a_grant_that_nobody_confirms_goes_back_and_one_that_is_confirmed_stays(world, kit):
    w = world(nodes=2, confirm_s=60, reconcile_period_s=0, has_cloud=False)
    kept, lost = w.asked(1, caller=NOVA), w.asked(1, caller=NOVA)
    assert w.engine.confirm_request(kept.request_id, caller=NOVA).confirmed
    w.clock.advance_to(w.clock.now_us() + micros(60))
    kit.until(lambda: w.engine.ledger.request(lost.request_id).ended_us is not None)
    assert w.states()[kept.nodes[0]] == "OD_ALLOC"
    with pytest.raises(Refused, match="has no nodes"):
        w.engine.confirm_request(lost.request_id, caller=NOVA)


def test_a_grant_is_not_ended_before_the_cloud_has_said_that_no_server_runs_there(world, kit):
    w = world(nodes=1, confirm_s=60, reconcile_period_s=0)
    record = w.asked(1)
    w.cloud.hosts = None
    w.clock.advance_to(record.decided_us + micros(60))
    kit.until(lambda: w.engine.ledger.request(record.request_id).overdue)
    w.engine.reconcile()
    assert w.states() == {"n01": "OD_ALLOC"}
    w.cloud.hosts = {"n01": CloudStatus(enabled=False)}
    w.engine.reconcile()
    assert w.engine.ledger.request(record.request_id).reason == "not confirmed: its nodes went back"


def test_nobody_ends_what_is_others(world):
    w = world(nodes=1, reconcile_period_s=0)
    record = w.asked(1, caller=NOVA)
    for call in (
        lambda: w.engine.release_nodes(record.nodes, caller=EVE),
        lambda: w.engine.renew_lease(record.request_id, 0, caller=EVE),
    ):
        with pytest.raises(Refused, match="nova's, and you are eve"):
            call()
    w.engine.release_nodes(record.nodes, caller=Caller("op", is_operator=True))


def test_who_hangs_up_and_does_not_come_back_is_withdrawn(world, kit):
    w = world(nodes=1, wait_s=600, callers=CallerSettings(hangup_s=0.01))
    w.start_job("1.server", "n01")
    record = w.engine.submit_request(1)
    with pytest.raises(CallerGoneError):
        w.engine.wait_for_request(record.request_id, is_gone=lambda: True)
    kit.until(lambda: w.engine.ledger.request(record.request_id).status == "withdrawn")
    assert "hung up" in w.engine.ledger.request(record.request_id).reason


def test_a_request_whose_caller_does_not_come_back_after_a_restart_is_withdrawn(world, kit):
    w = world(nodes=1, wait_s=600, callers=CallerSettings(return_s=0.5))
    w.start_job("1.server", "n01")
    kept, lost = w.engine.submit_request(1), w.engine.submit_request(1)
    w.restart()
    w.engine.calls(kept.request_id)
    kit.until(lambda: w.engine.ledger.request(lost.request_id).status == "withdrawn")
    assert w.engine.ledger.request(kept.request_id).status == "waiting"


def test_a_node_on_which_a_job_was_reported_is_not_granted_before_a_look_has_cleared_that(world, kit):
    w = world(nodes=1, reserve=1, wait_s=600, reconcile_period_s=0)
    a_while_later(w)
    w.batch.gate.clear()
    with pytest.raises(Refused):
        w.engine.update_nodes(busy=("n01",), job="7.server")
    assert w.engine.node("n01").contested == "job 7.server was reported to start"
    record = w.engine.submit_request(1)
    assert record.status == "waiting"
    w.batch.gate.set()
    assert w.engine.wait_for_request(record.request_id).record.nodes == ("n01",)


def test_a_reserve_node_that_somebody_else_marks_is_not_granted(world, kit):
    w = world(nodes=2, reserve=1, wait_s=600, reconcile_period_s=0)
    a_while_later(w)
    theirs = NodeStatus("offline", note="broken disk", marked=True, is_foreign=True)
    w.batch.reports = {"n01": theirs, "n02": NodeStatus("idle")}
    record = w.engine.submit_request(1)
    kit.until(lambda: w.states()["n01"] == "DOWN")
    assert w.engine.taken_offline_by_others == ("n01",)
    w.batch.reports = {"n01": theirs, "n02": NodeStatus("offline", marked=True)}
    assert w.engine.wait_for_request(record.request_id).record.nodes == ("n02",)


def test_while_requests_come_the_next_reading_is_there_before_the_last_is_too_old(world, kit):
    w = world(nodes=4, reserve=4, wait_s=600, reconcile_period_s=0, refresh_age_s=1.0)
    a_while_later(w)
    assert w.asked(1).nodes == ("n01",)
    w.clock.advance_to(w.clock.now_us() + micros(0.8))
    assert w.engine.submit_request(1).nodes == ("n02",)
    w.settled()
    w.clock.advance_to(w.clock.now_us() + micros(0.6))
    w.batch.gate.clear()
    assert w.engine.submit_request(1).nodes == ("n03",)


def test_one_reading_serves_all_who_ask_and_a_failure_is_not_repeated_at_once(world, kit):
    w = world(nodes=4, reserve=4, wait_s=600, reconcile_period_s=0, refresh_age_s=1.0)
    a_while_later(w)
    before = w.batch.calls.count(("status all", ()))
    w.batch.gate.clear()
    records = [w.engine.submit_request(1) for _ in range(4)]
    w.batch.gate.set()
    for record in records:
        assert w.engine.wait_for_request(record.request_id).record.status == "granted"
    assert w.batch.calls.count(("status all", ())) - before <= 2
