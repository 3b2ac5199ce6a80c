"""Old databases: brought up to date, whatever happens meanwhile; newer ones are refused (T23)."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from balancer.ledger import migrations, schema
from balancer.ledger.errors import LedgerError
from balancer.ledger.reader import open_to_read
from balancer.ledger.store import StoredAnswer
from balancer.ledger.tables import metadata
from balancer.ledger.verify import verify
from balancer.lifecycle.records import RequestRecord, RequestStatus, ReserveRecord, Snapshot
from balancer.lifecycle.states import NodeState
from ledger_kit.places import entry, node, replayed
from ledger_kit.postgresql import BACKENDS

US = 1_000_000
STATE = Snapshot(
    now_us=1000 * US,
    serial=9,
    nodes=(
        node("n01", NodeState.OD_ALLOC, since_us=1000 * US, reserved_for="r6", generation=3),
        node("n02", NodeState.OD_RESERVE, since_us=1000 * US, reserved_for="r8", generation=4),
        node("n03", NodeState.OD_RESERVE, since_us=1000 * US, reserved_for="r8", generation=3),
        node("n04", NodeState.OA_BUSY, since_us=1000 * US, generation=2, jobs=("1.server",)),
    ),
    requests=(
        RequestRecord(
            request_id="r6",
            count=1,
            arrived_us=1000 * US,
            deadline_us=1600 * US,
            order=5,
            status=RequestStatus.GRANTED,
            nodes=("n01",),
            decided_us=1000 * US,
            generation=1,
            owner="",
            confirmed=True,
        ),
        RequestRecord(
            request_id="r8", count=4, arrived_us=1000 * US, deadline_us=1600 * US, order=7, owner=""
        ),
    ),
    reserves=(
        ReserveRecord(
            reserve_id="h9",
            count=1,
            by_us=1060 * US,
            ends_us=1660 * US,
            added_us=1000 * US,
            order=8,
            owner="",
        ),
    ),
)
"""What is in `release_1.sql`."""


class CrashError(BaseException):
    """The process ends here."""


def tables(place):
    engine = sa.create_engine(place.open(writes=False).url)
    with engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection), metadata)
    engine.dispose()
    return [each for each in found if "alembic_version" not in str(each)]


def test_a_release_1_ledger_is_taken_over_whole(place):
    place.build_release_1()
    ledger = place.open(writes=False)
    assert ledger.load() == STATE
    assert ledger.answer("k1") == StoredAnswer("k1", "digest", request_id="r6")
    assert ledger.request("r6").generation == 1
    assert [event.seq for event in ledger.events(0, 100)] == list(range(1, 11))
    assert ledger.take_epoch() == 2
    assert ledger.last_seq() == 10


def test_a_release_2_ledger_gets_an_id_and_its_digests_and_is_sound(place):
    place.build_release_2()
    ledger = place.open()
    reclaimed = node("n04", NodeState.RECLAIMING, since_us=1002 * US, reserved_for="r8", generation=4)
    assert ledger.load() == replace(STATE, now_us=1002 * US, serial=12, nodes=(*STATE.nodes[:3], reclaimed))
    assert ledger.answer("k3") == StoredAnswer("k3", "digest", status=200, body='{"nodes": ["n04"]}')
    assert len(ledger.ledger_id) == 8
    ledger.commit([entry(13, at_us=1003 * US)])
    with closing(open_to_read(place.target)) as reader:
        assert verify(reader)[0] == []
    place.sql("UPDATE events SET body = '{} ' WHERE seq = 13")
    with closing(open_to_read(place.target)) as reader:
        assert "event 13 is not what was written" in verify(reader)[0][0]


def test_a_release_4_ledger_keeps_its_id_its_log_and_what_it_lent(place):
    place.build_release_4()
    ledger = place.open()
    reclaimed = node("n04", NodeState.RECLAIMING, since_us=1002 * US, reserved_for="r8", generation=4)
    quarantined = node("n03", NodeState.QUARANTINED, since_us=1003 * US, generation=4)
    reserve = ReserveRecord(
        reserve_id="h14",
        count=2,
        by_us=2000 * US,
        ends_us=2600 * US,
        added_us=1004 * US,
        order=14,
        owner="carol",
    )
    kept = replace(
        STATE,
        now_us=1004 * US,
        serial=14,
        nodes=(*STATE.nodes[:2], quarantined, reclaimed),
        reserves=(*STATE.reserves, reserve),
    )
    assert (ledger.load(), replayed(ledger), ledger.ledger_id) == (kept, kept, "8aaf102d")
    every = replace(
        reserve, reserve_id="h15", order=15, every='{"rule":"daily 20:00-06:00"}', lead_us=1800 * US
    )
    added = entry(15, at_us=1005 * US)
    ledger.commit([replace(added, changes=replace(added.changes, reserves=(every,)))])
    assert (ledger.load(), replayed(ledger)) == (replayed(ledger), ledger.load())
    assert ledger.load().reserves[-1] == every
    with closing(open_to_read(place.target)) as reader:
        assert verify(reader)[0] == []


def test_a_ledger_of_0_3_0_keeps_what_it_lent_and_that_the_node_is_down(place):
    place.build_release_5()
    ledger = place.open()
    lent = node(
        "n01",
        NodeState.OD_ALLOC,
        since_us=1000 * US,
        reserved_for="r6",
        generation=4,
        down_since_us=1005 * US,
    )
    assert (ledger.load().nodes[0], ledger.ledger_id, ledger.last_seq()) == (lent, "8aaf102d", 15)
    assert replayed(ledger) == ledger.load()
    with closing(open_to_read(place.target)) as reader:
        assert verify(reader)[0] == []


def test_a_quarantined_node_is_stored_by_its_old_word_so_that_a_service_of_0_3_can_take_over(place):
    ledger = place.open()
    quarantined = node(state=NodeState.QUARANTINED)
    ledger.commit([entry(1, nodes=(quarantined,))])
    assert ledger.load().nodes == replayed(ledger).nodes == (quarantined,)
    with ledger.connected() as connection:
        stored = connection.execute(sa.text("SELECT nodes.state, changes FROM nodes, events")).one()
    assert (stored.state, '"HELD"' in stored.changes, "QUARANTINED" in stored.changes) == (
        "HELD",
        True,
        False,
    )


def test_an_event_that_an_older_release_wrote_is_told_in_the_words_of_this_one(place):
    ledger = place.open()
    bodies = ('{"moved":[["HELD","OA_IDLE","HELD"]]}', '{"job":"HELD"}')
    for number, body in enumerate(bodies, 1):
        written = entry(number)
        ledger.commit([replace(written, event=replace(written.event, body=body))])
    assert [event.body for event in ledger.events(0, 9)] == [
        '{"moved":[["HELD","OA_IDLE","QUARANTINED"]]}',
        '{"job":"HELD"}',
    ]


@pytest.mark.parametrize("release", [1, 2, 4, 5])
def test_each_released_ledger_is_one_of_the_known_schemas(place, release):
    """Whoever adds a migration records what the release before it wrote."""
    getattr(place, f"build_release_{release}")()
    assert place.open().ledger_id
    known = (
        "0001",
        "0002",
        "0003",
        "0004",
        "0005",
        "0006",
    )  # 3 and 4 came in one release, 6 in none yet
    assert known == schema._KNOWN


def test_the_log_of_an_old_ledger_can_be_replayed_from_its_last_state_on(place):
    place.build_release_1()
    ledger = place.open()
    back = node("n01", NodeState.OD_RESERVE, generation=4)
    ledger.commit([entry(11, at_us=1001 * US, nodes=(back,))])
    assert replayed(ledger) == ledger.load()
    ledger.forget(answers_before_us=0, events_before_us=2000 * US)
    assert [event.seq for event in ledger.events(0, 100)] == [11]
    assert replayed(ledger) == ledger.load()


def test_the_events_of_an_old_ledger_can_be_dropped_piece_by_piece(place, monkeypatch):
    monkeypatch.setattr("balancer.ledger.store._FOLDED_AT_ONCE", 3)
    place.build_release_1()
    ledger = place.open()
    ledger.commit([entry(11, at_us=1001 * US), entry(12, at_us=1002 * US)])
    while ledger.forget(answers_before_us=0, events_before_us=2000 * US):
        assert replayed(ledger) == ledger.load()
    assert [event.seq for event in ledger.events(0, 100)] == [12]
    assert replayed(ledger) == ledger.load()


def test_the_migrations_make_the_tables_that_the_code_uses(place):
    assert tables(place) == []


def test_an_old_ledger_has_the_same_tables_afterwards(place):
    place.build_release_1()
    assert tables(place) == []


def test_the_code_knows_all_migration_files():
    script = ScriptDirectory(migrations.__path__[0])
    assert script.get_current_head() == schema.REVISION
    assert sorted(each.revision for each in script.walk_revisions()) == sorted(schema._KNOWN)


@pytest.mark.sample(1)
@pytest.mark.parametrize("is_old", [True, False], ids=["release 1", "new"])
def test_a_crash_in_any_step_of_a_migration_is_repaired_by_the_next_start(place, is_old):
    """Each statement is a step: the process ends before the first, the second, ... until it gets through."""
    if is_old:
        place.build_release_1()
    step, crashed = 0, True
    while crashed:
        step += 1
        crashed = crashes_at(place, step)
        if crashed:
            assert place.sql("SELECT 1")[0][0] == 1
    assert step > 20
    ledger = place.open()
    assert ledger.load() == (STATE if is_old else None)
    assert tables(place) == [] if not place.is_sqlite else True


@pytest.mark.parametrize("place", BACKENDS[1:], indirect=True)
def test_in_postgresql_steps_may_take_their_time_to_load_on_a_busy_machine(place):
    limits = set()

    def note(connection, cursor, statement, *_):
        if "CREATE TABLE" in statement:
            limits.update(cursor.connection.execute("SHOW idle_in_transaction_session_timeout").fetchone())

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        ledger = place.open()
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    assert limits == {"1min"}
    with ledger._engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar() == "5s"


def crashes_at(place, step):
    """Open the ledger and end at this statement; False when there are not so many."""
    seen = 0

    def count(connection, cursor, statement, *_):
        nonlocal seen
        if "migrations" in statement or statement.startswith("PRAGMA"):
            return
        seen += 1
        if seen == step:
            raise CrashError

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    try:
        ledger = place.open(writes=False)
    except CrashError:
        return True
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", count)
    ledger.close()
    return False


def test_a_ledger_of_a_newer_release_is_refused_and_left_alone(place):
    place.open().close()
    place.sql("UPDATE alembic_version SET version_num = '0099'")
    with pytest.raises(LedgerError, match="has schema 0099, this Balancer reads 0006: use the version"):
        place.open()
    assert place.sql("SELECT version_num FROM alembic_version") == [("0099",)]


def test_a_newer_ledger_from_before_alembic_is_refused(place):
    place.build_release_1()
    place.sql("UPDATE meta SET value = '99' WHERE name = 'schema'")
    with pytest.raises(LedgerError, match="has schema 99"):
        place.open()


def test_the_database_of_another_program_is_refused(place):
    place.sql("CREATE TABLE invoices (number INTEGER)")
    with pytest.raises(LedgerError, match="tables of another program: invoices"):
        place.open()


def test_reading_an_old_ledger_does_not_change_it(place):
    place.build_release_1()
    with pytest.raises(LedgerError, match="start `balancer serve` on it once"):
        open_to_read(place.target)
    assert place.sql("SELECT value FROM meta WHERE name = 'schema'") == [("1",)]
