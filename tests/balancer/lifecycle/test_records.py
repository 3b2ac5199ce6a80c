"""What a ledger stores: changes, generations, snapshots; and the story for people."""

import re

import pytest

from balancer.algorithms.basic import Basic
from balancer.clock import US
from balancer.lifecycle.errors import IllegalTransition
from balancer.lifecycle.events import Reclaim, Restore, TimerFired, WakeAt
from balancer.lifecycle.lifecycle import Lifecycle
from balancer.lifecycle.nodes import NodeTable
from balancer.lifecycle.records import Changes, NodeRecord, RequestRecord, RequestStatus, ReserveRecord
from balancer.lifecycle.states import TRANSITIONS, Cause, NodeState
from balancer.policy_settings import PickOrder, Settings


def test_the_page_draws_the_table_and_explains_each_state(request):
    page = (request.config.rootpath / "docs/balancer/lifecycle.md").read_text()
    causes = {}
    for start, to, cause in TRANSITIONS:
        causes.setdefault((start, to), []).append(cause)
    arrows = "".join(f"    {start} --> {to}: {', '.join(why)}\n" for (start, to), why in causes.items())
    diagram = f"```mermaid\nstateDiagram-v2\n    [*] --> DOWN\n{arrows}```\n"
    assert diagram in page, f"put this diagram into the page:\n{diagram}"
    assert re.findall(r"^\| `(\w+)` \| ", page, re.MULTILINE) == [*NodeState]


def test_the_table_is_sorted_and_has_no_row_twice():
    assert list(TRANSITIONS) == sorted(set(TRANSITIONS))


def test_only_changed_records_are_to_be_written(world):
    w = world(3, obeys=False)
    w.at(1).request("r", 1)
    assert w.lifecycle.drain_changes() == Changes(
        nodes=(
            NodeRecord(name="n1", state=NodeState.RECLAIMING, since_us=US, reserved_for="r", generation=1),
        ),
        requests=(
            RequestRecord(request_id="r", count=1, arrived_us=US, deadline_us=US, order=1, at_once=True),
        ),
        now_us=US,
        serial=1,
    )
    w.at(2).reclaimed("n1")
    assert w.lifecycle.drain_changes() == Changes(
        nodes=(
            NodeRecord(name="n1", state=NodeState.OD_ALLOC, since_us=2 * US, reserved_for="r", generation=2),
        ),
        requests=(
            RequestRecord(
                request_id="r",
                count=1,
                arrived_us=US,
                deadline_us=US,
                order=1,
                status=RequestStatus.GRANTED,
                nodes=("n1",),
                decided_us=2 * US,
                generation=1,
                at_once=True,
                confirmed=True,
            ),
        ),
        now_us=2 * US,
        serial=2,
    )
    w.at(3).timer()
    assert w.lifecycle.drain_changes() == Changes(now_us=3 * US, serial=3)


def test_changes_that_nobody_keeps_are_forgotten(world):
    w = world(3)
    w.at(1).request("r", 1)
    w.add_reserve("h", 1, 5)
    w.lifecycle.forget_changes()
    assert w.lifecycle.drain_changes() == Changes(now_us=US, serial=w.lifecycle.snapshot().serial)


def test_a_node_that_changes_twice_because_of_one_event_has_one_new_generation(world):
    w = world(1, wait_s=60)
    w.request("a", 1)
    w.at(1).request("b", 1)
    before = w.lifecycle.node("n1").generation
    w.at(2).release("n1")
    assert w.answers["b"] == ("n1",)
    assert w.lifecycle.node("n1").generation == before + 1


def test_a_hint_is_reported_when_it_is_added_used_and_over(world):
    w = world(2, hold_s=10)
    hint = {"reserve_id": "h", "count": 1, "by_us": 5 * US, "ends_us": 15 * US, "added_us": 0, "order": 1}
    seen = []
    w.add_reserve("h", 1, by_s=5)
    seen += w.lifecycle.drain_changes().reserves
    w.at(6).request("r", 1)
    seen += w.lifecycle.drain_changes().reserves
    w.at(15).timer()
    seen += w.lifecycle.drain_changes().reserves
    assert seen == [
        ReserveRecord(**hint),
        ReserveRecord(**hint, used=1, generation=1),
        ReserveRecord(**hint, used=1, ended=True, generation=2),
    ]


