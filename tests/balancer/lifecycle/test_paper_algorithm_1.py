"""balancer-liu-2018, Algorithm 1, line by line."""

import pytest

from balancer.clock import US
from balancer.lifecycle.events import Grant, Reclaim, Reject, Restore, WakeAt


def test_line_nr_ge_n_reserve_nodes_are_allocated_without_a_word_to_batch(world):
    w = world(5, reserve=3)
    w.timer()
    assert w.in_state("OD_RESERVE") == ("n1", "n2", "n3")

    told = w.request("r", 2)

    assert told == [Grant(event_id="event-3", request_id="r", nodes=("n1", "n2"))]
    assert w.in_state("OD_ALLOC") == ("n1", "n2")
    assert w.in_state("OD_RESERVE") == ("n3",), "there is no line that fills R again"


def test_line_nr_plus_ni_ge_n_the_rest_is_reclaimed_from_idle_nodes(world):
    w = world(6, reserve=2)
    w.timer()

    told = w.request("r", 5)

    assert Reclaim(event_id="event-3", nodes=("n3", "n4", "n5")) in told
    assert w.answers == {"r": ("n1", "n2", "n3", "n4", "n5")}


def test_line_w_is_0_a_request_that_cannot_be_met_is_rejected_and_nothing_moves(world):
    w = world(5, wait_s=0)
    w.busy("n1", "n2", "n3")
    before = w.states()

    told = w.request("r", 3)

    assert told == [Reject(event_id="event-2", request_id="r", reason="3 nodes are not available at once")]
    assert w.states() == before


def test_line_reclaim_ni_a_request_that_may_wait_takes_what_is_idle_at_once(world):
    w = world(5, wait_s=60)
    w.busy("n1", "n2", "n3")

    told = w.request("r", 4)

    assert told == [
        Reclaim(event_id="event-2", nodes=("n4", "n5")),
        WakeAt(event_id="event-2", at_us=60 * US),
    ]
    assert w.answers == {}


def test_line_foreach_update_each_node_that_becomes_idle_is_reclaimed(world):
    w = world(5, wait_s=60)
    w.busy("n1", "n2", "n3")
    w.request("r", 4)

    w.at(10).idle("n2")
    assert w.state("n2") == "OD_RESERVE"
    assert w.answers == {}

    w.at(20).idle("n1")
    assert w.answers == {"r": ("n4", "n5", "n2", "n1")}
    assert w.in_state("OD_ALLOC") == ("n1", "n2", "n4", "n5")


def test_line_foreach_update_no_more_nodes_are_taken_than_the_request_needs(world):
    w = world(5, wait_s=60)
    w.busy("n1", "n2", "n3")
    w.request("r", 3)

    w.at(10).idle("n1", "n2", "n3")

    assert w.answers == {"r": ("n4", "n5", "n1")}
    assert w.in_state("OA_IDLE") == ("n2", "n3")


def test_line_w_expires_the_request_is_rejected_and_its_nodes_stay_reserved_for_i_seconds(world):
    w = world(5, wait_s=60, hold_s=100)
    w.busy("n1", "n2", "n3")
    w.request("r", 4)

    w.at(60).timer()
    assert w.answers == {"r": "only 2 of 4 nodes became available in time"}
    assert w.in_state("OD_RESERVE") == ("n4", "n5")

    w.at(159.999999).timer()
    assert w.in_state("OD_RESERVE") == ("n4", "n5")

    assert Restore(event_id="event-6", nodes=("n4", "n5")) in w.at(160).timer()
    assert w.in_state("OA_IDLE") == ("n4", "n5")


def test_line_release_nodes_released_nodes_become_reserved_and_go_back_after_i_seconds(world):
    w = world(5, hold_s=100)
    w.request("r", 2)

    told = w.at(50).release("n1", "n2")
    assert told == [WakeAt(event_id="event-3", at_us=150 * US)]
    assert w.in_state("OD_RESERVE") == ("n1", "n2")

    w.wake()
    assert w.now_s == 150
    assert w.in_state("OA_IDLE") == ("n1", "n2", "n3", "n4", "n5")
    assert w.wake_s is None


def test_line_statically_reserved_a_released_node_fills_the_static_reserve_first_and_stays(world):
    w = world(4, reserve=2, hold_s=100)
    w.timer()
    w.request("r", 4)
    assert w.in_state("OD_ALLOC") == ("n1", "n2", "n3", "n4")

    w.at(50).release("n1", "n2", "n3")
    w.at(1000).timer()
    assert w.in_state("OD_RESERVE") == ("n1",), "n4 is the other one of R=2"
    assert w.in_state("OA_IDLE") == ("n2", "n3")

    w.release("n4")
    w.at(2000).timer()
    assert w.in_state("OD_RESERVE") == ("n1", "n4")


@pytest.mark.parametrize(("wait_s", "answer"), [(0, str), (10, tuple)])
def test_a_node_whose_job_ends_within_w_is_counted_on_only_if_w_is_positive(world, wait_s, answer):
    w = world(1, wait_s=wait_s)
    w.busy("n1")
    w.request("r", 1)
    w.at(5).idle("n1")
    assert isinstance(w.answers["r"], answer)
