"""Basic and hint: a view in, a plan out."""

import pytest

from balancer.algorithms.basic import Basic
from balancer.algorithms.hint import Hint
from balancer.algorithms.interface import Plan
from balancer.policy_settings import ReserveRule


def idle(*nodes):
    return dict.fromkeys(nodes, 0)


def test_nothing_to_do_is_an_empty_plan(view):
    assert Basic().plan(view(idle=idle("n1"))) == Plan()


def test_a_request_takes_free_then_coming_then_idle_nodes(view):
    plan = Basic().plan(view(free=idle("f"), coming=idle("c"), idle=idle("i", "j"), requests=[("r", 3)]))
    assert plan == Plan(hold={"r": ("f", "c", "i")})


def test_a_request_that_may_wait_takes_what_there_is_and_says_what_is_missing(view):
    plan = Basic().plan(view(idle=idle("i"), requests=[("r", 3)]))
    assert plan == Plan(hold={"r": ("i",)}, unmet=2)


def test_a_request_that_is_due_gets_all_or_nothing(view):
    due = ("r", 2, 2, True)
    assert Basic().plan(view(idle=idle("i"), requests=[due])) == Plan(unmet=1)
    assert Basic().plan(view(idle=idle("i", "j"), requests=[due])) == Plan(hold={"r": ("i", "j")})


def test_the_first_request_takes_all_it_is_short_of_before_the_second_gets_any(view):
    plan = Basic().plan(view(idle=idle("a", "b", "c"), requests=[("first", 2), ("second", 2)]))
    assert plan == Plan(hold={"first": ("a", "b"), "second": ("c",)}, unmet=1)
    plan = Basic().plan(view(idle=idle("a"), requests=[("first", 2), ("second", 1)]))
    assert plan == Plan(hold={"first": ("a",)}, unmet=2)


@pytest.mark.parametrize(("rule", "unmet"), [(ReserveRule.FIXED, 0), (ReserveRule.REFILLED, 1)])
def test_the_reserve_is_filled_with_what_requests_leave(view, rule, unmet):
    plan = Basic().plan(
        view(idle=idle("a", "b", "c"), requests=[("r", 1)], static_reserve=3, reserve_rule=rule)
    )
    assert plan == Plan(hold={"r": ("a",)}, collect=("b", "c"), unmet=unmet)


def test_a_fixed_reserve_is_smaller_by_what_is_granted_and_a_refilled_one_is_not(view):
    state = {"idle": idle("a", "b", "c"), "granted": 2, "static_reserve": 3}
    assert Basic().plan(view(**state)).collect == ("a",)
    assert Basic().plan(view(**state, reserve_rule=ReserveRule.REFILLED)).collect == ("a", "b", "c")


def test_nodes_on_their_way_count_for_the_reserve(view):
    plan = Basic().plan(view(free=idle("f"), coming=idle("c"), idle=idle("i"), static_reserve=2))
    assert plan == Plan()


def test_the_longest_reserved_nodes_are_the_reserve_and_the_others_go_after_i(view):
    free = {"old": 0, "mid": 10, "new": 20}
    state = {"free": free, "static_reserve": 1, "idle_reserve_us": 100}
    assert Basic().plan(view(**state, now_us=50)) == Plan(wake_us=110)
    assert Basic().plan(view(**state, now_us=110)) == Plan(restore=("mid",), wake_us=120)
    assert Basic().plan(view(**state, now_us=500)) == Plan(restore=("mid", "new"))


def test_a_node_that_a_request_takes_is_not_given_back(view):
    plan = Basic().plan(view(free={"a": 0, "b": 0}, requests=[("r", 1)], now_us=500, idle_reserve_us=100))
    assert plan == Plan(hold={"r": ("a",)}, restore=("b",))


@pytest.mark.parametrize(("by_us", "collected"), [(60, ("b", "c")), (50, ())])
def test_a_hint_is_kept_full_before_its_time_and_used_up_from_then_on(view, by_us, collected):
    plan = Hint().plan(
        view(idle=idle("a", "b", "c"), requests=[("r", 2)], free=idle("f"), hints=[(2, by_us, 0)], now_us=50)
    )
    assert plan == Plan(hold={"r": ("f", "a")}, collect=collected)


def test_what_was_used_of_a_hint_is_not_collected_again(view):
    assert Hint().plan(view(idle=idle("a", "b", "c"), hints=[(3, 0, 2)], now_us=50)).collect == ("a",)


def test_basic_adds_hints_to_the_static_reserve(view):
    plan = Basic().plan(view(idle=idle("a", "b", "c"), hints=[(1, 60, 0)], static_reserve=1))
    assert plan.collect == ("a", "b")


def test_a_plan_takes_nothing_from_the_view(view):
    seen = view(free=idle("f"), idle=idle("i"), requests=[("r", 2)], static_reserve=1)
    assert Basic().plan(seen) == Basic().plan(seen)
