"""What the batch system reports: job starts and ends, outcomes of commands, looks at all nodes."""

import random
from itertools import permutations

import pytest

from balancer.lifecycle.errors import Refused
from balancer.lifecycle.events import NodesUpdated, Restore
from balancer.lifecycle.states import NodeState
from gates import GATE


def test_a_job_on_many_nodes_is_one_report(world):
    w = world(3)
    w.busy("n1", "n2", job="7")
    assert w.states() == {"n1": "OA_BUSY", "n2": "OA_BUSY", "n3": "OA_IDLE"}
    w.idle("n1", "n2", job="7")
    assert w.in_state("OA_IDLE") == ("n1", "n2", "n3")


@pytest.mark.parametrize("state", ["OD_RESERVE", "OD_ALLOC", "RECLAIMING"])
def test_a_job_may_not_start_on_a_node_that_batch_does_not_have_and_none_of_its_nodes_changes(world, state):
    w = world(3, obeys=False)
    w.request("r", 1)
    if state != "RECLAIMING":
        w.reclaimed("n1")
    if state == "OD_RESERVE":
        w.release("n1")
    before = w.lifecycle.snapshot()

    with pytest.raises(Refused) as refused:
        w.busy("n2", "n1", "n3", job="7")

    assert refused.value.code == Refused.NODE_NOT_IN_BATCH
    assert refused.value.detail == f"node n1 is {state}: no batch job may run on it"
    assert w.lifecycle.snapshot() == before


def test_a_job_may_start_on_a_node_that_is_being_restored_because_batch_may_be_faster_than_we(world):
    w = world(1, obeys=False, hold_s=0)
    w.request("r", 1)
    w.reclaimed("n1")
    assert w.at(5).release("n1") == [Restore(event_id="event-3", nodes=("n1",))]

    w.at(6).busy("n1", job="7")
    assert w.state("n1") == "OA_BUSY"
    w.at(7).restored("n1")
    assert w.state("n1") == "OA_BUSY", "the late outcome is no news"


def test_a_restored_node_is_idle_only_when_it_was_seen(world):
    w = world(1, obeys=False, hold_s=0)
    w.request("r", 1)
    w.reclaimed("n1")
    w.release("n1")
    w.restored(unclear=("n1",))
    w.idle("n1")
    w.see("idle", "n1")
    assert w.state("n1") == "RESTORING"
    w.request("other", 1)
    assert isinstance(w.answers["other"], str), "it is not given away meanwhile"
    w.at(3).restored("n1")
    assert w.state("n1") == "OA_IDLE"


@pytest.mark.parametrize("state", ["OD_RESERVE", "OD_ALLOC", "RECLAIMING"])
def test_a_late_report_of_a_jobs_end_changes_nothing_on_a_node_that_batch_does_not_have(world, state):
    w = world(1, obeys=False)
    w.request("r", 1)
    if state != "RECLAIMING":
        w.reclaimed("n1")
    if state == "OD_RESERVE":
        w.release("n1")
    w.idle("n1", job="7")
    assert w.state("n1") == state


def test_repeated_reports_change_nothing_and_raise_no_generation(world):
    w = world(1)
    w.at(1).busy("n1", job="7")
    once = w.lifecycle.node("n1")
    w.at(2).busy("n1", job="7")
    assert w.lifecycle.node("n1") == once


def test_the_end_of_one_job_does_not_free_a_node_on_which_another_has_started(world):
    w = world(1)
    w.busy("n1", job="old")
    w.busy("n1", job="new")
    w.idle("n1", job="old")
    assert w.state("n1") == "OA_BUSY"
    w.idle("n1", job="old")
    assert w.state("n1") == "OA_BUSY"
    w.idle("n1", job="new")
    assert w.state("n1") == "OA_IDLE"


def test_without_job_ids_the_latest_report_counts(world):
    w = world(1)
    w.busy("n1")
    w.idle("n1")
    assert w.state("n1") == "OA_IDLE"


