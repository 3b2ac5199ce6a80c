"""When a look at the batch system is asked for, what it settles, and what a request hears that no look could help."""

import pytest

from balancer.clock import US
from balancer.lifecycle.events import Look, NodesContested, NodesObserved, TimerFired


def looks(told):
    return [each for each in told if isinstance(each, Look)]


def test_one_look_is_asked_for_however_many_wait_for_it_and_another_once_it_has_come(world):
    w = world(4, reserve=4, fresh_s=1, at_once_s=5)
    w.read()
    assert looks(w.at(10).request("r", 2)) == [Look(event_id="event-3")]
    assert looks(w.request("s", 1)) == []
    assert w.lifecycle.wants_look
    w.at(11).read()
    assert not w.lifecycle.wants_look
    assert w.answers == {"r": ("n1", "n2"), "s": ("n3",)}
    assert len(looks(w.at(20).request("t", 1))) == 1


@pytest.mark.parametrize(("age_s", "is_granted"), [(1, True), (1.000_001, False)])
def test_a_look_that_is_as_old_as_it_may_be_is_enough_for_a_grant(world, age_s, is_granted):
    w = world(2, reserve=2, fresh_s=1, at_once_s=5)
    w.at(10).read()
    w.at(10 + age_s).request("r", 1)
    assert ("r" in w.answers) == is_granted


def test_a_look_that_began_when_nothing_else_was_missing_is_enough_however_late_it_ends(world):
    w = world(1, reserve=1, fresh_s=1, at_once_s=60)
    w.read()
    w.at(10).request("r", 1)
    assert w.answers == {}
    w.at(30).handle(NodesObserved(at_us=30 * US, read_us=10 * US))
    assert w.answers == {"r": ("n1",)}


@pytest.mark.parametrize(("age_s", "is_rejected"), [(0.999_999, True), (1, False)])
def test_who_may_not_wait_is_turned_away_at_once_only_when_a_look_was_just_taken(world, age_s, is_rejected):
    w = world(1, fresh_s=1, at_once_s=5)
    w.busy("n1")
    w.at(10).read()
    w.at(10 + age_s).request("r", 1)
    assert ("r" in w.answers) == is_rejected
    w.at(10.5 + age_s).read()
    assert w.answers == {"r": "1 nodes are not available at once"}


@pytest.mark.parametrize("fresh_s", [0, 1])
def test_a_look_that_was_too_old_when_a_request_came_does_not_settle_it(world, fresh_s):
    w = world(1, fresh_s=fresh_s, at_once_s=5)
    w.busy("n1")
    w.at(10).request("r", 1)
    w.at(11).handle(NodesObserved(at_us=11 * US, read_us=(10 - fresh_s) * US - 1))
    assert w.answers == {}
    w.at(12).handle(NodesObserved(at_us=12 * US, read_us=10 * US))
    assert w.answers == {"r": "1 nodes are not available at once"}


def test_nobody_waits_for_a_look_beyond_the_deadline_and_is_told_what_was_in_the_way(world):
    w = world(1, fresh_s=1, at_once_s=5)
    w.busy("n1")
    w.at(10).request("r", 1)
    assert w.wake_s == 15
    w.at(15).handle(TimerFired(at_us=15 * US, trouble="pbsnodes did not answer"))
    assert w.answers == {"r": "1 nodes are not available at once: pbsnodes did not answer"}


def test_who_waits_for_jobs_is_not_told_of_trouble_that_had_no_part_in_it(world):
    w = world(1, wait_s=60, fresh_s=1)
    w.busy("n1")
    w.at(10).request("r", 1)
    w.at(70).handle(TimerFired(at_us=70 * US, trouble="pbsnodes did not answer"))
    assert w.answers == {"r": "only 0 of 1 nodes became available in time"}


def test_a_node_that_is_contested_is_given_to_nobody_until_a_look_has_cleared_it(world):
    w = world(1, reserve=1)
    w.read()
    w.at(10).handle(NodesContested(at_us=10 * US, nodes={"n1": "job 7 was reported"}))
    w.request("r", 1)
    assert w.answers == {"r": "1 nodes are not available at once"}
    w.at(20).read(cleared=("n1",))
    w.request("s", 1)
    assert w.answers["s"] == ("n1",)


def test_who_waits_for_jobs_needs_no_look_before_a_node_is_there(world):
    w = world(1, wait_s=60, fresh_s=1)
    w.busy("n1")
    assert looks(w.at(10).request("r", 1)) == []
    assert not w.lifecycle.wants_look


def test_where_what_is_known_is_true_nobody_waits_for_a_look_and_hears_of_trouble_with_it(world):
    w = world(1)
    w.busy("n1")
    w.at(10).handle(TimerFired(at_us=10 * US, trouble="pbsnodes did not answer"))
    assert looks(w.request("r", 1)) == []
    assert w.answers == {"r": "1 nodes are not available at once"}


def test_a_report_of_servers_matters_before_a_grant_is_confirmed_and_after_its_end(world):
    w = world(2, confirm_s=60, has_cloud=True)
    w.request("r", 2, lease_s=600)
    cares = w.lifecycle.cares_for
    assert (cares(["n1"], []), cares([], ["n1"])) == (True, False)
    w.confirm("r")
    assert (cares(["n1"], []), cares([], ["n1"])) == (False, False)
    w.at(600).timer()
    assert (cares(["n1"], []), cares([], ["n1"])) == (False, True)
