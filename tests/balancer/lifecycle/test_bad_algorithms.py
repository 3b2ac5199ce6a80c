"""Plug-ins that raise or lie (T20): refused as a whole, named, and nothing moves."""

import pytest

from balancer.algorithms.basic import Basic
from balancer.algorithms.interface import Plan
from balancer.lifecycle.errors import BadPlan
from balancer.lifecycle.events import PlanRefused, Reject
from balancer.lifecycle.lifecycle import Lifecycle
from balancer.policy_settings import Settings


class Says:
    """Answers with whatever it is told to; well-behaved (Basic) while that is None."""

    def __init__(self):
        self.answer = None

    def plan(self, view):
        if self.answer is None:
            return Basic().plan(view)
        return self.answer(view)


def boom(_):
    raise RuntimeError("the model is not trained")


LIES = {
    "raises": (boom, "raised RuntimeError: the model is not trained"),
    "no plan": (lambda _: None, "answered None instead of a Plan"),
    "no mapping": (lambda _: Plan(hold=[("r", ("n1",))]), "instead of a Plan"),
    "unknown request": (
        lambda _: Plan(hold={"x": ("n1",)}),
        "holds nodes for 'x', and no such request waits",
    ),
    "unknown node": (lambda _: Plan(collect=("n9",)), "would collect 'n9', which is not a node"),
    "no name": (lambda _: Plan(collect=(7,)), "would collect 7, which is not a node"),
    "unhashable": (lambda _: Plan(collect=(["n1"],)), "would collect ['n1'], which is not a node"),
    "a string": (lambda _: Plan(collect="n1"), "would collect 'n1', which is not a tuple of nodes"),
    "twice in one": (lambda _: Plan(hold={"r": ("n1", "n1")}), "names node n1 twice"),
    "twice in two": (lambda _: Plan(hold={"r": ("n1",)}, collect=("n1",)), "names node n1 twice"),
    "a busy node": (
        lambda _: Plan(hold={"r": ("n5",)}),
        "would hold for r node n5, which is OA_BUSY and not free, coming or idle",
    ),
    "a granted node": (
        lambda _: Plan(restore=("n4",)),
        "would restore node n4, which is OD_ALLOC for other and not free",
    ),
    "more than asked for": (
        lambda _: Plan(hold={"r": ("n1", "n2", "n3")}),
        "holds 3 nodes for r, which is short of 2",
    ),
    "restores an idle node": (lambda _: Plan(restore=("n1",)), "which is OA_IDLE and not free"),
    "wakes in the past": (
        lambda view: Plan(wake_us=view.now_us),
        "wants to be woken at 0 us, but it is 0 us",
    ),
    "wakes at a word": (lambda _: Plan(wake_us="soon"), "wants to be woken at 'soon'"),
    "negative": (lambda _: Plan(unmet=-1), "would take -1 more idle nodes"),
}


@pytest.fixture
def liar(world):
    """n4 is granted, n5 busy, the rest idle."""
    w = world(5, algorithm=Says(), pick="shortest_idle", obeys=True)
    w.busy("n1", "n2", "n3", "n5")
    w.request("other", 1)
    w.idle("n1", "n2", "n3")
    w.lifecycle.drain_changes()
    w.algorithm = w.lifecycle._referee._algorithm
    return w


@pytest.mark.parametrize("lie", LIES)
def test_a_request_is_refused_and_the_state_is_unchanged(liar, lie):
    liar.algorithm.answer, detail = LIES[lie]
    before = liar.lifecycle.snapshot()

    with pytest.raises(BadPlan) as bad:
        liar.request("r", 2)

    assert str(bad.value).startswith("algorithm Says: ")
    assert detail in bad.value.detail
    assert liar.lifecycle.snapshot() == before
    assert liar.lifecycle.drain_changes().nodes == liar.lifecycle.drain_changes().requests == ()
    liar.lifecycle.validate()


def test_the_retry_of_a_refused_request_succeeds_once_the_algorithm_works(liar):
    liar.algorithm.answer = boom
    with pytest.raises(BadPlan):
        liar.request("r", 2)
    liar.algorithm.answer = None
    liar.request("r", 2)
    assert liar.answers["r"] == ("n1", "n2")


def test_a_hint_is_refused_and_the_state_is_unchanged(liar):
    liar.algorithm.answer = boom
    before = liar.lifecycle.snapshot()
    with pytest.raises(BadPlan):
        liar.add_reserve("h", 1, by_s=5)
    assert liar.lifecycle.snapshot() == before


def test_facts_stand_although_the_algorithm_fails(liar):
    liar.algorithm.answer = boom
    told = liar.idle("n5")
    assert told == [
        PlanRefused(
            event_id="event-5", algorithm="Says", detail="raised RuntimeError: the model is not trained"
        )
    ]
    assert liar.state("n5") == "OA_IDLE"
    liar.release("n4")
    assert liar.state("n4") == "OD_RESERVE"


def test_a_waiting_request_is_answered_in_time_although_the_algorithm_fails(liar):
    liar.request("r", 4, wait_s=60)
    liar.algorithm.answer = boom
    told = liar.at(60).timer()
    assert told[0] == Reject(
        event_id=told[0].event_id, request_id="r", reason="only 3 of 4 nodes became available in time"
    )
    assert isinstance(told[1], PlanRefused)
    assert len(liar.in_state("OD_RESERVE")) == 3


def test_an_algorithm_that_does_nothing_gets_its_requests_rejected(liar):
    liar.algorithm.answer = lambda _: Plan()
    liar.request("r", 1)
    assert liar.answers["r"] == "1 nodes are not available at once"


def test_the_installed_name_is_used_where_it_is_known(world):
    says = Says()
    says.answer = boom
    w = world(1)
    w.lifecycle = Lifecycle(["n1"], says, Settings(), algorithm_name="my-site")
    with pytest.raises(BadPlan, match="algorithm my-site: raised RuntimeError"):
        w.request("r", 1)
