"""What a decision leaves in the records, and what a call that makes no sense is told."""

from dataclasses import replace

import pytest

from balancer.algorithms.basic import Basic
from balancer.algorithms.interface import Plan
from balancer.clock import US
from balancer.lifecycle.errors import BadPlan, Refused
from balancer.lifecycle.events import NodesAdopted, NodesContested, NodesDoubted, NodesRequested, ReserveAdded
from balancer.lifecycle.lifecycle import Lifecycle
from balancer.lifecycle.records import RequestStatus
from balancer.lifecycle.states import NodeState
from balancer.policy_settings import Settings


def changed_request(w, key):
    (found,) = [each for each in w.lifecycle.drain_changes().requests if each.request_id == key]
    return found


def test_a_waiting_request_can_be_asked_for_and_no_other(world):
    w = world(1, wait_s=60)
    w.busy("n1")
    w.request("r", 1, owner="nova")
    assert (w.lifecycle.request("r").owner, w.lifecycle.request("s")) == ("nova", None)
    assert w.lifecycle.node("n9") is None


def test_a_request_that_is_withdrawn_says_when_and_why(world):
    w = world(1, wait_s=60)
    w.busy("n1")
    w.at(5).request("r", 1)
    asked = changed_request(w, "r")
    w.at(20).withdraw("r", reason="its caller hung up")
    assert changed_request(w, "r") == replace(
        asked,
        status=RequestStatus.WITHDRAWN,
        decided_us=20 * US,
        reason="its caller hung up",
        generation=asked.generation + 1,
    )


def test_a_request_that_is_rejected_says_when_and_why(world):
    w = world(1, wait_s=60)
    w.busy("n1")
    w.at(5).request("r", 1)
    asked = changed_request(w, "r")
    w.at(65).timer()
    assert changed_request(w, "r") == replace(
        asked,
        status=RequestStatus.REJECTED,
        decided_us=65 * US,
        reason="only 0 of 1 nodes became available in time",
        generation=asked.generation + 1,
    )


def test_a_node_that_goes_back_is_under_way_from_that_moment_on(world):
    w = world(1, hold_s=100, obeys=False)
    w.request("r", 1)
    w.at(10).reclaimed("n1")
    w.at(20).release("n1")
    w.at(120).timer()
    assert (w.state("n1"), w.lifecycle.node("n1").since_us) == ("RESTORING", 120 * US)


def test_a_node_that_breaks_on_its_way_goes_back_from_that_moment_on(world):
    w = world(1, obeys=False)
    w.request("r", 1)
    w.at(10).see("down", "n1", since_s=4)
    assert (w.state("n1"), w.lifecycle.node("n1").since_us) == ("RESTORING", 10 * US)


def test_a_node_in_doubt_is_quarantined_from_that_moment_on_and_settled_at_that(world):
    w = world(2)
    w.request("r", 2)
    w.at(10).handle(NodesDoubted(at_us=10 * US, reasons={"n1": "an old ledger", "n2": "an old ledger"}))
    assert w.lifecycle.node("n1").since_us == 10 * US
    w.at(20).handle(NodesAdopted(at_us=20 * US, on_demand=("n1",), batch=("n2",)))
    assert (w.state("n1"), w.lifecycle.node("n1").since_us) == ("OD_ALLOC", 20 * US)


def asked_of(settings, **request):
    lifecycle = Lifecycle(["n1"], Basic(), settings, initial=NodeState.OA_IDLE)
    lifecycle.handle(NodesRequested(at_us=0, request_id="r", count=1, **request))
    return lifecycle.drain_changes().requests[0]


@pytest.mark.parametrize(("asked_us", "kept_us"), [(None, 900), (0, 0), (5, 5)])
def test_a_lease_is_the_configured_one_unless_another_is_asked_for(asked_us, kept_us):
    assert asked_of(Settings(lease_us=900), lease_us=asked_us).lease_us == kept_us


@pytest.mark.parametrize(
    ("event", "code", "says"),
    [
        (
            NodesRequested(at_us=0, request_id="r", count=1, lease_us=-1),
            Refused.BAD_TIME,
            "a lease cannot last -1 us",
        ),
        (
            ReserveAdded(at_us=0, reserve_id="h", count=3, by_us=0),
            Refused.BAD_COUNT,
            "a reserve of 3 nodes cannot be made of 2 nodes",
        ),
        (
            ReserveAdded(at_us=0, reserve_id="h", count=1, by_us=-1),
            Refused.BAD_TIME,
            "-1 us is before the beginning of time",
        ),
        (
            ReserveAdded(at_us=0, reserve_id="h", count=1, by_us=0, keep_us=-1),
            Refused.BAD_TIME,
            "a reserve cannot be kept for -1 us",
        ),
        (
            ReserveAdded(at_us=0, reserve_id="known", count=1, by_us=0),
            Refused.ID_IN_USE,
            "reserve known exists already",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_code_and_the_value(world, event, code, says):
    w = world(2)
    w.add_reserve("known", 1, by_s=50)
    before = w.lifecycle.snapshot()
    with pytest.raises(Refused) as refused:
        w.handle(event)
    assert (refused.value.code, refused.value.detail) == (code, says)
    assert w.lifecycle.snapshot() == before


@pytest.mark.parametrize(("keep_us", "ends_us"), [(None, 110), (0, 10), (7, 17)])
def test_a_reserve_is_kept_for_as_long_as_it_says_and_else_for_i(keep_us, ends_us):
    lifecycle = Lifecycle(["n1"], Basic(), Settings(idle_reserve_us=100), initial=NodeState.OA_BUSY)
    lifecycle.handle(
        ReserveAdded(at_us=5, reserve_id="h", count=1, by_us=10, keep_us=keep_us, owner="planner")
    )
    (reserve,) = lifecycle.snapshot().reserves
    assert (reserve.ends_us, reserve.owner, reserve.added_us) == (ends_us, "planner", 5)


class Watching:
    """Plans nothing, and keeps what it was shown."""

    def __init__(self):
        self.views = []

    def plan(self, view):
        self.views.append((view.now_us, view.busy, view.contested, [each.due for each in view.requests]))
        return Plan()


def test_an_algorithm_is_shown_how_many_are_busy_and_contested_and_who_is_due(world):
    watching = Watching()
    w = world(3, wait_s=60, algorithm=watching)
    w.busy("n1", "n2")
    w.request("r", 1)
    w.at(60).timer()
    assert watching.views[:3] == [(0, 2, 0, []), (0, 2, 0, [False]), (60 * US, 2, 0, [True])]


def test_an_algorithm_is_shown_how_many_nodes_are_contested():
    watching = Watching()
    lifecycle = Lifecycle(["n1", "n2"], watching, Settings(), initial=NodeState.OD_RESERVE)
    lifecycle.handle(NodesContested(at_us=0, nodes={"n1": "job 7 was reported"}))
    assert watching.views == [(0, 0, 1, [])]


def test_a_new_life_cycle_has_known_its_nodes_from_the_beginning_and_wants_none():
    lifecycle = Lifecycle(["n1"], Basic(), Settings())
    assert (lifecycle.node("n1").since_us, lifecycle.wants_idle) == (0, False)


class Failing:
    def plan(self, view):
        raise RuntimeError("out of order")


def test_a_life_cycle_that_is_restored_names_its_algorithm_as_it_was_configured(world):
    lifecycle = Lifecycle.restore(world(1).lifecycle.snapshot(), Failing(), Settings(), algorithm_name="mine")
    with pytest.raises(BadPlan, match="mine"):
        lifecycle.handle(NodesRequested(at_us=0, request_id="r", count=1))
