"""The writer by itself: it tries again until writing works, says what is wrong, and forgets what is old."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

from balancer.clock import NEVER_US, wall_us
from balancer.ledger.errors import LedgerError
from balancer.lifecycle.events import TimerFired
from balancer.service.calls import Caller
from balancer.service.decision import Key


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


class Knocked:
    """A lock that tells when somebody wants it."""

    def __init__(self, lock):
        self.lock = lock
        self.is_wanted = threading.Event()

    def __enter__(self):
        self.is_wanted.set()
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


def test_what_was_decided_since_the_state_was_read_again_is_not_lost(world, monkeypatch):
    """A call that has seen a state that is not whole comes late: it has been read again, and an event is decided."""
    w = world(nodes=1)
    w.settled()
    writer = w.engine._writer
    committing = Knocked(writer._committing)
    monkeypatch.setattr(writer, "_committing", committing)
    with ThreadPoolExecutor(1) as pool:
        with committing.lock:
            writer.is_broken = True
            late = pool.submit(w.engine.submit_request, 1)
            assert committing.is_wanted.wait(60)
            with writer._deciding:
                writer._load()
                decided = writer._decide(TimerFired(at_us=w.clock.now_us(), event_id="mine"), None, None)
        writer._commit(decided)
        request = late.result(60)
    events = w.engine.ledger.events(0, 100)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert "mine" in [event.event_id for event in events]
    assert w.engine.ledger.request(request.request_id).request_id == request.request_id


def test_it_forgets_events_and_not_the_newest(world):
    w = world(nodes=1)
    w.settled()
    newest = w.engine.ledger.last_seq()
    assert newest > 1
    w.engine._writer.forget(answers_before_us=0, events_before_us=0)
    assert len(w.engine.ledger.events(0, 100)) == newest
    w.engine._writer.forget(answers_before_us=0, events_before_us=w.clock.now_us() + 1)
    assert [event.seq for event in w.engine.ledger.events(0, 100)] == [newest]


def test_an_event_says_what_it_decided_and_has_the_id_of_its_number_where_nobody_gave_one(world):
    w = world(nodes=1, reserve=1)
    w.settled()
    record = w.asked(1)
    w.engine.release_nodes(("n01",), caller=Caller(event_id="req-1"))
    events = w.engine.ledger.events(0, 100)
    own = [event for event in events if event.event_id != "req-1"]
    assert [event.event_id for event in own if event.kind != "nodes_reclaimed"] == [
        f"e{event.seq}" for event in own if event.kind != "nodes_reclaimed"
    ]
    told = {key: state for e in events for key, state in json.loads(e.body).get("decided", {}).items()}
    assert told == {record.request_id: "granted"}
    assert [event.kind for event in events if event.event_id == "req-1"] == ["nodes_released"]


def test_the_answer_to_a_call_with_a_key_is_stored_with_it(world):
    w = world(nodes=1, reserve=1)
    w.asked(1)
    w.engine.release_nodes(("n01",), key=Key("k", "digest", '{"nodes": ["n01"]}'))
    stored = w.engine.ledger.answer("k")
    assert (stored.fingerprint, stored.status, stored.body) == ("digest", 200, '{"nodes": ["n01"]}')
