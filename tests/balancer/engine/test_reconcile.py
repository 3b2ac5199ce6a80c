"""T11: each of the 96 cells of the reconcile table, carried out by a running engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from balancer.clock import micros
from balancer.drivers.base import NodeStatus
from balancer.drivers.cloud import CloudStatus
from balancer.drivers.marks import Stamp
from balancer.ledger.errors import LedgerError
from balancer.lifecycle.states import NodeState
from balancer.service.reconcile import observation
from balancer.service.reconcile_table import TABLE, Action, Seen

_CLOUD_ON, _CLOUD_OFF, _CLOUD_VM = CloudStatus(True), CloudStatus(False), CloudStatus(False, ("vm",))
_REPORTS = {
    Seen.BATCH_IDLE: (NodeStatus("idle"), None),
    Seen.BATCH_BUSY: (NodeStatus("busy", ("9.server",)), None),
    Seen.DRAINED_IDLE: (NodeStatus("offline", marked=True), None),
    Seen.DRAINED_BUSY: (NodeStatus("offline", ("9.server",), marked=True), None),
    Seen.FOREIGN: (NodeStatus("offline", note="broken disk", marked=True, is_foreign=True), None),
    Seen.FOREIGN_BUSY: (NodeStatus("down", ("9.server",), "broken disk", marked=True, is_foreign=True), None),
    Seen.ABSENT: (None, None),
    Seen.CLOUD_ENABLED: (NodeStatus("offline", marked=True), _CLOUD_ON),
    Seen.CLOUD_EMPTY: (NodeStatus("offline", marked=True), _CLOUD_OFF),
    Seen.CLOUD_VM: (NodeStatus("offline", marked=True), _CLOUD_VM),
    Seen.BOTH_ENABLED: (NodeStatus("idle"), _CLOUD_ON),
    Seen.UNREACHABLE: (NodeStatus("down"), None),
}
_AFTER = {
    Action.SEE_IDLE: "OA_IDLE",
    Action.SEE_BUSY: "OA_BUSY",
    Action.SEE_DOWN: "DOWN",
    Action.QUARANTINE_IN_BATCH: "DOWN",
    Action.ABANDON: "RESTORING",
    Action.ADOPT: "OD_ALLOC",
    Action.RELEASE: "RESTORING",
}


def _brought_to(w, kit, state):
    """The node n01 is in this state, and no command for it can have an effect or an outcome any more."""
    w.settled()
    match state:
        case NodeState.OA_BUSY:
            w.start_job("1.server", "n01")
        case NodeState.DOWN:
            w.batch.down.add("n01")
            w.engine.reconcile()
        case NodeState.QUARANTINED:
            w.batch.marked["n01"] = True
            w.batch.stamps["n01"] = Stamp(w.engine.ledger.ledger_id, 999, "01234567")
            w.engine.reconcile()
        case NodeState.OD_ALLOC | NodeState.OD_RESERVE | NodeState.RESTORING:
            w.engine.wait_for_request(w.engine.submit_request(1).request_id)
            if state is not NodeState.OD_ALLOC:
                w.engine.release_nodes(("n01",))
    if state in (NodeState.RECLAIMING, NodeState.RESTORING):
        w.batch.without_effect |= {"reclaim", "restore"}
        if state is NodeState.RECLAIMING:
            w.engine.submit_request(1)
        else:
            w.clock.advance_to(w.clock.now_us() + micros(601))
    kit.until(lambda: w.states() == {"n01": state.value})


@pytest.mark.sample(32)
@pytest.mark.parametrize("what", list(Seen))
@pytest.mark.parametrize("state", list(NodeState))
def test_each_cell_of_the_table_has_its_action(world, kit, state, what):
    action = TABLE[state][what]
    limit_s = 0.1 if action in (Action.ROLL_BACK, Action.ABANDON) else 5.0
    w = world(nodes=1, wait_s=600, reconcile_period_s=0, confirm_limit_s=limit_s, quarantine_s=0)
    _brought_to(w, kit, state)
    if state in (NodeState.RECLAIMING, NodeState.RESTORING):
        _its_command_sees_to_it(w, kit, state, what)
        return
    w.batch.without_effect |= {"reclaim", "restore"}
    commands = len(w.batch.commands())
    batch, cloud = _REPORTS[what]
    w.batch.reports = {"n01": batch} if batch is not None else {}
    w.cloud.hosts = {"n01": cloud} if cloud is not None else {}
    w.engine.reconcile()
    is_contested = action is Action.FLAG_CONFLICT or (
        action is Action.MARK and state is not NodeState.QUARANTINED
    )
    assert bool(w.engine.node("n01").contested) == is_contested
    if action is Action.ABANDON and batch.is_foreign:
        kit.until(lambda: w.states() == {"n01": "DOWN"})  # on its way back it is seen to be others'
    elif action is Action.ABANDON and what is Seen.BATCH_BUSY:
        kit.until(lambda: w.states() == {"n01": "OA_BUSY"})  # on its way back batch has it already
    else:
        assert w.states()["n01"] == _AFTER.get(action, state.value)
    if action is Action.MARK:
        kit.until(lambda: w.batch.commands()[commands:] == [("reclaim", ("n01",))])
    elif action not in (Action.ABANDON, Action.RELEASE):
        assert w.batch.commands()[commands:] == []
    is_aside = action is Action.QUARANTINE_IN_BATCH or what in (Seen.FOREIGN, Seen.FOREIGN_BUSY)
    assert w.engine.taken_offline_by_others == (("n01",) if is_aside else ())


def _its_command_sees_to_it(w, kit, state, what):
    """The node goes on reading like this: what its command makes of it, and reconcile adds nothing."""
    batch, cloud = _REPORTS[what]
    mine, back = ("reclaim", "restore") if state is NodeState.RECLAIMING else ("restore", "reclaim")

    def given(command):
        return w.batch.commands().count((command, ("n01",)))

    def has_looked(times):
        return len(w.batch.calls) >= looks + times or w.states() != {"n01": state.value}

    kit.until(lambda: given(mine) >= 1)
    w.batch.reports = {"n01": batch} if batch is not None else {}
    looks = len(w.batch.calls)
    kit.until(lambda: has_looked(3))
    before = w.batch.commands()
    w.cloud.hosts = {"n01": cloud} if cloud is not None else {}
    w.engine.reconcile()
    match TABLE[state][what]:
        case Action.HAND_OVER:
            kit.until(lambda: w.states() == {"n01": "OD_ALLOC"})
        case Action.RECLAIM:
            # In its history: with both enabled, the next reconcile has another cell for it.
            back_in_batch = f'["n01","RESTORING","{"OA_BUSY" if batch.jobs else "OA_IDLE"}"]'
            kit.until(lambda: any(back_in_batch in event.body for event in w.engine.ledger.events(0, 1000)))
        case Action.ORDER:
            kit.until(lambda: given(mine) >= before.count((mine, ("n01",))) + 3)
            assert w.states() == {"n01": state.value}
        case Action.ROLL_BACK:
            if batch.marked:
                kit.until(lambda: given(back) >= 1)
                w.batch.reports = {"n01": NodeStatus("busy", batch.jobs)}
            kit.until(lambda: w.states() == {"n01": "OA_BUSY"})
        case Action.ABANDON if batch.is_foreign:
            kit.until(lambda: w.states() == {"n01": "DOWN"})
            assert given(back) == 0
        case Action.ABANDON:
            kit.until(lambda: w.states() == {"n01": "RESTORING"})
        case Action.QUARANTINE_IN_BATCH:
            kit.until(lambda: w.states() == {"n01": "DOWN"})
            assert w.batch.commands() == before
        case Action.WAIT:
            kit.until(lambda: has_looked(10))
            assert w.states() == {"n01": state.value}
            assert w.batch.commands() == before
        case other:
            raise AssertionError(other)


def test_every_pair_has_exactly_one_action():
    assert {state: set(row) for state, row in TABLE.items()} == {state: set(Seen) for state in NodeState}


@pytest.mark.parametrize("what", list(Seen))
def test_a_report_has_one_row_of_the_table(what):
    assert observation(*_REPORTS[what]) is what


def test_unknown_never_becomes_idle():
    for row in TABLE.values():
        assert row[Seen.UNREACHABLE] is not Action.SEE_IDLE
        assert row[Seen.ABSENT] is not Action.SEE_IDLE
    assert observation(NodeStatus("unknown"), _CLOUD_ON) is Seen.UNREACHABLE


def test_the_page_shows_the_table_and_explains_each_word():
    page = (Path(__file__).parents[3] / "docs/balancer/reconcile.md").read_text(encoding="utf-8")
    states = " | ".join(f"`{state}`" for state in TABLE)
    rows = "".join(f"| {seen} | {' | '.join(row[seen] for row in TABLE.values())} |\n" for seen in Seen)
    table = f"| seen \\ ledger | {states} |\n|{' --- |' * (len(TABLE) + 1)}\n{rows}"
    assert table in page, f"put this table into the page:\n{table}"
    explained = re.findall(r"^\* ([^:\n]+): ", page.partition(table)[0], re.MULTILINE)
    assert explained == [*Seen, *Action]


def test_a_mark_of_ours_that_was_left_on_a_batch_node_is_taken_off(world, kit):
    w = world(nodes=1, reconcile_period_s=0)
    w.settled()
    w.batch.marked["n01"] = True
    w.batch.ours.add("n01")
    w.engine.reconcile()
    kit.until(lambda: w.batch.commands() == [("restore", ("n01",))])
    w.engine.reconcile()
    assert w.settled() == {"n01": "OA_IDLE"}
    assert w.engine.taken_offline_by_others == ()


def test_a_reserved_node_that_runs_a_job_goes_back_to_batch_and_is_not_granted(world, kit):
    w = world(nodes=1, reserve=1, reconcile_period_s=0)
    w.settled()
    w.batch.marked["n01"] = False  # the batch server forgot it, and a job came before we looked
    w.batch.jobs["n01"] = "1.server"
    w.engine.reconcile()
    kit.until(lambda: w.states() == {"n01": "OA_BUSY"})
    assert w.asked(1).status == "rejected"


def test_a_decision_that_is_stored_although_its_commit_failed_is_carried_out(world, kit):
    w = world(nodes=1, wait_s=600, reconcile_period_s=0)
    w.settled()
    commit = w.engine.ledger.commit

    def stored_and_reported_as_failed(entries):
        commit(entries)
        raise LedgerError("the connection was lost while it committed")

    w.engine.ledger.commit = stored_and_reported_as_failed
    with pytest.raises(LedgerError):
        w.engine.submit_request(1)
    w.engine.ledger.commit = commit
    kit.until(lambda: w.states() == {"n01": "OD_ALLOC"})


def test_a_node_that_is_down_stays_down_until_the_cloud_says_that_it_has_no_vm(world, kit):
    w = world(nodes=1, reconcile_period_s=0)
    w.settled()
    w.cloud.hosts = {"n01": _CLOUD_VM}
    w.engine.reconcile()
    assert w.states() == {"n01": "DOWN"}
    w.cloud.hosts = None
    w.engine.reconcile()
    w.engine._reader.ask()  # as for a request: the cloud is not asked
    kit.until(lambda: w.engine._reader.is_idle)
    assert w.states() == {"n01": "DOWN"}
    w.cloud.hosts = {"n01": _CLOUD_OFF}
    w.engine.reconcile()
    assert w.states() == {"n01": "OA_IDLE"}


def test_one_look_does_not_hand_a_node_over(world, kit):
    w = world(nodes=1, wait_s=600, reconcile_period_s=0)
    w.start_job("1.server", "n01")
    record = w.engine.submit_request(1)
    w.batch.lies = 1  # the next look at the node leaves its job out
    w.engine.update_nodes(idle=("n01",), job="1.server")
    looks = len(w.batch.calls)
    kit.until(lambda: len(w.batch.calls) > looks + 4)
    assert w.states() == {"n01": "RECLAIMING"}
    w.batch.jobs.clear()
    assert w.engine.wait_for_request(record.request_id).record.nodes == ("n01",)


def test_a_node_that_is_found_busy_has_the_jobs_that_are_listed_there_and_no_others(world):
    w = world(nodes=2)
    w.start_job("1.server", "n01", hook=False)
    w.start_job("2.server", "n02")
    with w.batch.lock:
        w.batch.jobs["n02"] = "3.server"  # the end of the one and the start of the other were not heard of
    w.engine.reconcile()
    assert {name: w.engine.node(name).jobs for name in w.names} == {
        "n01": ("1.server",),
        "n02": ("3.server",),
    }
    before = w.log()
    w.engine.reconcile()
    assert w.log() == before
