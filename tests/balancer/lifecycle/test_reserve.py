"""The static reserve R, the hold time I, and hints (add_reserve)."""

import pytest

from balancer.algorithms.hint import Hint
from balancer.lifecycle.errors import Refused


def test_the_static_reserve_is_collected_with_the_first_event(world):
    w = world(4, reserve=3)
    w.timer()
    assert w.in_state("OD_RESERVE") == ("n1", "n2", "n3")
    assert not w.lifecycle.wants_idle


def test_the_static_reserve_never_goes_back(world):
    w = world(4, reserve=3, hold_s=0)
    w.timer()
    w.at(10**6).timer()
    assert w.in_state("OD_RESERVE") == ("n1", "n2", "n3")
    assert w.wake_s is None


def test_a_reserve_that_is_not_full_takes_nodes_as_jobs_end(world):
    w = world(3, reserve=2)
    w.busy("n1", "n2")
    assert w.in_state("OD_RESERVE") == ("n3",)
    assert w.lifecycle.wants_idle

    w.at(10).idle("n2")
    assert w.in_state("OD_RESERVE") == ("n2", "n3")
    assert not w.lifecycle.wants_idle


def test_a_fixed_reserve_counts_granted_nodes_and_takes_no_others_in_their_place(world):
    w = world(5, reserve=2)
    w.timer()
    w.at(10).request("r", 1)
    w.at(20).request("s", 2)
    assert w.answers == {"r": ("n1",), "s": ("n2", "n3")}
    assert w.in_state("OD_RESERVE") == ()
    assert not w.lifecycle.wants_idle

    w.at(30).release("n1")
    w.at(1000).timer()
    assert w.in_state("OA_IDLE") == ("n1", "n4", "n5"), "two of R=2 are granted still"

    w.at(1010).release("n2", "n3")
    w.at(9000).timer()
    assert w.in_state("OD_RESERVE") == ("n2", "n3")


def test_a_fixed_reserve_counts_nodes_that_are_gathered_for_a_waiting_request(world):
    w = world(4, reserve=2, wait_s=60)
    w.busy("n3", "n4")
    assert w.in_state("OD_RESERVE") == ("n1", "n2")
    w.request("r", 3)
    w.at(1).idle("n4")
    w.at(2).idle("n3")
    assert w.answers == {"r": ("n1", "n2", "n4")}
    assert w.in_state("OA_IDLE") == ("n3",)


def test_a_refilled_reserve_is_filled_again_after_a_request_used_it(world):
    w = world(5, reserve=2, reserve_rule="refilled")
    w.timer()
    w.request("r", 2)
    assert w.answers == {"r": ("n1", "n2")}
    assert w.in_state("OD_RESERVE") == ("n3", "n4")


@pytest.mark.parametrize(("rule", "reserved"), [("fixed", ()), ("refilled", ("n3",))])
def test_a_waiting_request_goes_before_the_reserve(world, rule, reserved):
    w = world(3, reserve=2, wait_s=60, reserve_rule=rule)
    w.busy("n1", "n2", "n3")
    w.request("r", 2)
    w.at(1).idle("n1")
    w.at(2).idle("n2")
    assert w.answers == {"r": ("n1", "n2")}
    w.at(3).idle("n3")
    assert w.in_state("OD_RESERVE") == reserved


def test_each_node_beyond_the_reserve_goes_back_i_after_it_came(world):
    w = world(6, reserve=2, hold_s=100, reserve_rule="refilled")
    w.timer()
    w.at(10).request("a", 2)
    w.at(20).request("b", 2)
    assert w.in_state("OD_RESERVE") == ("n5", "n6")

    w.at(50).release(*w.answers["a"])
    w.at(80).release(*w.answers["b"])
    assert len(w.in_state("OD_RESERVE")) == 6

    assert w.wake()
    assert w.now_s == 150
    assert w.in_state("OA_IDLE") == w.answers["a"]
    assert w.wake()
    assert w.now_s == 180
    assert w.in_state("OD_RESERVE") == ("n5", "n6")
    assert w.wake_s is None


def test_with_i_0_a_released_node_beyond_the_reserve_goes_back_at_once(world):
    w = world(3, reserve=1, hold_s=0)
    w.timer()
    w.at(10).request("r", 3)
    w.at(20).release("n1", "n2", "n3")
    assert w.states() == {"n1": "OD_RESERVE", "n2": "OA_IDLE", "n3": "OA_IDLE"}


def test_a_hint_collects_idle_nodes_at_once_and_others_as_jobs_end(world):
    w = world(4, algorithm=Hint())
    w.busy("n1", "n2")
    w.at(10).add_reserve("h", 3, by_s=900)
    assert w.in_state("OD_RESERVE") == ("n3", "n4")
    assert w.lifecycle.wants_idle

    w.at(20).idle("n1")
    assert w.in_state("OD_RESERVE") == ("n1", "n3", "n4")
    w.at(30).idle("n2")
    assert w.in_state("OA_IDLE") == ("n2",)


