"""A granted node that fails: its owner is told or gets another, and nobody has the node until it is seen again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from balancer.clock import US
from balancer.lifecycle.records import Lost, NodeRecord, RequestRecord, RequestStatus
from balancer.lifecycle.states import NodeState


def requests(w):
    """The requests that changed since the last look, by id."""
    return {record.request_id: record for record in w.lifecycle.drain_changes().requests}


def test_a_node_that_fails_stays_with_its_owner_and_shows_since_when(world):
    w = world(2)
    w.request("r", 1)
    w.at(30).fail("n1")
    assert w.lifecycle.node("n1") == NodeRecord(
        name="n1", state=NodeState.OD_ALLOC, since_us=0, reserved_for="r", generation=3, down_since_us=30 * US
    )
    assert w.grant("r").nodes == ("n1",)


def test_one_that_is_well_again_is_its_owners_as_before(world):
    w = world(1)
    w.request("r", 1)
    before = w.lifecycle.node("n1")
    w.at(30).fail("n1")
    w.at(60).recover("n1")
    assert w.lifecycle.node("n1") == replace(before, generation=before.generation + 2)


def test_one_that_is_given_back_while_it_is_down_is_nobodys_until_it_is_seen_again(world):
    w = world(1, reserve=1)
    w.request("r", 1)
    w.at(30).fail("n1")
    w.at(40).release("n1")
    assert w.lifecycle.node("n1").contested == "it is down"
    w.at(50).request("s", 1)
    assert w.answers["s"] == "1 nodes are not available at once"
    w.at(60).read(cleared=("n1",))
    w.at(70).request("t", 1)
    assert w.answers["t"] == ("n1",)


def test_with_replace_the_node_leaves_the_grant_and_another_is_granted_by_the_same_rules(world):
    w = world(3, reserve=1)
    w.request("r", 2, owner="nova", replace=True)
    w.at(30).fail("n2")
    found = requests(w)
    assert found["r"].lost == (Lost("n2", 30 * US, "r.4"),)
    assert found["r.4"] == RequestRecord(
        request_id="r.4", count=1, arrived_us=30 * US, deadline_us=30 * US, order=4, status=RequestStatus.GRANTED,
        nodes=("n3",), decided_us=30 * US, owner="nova", at_once=True, confirmed=True, replace=True,
        replaces="r",
    )  # fmt: skip
    assert w.states() == {"n1": "OD_ALLOC", "n2": "DOWN", "n3": "OD_ALLOC"}


def test_the_replacement_waits_as_long_as_the_request_might(world):
    w = world(2, wait_s=60)
    w.busy("n2", job="1")
    w.request("r", 1, replace=True)
    w.at(100).fail("n1")
    (waiting,) = [each for each in requests(w).values() if each.replaces]
    assert (waiting.status, waiting.deadline_us) == (RequestStatus.WAITING, 160 * US)
    w.at(150).idle("n2", job="1")
    assert w.answers[waiting.request_id] == ("n2",)


def test_a_replacement_that_no_node_can_be_had_for_is_rejected_at_its_deadline(world):
    w = world(1, wait_s=60)
    w.request("r", 1, replace=True)
    w.at(100).fail("n1")
    (waiting,) = [each for each in requests(w).values() if each.replaces]
    w.at(160).timer()
    assert w.answers[waiting.request_id] == "only 0 of 1 nodes became available in time"


def test_a_grant_whose_last_node_is_replaced_has_ended_and_says_why(world):
    w = world(2)
    w.request("r", 1, replace=True)
    w.at(30).fail("n1")
    ended = requests(w)["r"]
    assert (ended.ended_us, ended.reason) == (30 * US, "its nodes failed: r.4 was made for others")
    assert w.grant("r") is None


def test_the_replacement_has_what_is_left_of_the_lease(world):
    w = world(2, confirm_s=60)
    w.request("r", 1, lease_s=600, owner="nova", replace=True)
    w.at(10).confirm("r", by="nova")
    w.at(110).fail("n1")
    (other,) = [each for each in requests(w).values() if each.replaces]
    assert (other.lease_us, other.confirmed) == (500 * US, False)


def test_a_replacement_is_replaced_and_its_id_grows_no_longer(world):
    w = world(3)
    w.request("r", 1, replace=True)
    w.at(10).fail("n1")
    w.at(20).fail("n2")
    assert w.grant("r.7").replaces == "r.4"
    assert w.states() == {"n1": "DOWN", "n2": "DOWN", "n3": "OD_ALLOC"}


def test_one_event_that_fails_nodes_of_two_grants_makes_a_request_for_each(world):
    w = world(5)
    w.request("r", 2, owner="nova", replace=True)
    w.request("s", 1, owner="eve", replace=True)
    w.at(30).fail("n1", "n2", "n3")
    made = [each for each in requests(w).values() if each.replaces]
    assert [(each.replaces, each.count, each.owner) for each in made] == [("r", 2, "nova"), ("s", 1, "eve")]
    assert len({each.order for each in made}) == 2


def test_a_node_that_was_replaced_is_nobodys_until_a_look_finds_it_well(world):
    w = world(1, wait_s=60)
    w.request("r", 1, replace=True)
    w.at(30).fail("n1")
    assert w.states() == {"n1": "DOWN"}
    w.at(50).see("idle", "n1")
    assert w.states() == {"n1": "OD_ALLOC"}, "the replacement still waited, and takes it"


@pytest.mark.parametrize("state", ["OA_IDLE", "OA_BUSY", "OD_RESERVE", "DOWN"])
def test_a_report_about_a_node_that_has_moved_on_is_late_and_changes_nothing(world, state):
    w = world(1, initial=NodeState(state))
    before = w.lifecycle.snapshot().nodes
    w.fail("n1")
    w.recover("n1")
    after = w.lifecycle.snapshot().nodes
    assert [node.state for node in after] != ["OD_ALLOC"]
    assert [node.down_since_us for node in after] == [None]
    assert state == "OD_RESERVE" or after == before


def test_a_grant_past_its_end_is_not_replaced(world):
    w = world(2, has_cloud=True, confirm_s=60)
    w.request("r", 1, replace=True)
    w.at(61).timer()
    assert w.grant("r").overdue
    w.fail("n1")
    assert w.states() == {"n1": "OD_ALLOC", "n2": "OA_IDLE"}
