"""A reading against the ledger, one rule a test and whole answers compared; without a service (T11 has one)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.drivers.base import NodeStatus
from balancer.drivers.cloud import CloudStatus
from balancer.lifecycle.records import NodeRecord
from balancer.lifecycle.states import NodeState
from balancer.service.reconcile import Difference, compare, observation
from balancer.service.reconcile_table import Seen

IDLE, BUSY = NodeStatus("idle"), NodeStatus("busy", ("9.server",))
OURS = NodeStatus("offline", marked=True, is_ours=True)
DRAINED_BUSY = NodeStatus("offline", ("8.server", "9.server"), marked=True)
FOREIGN = NodeStatus("offline", note="broken disk", marked=True, is_foreign=True)
DOWN, UNREAD = NodeStatus("down"), NodeStatus("unknown")
ON, EMPTY, SERVER = CloudStatus(True), CloudStatus(False), CloudStatus(False, ("vm",))


def record(state, name="n1", **more):
    return NodeRecord(name=name, state=NodeState(state), since_us=more.pop("since_us", 0), **more)


def found(state, status, *, cloud=None, is_news=True, in_hand=(), last_jobs=None, is_silent=None, **more):
    """What is told of one node; `cloud`: what the cloud says of it, "nothing": it was asked and does not know it."""
    rules = {key: more.pop(key) for key in ("now_us", "quarantine_us") if key in more}
    if is_silent is not None:
        rules["is_cloud_silent"] = is_silent
    if cloud is not None:
        rules["cloud"] = {} if cloud == "nothing" else {"n1": cloud}
    return compare(
        [record(state, **more)],
        {} if status is None else {"n1": status},
        is_news=lambda _: is_news,
        last_jobs=last_jobs or {},
        in_hand=in_hand,
        **rules,
    )


@pytest.mark.parametrize(
    ("batch", "cloud", "row"),
    [
        (None, None, Seen.ABSENT),
        (FOREIGN, None, Seen.FOREIGN),
        (NodeStatus("down", marked=True, is_foreign=True), None, Seen.FOREIGN),
        (NodeStatus("down", ("9.server",), marked=True, is_foreign=True), ON, Seen.FOREIGN_BUSY),
        (NodeStatus("idle", is_foreign=True), None, Seen.BATCH_IDLE),
        (IDLE, None, Seen.BATCH_IDLE),
        (IDLE, EMPTY, Seen.BATCH_IDLE),
        (IDLE, ON, Seen.BOTH_ENABLED),
        (IDLE, SERVER, Seen.CLOUD_VM),
        (BUSY, None, Seen.BATCH_BUSY),
        (BUSY, SERVER, Seen.BATCH_BUSY),
        (BUSY, ON, Seen.BOTH_ENABLED),
        (OURS, None, Seen.DRAINED_IDLE),
        (OURS, ON, Seen.CLOUD_ENABLED),
        (OURS, SERVER, Seen.CLOUD_VM),
        (OURS, EMPTY, Seen.CLOUD_EMPTY),
        (DRAINED_BUSY, ON, Seen.DRAINED_BUSY),
        (DOWN, ON, Seen.UNREACHABLE),
        (UNREAD, None, Seen.UNREACHABLE),
    ],
)
def test_a_report_is_exactly_one_row_of_the_table(batch, cloud, row):
    assert observation(batch, cloud) is row


@pytest.mark.parametrize(
    ("state", "status", "says"),
    [
        ("OA_BUSY", IDLE, {"n1": "idle"}),
        ("OA_IDLE", IDLE, {}),
        ("OA_IDLE", BUSY, {"n1": "busy"}),
        ("OA_IDLE", DOWN, {"n1": "down"}),
        ("DOWN", DOWN, {}),
        ("DOWN", IDLE, {"n1": "idle"}),
    ],
)
def test_a_batch_node_is_as_it_was_read_where_that_is_news(state, status, says):
    assert found(state, status).observed == says


def test_what_changed_after_the_reading_began_is_not_touched_by_it():
    assert found("OA_BUSY", IDLE, is_news=False) == Difference()
    assert found("OD_ALLOC", IDLE, is_news=False) == Difference(unread=("n1",))


@pytest.mark.parametrize("status", [None, DOWN, UNREAD])
def test_a_granted_node_that_a_look_did_not_find_handed_over_has_not_been_looked_at(status):
    """Its owner keeps it; but when they give it back, that look is no reason to grant it again (seed 600052)."""
    assert found("OD_ALLOC", OURS) == Difference()
    assert found("OD_ALLOC", status) == Difference(unread=("n1",))


def test_one_node_that_is_no_news_keeps_none_of_the_others_from_being_read():
    records = [
        record("OA_BUSY", "n1"),
        record("OA_BUSY", "n2"),
        record("RESTORING", "n3"),
        record("OA_BUSY", "n4"),
    ]
    states = dict.fromkeys(("n1", "n2", "n3", "n4"), IDLE)
    difference = compare(records, states, is_news=lambda name: name != "n1", last_jobs={})
    assert difference == Difference(observed={"n2": "idle", "n4": "idle"}, restore=("n3",))


def test_a_job_whose_end_was_reported_is_shown_by_its_epilogue_and_is_no_news():
    assert found("OA_IDLE", BUSY, last_jobs={"n1": "9.server"}) == Difference()
    other = Difference(observed={"n1": "busy"}, jobs={"n1": ("9.server",)})
    assert found("OA_IDLE", BUSY, last_jobs={"n1": "8.server"}) == other
    assert found("DOWN", BUSY, last_jobs={"n1": "9.server"}) == other
    idle = NodeStatus("idle", ("9.server",))
    assert found("DOWN", idle, last_jobs={"n1": "9.server"}).observed == {"n1": "idle"}


def test_the_jobs_of_a_busy_node_are_those_that_are_listed_in_any_order():
    two = NodeStatus("busy", ("8.server", "9.server"))
    assert found("OA_BUSY", two, jobs=("9.server", "8.server")) == Difference()
    assert found("OA_BUSY", two, jobs=("9.server",)) == Difference(jobs={"n1": ("8.server", "9.server")})
    assert found("OA_BUSY", NodeStatus("busy"), jobs=("9.server",)) == Difference()


def test_the_jobs_of_each_busy_node_are_told():
    records = [record("OA_BUSY", "n1"), record("OA_BUSY", "n2")]
    states = {"n1": BUSY, "n2": NodeStatus("busy", ("8.server",))}
    difference = compare(records, states, is_news=lambda _: True, last_jobs={})
    assert difference == Difference(jobs={"n1": ("9.server",), "n2": ("8.server",)})


def test_a_node_that_is_down_stays_so_while_the_cloud_does_not_say_whether_a_server_is_there():
    assert found("DOWN", IDLE, is_silent=True) == Difference()
    assert found("DOWN", IDLE, is_silent=False).observed == {"n1": "idle"}
    assert found("OA_BUSY", IDLE, is_silent=True).observed == {"n1": "idle"}
    assert found("DOWN", BUSY, is_silent=True).observed == {"n1": "busy"}


def test_whose_mark_a_batch_node_carries_says_who_takes_it_off():
    assert found("OA_IDLE", OURS) == Difference(observed={"n1": "down"}, left_marked=("n1",))
    assert found("OA_IDLE", FOREIGN) == Difference(observed={"n1": "down"}, by_hand=("n1",))
    assert found("DOWN", OURS) == Difference(left_marked=("n1",))
    assert found("DOWN", FOREIGN) == Difference(by_hand=("n1",))


@pytest.mark.parametrize(("state", "order"), [("RECLAIMING", "reclaim"), ("RESTORING", "restore")])
def test_a_node_on_its_way_is_its_commands_which_is_given_again_where_nobody_has_it_in_hand(state, order):
    assert found(state, BUSY, in_hand=("n1",)) == Difference()
    assert found(state, BUSY) == Difference(**{order: ("n1",)})


@pytest.mark.parametrize(
    ("state", "status", "cloud", "why"),
    [
        ("OD_RESERVE", None, None, "the batch system does not list it"),
        ("OD_RESERVE", OURS, SERVER, "a server runs on it"),
        ("OD_RESERVE", DOWN, None, "it is down"),
        ("OD_RESERVE", UNREAD, None, "what the batch system says of it cannot be read"),
        ("OD_ALLOC", FOREIGN, None, "taken offline by others: broken disk"),
        ("OD_ALLOC", DRAINED_BUSY, None, "runs 8.server, 9.server"),
    ],
)
def test_a_lent_node_that_is_not_as_it_should_be_is_contested_for_what_was_seen(state, status, cloud, why):
    aside = ("n1",) if status is FOREIGN else ()
    assert found(state, status, cloud=cloud) == Difference(contested={"n1": why}, by_hand=aside)
    assert found(state, status, cloud=cloud, contested=why) == Difference(by_hand=aside), "that is known"
    assert found(state, status, cloud=cloud, contested="it was down").contested == {"n1": why}


@pytest.mark.parametrize("status", [FOREIGN, DRAINED_BUSY])
def test_a_reserved_node_that_others_hold_or_that_runs_a_job_is_given_up(status):
    aside = ("n1",) if status is FOREIGN else ()
    assert found("OD_RESERVE", status) == Difference(observed={"n1": "down"}, by_hand=aside)


@pytest.mark.parametrize("status", [IDLE, NodeStatus("busy")])
def test_a_lent_node_whose_mark_was_lost_is_marked_again_and_contested(status):
    contested = {"n1": "its offline mark was lost"}
    assert found("OD_ALLOC", status) == Difference(unmarked=("n1",), contested=contested)
    assert found("RECLAIMING", status, in_hand=("n1",)) == Difference()


def test_a_contested_node_is_cleared_by_a_look_that_finds_it_handed_over_and_not_otherwise():
    assert found("OD_RESERVE", OURS, contested="runs 9.server").cleared == ("n1",)
    assert found("OD_RESERVE", OURS).cleared == ()
    assert found("OA_IDLE", OURS).cleared == ()
    assert found("RECLAIMING", OURS, contested="runs 9.server", in_hand=("n1",)).cleared == ("n1",)
    assert found("RECLAIMING", IDLE, contested="runs 9.server", in_hand=("n1",)).cleared == ()


def test_that_a_server_was_there_can_only_be_taken_back_by_the_cloud():
    assert found("OD_RESERVE", OURS, contested="a server runs on it").cleared == ()
    assert found("OD_RESERVE", OURS, contested="a server runs on it", cloud=EMPTY).cleared == ("n1",)
    assert found("OD_RESERVE", OURS, contested="a server runs on it", cloud="nothing").cleared == ("n1",)


def test_a_node_in_doubt_is_the_clouds_where_a_server_runs_and_batchs_after_a_time_without_one():
    assert found("QUARANTINED", OURS, cloud=SERVER).in_cloud == ("n1",)
    assert (
        found("QUARANTINED", OURS, cloud=EMPTY, since_us=100, now_us=149, quarantine_us=50).not_in_cloud == ()
    )
    assert found(
        "QUARANTINED", OURS, cloud=EMPTY, since_us=100, now_us=150, quarantine_us=50
    ).not_in_cloud == ("n1",)
    assert found("QUARANTINED", OURS, cloud=EMPTY).not_in_cloud == ("n1",), "at once where no time is given"


ANOTHERS = "its mark is of ledger 5f3a9c01, event 7-00000000; this is ledger 00000000"


def test_a_node_quarantined_for_the_mark_of_another_ledger_alone_is_batchs_when_that_mark_is_gone():
    assert found("QUARANTINED", IDLE, doubt=ANOTHERS) == Difference({"n1": "idle"})
    busy = found("QUARANTINED", BUSY, doubt=ANOTHERS)
    assert (busy.observed, busy.unmarked) == ({"n1": "busy"}, ())
    assert found("QUARANTINED", OURS, doubt=ANOTHERS) == Difference(), "the mark is there"
    assert found("QUARANTINED", IDLE, doubt=ANOTHERS, is_silent=True) == Difference(), (
        "a server may run there"
    )
    assert found("QUARANTINED", IDLE, doubt=ANOTHERS, reserved_for="r1").unmarked == ("n1",), (
        "this ledger granted it"
    )
    assert found("QUARANTINED", IDLE, doubt="its mark is newer, of event 7").unmarked == ("n1",)


NAMES = ("n1", "n2", "n3")
STATUSES = (None, IDLE, BUSY, OURS, DRAINED_BUSY, FOREIGN, DOWN, UNREAD, NodeStatus("busy", ("8.server",)))
some_nodes = st.sets(st.sampled_from(NAMES))
records = st.builds(
    record,
    st.sampled_from(list(NodeState)),
    jobs=st.sampled_from(((), ("9.server",))),
    contested=st.sampled_from(("", "", "it is down", "a server runs on it")),
    since_us=st.integers(0, 2),
)
looks = st.fixed_dictionaries(
    {
        "records": st.dictionaries(st.sampled_from(NAMES), records),
        "states": st.dictionaries(st.sampled_from(NAMES), st.sampled_from(STATUSES)),
        "old": some_nodes,
        "in_hand": some_nodes,
        "last_jobs": st.dictionaries(st.sampled_from(NAMES), st.just("9.server")),
        "cloud": st.none() | st.dictionaries(st.sampled_from(NAMES), st.sampled_from((ON, EMPTY, SERVER))),
        "is_cloud_silent": st.booleans(),
        "now_us": st.integers(0, 3),
    }
)


@given(steps=st.lists(looks, min_size=2, max_size=6))
def test_who_remembers_what_agreed_is_told_the_same_as_who_does_not(steps):
    known = {name: record("DOWN", name) for name in NAMES}
    states = dict.fromkeys(NAMES, IDLE)
    agreed = {}
    for step in steps:
        known |= {name: replace(each, name=name) for name, each in step["records"].items()}
        states |= step["states"]
        rest = {key: step[key] for key in ("in_hand", "last_jobs", "cloud", "is_cloud_silent", "now_us")}
        rest |= {"is_news": lambda name, step=step: name not in step["old"], "quarantine_us": 2}
        listed = {name: status for name, status in states.items() if status is not None}
        expected = compare(known.values(), listed, **rest)
        assert compare(known.values(), listed, **rest, agreed=agreed) == expected


def test_what_was_to_be_told_of_a_node_is_told_again_while_it_stays_so():
    cells = product(NodeState, STATUSES, ((), ("9.server",)), ("", "it is down", "a server runs on it"))
    for state, status, jobs, contested in cells:
        node = record(state, jobs=jobs, contested=contested)
        listed = {} if status is None else {"n1": status}
        rest = {"is_news": lambda _: True, "last_jobs": {}}
        agreed = {}
        told = [compare([node], listed, **rest, agreed=agreed) for _ in range(2)]
        assert told == 2 * [compare([node], listed, **rest)]


def test_a_node_that_agreed_is_not_compared_again_until_it_changes():
    agreed = {}
    one, other = record("OA_IDLE"), record("OA_BUSY", jobs=("9.server",))
    rest = {"is_news": lambda _: True, "last_jobs": {}, "agreed": agreed}
    assert compare([one], {"n1": IDLE}, **rest) == Difference()
    assert agreed == {"n1": (one, IDLE)}
    assert compare([other], {"n1": BUSY}, **rest) == Difference()
    assert agreed == {"n1": (other, BUSY)}
    assert compare([other], {"n1": IDLE}, **rest) == Difference({"n1": "idle"})