def test_hinted_nodes_are_kept_until_h_plus_i(world):
    w = world(4, algorithm=Hint(), hold_s=100)
    w.at(10).add_reserve("h", 3, by_s=900)
    assert w.wake_s == 1000

    w.at(999).timer()
    assert len(w.in_state("OD_RESERVE")) == 3
    w.at(1000).timer()
    assert len(w.in_state("OA_IDLE")) == 4
    assert w.lifecycle.snapshot().reserves == ()


def test_before_its_time_a_hint_is_filled_again_after_a_request_used_it(world):
    w = world(6, algorithm=Hint())
    w.add_reserve("h", 2, by_s=900)
    w.at(10).request("somebody else", 2)
    assert w.answers == {"somebody else": ("n1", "n2")}
    assert w.in_state("OD_RESERVE") == ("n3", "n4")


def test_from_its_time_on_the_announced_request_uses_the_hint_up(world):
    w = world(6, algorithm=Hint())
    w.add_reserve("h", 2, by_s=900)
    w.at(900).request("announced", 2)
    assert w.answers == {"announced": ("n1", "n2")}
    assert w.in_state("OD_RESERVE") == ()
    assert [(record.used, record.ended) for record in w.lifecycle.snapshot().reserves] == [(2, False)]


def test_a_hint_is_used_up_also_by_nodes_that_did_not_come_from_the_reserve(world):
    w = world(4, algorithm=Hint(), obeys=False)
    w.busy("n1", "n2", "n3", "n4")
    w.at(10).add_reserve("h", 2, by_s=20)
    w.at(30).request("announced", 2, wait_s=60)
    w.at(40).idle("n1", "n2", "n3", "n4")
    assert w.in_state("RECLAIMING") == ("n1", "n2"), "not two more for the hint"
    w.at(41).reclaimed("n1", "n2")
    assert w.answers == {"announced": ("n1", "n2")}
    assert w.in_state("OA_IDLE") == ("n3", "n4")


def test_a_rejected_request_does_not_use_a_hint_up(world):
    w = world(4, algorithm=Hint())
    w.busy("n4")
    w.add_reserve("h", 2, by_s=10)
    w.at(20).request("too large", 4)
    assert isinstance(w.answers["too large"], str)
    assert len(w.in_state("OD_RESERVE")) == 2
    w.at(30).request("announced", 2)
    assert w.answers["announced"] == ("n1", "n2")


def test_hints_are_used_up_in_the_order_of_their_times(world):
    w = world(8, algorithm=Hint())
    w.add_reserve("late", 2, by_s=20)
    w.add_reserve("early", 2, by_s=10)
    w.at(30).request("r", 3)
    assert [(r.reserve_id, r.used) for r in w.lifecycle.snapshot().reserves] == [("early", 2), ("late", 1)]
    assert len(w.in_state("OD_RESERVE")) == 1


def test_several_hints_add_up_and_basic_adds_them_to_r(world):
    w = world(9, reserve=2)
    w.timer()
    w.add_reserve("a", 3, by_s=900)
    w.add_reserve("b", 1, by_s=900)
    assert len(w.in_state("OD_RESERVE")) == 6


def test_a_hint_for_now_is_collected_and_kept_for_i(world):
    w = world(3, algorithm=Hint(), hold_s=100)
    w.busy("n1")
    w.at(50).add_reserve("h", 3, by_s=0)
    assert w.in_state("OD_RESERVE") == ("n2", "n3")
    w.at(60).idle("n1")
    assert len(w.in_state("OD_RESERVE")) == 3
    assert w.wake_s == 150


def test_nodes_of_a_hint_serve_any_request(world):
    w = world(3, algorithm=Hint())
    w.add_reserve("h", 3, by_s=900)
    w.at(10).request("r", 3)
    assert w.answers == {"r": ("n1", "n2", "n3")}


def test_the_hint_algorithm_keeps_no_static_reserve(world):
    with pytest.raises(
        ValueError, match="hint keeps no static reserve, but static_reserve is 2: set it to 0"
    ):
        world(3, reserve=2, algorithm=Hint())


def test_a_reserve_of_more_nodes_than_there_are_is_refused_at_the_start(world):
    with pytest.raises(ValueError, match="a reserve of 4 nodes cannot be made of 3 nodes"):
        world(3, reserve=4)


@pytest.mark.parametrize(
    ("count", "by_s", "code"),
    [(0, 10, Refused.BAD_COUNT), (4, 10, Refused.BAD_COUNT), (1, -1, Refused.BAD_TIME)],
)
def test_a_hint_that_makes_no_sense_is_refused(world, count, by_s, code):
    w = world(3)
    before = w.lifecycle.snapshot()
    with pytest.raises(Refused) as refused:
        w.add_reserve("h", count, by_s)
    assert refused.value.code == code
    assert w.lifecycle.snapshot() == before


def test_a_hint_whose_id_is_in_use_is_refused(world):
    w = world(3)
    w.add_reserve("h", 1, 10)
    with pytest.raises(Refused, match="reserve h exists already"):
        w.add_reserve("h", 1, 10)
