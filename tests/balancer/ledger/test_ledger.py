"""The ledger: what was committed is there after any end, and nothing else is."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from balancer.ledger.errors import LedgerError
from balancer.ledger.filesystem import file_system_of
from balancer.ledger.store import Entry, Ledger, Slot, StoredAnswer, StoredEvent
from balancer.lifecycle.records import Changes, NodeRecord, RequestRecord, RequestStatus, ReserveRecord
from balancer.lifecycle.states import NodeState


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def opened():
    """Opens ledgers and closes them after the test."""
    made: list[Ledger] = []

    def make(path: Path) -> Ledger:
        made.append(Ledger(path, lock_wait_s=0))
        return made[-1]

    yield make
    for ledger in made:
        ledger.close()


def node(name: str = "n1", state: NodeState = NodeState.OA_BUSY, **more) -> NodeRecord:
    return NodeRecord(name=name, state=state, since_us=5, **more)


def request(number: int, *, count: int = 1, at_us: int = 0, status: RequestStatus = RequestStatus.WAITING):
    return RequestRecord(
        request_id=f"r{number}", count=count, arrived_us=at_us, deadline_us=at_us, order=number, status=status
    )


def entry(seq: int, *, answer: StoredAnswer | None = None, at_us: int = 7, **changes) -> Entry:
    event = StoredEvent(seq, at_us, f"e{seq}", "test", "{}")
    return Entry(event, Changes(now_us=at_us, serial=seq, **changes), answer)


def test_a_new_ledger_is_empty(opened, path):
    ledger = opened(path)
    assert ledger.load() is None
    assert ledger.last_seq() == 0


def test_what_was_committed_is_there_after_reopening(opened, path):
    ledger = opened(path)
    lent = node(state=NodeState.OD_ALLOC, held_for="r1", generation=3)
    busy = node("n2", jobs=("1.server", "2.server"))
    hint = ReserveRecord(reserve_id="h1", count=2, by_us=9, ends_us=10, added_us=1, order=2)
    ledger.commit([entry(1, nodes=(lent, busy), requests=(request(1),), reserves=(hint,))])
    ledger.close()
    snapshot = opened(path).load()
    assert snapshot is not None
    assert (snapshot.nodes, snapshot.requests, snapshot.reserves) == ((lent, busy), (request(1),), (hint,))
    assert (snapshot.now_us, snapshot.serial) == (7, 1)


def test_a_batch_is_stored_as_a_whole_or_not_at_all(opened, path):
    ledger = opened(path)
    ledger.commit([entry(1, nodes=(node(),))])
    with pytest.raises(LedgerError, match="UNIQUE"):
        ledger.commit([entry(2, nodes=(node(state=NodeState.OA_IDLE),)), entry(1)])
    assert ledger.last_seq() == 1
    assert ledger.load().nodes == (node(),)


def test_the_last_record_of_a_batch_counts(opened, path):
    ledger = opened(path)
    idle = node(state=NodeState.OA_IDLE)
    ledger.commit([entry(1, nodes=(node(),)), entry(2, nodes=(idle,))])
    assert ledger.load().nodes == (idle,)


def test_decided_requests_are_no_part_of_the_state_but_of_the_history(opened, path):
    ledger = opened(path)
    granted = request(1, count=2, at_us=3, status=RequestStatus.GRANTED)
    rejected = request(2, count=5, at_us=4, status=RequestStatus.REJECTED)
    ledger.commit([entry(1, requests=(granted, rejected, request(3, at_us=13)))])
    assert [each.request_id for each in ledger.load().requests] == ["r3"]
    assert ledger.requests(status=None, before=3, limit=10) == [rejected, granted]
    assert ledger.history(0, 20, 10) == [Slot(0, 10, 2, 7, 2, 5, 5), Slot(10, 20, 1, 1, 0, 0, 1)]


def test_answers_are_found_by_their_key_and_forgotten_when_old(opened, path):
    ledger = opened(path)
    answer = StoredAnswer("k1", "digest", status=200, body="{}")
    ledger.commit([entry(1, answer=answer, at_us=7)])
    assert ledger.answer("k1") == answer
    ledger.forget(answers_before_us=8, events_before_us=0)
    assert ledger.answer("k1") is None


def test_the_log_is_shortened_at_its_beginning_and_never_emptied(opened, path):
    ledger = opened(path)
    ledger.commit([entry(number, at_us=number) for number in range(1, 6)])
    ledger.forget(answers_before_us=0, events_before_us=3)
    assert [event.seq for event in ledger.events(0, 10)] == [3, 4, 5]
    ledger.forget(answers_before_us=0, events_before_us=100)
    assert [event.seq for event in ledger.events(0, 10)] == [5]


def test_every_start_has_a_higher_epoch(opened, path):
    ledger = opened(path)
    assert ledger.take_epoch() == 1
    ledger.close()
    assert opened(path).take_epoch() == 2


def test_a_ledger_has_one_user_at_a_time(opened, path):
    opened(path)
    with pytest.raises(LedgerError, match="another Balancer uses the ledger"):
        opened(path)


def test_a_ledger_of_another_version_is_refused(opened, path):
    opened(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")
    connection.close()
    with pytest.raises(LedgerError, match="has schema 99, this Balancer reads 1"):
        opened(path)


def test_a_file_that_is_no_ledger_is_refused(opened, path):
    path.write_text("not a database, but long enough to look like one" * 10, encoding="utf-8")
    with pytest.raises(LedgerError, match="cannot be opened"):
        opened(path)


def test_a_missing_folder_is_named(opened, tmp_path):
    with pytest.raises(LedgerError, match="does not exist; make it first"):
        opened(tmp_path / "nowhere" / "ledger.db")


def test_the_database_is_as_durable_as_it_must_be(opened, path):
    ledger = opened(path)
    with ledger._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_readers_do_not_wait_for_the_writer(opened, path):
    ledger = opened(path)
    ledger.commit([entry(1)])
    with ledger._writer.begin():
        assert ledger.last_seq() == 1


@pytest.mark.parametrize(
    ("folder", "expected"), [("/data/x", "nfs4"), ("/data2", "ext4"), ("/data/my disk/x", "xfs")]
)
def test_the_file_system_is_that_of_the_nearest_mount(folder, expected):
    mounts = "dev / ext4 rw 0 0\nhost:/x /data nfs4 rw 0 0\ndev /data/my\\040disk xfs rw 0 0\n"
    assert file_system_of(Path(folder), mounts) == expected
