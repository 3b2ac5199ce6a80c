"""What the agent does about servers, grants and allocations: each case by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from balancer.client_records import Node, Request
from balancer.nova.decide import (
    Allocation,
    CloudLook,
    Failed,
    Intruder,
    Leftover,
    Memory,
    Rules,
    Server,
    plan,
)

NODE = Node(
    name="n1", state="OD_ALLOC", pool="on-demand", since_s=0.0, generation=7, request_id="r1", jobs=(), contested="",
    reported="offline", note="",
)  # fmt: skip
REQUEST = Request(
    id="r1", state="granted", count=1, nodes=("n1",), submitted_s=0.0, deadline_s=0.0, decided_s=0.0, reason="",
    owner="nova", confirmed=True, confirm_by_s=None, lease_ends_s=None, overdue=False, ended_s=None,
)  # fmt: skip
UNCONFIRMED = replace(REQUEST, confirmed=False, confirm_by_s=60.0)
SERVER = Server("s1", "lease", "ACTIVE")
ONE, NONE = {"n1": (SERVER,)}, {"n1": ()}
USAGES = {
    False: (),
    True: (Allocation("s1"),),
    "orphan": (Allocation("c1", is_orphan=True),),
    "both": (Allocation("c1", is_orphan=True), Allocation("s1")),
}
LONG = Memory(frozenset({("n1", 7)}), {("n1", 7): 40.0}, {("n1", "c1"): 40.0})
USED = Memory(used=frozenset({("n1", 7)}))


def decided(servers, *, request=REQUEST, usage=None, before=Memory(), now_s=100.0, node=NODE, whole=True):  # noqa: B008
    return plan(
        Rules(owner="nova", grace_s=60.0),
        cloud=CloudLook(servers, whole),
        nodes=[node],
        requests={request.id: request},
        allocations={} if usage is None else {"n1": USAGES[usage]},
        before=before,
        now_s=now_s,
    )


def did(given):
    return given.confirm, dict(given.release), [each.server for each in given.intruders]


@pytest.mark.parametrize(
    ("what", "given", "expected"),
    [
        ("a server confirms its grant", {"servers": ONE, "request": UNCONFIRMED}, (("r1",), {}, [])),
        ("so does an allocation", {"servers": NONE, "usage": True, "request": UNCONFIRMED}, (("r1",), {}, [])),
        ("confirmed and in use: nothing", {"servers": ONE}, ((), {}, [])),
        (
            "not confirmed and empty: it may be on its way, and ends by itself",
            {"servers": NONE, "usage": False, "request": UNCONFIRMED, "before": USED},
            ((), {}, []),
        ),
        ("used and empty: it goes back", {"servers": NONE, "usage": False, "before": USED}, ((), {"n1": 7}, [])),
        ("never used: not within the grace", {"servers": NONE, "usage": False}, ((), {}, [])),
        (
            "never used, after the grace",
            {"servers": NONE, "usage": False, "before": Memory(empty_since_s={("n1", 7): 40.0})},
            ((), {"n1": 7}, []),
        ),
        (
            "what was empty in a generation before counts from now",
            {"servers": NONE, "usage": False, "before": Memory(frozenset({("n1", 6)}), {("n1", 6): 0.0})},
            ((), {}, []),
        ),
        (
            "half of it still allocated: it stays",
            {"servers": NONE, "usage": True, "before": USED},
            ((), {}, []),
        ),
        ("Placement said nothing of it", {"servers": NONE, "before": USED}, ((), {}, [])),
        ("Nova does not list the host", {"servers": {}, "usage": False, "before": USED}, ((), {}, [])),
        (
            "a cell is silent",
            {"servers": NONE, "usage": False, "before": USED, "whole": False},
            ((), {}, []),
        ),
        (
            "granted to somebody else: not ours to end, and no place for a server",
            {"servers": ONE, "request": replace(REQUEST, owner="odrm")},
            ((), {}, ["s1"]),
        ),
        ("a server on a batch node", {"servers": ONE, "node": replace(NODE, state="OA_BUSY")}, ((), {}, ["s1"])),
        ("on one that is down", {"servers": ONE, "node": replace(NODE, state="DOWN")}, ((), {}, ["s1"])),
        ("on one that is reserved", {"servers": ONE, "node": replace(NODE, state="OD_RESERVE")}, ((), {}, ["s1"])),
        ("on one in doubt", {"servers": ONE, "node": replace(NODE, state="QUARANTINED")}, ((), {}, [])),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_one_look(what, given, expected):
    assert did(decided(**given)) == expected


def test_what_was_seen_used_is_remembered_until_the_node_changes():
    first = decided(ONE)
    assert first.memory.used == {("n1", 7)}
    assert did(decided(NONE, usage=False, before=first.memory)) == ((), {"n1": 7}, [])
    later = decided(NONE, usage=False, before=first.memory, node=replace(NODE, generation=8))
    assert (dict(later.release), later.memory) == ({}, Memory(frozenset(), {("n1", 8): 100.0}))


@pytest.mark.parametrize(
    ("what", "given", "expected"),
    [
        ("an orphan, within the grace", {"servers": NONE, "usage": "orphan", "before": USED}, ({}, ())),
        (
            "after the grace the node goes back and it is told",
            {"servers": NONE, "usage": "orphan", "before": LONG},
            ({"n1": 7}, (Leftover("n1", "c1"),)),
        ),
        (
            "it is told as long as it is there, also once the node is batch's",
            {"servers": NONE, "usage": "orphan", "before": LONG, "node": replace(NODE, state="OA_IDLE")},
            ({}, (Leftover("n1", "c1"),)),
        ),
        (
            "beside one of a server the node stays",
            {"servers": NONE, "usage": "both", "before": LONG},
            ({}, (Leftover("n1", "c1"),)),
        ),
        ("a cell is silent", {"servers": NONE, "usage": "orphan", "before": LONG, "whole": False}, ({}, ())),
        ("Nova does not list the host: not within the grace", {"servers": {}, "before": USED}, ({}, ())),
        (
            "Nova does not list the host, after the grace",
            {"servers": {}, "before": LONG},
            ({"n1": 7}, (Leftover("n1"),)),
        ),
        ("but a cell is silent", {"servers": {}, "before": LONG, "whole": False}, ({}, ())),
        (
            "unconfirmed: it ends by itself, and is told",
            {"servers": {}, "before": LONG, "request": UNCONFIRMED},
            ({}, (Leftover("n1"),)),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_keeps_a_node_for_nobody(what, given, expected):
    found = decided(**given)
    assert (dict(found.release), found.leftovers) == expected


def test_a_lease_that_is_about_to_end_is_renewed_while_a_server_runs():
    soon, late = replace(REQUEST, lease_ends_s=300.0), replace(REQUEST, lease_ends_s=900.0)
    assert decided(ONE, request=soon).renew == ("r1",)
    assert decided(ONE, request=late).renew == ()
    assert decided(NONE, usage=False, request=soon).renew == ()


def test_an_intruder_says_where_it_is_and_what_to_do():
    (found,) = decided(ONE, node=replace(NODE, state="OA_BUSY", jobs=("1.server",))).intruders
    assert found == Intruder("s1", "n1", "the node is batch's (OA_BUSY, runs 1.server)")
    assert "openstack server migrate s1" in found.what_to_do


def test_a_granted_node_that_the_balancer_has_found_down_is_told_and_left_as_it_is():
    found = decided(ONE, node=replace(NODE, down_since_s=40.0))
    assert (found.failed, found.release, found.stuck) == ((Failed("n1", 40.0),), {}, ())
    assert decided(ONE).failed == ()
