"""The ledger: what was committed is there after any end, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from balancer.drivers.marks import Stamp
from balancer.ledger.errors import BrokenLogError, LedgerError, StaleError
from balancer.ledger.filesystem import file_system_of
from balancer.ledger.store import Ledger, Slot, StoredAnswer
from balancer.lifecycle.records import RequestStatus, ReserveRecord
from balancer.lifecycle.states import NodeState
from ledger_kit.places import Place, entry, node, replayed, request


def test_a_new_ledger_is_empty(place):
    ledger = place.open()
    assert ledger.load() is None
    assert ledger.last_seq() == 0


def test_what_was_committed_is_there_after_reopening(place):
    ledger = place.open()
    lent = node(state=NodeState.OD_ALLOC, reserved_for="r1")
    busy = node("n2", jobs=("1.server", "2.server"))
    hint = ReserveRecord(reserve_id="h1", count=2, by_us=9, ends_us=10, added_us=1, order=2)
    ledger.commit([entry(1, nodes=(lent, busy), requests=(request(1),), reserves=(hint,))])
    ledger.close()
    snapshot = place.open().load()
    assert snapshot is not None
    assert (snapshot.nodes, snapshot.requests, snapshot.reserves) == ((lent, busy), (request(1),), (hint,))
    assert (snapshot.now_us, snapshot.serial) == (7, 1)


def test_a_batch_is_stored_as_a_whole_or_not_at_all(place):
    ledger = place.open()
    ledger.commit([entry(1, nodes=(node(),))])
    answer = StoredAnswer("k", "digest", status=200, body="")
    idle = node(state=NodeState.OA_IDLE, generation=1)
    with pytest.raises(LedgerError, match=r"UNIQUE|duplicate key"):
        ledger.commit([entry(2, nodes=(idle,), answer=answer), entry(3, answer=answer)])
    assert ledger.last_seq() == 1
    assert ledger.load().nodes == (node(),)


def test_the_last_record_of_a_batch_counts(place):
    ledger = place.open()
    idle = node(state=NodeState.OA_IDLE, generation=1)
    ledger.commit([entry(1, nodes=(node(),)), entry(2, nodes=(idle,))])
    assert ledger.load().nodes == (idle,)


def test_decided_requests_are_no_part_of_the_state_but_of_the_history(place):
    ledger = place.open()
    granted = replace(request(1, count=2, at_us=3, status=RequestStatus.GRANTED), ended_us=9)
    rejected = request(2, count=5, at_us=4, status=RequestStatus.REJECTED)
    ledger.commit([entry(1, requests=(granted, rejected, request(3, at_us=13)))])
    assert [each.request_id for each in ledger.load().requests] == ["r3"]
    assert ledger.requests(status=None, before=3, limit=10) == [rejected, granted]
    assert ledger.history(0, 20, 10) == [Slot(0, 10, 2, 7, 2, 5, 5), Slot(10, 20, 1, 1, 0, 0, 1)]


def test_a_grant_is_part_of_the_state_until_its_nodes_are_back(place):
    ledger = place.open()
    granted = replace(
        request(1, at_us=3, status=RequestStatus.GRANTED),
        owner="nova",
        candidates=("n[1-4]", "n7"),
        exclude=("n2",),
        lease_us=60,
        confirmed=True,
        due_us=63,
        overdue=True,
    )
    ledger.commit([entry(1, requests=(granted,))])
    assert ledger.load().requests == (granted,)
    assert ledger.requests(status=None, before=None, limit=9, owner="nova", overdue=True) == [granted]
    assert ledger.requests(status=None, before=None, limit=9, owner="me") == []
    assert replayed(ledger) == ledger.load()
    ledger.commit([entry(2, requests=(replace(granted, ended_us=70, overdue=False, generation=1),))])
    assert ledger.load().requests == ()
    assert replayed(ledger) == ledger.load()


def test_answers_are_found_by_their_key_and_forgotten_when_old(place):
    ledger = place.open()
    answer = StoredAnswer("k1", "digest", status=200, body="{}")
    ledger.commit([entry(1, answer=answer, at_us=7)])
    assert ledger.answer("k1") == answer
    ledger.forget(answers_before_us=8, events_before_us=0)
    assert ledger.answer("k1") is None


def test_the_log_is_shortened_at_its_beginning_and_never_emptied(place):
    ledger = place.open()
    ledger.commit([entry(number, at_us=number) for number in range(1, 6)])
    ledger.forget(answers_before_us=0, events_before_us=3)
    assert [event.seq for event in ledger.events(0, 10)] == [3, 4, 5]
    ledger.forget(answers_before_us=0, events_before_us=100)
    assert [event.seq for event in ledger.events(0, 10)] == [5]


def test_a_mark_names_the_ledger_its_newest_event_and_the_first_digits_of_its_digest(place):
    ledger = place.open()
    ledger.commit([entry(1), entry(2)])
    newest = ledger.writer()
    assert ledger.stamp() == Stamp(newest.ledger_id, 2, newest.head[:8])
    assert newest.ledger_id
    assert len(newest.head) > 8


def test_every_start_has_a_higher_epoch(place):
    ledger = place.open(writes=False)
    assert ledger.take_epoch() == 1
    ledger.close()
    assert place.open(writes=False).take_epoch() == 2


def test_a_ledger_has_one_user_at_a_time(place):
    place.open()
    with pytest.raises(LedgerError, match="another Balancer uses the ledger"):
        place.open()


def test_what_is_dropped_from_the_log_is_part_of_the_base(place):
    ledger = place.open()
    history = [node(state=NodeState.DOWN, generation=generation) for generation in range(5)]
    ledger.commit([entry(each.generation + 1, at_us=each.generation, nodes=(each,)) for each in history])
    ledger.forget(answers_before_us=0, events_before_us=3)
    assert ledger.base().snapshot.nodes == (history[2],)
    assert replayed(ledger) == ledger.load()


def test_a_missing_piece_of_the_log_is_noticed(place):
    ledger = place.open()
    ledger.commit([entry(1), entry(2), entry(3)])
    place.sql("DELETE FROM events WHERE seq = 2")
    with pytest.raises(BrokenLogError, match="event 2 is missing: 3 follows 1"):
        replayed(ledger)


def test_a_number_that_does_not_follow_is_refused(place):
    ledger = place.open()
    ledger.commit([entry(1)])
    for wrong in ([entry(3)], [entry(1)], [entry(2), entry(4)]):
        with pytest.raises(StaleError):
            ledger.commit(wrong)
    assert [event.seq for event in ledger.events(0, 10)] == [1]


@pytest.mark.parametrize("generation", [0, 1, 3])
def test_only_the_next_generation_of_a_record_is_stored(place, generation):
    ledger = place.open()
    ledger.commit([entry(1, nodes=(node(),)), entry(2, nodes=(node(generation=1),))])
    with pytest.raises(LedgerError):
        ledger.commit([entry(3, nodes=(node(state=NodeState.DOWN, generation=generation),))])
    assert ledger.load().nodes == (node(generation=1),)
    assert ledger.last_seq() == 2


def test_a_request_and_a_hint_have_generations_too(place):
    ledger = place.open()
    hint = ReserveRecord(reserve_id="h1", count=2, by_us=9, ends_us=10, added_us=1, order=2)
    ledger.commit([entry(1, requests=(request(1),), reserves=(hint,))])
    for wrong in ({"requests": (request(1, generation=2),)}, {"reserves": (replace(hint, generation=2),)}):
        with pytest.raises(StaleError):
            ledger.commit([entry(2, **wrong)])


def test_a_file_that_is_no_ledger_is_refused(sqlite_place):
    sqlite_place.target.write_text("not a database, but long enough to look like one" * 10, encoding="utf-8")
    with pytest.raises(LedgerError, match="cannot be opened"):
        sqlite_place.open()


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(LedgerError, match="does not exist; make it first"):
        Place(tmp_path / "nowhere" / "ledger.db").open()


def test_a_server_that_does_not_answer_is_named_without_its_password():
    url = "postgresql://balancer:secret@127.0.0.1:1/ledger"
    with pytest.raises(LedgerError, match="cannot be opened") as failed:
        Ledger(url)
    assert "127.0.0.1" in str(failed.value)
    assert "secret" not in str(failed.value)


def test_other_databases_are_refused():
    with pytest.raises(LedgerError, match="not mysql"):
        Ledger("mysql://x/y")


def test_the_file_is_as_durable_as_it_must_be(sqlite_place):
    ledger = sqlite_place.open()
    with ledger._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_readers_do_not_wait_for_the_writer(place):
    ledger = place.open()
    ledger.commit([entry(1)])
    with ledger._writer.begin():
        assert ledger.last_seq() == 1


def test_what_a_thread_still_reads_with_when_the_ledger_is_closed_is_closed_too(place):
    ledger = place.open()
    with ledger.connected() as under_way:
        raw = [under_way.connection.dbapi_connection]
        ledger.close()
    with ledger.lease.engine.connect() as late:
        raw.append(late.connection.dbapi_connection)
    for connection in raw:
        with pytest.raises(Exception, match="closed"):
            connection.execute("SELECT 1")


@pytest.mark.parametrize(
    ("folder", "expected"), [("/data/x", "nfs4"), ("/data2", "ext4"), ("/data/my disk/x", "xfs")]
)
def test_the_file_system_is_that_of_the_nearest_mount(folder, expected):
    mounts = "dev / ext4 rw 0 0\nhost:/x /data nfs4 rw 0 0\ndev /data/my\\040disk xfs rw 0 0\n"
    assert file_system_of(Path(folder), mounts) == expected
