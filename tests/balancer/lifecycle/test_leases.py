"""I19 and I22: every grant has an owner and an end, and only its owner or an operator ends it before."""

import pytest

from balancer.algorithms.basic import Basic
from balancer.clock import US
from balancer.lifecycle.errors import Refused
from balancer.lifecycle.events import Look, TimerFired
from balancer.lifecycle.lifecycle import Lifecycle


def test_a_grant_that_nobody_confirms_goes_back_by_itself(world):
    w = world(2, confirm_s=60)
    w.request("r", 2, owner="nova")
    assert (w.grant("r").confirmed, w.grant("r").due_us) == (False, 60 * US)
    assert w.wake_s == 60
    w.wake()
    assert w.states() == {"n1": "OD_RESERVE", "n2": "OD_RESERVE"}
    assert w.grant("r") is None
    (ended,) = [each for each in w.lifecycle.drain_changes().requests if each.request_id == "r"]
    assert (ended.ended_us, ended.reason) == (60 * US, "not confirmed: its nodes went back")


def test_a_confirmed_grant_without_a_lease_stays(world):
    w = world(1, confirm_s=60)
    w.request("r", 1, owner="nova")
    w.at(59).confirm("r", by="nova")
    w.at(100_000).timer()
    assert w.states() == {"n1": "OD_ALLOC"}


def test_where_no_word_is_needed_a_grant_counts_as_confirmed(world):
    w = world(1)
    w.request("r", 1)
    assert (w.grant("r").confirmed, w.grant("r").due_us) == (True, None)


def test_a_lease_begins_with_the_confirmation_and_ends_by_itself(world):
    w = world(1, confirm_s=60)
    w.request("r", 1, lease_s=600)
    w.at(10).confirm("r")
    w.at(50).confirm("r")  # a repeated call: the lease does not begin anew
    assert w.wake_s == 610
    w.wake()
    assert w.states() == {"n1": "OD_RESERVE"}


def test_a_renewed_lease_begins_anew_and_confirms(world):
    w = world(1, confirm_s=60)
    w.request("r", 1, lease_s=600)
    w.at(30).renew("r")
    assert (w.grant("r").confirmed, w.wake_s) == (True, 630)
    w.at(600).renew("r", 100)
    assert w.wake_s == 700


def test_nodes_that_are_released_one_by_one_end_the_grant_with_the_last(world):
    w = world(2)
    w.request("r", 2)
    w.release("n1")
    assert w.grant("r") is not None
    w.release("n2")
    assert w.grant("r") is None


@pytest.mark.parametrize("who", [{"by": "eve"}, {}])
def test_only_its_owner_ends_or_keeps_a_grant(world, who):
    w = world(1, confirm_s=60)
    w.request("r", 1, owner="nova")
    before = w.lifecycle.snapshot()
    for call in (lambda: w.release("n1", **who), lambda: w.confirm("r", **who), lambda: w.renew("r", **who)):
        with pytest.raises(Refused, match="nova's") as refused:
            call()
        assert refused.value.code == Refused.NOT_OWNER
    assert w.lifecycle.snapshot() == before
    w.release("n1", by="op", as_operator=True)
    assert w.states() == {"n1": "OD_RESERVE"}


def test_only_its_owner_withdraws_a_request(world):
    w = world(1, wait_s=60)
    w.busy("n1")
    w.request("r", 1, owner="nova")
    with pytest.raises(Refused, match="request r is nova's, and you are eve"):
        w.withdraw("r", by="eve")
    w.withdraw("r", by="nova")
    assert w.lifecycle.request("r") is None


def test_what_has_gone_back_can_be_neither_confirmed_nor_renewed(world):
    w = world(1, confirm_s=60)
    w.request("r", 1)
    w.wake()
    for call in (lambda: w.confirm("r"), lambda: w.renew("r", 60)):
        with pytest.raises(Refused) as refused:
            call()
        assert refused.value.code == Refused.NOT_GRANTED


def test_a_server_that_the_cloud_shows_confirms_the_grant(world):
    w = world(2, confirm_s=60, has_cloud=True)
    w.request("r", 2)
    w.at(30).servers("n2", empty=("n1",))
    assert (w.grant("r").confirmed, w.grant("r").due_us) == (True, None)


def test_a_running_server_is_never_cut(world):
    w = world(3, has_cloud=True)
    w.request("r", 3, lease_s=600)
    assert any(isinstance(each, Look) and each.cloud for each in w.at(600).timer())
    assert w.states() == dict.fromkeys(("n1", "n2", "n3"), "OD_ALLOC")
    assert w.grant("r").overdue
    w.at(601).servers("n1", empty=("n2",))  # n3 is not listed: nobody knows
    assert w.states() == {"n1": "OD_ALLOC", "n2": "OD_RESERVE", "n3": "OD_ALLOC"}
    assert w.grant("r").overdue
    w.at(700).servers(empty=("n1", "n3"))
    assert w.in_state("OD_ALLOC") == ()


