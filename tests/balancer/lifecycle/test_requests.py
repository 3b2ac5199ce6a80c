"""Who gets nodes, in which order, and when nobody does."""

import pytest

from balancer.clock import US
from balancer.lifecycle.errors import Refused
from balancer.lifecycle.events import Reclaim, Reject, TimerFired


def test_a_node_is_granted_only_after_it_was_seen_offline_and_empty(world):
    w = world(2, obeys=False)

    assert w.request("r", 2) == [Reclaim(event_id="event-1", nodes=("n1", "n2"))]
    w.at(1).reclaimed("n1")
    assert w.answers == {}
    assert w.states() == {"n1": "OD_RESERVE", "n2": "RECLAIMING"}

    w.at(2).reclaimed("n2")
    assert w.answers == {"r": ("n1", "n2")}


def test_another_node_is_picked_when_the_first_turns_out_to_run_a_job(world):
    w = world(3, obeys=False)
    w.request("r", 2)

    told = w.at(1).reclaimed("n1", busy=("n2",))
    assert told == [Reclaim(event_id="event-2", nodes=("n3",))]
    assert w.state("n2") == "OA_BUSY"

    w.at(2).reclaimed("n3")
    assert w.answers == {"r": ("n1", "n3")}


def test_a_request_that_may_not_wait_is_rejected_when_a_node_turns_out_busy_and_none_is_left(world):
    w = world(2, obeys=False, hold_s=100)
    w.request("r", 2)

    w.at(1).reclaimed("n1", busy=("n2",))

    assert w.answers == {"r": "2 nodes are not available at once"}
    assert w.states() == {"n1": "OD_RESERVE", "n2": "OA_BUSY"}
    assert w.wake_s == 101, "the node it had got stays reserved for I"


def test_a_request_that_may_wait_waits_on_when_a_node_turns_out_busy(world):
    w = world(2, obeys=False, wait_s=60)
    w.request("r", 2)
    w.at(1).reclaimed("n1", busy=("n2",))
    assert w.answers == {}
    assert w.wake_s == 60

    w.at(30).idle("n2")
    w.at(31).reclaimed("n2")
    assert w.answers == {"r": ("n1", "n2")}


def test_a_node_of_which_nothing_can_be_told_stays_on_its_way(world):
    w = world(1, obeys=False)
    w.request("r", 1)
    assert w.at(1).reclaimed(unclear=("n1",)) == []
    assert w.state("n1") == "RECLAIMING"

    w.at(90).reclaimed("n1")
    assert w.answers == {"r": ("n1",)}


def test_w_bounds_the_wait_whatever_the_batch_system_does(world):
    w = world(2, obeys=False, wait_s=60)
    w.request("r", 2)
    w.at(1).reclaimed("n1")
    assert w.wake_s == 60

    w.at(60).timer()
    assert w.answers == {"r": "the batch system did not hand over 1 of 2 nodes in time"}

    w.at(62).reclaimed("n2")
    assert w.states() == {"n1": "OD_RESERVE", "n2": "OD_RESERVE"}


def test_what_arrives_after_the_deadline_is_not_granted_though_the_timer_is_late(world):
    w = world(2, obeys=False, wait_s=60)
    w.request("r", 2)
    w.at(61).reclaimed("n1", "n2")
    assert w.answers == {"r": "the batch system did not show in time that its nodes are free"}


def test_a_node_that_arrives_after_the_rejection_is_kept_for_i_and_goes_back(world):
    w = world(3, obeys=False, wait_s=60, hold_s=100)
    w.busy("n3")
    w.request("r", 3)
    w.at(60).timer()
    assert w.answers == {"r": "only 2 of 3 nodes became available in time"}

    w.at(70).reclaimed("n1", "n2")
    assert w.in_state("OD_RESERVE") == ("n1", "n2")
    assert w.wake_s == 170


def test_reports_of_the_moment_at_which_the_time_is_up_still_count(world):
    w = world(2, wait_s=60)
    w.busy("n1", job="a")
    w.busy("n2", job="b")
    w.request("r", 2)

    w.at(60).idle("n1", job="a")
    assert w.answers == {}, "the other report of this very moment may still come"
    w.at(60).idle("n2", job="b")
    assert w.answers == {"r": ("n1", "n2")}


def test_the_timer_of_that_moment_ends_the_request(world):
    w = world(2, wait_s=60)
    w.busy("n1", "n2")
    w.request("r", 2)
    w.at(60).idle("n1")
    w.timer()
    w.idle("n2")
    assert w.answers == {"r": "only 1 of 2 nodes became available in time"}


def test_why_the_batch_system_did_not_obey_is_in_the_answer(world):
    w = world(1, obeys=False, wait_s=60)
    w.request("r", 1)
    w.handle(TimerFired(at_us=60 * US, trouble="pbsnodes did not end within 15 s"))
    assert w.answers == {
        "r": "the batch system did not hand over 1 of 1 nodes in time: pbsnodes did not end within 15 s"
    }


def test_waiting_requests_are_served_in_order_of_arrival(world):
    w = world(4, wait_s=60)
    w.busy("n1", "n2", "n3", "n4")
    w.request("first", 2)
    w.at(1).request("second", 1)
    w.at(2).request("third", 1)

    w.at(10).idle("n4")
    assert w.answers == {}
    w.at(11).idle("n3")
    assert w.answers == {"first": ("n4", "n3")}
    w.at(12).idle("n2")
    assert w.answers["second"] == ("n2",)
    w.at(13).idle("n1")
    assert w.answers["third"] == ("n1",)


