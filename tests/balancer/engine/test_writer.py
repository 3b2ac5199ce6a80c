"""The writer by itself: it tries again until writing works, says what is wrong, and forgets what is old."""

from __future__ import annotations

from balancer.clock import NEVER_US, wall_us
from balancer.ledger.errors import LedgerError


def test_it_tries_again_until_writing_works_and_not_beyond(world, monkeypatch):
    w = world(nodes=1)
    writer = w.engine._writer

    def fails():
        raise LedgerError("the disk is full")

    monkeypatch.setattr(w.engine.ledger, "probe", fails)
    writer.read_only = LedgerError("the disk is full")
    begin_us = wall_us()
    assert writer.probe() is False
    first_us = writer.due_us - begin_us
    assert first_us > 0
    assert writer.problem() == "read-only: the disk is full"
    for _ in range(10):
        writer.probe()
    assert writer.due_us - wall_us() <= 2_000_000, "at most 2 s"
    monkeypatch.undo()
    assert writer.probe() is True
    assert (writer.due_us, writer.read_only, writer.problem()) == (NEVER_US, None, None)


def test_while_the_state_is_not_whole_it_says_so(world):
    w = world(nodes=1)
    w.engine._writer.is_broken = True
    assert w.engine._writer.problem() == "the ledger cannot be read or written"
    w.engine._writer.probe()
    assert w.engine._writer.problem() is None


def test_it_forgets_events_and_not_the_newest(world):
    w = world(nodes=1)
    w.settled()
    newest = w.engine.ledger.last_seq()
    assert newest > 1
    w.engine._writer.forget(answers_before_us=0, events_before_us=0)
    assert len(w.engine.ledger.events(0, 100)) == newest
    w.engine._writer.forget(answers_before_us=0, events_before_us=w.clock.now_us() + 1)
    assert [event.seq for event in w.engine.ledger.events(0, 100)] == [newest]
