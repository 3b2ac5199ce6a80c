"""Each state of a node, by the table of docs/balancer/nova.md: the agent's plan does what its row says, and when."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from balancer.client_records import Node, Request
from balancer.nova.decide import Allocation, CloudLook, Memory, Rules, Server, plan

PAGE = Path(__file__).parents[3] / "docs/balancer/nova.md"
NODES = {
    "granted": "OD_ALLOC",
    "confirmed": "OD_ALLOC",
    "granted to another": "OD_ALLOC",
    "batch's": "OA_BUSY",
    "reserved": "OD_RESERVE",
    "in doubt": "QUARANTINED",
}
SERVICES = ("up", "down", "disabled", "forced down", "gone")
SERVERS = ("none", "some")
ALLOCATIONS = {
    "none": (),
    "of servers": (Allocation("s1"),),
    "of moves under way": (Allocation("m1"),),
    "orphaned": (Allocation("c1", is_orphan=True),),
    "of servers and orphaned": (Allocation("c1", is_orphan=True), Allocation("s1")),
    "no such host": None,
}
GRACE_S, TELL_S = 60.0, 600.0
LATER = {"at once": 0.0, "grace": GRACE_S, "10 min": TELL_S}
MOMENTS_S = (0.0, GRACE_S - 1, GRACE_S, TELL_S - 1, TELL_S)
ALL = list(itertools.product(NODES, SERVICES, SERVERS, ALLOCATIONS))


def rows():
    """Cells of the table: lists of what fits, then what is done, where it is told and when."""
    text = PAGE.read_text("utf-8").partition("## What the agent does with each node")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    found = []
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        found.append(
            ([cell.split(", ") for cell in cells[:4]], cells[4], cells[5].replace("`", ""), cells[6])
        )
    return found


def row_of(state):
    for number, (fits, *said) in enumerate(rows()):
        if all(cell == ["any"] or value in cell for cell, value in zip(fits, state, strict=True)):
            return number, *said
    raise AssertionError(f"no row for {state}")


def seen(state, *, used):
    """When the plan confirms, returns and tells: seconds after the first look, None for never."""
    node, service, servers, allocations = state
    request = Request(
        id="r1", state="granted", count=1, nodes=("n1",), submitted_s=0.0, deadline_s=0.0, decided_s=0.0, reason="",
        owner="odrm" if node == "granted to another" else "nova", confirmed=node != "granted", confirm_by_s=None,
        lease_ends_s=None, overdue=False, ended_s=None,
    )  # fmt: skip
    is_held = NODES[node] == "OD_ALLOC"
    looked = Node(
        name="n1", state=NODES[node], pool="", since_s=0.0, generation=7, request_id="r1" if is_held else None,
        jobs=(), contested="", reported=None, note="",
    )  # fmt: skip
    there = (Server("s1", "s1", "ACTIVE"),) if servers == "some" else ()
    is_shown = servers == "some" or service != "gone"
    # As the agent asks: Placement only of granted hosts that Nova lists.
    asked = ALLOCATIONS[allocations] if is_held and is_shown else None
    if node == "granted to another":
        asked = None
    memory = Memory(used=frozenset({("n1", 7)}) if used else frozenset())
    when = dict.fromkeys(("confirm", "release", "intruders", "leftovers", "stuck"))
    for moment_s in MOMENTS_S:
        did = plan(
            Rules(owner="nova", grace_s=GRACE_S, tell_s=TELL_S),
            cloud=CloudLook({"n1": there} if is_shown else {}, services={"n1": service} if is_shown else {}),
            nodes=[looked],
            requests={"r1": request} if is_held else {},
            allocations={} if asked is None else {"n1": asked},
            before=memory,
            now_s=1000.0 + moment_s,
        )
        memory = replace(did.memory, used=did.memory.used if used else frozenset())
        for name in when:
            if getattr(did, name) and when[name] is None:
                when[name] = moment_s
    return when


def expected(done, told, after, *, is_confirmed, used):
    release = {
        "goes back at once; never used: after the grace": 0.0 if used else GRACE_S,
        "goes back after the grace": GRACE_S,
    }
    when = dict.fromkeys(("confirm", "release", "intruders", "leftovers", "stuck"))
    when["release"] = release.get(done)
    when["confirm"] = 0.0 if done == "kept" and not is_confirmed else None
    if told != "nobody":
        when |= {name: LATER[each] for name, each in zip(told.split(", "), after.split(", "), strict=True)}
    return when


@pytest.mark.parametrize("used", [True, False], ids=["used", "never used"])
@pytest.mark.parametrize("state", ALL, ids=" / ".join)
def test_the_plan_does_what_the_row_says(state, used):
    _, done, told, after = row_of(state)
    found = seen(state, used=used)
    assert found == expected(done, told, after, is_confirmed=state[0] != "granted", used=used)


def test_each_row_is_of_some_state():
    assert {row_of(state)[0] for state in ALL} == set(range(len(rows())))


@pytest.mark.parametrize("state", ALL, ids=" / ".join)
def test_each_state_of_a_granted_node_has_a_way_out(state):
    """It is used, goes back, ends by itself, or somebody hears of it."""
    _, done, told, _ = row_of(state)
    if state[0] in {"granted", "confirmed"}:
        is_used = state[2] == "some" and state[1] in {"up", "disabled"}
        assert is_used or "back" in done or "ends after" in done or told != "nobody"
