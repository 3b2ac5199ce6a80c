"""The thread that gives commands, stepped by hand: what may happen between a look and its report."""

from __future__ import annotations

import pytest

from balancer.clock import ManualClock
from balancer.commands import Commander, CommandSettings, Mark
from balancer.drivers.base import NodeStatus
from balancer.lifecycle.events import NodesReclaimed, Reclaim
from balancer.metrics import Metrics


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