@pytest.mark.sample(1)
@pytest.mark.parametrize("same_node", [True, False])
def test_in_all_2520_orders_of_doubled_reports_no_node_is_idle_whose_last_news_is_a_job_start(
    world, same_node
):
    reports = [("busy", "a"), ("idle", "a"), ("busy", "b"), ("idle", "b")] * 2
    orders = sorted(set(permutations(reports)))
    assert len(orders) == 2520
    node_of = {"a": "n1", "b": "n1" if same_node else "n2"}
    for order in orders:
        w = world(2)
        latest = {}
        for state, job in order:
            getattr(w, state)(node_of[job], job=job)
            latest[job] = state
            for node in ("n1", "n2"):
                runs = any(latest.get(job) == "busy" for job in "ab" if node_of[job] == node)
                assert w.state(node) == ("OA_BUSY" if runs else "OA_IDLE"), (order, w.lifecycle.story(node))
        # The next look at the batch system puts right what a late start left behind.
        w.at(1).see("idle", "n1", "n2")
        assert w.in_state("OA_IDLE") == ("n1", "n2")


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", range(4))
def test_in_random_orders_of_twenty_jobs_reports_no_node_is_idle_whose_last_news_is_a_job_start(world, part):
    chance = random.Random(part)
    nodes = [f"n{number}" for number in range(1, 9)]
    for _ in range(GATE.random_hook_orders // 4):
        w = world(len(nodes))
        node_of = {f"j{number}": chance.choice(nodes) for number in range(20)}
        reports = [(state, job) for job in node_of for state in ("busy", "idle")] * 2
        chance.shuffle(reports)
        latest = {}
        for state, job in reports:
            getattr(w, state)(node_of[job], job=job)
            latest[job] = state
            node = node_of[job]
            runs = any(its == "busy" for each, its in latest.items() if node_of[each] == node)
            assert w.state(node) == ("OA_BUSY" if runs else "OA_IDLE"), w.lifecycle.story(node)


def test_unknown_and_doubled_nodes_are_refused(world):
    w = world(2)
    for call, code in [
        (lambda: w.busy("n1", "n9"), Refused.UNKNOWN_NODE),
        (lambda: w.idle("n9"), Refused.UNKNOWN_NODE),
        (lambda: w.release("n9"), Refused.UNKNOWN_NODE),
        (lambda: w.reclaimed("n9"), Refused.UNKNOWN_NODE),
        (lambda: w.reclaimed(unclear=("n9",)), Refused.UNKNOWN_NODE),
        (lambda: w.restored("n9"), Refused.UNKNOWN_NODE),
        (lambda: w.busy("n1", "n1"), Refused.DUPLICATE_NODE),
        (lambda: w.release("n1"), Refused.NODE_NOT_ALLOCATED),
    ]:
        before = w.lifecycle.snapshot()
        with pytest.raises(Refused) as refused:
            call()
        assert refused.value.code == code
        assert w.lifecycle.snapshot() == before


def test_a_release_is_all_or_nothing(world):
    w = world(3)
    w.request("r", 2)
    with pytest.raises(Refused, match="node_not_allocated: node n3 is OA_IDLE, not OD_ALLOC"):
        w.release("n1", "n3")
    assert w.in_state("OD_ALLOC") == ("n1", "n2")


def test_a_report_that_contradicts_itself_is_refused(world):
    w = world(1)
    with pytest.raises(Refused, match="both busy and idle"):
        w.handle(NodesUpdated(at_us=0, busy=("n1",), idle=("n1",)))


def test_late_outcomes_of_commands_change_nothing(world):
    w = world(2, obeys=False)
    w.reclaimed("n1", busy=("n2",))
    w.restored("n1")
    assert w.in_state("OA_IDLE") == ("n1", "n2")


def test_a_node_that_was_never_seen_is_given_to_nobody(world):
    w = world(2, reserve=1, wait_s=60, initial=NodeState.DOWN)
    w.request("r", 1)
    assert w.answers == {}
    w.at(5).see("idle", "n2")
    assert w.answers == {"r": ("n2",)}


def test_an_unreachable_node_is_given_to_nobody_until_it_is_seen_again(world):
    w = world(1)
    w.at(1).see("down", "n1")
    w.at(2).request("r", 1)
    assert isinstance(w.answers["r"], str)
    w.at(3).idle("n1")
    assert w.state("n1") == "DOWN", "the end of a job does not say that the node is well"
    w.at(4).see("idle", "n1")
    assert w.state("n1") == "OA_IDLE"


def test_a_reserved_node_that_goes_down_is_put_back_and_another_is_taken(world):
    w = world(3, reserve=1, obeys=False)
    w.timer()
    w.reclaimed("n1")

    told = w.at(5).see("down", "n1")

    assert [(type(i).__name__, i.nodes) for i in told] == [("Reclaim", ("n2",)), ("Restore", ("n1",))]
    assert w.state("n1") == "RESTORING"


def test_a_request_loses_a_node_that_goes_down_on_its_way_and_gets_another(world):
    w = world(3, obeys=False)
    w.request("r", 2)
    w.see("down", "n1")
    w.reclaimed("n1", "n2", "n3")
    assert w.answers == {"r": ("n2", "n3")}
    assert w.state("n1") == "RESTORING", "the late outcome is no news"


def test_a_request_loses_a_reserved_node_that_goes_down_and_waits_on(world):
    w = world(2, wait_s=60, obeys=False)
    w.busy("n2")
    w.request("r", 2)
    w.reclaimed("n1")
    w.at(5).see("down", "n1")
    w.at(6).idle("n2")
    w.reclaimed("n2")
    assert w.answers == {}
    w.at(7).restored("n1")
    w.reclaimed("n1")
    assert w.answers == {"r": ("n2", "n1")}


def test_a_granted_node_is_the_on_demand_systems_business(world):
    w = world(1)
    w.request("r", 1)
    w.see("down", "n1")
    w.see("idle", "n1")
    w.see("busy", "n1")
    assert w.state("n1") == "OD_ALLOC"


def test_a_look_from_before_the_job_started_does_not_make_a_node_idle(world):
    w = world(1)
    w.at(100).busy("n1", job="7")
    w.at(101).see("idle", "n1", since_s=50)
    assert w.state("n1") == "OA_BUSY"
    w.at(130).see("idle", "n1", since_s=120)
    assert w.state("n1") == "OA_IDLE"
    assert w.lifecycle.node("n1").jobs == ()


def test_a_job_that_ended_in_the_moment_it_started_leaves_the_node_idle(world):
    w = world(1)
    w.at(100).busy("n1")
    w.see("idle", "n1", since_s=100)
    assert w.state("n1") == "OA_IDLE"


def test_a_node_that_is_being_restored_and_seen_to_run_a_job_is_busy(world):
    w = world(1, obeys=False, hold_s=0)
    w.request("r", 1)
    w.reclaimed("n1")
    w.release("n1")
    w.see("busy", "n1")
    assert w.state("n1") == "OA_BUSY"


def test_a_node_that_was_busy_unseen_counts_as_idle_from_its_last_job_on(world):
    w = world(2)
    w.at(100).see("idle", "n1", since_s=90)
    w.request("r", 1)
    assert w.answers == {"r": ("n2",)}, "the longest idle one"


def test_nodes_that_are_not_ours_are_ignored(world):
    w = world(1)
    w.see("busy", "n1", "login1")
    assert w.states() == {"n1": "OA_BUSY"}


def test_a_state_nobody_knows_is_refused_and_nothing_changes(world):
    w = world(2)
    with pytest.raises(Refused, match="bad_state: node n1 is reported 'free': not idle, busy or down"):
        w.see("free", "n1")


def test_a_node_that_was_found_busy_is_idle_when_the_last_of_the_jobs_listed_there_ends(world):
    w = world(1)
    w.read(states={"n1": ("busy", w.now_us)}, jobs={"n1": ("1", "2")})
    w.idle("n1", job="1")
    assert w.state("n1") == "OA_BUSY"
    w.idle("n1", job="2")
    assert w.state("n1") == "OA_IDLE"


def test_a_job_whose_end_was_lost_does_not_keep_a_node_busy_on_which_it_is_not_listed_any_more(world):
    w = world(1)
    w.busy("n1", job="ghost")
    w.busy("n1", job="2")
    w.read(jobs={"n1": ("2",)})
    w.idle("n1", job="2")
    assert w.state("n1") == "OA_IDLE"
