"""The thread that gives commands, stepped by hand: what may happen between a look and its report."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from balancer.clock import NEVER_US, wall_us
from balancer.drivers.base import NodeStatus, SiteCheck, UnclearError, UnreachableError
from balancer.lifecycle.events import NodesObserved, NodesReclaimed, NodesRestored, Reclaim, Restore
from balancer.service.commands import Commander, CommandSettings, Mark, Reading, Unmark
from balancer.service.metrics import Metrics
from manual_clock import ManualClock

OFFLINE = NodeStatus("offline", marked=True, is_ours=True)
MOMENT_S = 1e-6
"""Between two looks: less than one takes."""


@pytest.fixture
def batch(kit):
    batch = kit.FakeBatch(("n01",))
    batch.without_effect = {"reclaim"}
    return batch


@pytest.fixture
def commander_of(batch):
    """`commander_of(report)`: gives one command, whose effect never shows and whose limit is over at once."""

    def make(report):
        commander = Commander(
            batch,
            ManualClock(),
            CommandSettings(confirm_poll_s=0.0, confirm_limit_s=0.0),
            report=report,
            observer=Metrics("fake"),
            threaded=False,
        )
        commander.submit([Reclaim(nodes=("n01",), event_id="e1")])
        return commander

    return make


def test_a_node_that_is_given_up_while_it_is_looked_at_is_not_told_of_and_gets_no_command(
    batch, commander_of, monkeypatch
):
    told = []
    commander = commander_of(told.append)
    commander.step()
    assert told == [NodesReclaimed(at_us=0, event_id="e1", unclear=("n01",))]
    look = batch.get_status_of_nodes

    def looks_while_a_job_starts(nodes):
        assert commander.give_up_late(("n01",)) == ("n01",)
        return look(nodes)

    monkeypatch.setattr(batch, "get_status_of_nodes", looks_while_a_job_starts)
    commands = batch.commands()
    commander.step()
    assert (len(told), batch.commands(), commander.open_nodes()) == (1, commands, set())


def test_an_unclear_outcome_that_could_not_be_recorded_is_told_again(commander_of):
    told = []

    def report(event):
        told.append(event)
        if len(told) == 1:
            raise OSError("the disk is full")

    commander = commander_of(report)
    for _ in range(3):
        commander.step()
    assert told == [NodesReclaimed(at_us=0, event_id="e1", unclear=("n01",))] * 2


def test_an_outcome_that_could_not_be_recorded_is_read_and_told_again(batch, commander_of):
    told = []

    def report(event):
        told.append(event)
        if len(told) == 1:
            raise OSError("the disk is full")

    commander = commander_of(report)
    batch.reports = {"n01": NodeStatus("offline", marked=True)}
    for _ in range(3):
        commander.step()
    assert told == [NodesReclaimed(at_us=0, event_id="e1", done=("n01",))] * 2
    assert commander.pending == 0


def test_a_mark_that_was_ordered_for_a_node_which_batch_has_again_is_not_set(kit):
    """Seed 601186: the look that found its mark outdated also showed that the reserve needs it no more."""
    batch = kit.FakeBatch(("n01", "n02"))
    commander = Commander(
        batch,
        ManualClock(),
        CommandSettings(),
        report=lambda _: None,
        observer=Metrics("fake"),
        is_kept_off=lambda node: node == "n02",
        threaded=False,
    )
    commander.submit([Mark(nodes=("n01", "n02"))])
    commander.step()
    assert batch.commands() == [("reclaim", ("n02",))]


@pytest.fixture
def of(kit):
    """`of(names, **more)`: a commander of these nodes, its batch system, and what it told."""

    def make(*names, poll_s=0.0, limit_s=5.0, **more):
        batch, told, clock = kit.FakeBatch(names), [], ManualClock(7)
        commander = Commander(
            batch,
            clock,
            CommandSettings(confirm_poll_s=poll_s, confirm_limit_s=limit_s),
            report=more.pop("report", told.append),
            observer=Metrics("fake"),
            threaded=False,
            **more,
        )
        return commander, batch, told

    return make


def stepped(commander, *orders, steps=4):
    ticket = commander.submit(orders)
    for _ in range(steps):
        commander.step()
    return ticket


def test_of_two_orders_for_a_node_the_later_counts_and_each_kind_is_one_command(of):
    commander, batch, told = of("n1", "n2", "n3")
    first = commander.submit([Reclaim(nodes=("n1", "n2"), event_id="e1")])
    stepped(commander, Restore(nodes=("n1",), event_id="e2"), Reclaim(nodes=("n3",), event_id="e3"))
    assert first.is_set()
    assert batch.commands() == [("restore", ("n1",)), ("reclaim", ("n2", "n3"))]
    assert told == [
        NodesRestored(at_us=7, event_id="e2", done=("n1",)),
        NodesReclaimed(at_us=7, event_id="e1", done=("n2", "n3")),
    ]


def test_orders_are_pending_until_their_outcome_and_marks_until_they_are_set(of):
    commander, _, _ = of("n1", "n2", "n3", poll_s=MOMENT_S)
    commander.submit([Reclaim(nodes=("n1",), event_id="e1"), Mark(nodes=("n2",)), Unmark(nodes=("n3",))])
    assert (commander.pending, commander.open_nodes(), commander.due_us) == (3, {"n1", "n2", "n3"}, 0)
    commander.step()
    assert (commander.pending, commander.open_nodes()) == (1, {"n1"})
    stepped(commander)
    assert (commander.pending, commander.open_nodes(), commander.due_us) == (0, set(), NEVER_US)


def test_a_mark_is_taken_off_only_where_batch_has_the_node_and_nobody_elses_is_there(of):
    commander, batch, told = of("n1", "n2", "n3", "n4", is_batchs=lambda node: node != "n1")
    batch.reports = {
        "n1": OFFLINE,
        "n2": OFFLINE,
        "n3": NodeStatus("offline", note="disk", marked=True, is_foreign=True),
        "n4": NodeStatus("unknown"),
    }
    stepped(commander, Unmark(nodes=("n1", "n2", "n3", "n4")), steps=1)
    assert batch.commands() == [("restore", ("n2",))]
    assert (told, commander.pending) == ([], 0)


def test_a_restore_that_was_overtaken_is_not_open_any_more(of):
    commander, batch, _ = of("n1", is_batchs=lambda _: False)
    stepped(commander, Restore(nodes=("n1",), event_id="e1"), steps=1)
    assert (batch.commands(), commander.open_nodes()) == ([], set())


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (NodeStatus("idle"), NodesRestored(at_us=7, event_id="e1", done=("n1",))),
        (
            NodeStatus("busy", ("1.server",)),
            NodesObserved(at_us=7, event_id="e1", states={"n1": ("busy", 7)}),
        ),
        (
            NodeStatus("offline", note="disk", marked=True, is_foreign=True),
            NodesObserved(at_us=7, event_id="e1", states={"n1": ("down", 7)}),
        ),
    ],
)
def test_what_a_restore_came_to_is_told_with_its_cause_and_the_time_of_the_look(of, status, expected):
    commander, batch, told = of("n1")
    batch.reports = {"n1": status}
    stepped(commander, Restore(nodes=("n1",), event_id="e1"), steps=1)
    assert told == [expected]


def test_a_command_without_effect_is_given_again_at_each_look(of):
    commander, batch, told = of("n1", "n2")
    batch.without_effect, batch.marked = {"reclaim", "restore"}, {"n1": False, "n2": True}
    batch.ours = {"n2"}
    orders = Reclaim(nodes=("n1",), event_id="e1"), Restore(nodes=("n2",), event_id="e2")
    stepped(commander, *orders, steps=2)
    assert batch.commands() == [
        ("restore", ("n2",)),
        ("reclaim", ("n1",)),
        ("reclaim", ("n1",)),
        ("restore", ("n2",)),
        ("reclaim", ("n1",)),
        ("restore", ("n2",)),
    ]
    assert told == []


def test_a_restore_without_outcome_within_its_limit_is_unclear_and_is_not_given_up_as_late(of):
    commander, batch, told = of("n1", limit_s=0.0)
    batch.without_effect, batch.marked, batch.ours = {"restore"}, {"n1": True}, {"n1"}
    stepped(commander, Restore(nodes=("n1",), event_id="e1"), steps=1)
    assert told == [NodesRestored(at_us=7, event_id="e1", unclear=("n1",))]
    assert commander.give_up_late(("n1", "n9")) == ()
    assert commander.open_nodes() == {"n1"}


def test_a_reading_says_when_it_was_asked_for_and_what_was_found(of):
    commander, _, _ = of("n1")
    assert commander.read() == Reading(7, {"n1": NodeStatus("idle")})


def test_a_reading_that_fails_raises_what_it_failed_with(of):
    commander, batch, _ = of("n1")
    batch.fails["status all"] = UnreachableError("no route")
    with pytest.raises(UnreachableError, match="no route"):
        commander.read()


def test_a_reading_that_finds_a_job_on_a_node_counts_against_its_hand_over(of, monkeypatch):
    commander, batch, told = of("n1", poll_s=MOMENT_S)
    busy = {"n1": NodeStatus("offline", ("1.server",), marked=True)}
    monkeypatch.setattr(batch, "get_status_of_all_nodes", lambda: busy)
    commander.submit([Reclaim(nodes=("n1",), event_id="e1")])
    assert commander.read().states == busy  # after a first look that agreed
    commander.step()
    assert told == []
    stepped(commander)
    assert told == [NodesReclaimed(at_us=7, event_id="e1", done=("n1",))]


def test_after_the_end_nothing_is_taken_any_more(of):
    commander, batch, _ = of("n1")
    commander.stop()
    assert commander.submit([Reclaim(nodes=("n1",), event_id="e1")]).is_set()
    with pytest.raises(UnclearError, match="the Balancer is stopping"):
        commander.read()
    assert (batch.calls, commander.pending) == ([], 0)


def test_marks_that_are_being_set_are_open_until_the_command_has_ended(of, monkeypatch):
    commander, batch, _ = of("n1", "n2")
    seen, reclaim = [], batch.reclaim_nodes

    def watched(nodes, *, why):
        seen.append((commander.open_nodes(), commander.pending))
        reclaim(nodes, why=why)

    monkeypatch.setattr(batch, "reclaim_nodes", watched)
    stepped(commander, Mark(nodes=("n1", "n2")), steps=1)
    assert seen == [({"n1", "n2"}, 2)]


def test_a_reading_that_agrees_does_not_count_against_a_hand_over(of):
    commander, _, told = of("n1", poll_s=MOMENT_S)
    commander.submit([Reclaim(nodes=("n1",), event_id="e1")])
    commander.read()
    commander.step()
    assert told == [NodesReclaimed(at_us=7, event_id="e1", done=("n1",))]


def test_a_look_that_fails_leaves_a_node_open(of):
    commander, batch, told = of("n1")
    batch.fails["status"] = UnreachableError("no route")
    stepped(commander, Reclaim(nodes=("n1",), event_id="e1"), steps=1)
    assert (told, commander.open_nodes(), commander.last_error) == ([], {"n1"}, "no route")
    del batch.fails["status"]
    commander.step()
    assert told == [NodesReclaimed(at_us=7, event_id="e1", done=("n1",))]


class Issued:
    """An event that is not waited for."""

    def __init__(self) -> None:
        self.waits = []

    def wait(self, limit_s):
        self.waits.append(limit_s)


def test_nobody_waits_for_a_command_while_the_batch_system_is_silent(of):
    commander, batch, _ = of("n1")
    issued = Issued()
    commander.wait_until_issued(issued, 3.0)
    batch.fails["status"] = UnreachableError("no route")
    stepped(commander, Reclaim(nodes=("n1",), event_id="e1"), steps=1)
    commander.wait_until_issued(issued, 3.0)
    assert issued.waits == [3.0, 0]


class HeldClock(ManualClock):
    """Knows how often it is paused just now."""

    holds = 0

    @contextmanager
    def paused(self):
        self.holds += 1
        try:
            yield self.now_us()
        finally:
            self.holds -= 1


def test_a_paced_clock_stands_still_exactly_while_there_is_something_to_do(kit):
    batch, clock, told = kit.FakeBatch(("n1",)), HeldClock(7), []
    settings = CommandSettings(confirm_poll_s=0.001, confirm_limit_s=60.0)
    commander = Commander(batch, clock, settings, report=told.append, observer=Metrics("fake"))
    commander.begin()
    try:
        assert clock.holds == 0
        batch.gate.clear()
        issued = commander.submit([Reclaim(nodes=("n1",), event_id="e1")])
        assert clock.holds == 1
        batch.gate.set()
        kit.until(lambda: told and clock.holds == 0)
        assert issued.is_set()
        assert commander.read() == Reading(7, {"n1": NodeStatus("offline", marked=True)})
        kit.until(lambda: clock.holds == 0)
    finally:
        batch.gate.set()
        commander.stop()
    assert told == [NodesReclaimed(at_us=7, event_id="e1", done=("n1",))]


def test_a_node_whose_outcome_is_being_told_is_pending(of):
    seen = []
    commander, _, _ = of("n1", report=lambda _: seen.append((commander.pending, commander.open_nodes())))
    stepped(commander, Reclaim(nodes=("n1",), event_id="e1"))
    assert seen == [(1, set())]
    assert commander.pending == 0


def test_what_is_open_is_looked_at_after_a_poll(of):
    commander, _, _ = of("n1", poll_s=3600.0)
    before_us, hour_us = wall_us(), 3_600_000_000
    stepped(commander, Reclaim(nodes=("n1",), event_id="e1"), steps=1)
    assert before_us + hour_us <= commander.due_us <= wall_us() + hour_us


def test_who_waits_for_an_order_without_threads_has_it_carried_out(of):
    commander, batch, _ = of("n1")
    issued = commander.submit([Mark(nodes=("n1",))])
    commander.wait_until_issued(issued, 0.0)
    assert (issued.is_set(), batch.commands()) == (True, [("reclaim", ("n1",))])


def test_a_node_that_keeps_its_job_beyond_the_limit_is_put_back_and_told_to_be_busy(of):
    commander, batch, told = of("n1", limit_s=0.0)
    batch.jobs["n1"] = "1.server"
    stepped(commander, Reclaim(nodes=("n1",), event_id="e1"))
    assert batch.commands() == [("reclaim", ("n1",)), ("restore", ("n1",))]
    assert told[-1] == NodesReclaimed(at_us=7, event_id="e1", busy=("n1",))


def test_a_reading_that_does_not_list_a_node_counts_against_its_hand_over(of, monkeypatch):
    commander, batch, told = of("n1", poll_s=MOMENT_S)
    monkeypatch.setattr(batch, "get_status_of_all_nodes", dict)
    commander.submit([Reclaim(nodes=("n1",), event_id="e1")])
    assert commander.read().states == {}
    commander.step()
    assert told == []


def test_the_driver_is_asked_how_the_batch_system_is_set_up_for_these_nodes(of, monkeypatch):
    commander, batch, _ = of("n1")
    monkeypatch.setattr(
        batch, "check_site", lambda nodes: [SiteCheck(f"is there: {nodes}", "")], raising=False
    )
    assert commander.calls.site_checks(["n1"]) == [SiteCheck("is there: ['n1']", "")]