def test_after_a_restart_everything_goes_on_where_it_was(world):
    w = world(6, reserve=1, wait_s=60, obeys=False)
    w.timer()
    w.reclaimed("n1")
    w.busy("n6", job="7")
    w.at(1).add_reserve("h", 1, by_s=900)
    w.at(2).request("r", 5)
    w.at(3).reclaimed("n3")
    snapshot = w.lifecycle.snapshot()

    again = Lifecycle.restore(snapshot, Basic(), w.lifecycle.settings)

    assert again.snapshot() == snapshot
    assert again.resume() == [
        Reclaim(event_id="resume", nodes=("n2", "n4", "n5")),
        WakeAt(event_id="resume", at_us=3 * US),
    ]
    assert again.handle(TimerFired(at_us=4 * US)) == [WakeAt(event_id="event-7", at_us=62 * US)]
    w.lifecycle = again
    w.at(5).reclaimed("n2", "n4", "n5")
    assert w.answers == {"r": ("n1", "n2", "n3", "n4", "n5")}


def test_after_a_restart_nodes_on_their_way_back_are_asked_for_again(world):
    w = world(1, hold_s=0, obeys=False)
    w.request("r", 1)
    w.reclaimed("n1")
    w.release("n1")
    again = Lifecycle.restore(w.lifecycle.snapshot(), Basic(), w.lifecycle.settings)
    assert again.resume()[0] == Restore(event_id="resume", nodes=("n1",))


def test_time_never_steps_back(world):
    w = world(2, wait_s=60)
    w.busy("n1", "n2")
    w.at(100).request("r", 2)
    w.at(50).idle("n1")
    assert w.lifecycle.now_us == 100 * US
    assert w.lifecycle.node("n1").since_us == 100 * US
    assert w.wake_s == 160


def test_a_clock_that_jumps_back_grants_rejects_and_restores_nothing(world):
    w = world(2, wait_s=60)
    w.busy("n1")
    w.at(100).request("r", 2)
    before = w.states()
    w.at(0).timer()
    assert w.answers == {}
    assert w.states() == before


def test_the_story_names_each_change_of_a_node_and_its_cause(world):
    w = world(1)
    w.at(1).request("r", 1)
    assert [str(entry) for entry in w.lifecycle.story("n1")] == [
        "1.000000 s  n1: OA_IDLE -> RECLAIMING (reclaim for r) by event-1",
        "1.000000 s  n1: RECLAIMING -> OD_RESERVE (reclaimed for r) by event-2",
        "1.000000 s  n1: OD_RESERVE -> OD_ALLOC (granted for r) by event-2",
    ]


def test_the_story_of_an_event_names_all_that_it_changed(world):
    w = world(3)
    w.busy("n1", "n3", job="7")
    assert [entry.node for entry in w.lifecycle.story("event-1")] == ["n1", "n3"]


def test_an_illegal_change_prints_the_nodes_story():
    table = NodeTable([NodeRecord(name="n1", state=NodeState.OA_IDLE, since_us=0)], PickOrder.NAME)
    node = table["n1"]
    table.begin(5 * US, "prologue-7")
    table.move(node, NodeState.OA_BUSY, Cause.JOB_STARTED, since_us=5 * US)

    with pytest.raises(IllegalTransition) as illegal:
        table.move(node, NodeState.OD_ALLOC, Cause.GRANTED, since_us=6 * US)

    assert str(illegal.value) == (
        "node n1 cannot go from OA_BUSY to OD_ALLOC because of 'granted'; its story:\n"
        "  5.000000 s  n1: OA_IDLE -> OA_BUSY (job started) by prologue-7"
    )
    assert [entry.event_id for entry in illegal.value.story] == ["prologue-7"]
    assert node.state is NodeState.OA_BUSY


def test_a_node_that_is_listed_twice_is_an_error():
    with pytest.raises(ValueError, match="node n1 is listed twice"):
        Lifecycle(["n1", "n1"], Basic(), Settings())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("static_reserve", -1),
        ("wait_us", 1.5),
        ("idle_reserve_us", True),
        ("pick", "random"),
        ("reserve_rule", "often"),
    ],
)
def test_a_bad_setting_is_named(field, value):
    with pytest.raises(ValueError, match=f"{field} must be"):
        Settings(**{field: value})
