"""The one place that writes SQL: what is in the ledger survives, what is not was never answered.

One writer (the engine) commits entries; any thread reads. An entry is an event together with every record it
changed and the answer it led to, and is stored in one transaction with the others of its batch. Each such
transaction first moves the one row of `writer` on, from the epoch and the event number it believes in; and each
record is written on the condition that its generation is the one before. Where anything else is found, all of
it is taken back.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from balancer.drivers.marks import Stamp
from balancer.ledger import schema
from balancer.ledger.chain import DIGITS, link
from balancer.ledger.connect import cause, is_sqlite, shown, url_of
from balancer.ledger.errors import LedgerError, ReplacedError, StaleError
from balancer.ledger.files import Head, HeadFile, Watch, protect
from balancer.ledger.filesystem import check_has_room
from balancer.ledger.home import Home, is_left_here, lock
from balancer.ledger.lease import Lease
from balancer.ledger.lease import read as read_writer
from balancer.ledger.reader import (
    BaseRow,
    Reader,
    Slot,
    StoredEvent,
    base_digest,
    check_link,
    logged,
    read_base,
)
from balancer.ledger.replay import Replay
from balancer.ledger.rows import (
    StoredAnswer,
    answer_row,
    encode_changes,
    node_row,
    request_row,
    reserve_row,
)
from balancer.ledger.statements import Run, Statement, transaction
from balancer.ledger.tables import answers, base, events, nodes, requests, reserves, writer
from balancer.lifecycle.records import Changes, NodeRecord, RequestRecord, ReserveRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


__all__ = ["Entry", "Ledger", "Slot", "StoredAnswer", "StoredEvent"]

_FOLDED_AT_ONCE = 5000

_Record = TypeVar("_Record", NodeRecord, RequestRecord, ReserveRecord)


@dataclass(frozen=True, slots=True)
class Entry:
    """What one event leaves behind."""

    event: StoredEvent
    changes: Changes
    answer: StoredAnswer | None = None


class Ledger(Reader):
    """A store at a PostgreSQL URL, or at a file path (SQLite). Raises LedgerError.

    `take_epoch` comes before the first `commit`. `locked` (SQLite): a lock on the file keeps others away; without
    it, as in PostgreSQL, the lease does. `threaded=False`: whoever drives the clock renews the lease.
    """

    def __init__(
        self, target: str | Path, *, lock_wait_s: float = 3.0, locked: bool = True, threaded: bool = True
    ) -> None:
        url = url_of(target)
        path = Path(url.database or "")
        is_left = is_sqlite(url) and is_left_here(path)
        self._lock_fd = lock(path, lock_wait_s) if locked and is_sqlite(url) else None
        self._watch: Watch | None = None
        self.home: Home | None = None
        """Whether the file is where its service left it; None: nobody can copy it unseen, or nothing locks it."""
        self._head_file = HeadFile(path) if is_sqlite(url) else None
        self._newest: Head | None = None  # as committed; None: to be read again
        self._last_seq = 0
        try:
            if is_sqlite(url):
                protect(path)
            super().__init__(url)
            self.lease = Lease(self._engine, exclusive=self._lock_fd is not None, threaded=threaded)
            writes = self._engine.execution_options(writes=True)
            with writes.begin() as connection:
                schema.migrate(connection)
            self._writer = writes.connect()
            if is_sqlite(url):
                self._watch = Watch(path)
            if self._lock_fd is not None:
                self.home = Home(self._lock_fd, path, is_left=is_left)
        except SQLAlchemyError as error:
            self.close()
            raise LedgerError(f"the ledger {shown(url)} cannot be opened: {cause(error, url)}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if hasattr(self, "_writer"):
            self.lease.end()
            self._writer.close()
        if hasattr(self, "_engine"):
            super().close()
        if self._head_file is not None:
            self._head_file.close()
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    # Who writes

    def take_epoch(self, wait_s: float | None = 0.0) -> int:
        """The number of this writer: each start has the next one. Raises LeaseHeldError after `wait_s`."""
        with self._writing():
            return self.lease.take(wait_s)

    def is_led_by_another(self) -> bool:
        """Whether somebody holds the lease (in PostgreSQL; a file has its lock)."""
        return not self.lease.exclusive and self.writer().holder != ""

    def check_writer(self) -> None:
        """Before a command is given. Raises FencedError or LedgerError unless this is still the one writer."""
        self.check_file()
        self.lease.check()

    # What it is

    @property
    def ledger_id(self) -> str:
        """Its own, which every mark carries. For the one writer."""
        return self._known().ledger_id

    def stamp(self) -> Stamp:
        """What a mark says that is set now: whose it is, and the newest event that is stored."""
        known = self._known()
        return Stamp(known.ledger_id, known.seq, known.digest[:DIGITS])

    def check_file(self) -> None:
        """Raises ReplacedError when the file is gone or is another one than was opened."""
        if self._watch is not None:
            self._watch.check()

    def doubt(self) -> str:
        """Why it may not know the newest state: put back, without its tail, another one; "": nothing says so."""
        doubt = self.writer().doubt
        if doubt or self._head_file is None:
            return doubt
        return self.contradiction(self._head_file)

    @property
    def has_head_file(self) -> bool:
        """Whether something beside the ledger says how far it went."""
        return self._head_file is not None and self._head_file.read() is not None

    def _known(self) -> Head:
        # Not kept here: who only asks may be slower than the next commit.
        if self._newest is not None:
            return self._newest
        newest = self.writer()
        return Head(newest.ledger_id, newest.seq, newest.head)

    def probe(self) -> None:
        """Whether writing works (again). Raises LedgerError."""
        self.check_file()
        if self._lock_fd is not None:
            check_has_room(Path(self.url.database or ""))
        self.lease.renew()

    # Writing: the engine only, one thread at a time.

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        try:
            yield self._writer
        except SQLAlchemyError as error:
            raise LedgerError(
                f"the ledger {shown(self.url)} cannot be written: {cause(error, self.url)}"
            ) from error

    def commit(self, entries: Sequence[Entry]) -> None:
        """Store all entries durably, or none of them. Raises FencedError, StaleError or LedgerError."""
        changed = [
            _NODES.collect(entry.changes.nodes for entry in entries),
            _REQUESTS.collect(entry.changes.requests for entry in entries),
            _RESERVES.collect(entry.changes.reserves for entry in entries),
        ]
        answer_rows = [
            answer_row(entry.answer, entry.event.at_us) for entry in entries if entry.answer is not None
        ]
        first, last = entries[0].event.seq, entries[-1].event.seq
        if [entry.event.seq for entry in entries] != list(range(first, last + 1)):
            raise StaleError(f"events {first} to {last} are not numbered one after the other")
        epoch = self.lease.epoch
        if epoch is None:
            raise LedgerError("the ledger has no writer yet: take_epoch comes first")
        known = self._known()
        before, self._newest = known.digest, None  # whatever goes wrong: read it again
        rows, digest = [], before
        for entry in entries:
            row = _event_row(entry, epoch)
            digest = row["digest"] = link(digest, row)
            rows.append(row)
        self.check_file()
        with self._writing() as connection, transaction(connection) as run:
            # First, because with PostgreSQL this also makes two writers wait for each other.
            moved = run(
                _ADVANCE,
                {
                    "b_last": last,
                    "b_head": digest,
                    "b_epoch": epoch,
                    "b_before": first - 1,
                    "b_head_before": before,
                    "b_ledger_id": known.ledger_id,
                },
            )
            if moved.rowcount != 1:
                raise self._head_conflict(first, known)
            for rows_of_table in changed:
                rows_of_table.write(run)
            run(_INSERT_EVENT, rows)
            if answer_rows:
                run(_INSERT_ANSWER, answer_rows)
        # Again: what went into a file that had been taken away meanwhile is not stored.
        self.check_file()
        self._newest, self._last_seq = Head(known.ledger_id, last, digest), last
        if self._head_file is not None:
            self._head_file.write(self._newest)

    def _head_conflict(self, first: int, known: Head) -> LedgerError:
        seen = self.writer()
        if seen.ledger_id != known.ledger_id or seen.seq < self._last_seq:
            return ReplacedError(
                f"the ledger ends at event {seen.seq} of ledger {seen.ledger_id or 'unknown'}, and event "
                f"{self._last_seq} of ledger {known.ledger_id} was stored: it was put back or replaced; restart "
                "the Balancer"
            )
        if seen.epoch != self.lease.epoch:
            return self.lease.lose(seen)
        return StaleError(f"event {first} cannot follow event {seen.seq}, the newest in the ledger")

    def forget(self, *, answers_before_us: int, events_before_us: int) -> bool:
        """Drop old answers and a piece of the oldest part of the log; True: there is more of it to drop.

        What the dropped events did goes into the base, so that the rest can still be replayed. Requests stay:
        they are the history.
        """
        with self._writing() as connection, connection.begin():
            seen = read_writer(connection)
            if seen.epoch != self.lease.epoch:
                raise self.lease.lose(seen)
            connection.execute(sa.delete(answers).where(answers.c.at_us < answers_before_us))
            # The newest event stays: it carries the time of the state.
            oldest = sa.select(events).where(events.c.seq < seen.seq).order_by(events.c.seq)
            rows = connection.execute(oldest.limit(_FOLDED_AT_ONCE))
            found = list(takewhile(lambda row: row.at_us < events_before_us, rows))
            if found:
                self._fold(connection, found)
        return len(found) == _FOLDED_AT_ONCE

    def _fold(self, connection: sa.Connection, found: Sequence[Any]) -> None:
        start = read_base(connection)
        state, head = Replay(start), start.head
        for row in found:
            if row.seq > start.seq:  # events of release 1 are in the base already
                head = check_link(head, row)
                state.apply(logged(row))
        now = state.base()
        records = Changes(
            nodes=now.snapshot.nodes, requests=now.snapshot.requests, reserves=now.snapshot.reserves
        )
        row = BaseRow(now.seq, now.snapshot.now_us, now.snapshot.serial, encode_changes(records), head)
        digest = base_digest(read_writer(connection).ledger_id, row)
        connection.execute(sa.update(base).values(**row._asdict(), digest=digest))
        connection.execute(sa.delete(events).where(events.c.seq <= found[-1].seq))


def _insert(table: sa.Table) -> Statement:
    return Statement(sa.insert(table).inline(), [column.key for column in table.columns])


class _Rows(Generic[_Record]):
    """The records of one table that a batch changes: the last of each, and the generation it replaces."""

    def __init__(self, table: sa.Table, key: str, to_row: Callable[[_Record], dict[str, Any]]) -> None:
        self._insert = _insert(table)
        values: dict[str, Any] = {c.key: sa.bindparam(f"b_{c.key}") for c in table.columns if c.key != key}
        same = table.c[key] == sa.bindparam(f"b_{key}"), table.c.generation == sa.bindparam("b_before")
        self._update = Statement(sa.update(table).where(*same).values(values))
        self._key = key
        self._to_row: Callable[[_Record], dict[str, Any]] = to_row

    def collect(self, changed: Iterable[tuple[_Record, ...]]) -> _Changed:
        """Raises StaleError for a generation that does not follow the one before in the same batch."""
        last: dict[str, _Record] = {}
        before: dict[str, int] = {}
        for records in changed:
            for record in records:
                key: str = getattr(record, self._key)
                known = last.get(key)
                if known is None:
                    before[key] = record.generation - 1
                elif record.generation != known.generation + 1:
                    raise StaleError(
                        f"{key} has generation {record.generation}, after generation {known.generation}"
                    )
                last[key] = record
        new = [self._to_row(record) for key, record in last.items() if before[key] < 0]
        old = [
            {f"b_{name}": value for name, value in self._to_row(record).items()} | {"b_before": before[key]}
            for key, record in last.items()
            if before[key] >= 0
        ]
        return _Changed(self._insert, self._update, new, old)


@dataclass(frozen=True, slots=True)
class _Changed:
    """Rows of one table."""

    insert: Statement
    update: Statement
    new: list[dict[str, Any]]
    old: list[dict[str, Any]]

    def write(self, run: Run) -> None:
        if self.new:
            run(self.insert, self.new)
        if self.old and run(self.update, self.old).rowcount != len(self.old):
            raise StaleError("a record has another generation than the one that was to be replaced")


_NODES: _Rows[NodeRecord] = _Rows(nodes, "name", node_row)
_REQUESTS: _Rows[RequestRecord] = _Rows(requests, "request_id", request_row)
_RESERVES: _Rows[ReserveRecord] = _Rows(reserves, "reserve_id", reserve_row)


_INSERT_EVENT, _INSERT_ANSWER = _insert(events), _insert(answers)
_ADVANCE = Statement(
    sa.update(writer)
    .values(seq=sa.bindparam("b_last"), head=sa.bindparam("b_head"), doubt=sa.literal_column("''"))
    .where(
        writer.c.epoch == sa.bindparam("b_epoch"),
        writer.c.seq == sa.bindparam("b_before"),
        writer.c.head == sa.bindparam("b_head_before"),
        writer.c.ledger_id == sa.bindparam("b_ledger_id"),
    )
)


def _event_row(entry: Entry, epoch: int) -> dict[str, Any]:
    event = entry.event
    return {
        "seq": event.seq,
        "at_us": event.at_us,
        "serial": entry.changes.serial,
        "event_id": event.event_id,
        "kind": event.kind,
        "body": event.body,
        "epoch": epoch,
        "changes": encode_changes(entry.changes),
    }