def test_a_later_small_request_does_not_take_what_an_earlier_one_has_gathered(world):
    w = world(4, wait_s=60)
    w.busy("n3", "n4")
    w.request("large", 4)

    w.at(1).request("small", 1, wait_s=0)

    assert w.answers == {"small": "1 nodes are not available at once"}
    assert [record.reserved_for for record in w.lifecycle.snapshot().nodes] == ["large", "large", None, None]


def test_a_later_request_is_granted_at_once_when_the_earlier_ones_have_all_their_nodes(world):
    w = world(4, obeys=False, wait_s=60)
    w.request("first", 2)
    w.request("second", 1)
    w.at(1).reclaimed("n3")
    assert w.answers == {"second": ("n3",)}
    w.at(2).reclaimed("n1", "n2")
    assert w.answers["first"] == ("n1", "n2")


def test_what_an_expired_request_had_gathered_serves_the_next_one_at_once(world):
    w = world(4, wait_s=60)
    w.busy("n3", "n4")
    w.request("large", 4)
    w.at(30).request("small", 2)
    assert w.answers == {}

    w.at(60).timer()

    assert w.answers == {"large": "only 2 of 4 nodes became available in time", "small": ("n1", "n2")}


def test_two_requests_whose_time_is_up_are_judged_one_after_the_other(world):
    w = world(4)
    w.busy("n3", "n4")
    w.request("a", 4, wait_s=60)
    w.request("b", 2, wait_s=60)

    w.at(60).timer()

    assert w.answers == {"a": "only 2 of 4 nodes became available in time", "b": ("n1", "n2")}


def test_released_nodes_go_to_the_earliest_waiting_request(world):
    w = world(2, wait_s=60)
    w.request("a", 2)
    w.at(1).request("b", 1)
    w.at(2).request("c", 1)
    w.at(3).release("n2")
    assert w.answers["b"] == ("n2",)
    assert "c" not in w.answers


def test_a_request_takes_nodes_that_are_on_their_way_to_the_reserve(world):
    w = world(2, reserve=2, obeys=False)
    assert w.timer() == [Reclaim(event_id="event-1", nodes=("n1", "n2"))]

    assert w.request("r", 2) == [], "nothing more to ask of batch"
    w.at(1).reclaimed("n1", "n2")
    assert w.answers == {"r": ("n1", "n2")}


def test_a_withdrawn_request_lets_its_nodes_go_and_gets_no_answer(world):
    w = world(2, wait_s=60)
    w.busy("n2")
    w.request("r", 2)
    w.at(10).withdraw("r")
    w.at(60).timer()
    assert w.answers == {}
    assert w.states() == {"n1": "OD_RESERVE", "n2": "OA_BUSY"}
    assert w.lifecycle.request("r") is None


def test_withdrawing_what_does_not_wait_changes_nothing(world):
    w = world(2)
    w.request("r", 1)
    before = w.states()
    assert w.withdraw("r") == w.withdraw("nobody") == []
    assert w.states() == before


def test_a_request_for_more_nodes_than_there_are_is_rejected_at_once_though_it_may_wait(world):
    w = world(2, wait_s=60)
    assert w.request("r", 3) == [
        Reject(event_id="event-1", request_id="r", reason="it wants 3 nodes, and there are 2")
    ]
    assert w.in_state("OA_IDLE") == ("n1", "n2")


@pytest.mark.parametrize(
    ("count", "wait_s", "code", "detail"),
    [
        (0, 0, Refused.BAD_COUNT, "a request is for at least 1 node, not for 0"),
        (-1, 0, Refused.BAD_COUNT, "a request is for at least 1 node, not for -1"),
        (1, -1, Refused.BAD_TIME, "a request cannot wait for -1000000 us"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(world, count, wait_s, code, detail):
    w = world(2)
    before = w.lifecycle.snapshot()
    with pytest.raises(Refused) as refused:
        w.request("r", count, wait_s)
    assert (refused.value.code, refused.value.detail) == (code, detail)
    assert w.lifecycle.snapshot() == before


def test_an_id_that_waits_already_is_refused(world):
    w = world(1, wait_s=60)
    w.busy("n1")
    w.request("r", 1)
    with pytest.raises(Refused, match="id_in_use: request r waits already"):
        w.request("r", 1)


def test_the_requests_own_wait_time_goes_before_w(world):
    w = world(1, wait_s=60)
    w.busy("n1")
    w.request("r", 1, wait_s=5)
    assert w.wake_s == 5


@pytest.mark.parametrize(
    ("pick", "nodes"),
    [("longest_idle", ("n2", "n3")), ("shortest_idle", ("n1", "n3")), ("name", ("n1", "n2"))],
)
def test_idle_nodes_are_picked_in_the_order_that_was_set(world, pick, nodes):
    w = world(3, pick=pick)
    w.at(10).busy("n1", "n2", "n3")
    w.at(20).idle("n2")
    w.at(30).idle("n3")
    w.at(40).idle("n1")
    w.request("r", 2)
    assert w.answers == {"r": nodes}