def test_a_grant_of_which_a_part_went_back_can_be_neither_confirmed_nor_renewed_whoever_confirmed_it(world):
    """Seed 311051: a stranger's server confirmed it and kept one node; its owner came late and used them all."""
    w = world(2, confirm_s=60, has_cloud=True)
    w.request("r", 2, lease_s=600)
    w.at(10).servers("n2", empty=("n1",))
    assert w.grant("r").confirmed
    w.at(610).timer()
    w.at(620).servers("n2", empty=("n1",))
    assert w.states() == {"n1": "OD_RESERVE", "n2": "OD_ALLOC"}
    assert w.grant("r").reason == "lease ended: some of its nodes went back"
    for late in (w.confirm, w.renew):
        with pytest.raises(Refused, match="some of its nodes went back"):
            late("r")
    w.at(630).servers(empty=("n2",))
    assert w.states()["n2"] == "OD_RESERVE"


def test_a_server_does_not_confirm_the_part_that_went_back(world):
    w = world(2, confirm_s=60, has_cloud=True)
    w.request("r", 2, lease_s=600)
    w.at(60).timer()
    w.at(70).servers(empty=("n1",))
    w.at(80).servers("n2")
    with pytest.raises(Refused, match="some of its nodes went back"):
        w.confirm("r")


def test_what_the_cloud_said_before_a_lease_ended_does_not_end_it(world):
    w = world(1, has_cloud=True)
    w.request("r", 1, lease_s=600)
    w.at(599).servers(empty=("n1",))
    w.at(600).timer()
    assert w.states() == {"n1": "OD_ALLOC"}
    w.at(601).renew("r")
    w.at(602).servers(empty=("n1",))
    assert (w.states(), w.grant("r").overdue) == ({"n1": "OD_ALLOC"}, False)


def test_leases_go_on_after_a_restart(world):
    w = world(2, confirm_s=60, has_cloud=True)
    w.request("a", 1, lease_s=600)
    w.at(20).request("b", 1, owner="nova")
    w.at(61).timer()
    snapshot = w.lifecycle.snapshot()
    again = Lifecycle.restore(snapshot, Basic(), w.lifecycle.settings)
    assert again.snapshot() == snapshot
    assert again.next_wake_us == 80 * US
    assert Look(event_id="event-4", cloud=True) in again.handle(TimerFired(at_us=62 * US, event_id="event-4"))


def test_a_request_gets_only_its_candidates_and_nobody_waits_for_it_in_vain(world):
    w = world(4, wait_s=60)
    w.request("a", 2, candidates=("n[2-9]",), exclude=("n3",))
    assert w.answers == {"a": ("n2", "n4")}
    w.request("b", 1, candidates=("n4",))
    w.request("c", 1)
    assert w.answers == {"a": ("n2", "n4"), "c": ("n1",)}


def test_a_request_for_more_than_its_candidates_is_rejected_at_once(world):
    w = world(4, wait_s=60)
    w.request("a", 2, candidates=("n4", "m1"))
    assert w.answers == {"a": "it wants 2 nodes, and there are 1 among its candidates"}


def test_candidates_that_cannot_be_read_are_refused(world):
    w = world(4)
    with pytest.raises(Refused, match="not a range"):
        w.request("a", 1, candidates=("n[9-1]",))
    assert w.lifecycle.snapshot().requests == ()


def test_a_contested_node_is_not_granted_until_a_look_clears_it(world):
    w = world(2, reserve=2, wait_s=60)
    w.timer()
    w.read(contested={"n1": "job 7 was reported to start"})
    w.request("r", 2)
    assert w.answers == {}
    w.at(5).read(cleared=("n1",))
    assert set(w.answers["r"]) == {"n1", "n2"}


def test_a_request_that_waits_with_a_contested_node_gets_another(world):
    w = world(3, obeys=False, wait_s=60)
    w.request("r", 2)
    w.reclaimed("n1")
    w.read(contested={"n1": "taken offline by others: disk"})
    w.reclaimed("n2", "n3")
    assert set(w.answers["r"]) == {"n2", "n3"}


def test_nothing_from_the_reserve_is_granted_without_a_fresh_look(world):
    w = world(1, reserve=1, fresh_s=1, at_once_s=5)
    w.timer()
    told = w.at(100).request("r", 1)
    assert (w.answers, [each for each in told if isinstance(each, Look)]) == ({}, [Look(event_id="event-3")])
    w.at(100.5).read()
    assert w.answers == {"r": ("n1",)}


def test_a_request_for_which_nobody_could_look_ends_at_its_deadline_and_says_why(world):
    w = world(1, reserve=1, fresh_s=1, at_once_s=5)
    w.timer()
    w.at(100).request("r", 1)
    assert w.wake_s == 105
    w.at(105).handle(TimerFired(at_us=105 * US, trouble="pbsnodes hangs"))
    assert w.answers == {"r": "the batch system did not show in time that its nodes are free: pbsnodes hangs"}
