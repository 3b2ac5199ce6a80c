"""Reading the ledger: any thread of the service, and other processes beside it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from balancer.ledger import schema
from balancer.ledger.chain import link, seal
from balancer.ledger.connect import cause, create_engine, is_sqlite, shown, snapshot_options, url_of
from balancer.ledger.errors import BrokenLogError, DamagedError, LedgerError
from balancer.ledger.lease import Seen
from balancer.ledger.lease import read as read_writer
from balancer.ledger.replay import Base, LoggedEvent
from balancer.ledger.rows import (
    StoredAnswer,
    answer_of,
    decode_changes,
    in_new_words,
    node_of,
    request_of,
    reserve_of,
)
from balancer.ledger.statements import Row, Statement
from balancer.ledger.tables import answers, base, events, nodes, requests, reserves
from balancer.lifecycle.records import NodeRecord, RequestRecord, RequestStatus, ReserveRecord, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from balancer.ledger.files import HeadFile

_PAGE = 2000


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A row of the numbered log. `body` is JSON text: the event's fields and the nodes it moved."""

    seq: int
    at_us: int
    event_id: str
    kind: str
    body: str


@dataclass(frozen=True, slots=True)
class Slot:
    """What was asked of the Balancer in [start_us, end_us), by arrival."""

    start_us: int
    end_us: int
    requests: int
    nodes_requested: int
    nodes_granted: int
    nodes_rejected: int
    largest_request: int


class RequestCounts(NamedTuple):
    """How many requests, and for how many nodes in all."""

    requests: int
    nodes: int


@dataclass(frozen=True, slots=True)
class WaitingRequests:
    """How many requests wait, for how many nodes, and when the oldest arrived (None: none waits)."""

    requests: int
    nodes: int
    oldest_us: int | None


class Reader:
    """Queries on a database. Raises LedgerError."""

    def __init__(self, url: sa.URL) -> None:
        self.url = url
        self._engine = create_engine(url)
        self._is_closed = False
        sa.event.listen(self._engine, "checkin", self._on_given_back)

    def close(self) -> None:
        """Close all connections; one that a thread still uses, or opens later, is closed when that is done."""
        self._is_closed = True
        self._engine.dispose()

    def _on_given_back(self, _: object, entry: sa.pool.ConnectionPoolEntry) -> None:
        if self._is_closed:
            entry.invalidate()

    @contextmanager
    def connected(self, **options: Any) -> Iterator[sa.Connection]:
        """A connection with these execution options. Raises LedgerError for what goes wrong within."""
        with self.reading_errors(), self._engine.connect().execution_options(**options) as connection:
            yield connection

    @contextmanager
    def reading_errors(self) -> Iterator[None]:
        """Whatever a damaged or unreachable database leads to is a LedgerError."""
        try:
            yield
        except SQLAlchemyError as error:
            raise LedgerError(
                f"the ledger {shown(self.url)} cannot be read: {cause(error, self.url)}"
            ) from error
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedError(
                f"the ledger {shown(self.url)} holds an event that no Balancer wrote: {error!r}"
            ) from error

    def _rows(self, query: sa.Select[Any]) -> list[Any]:
        with self.connected() as connection:
            return list(connection.execute(query))

    def _found(self, query: Statement, values: Row) -> list[Any]:
        with self.connected() as connection:
            return query.rows(connection, values)

    def load(self) -> Snapshot | None:
        """The stored state; None in a new ledger."""
        with self.connected(**snapshot_options(self.url)) as connection:
            return read_snapshot(connection)

    def writer(self) -> Seen:
        """Who writes, and the number of the newest event."""
        with self.connected() as connection:
            return read_writer(connection)

    def last_seq(self) -> int:
        """The number of the newest event; 0 in a new ledger."""
        return self.writer().seq

    def events(self, after: int, limit: int) -> list[StoredEvent]:
        """The log from number `after` + 1 on."""
        columns = [events.c[name] for name in ("seq", "at_us", "event_id", "kind", "body")]
        rows = self._rows(sa.select(*columns).where(events.c.seq > after).order_by(events.c.seq).limit(limit))
        return [
            StoredEvent(row.seq, row.at_us, row.event_id, row.kind, in_new_words(row.body)) for row in rows
        ]

    def events_between(self, after: int, to: int) -> Iterator[StoredEvent]:
        """From number `after` + 1 to `to`, a page at a time."""
        while after < to and (page := self.events(after, min(_PAGE, to - after))):
            yield from page
            after = page[-1].seq

    def newest_events(self, to: int, *, page: int = _PAGE) -> Iterator[StoredEvent]:
        """From number `to` back to the oldest, `page` at a time."""
        while to > 0:
            after = max(0, to - page)
            # The oldest are forgotten: what follows them may have been read already.
            found = [event for event in self.events(after, to - after) if event.seq <= to]
            if not found:
                return
            yield from reversed(found)
            to = after

    def base(self) -> Base:
        """Where a replay begins."""
        with self.connected() as connection:
            return read_base(connection)

    def log(self, after: int, to: int | None = None, *, touching: str = "") -> Iterator[LoggedEvent]:
        """Events from number `after` + 1 to `to` with what they changed; only those whose text says `touching`."""
        while True:
            query = sa.select(events).where(events.c.seq > after).order_by(events.c.seq).limit(_PAGE)
            if to is not None:
                query = query.where(events.c.seq <= to)
            if touching:
                query = query.where(events.c.changes.contains(touching, autoescape=True))
            rows = self._rows(query)
            yield from map(logged, rows)
            if len(rows) < _PAGE:
                return
            after = rows[-1].seq

    def digests(self, numbers: Iterable[int]) -> dict[int, str]:
        """Of the events with these numbers, those that are (still) in the log and have a digest."""
        seqs = sorted(set(numbers))
        found: dict[int, str] = {}
        for start in range(0, len(seqs), len(_PLACES)):
            some = seqs[start : start + len(_PLACES)]
            some += some[-1:] * (len(_PLACES) - len(some))
            rows = self._found(_DIGESTS, dict(zip(_PLACES, some, strict=True)))
            found.update((seq, digest) for seq, digest in rows if digest)
        return found

    def contradiction(self, noted_in: HeadFile) -> str:
        """What the note beside the ledger says otherwise; "": nothing, or there is none."""
        noted, writer, name = noted_in.read(), self.writer(), noted_in.path.name
        if noted is None:
            return ""
        if noted.ledger_id != writer.ledger_id:
            return f"it is ledger {writer.ledger_id}, and {name} knows event {noted.seq} of ledger {noted.ledger_id}"
        if noted.seq > writer.seq:
            return f"it ends at event {writer.seq}, and {name} knows event {noted.seq}"
        if self.digests([noted.seq]).get(noted.seq, noted.digest) != noted.digest:
            return f"its event {noted.seq} is not the one that {name} knows"
        return ""

    @contextmanager
    def whole(self) -> Iterator[tuple[Base, Iterator[LoggedEvent], Snapshot | None, Seen]]:
        """Base, log, state and writer as they are at one moment, also while a service writes."""
        with self.connected(**snapshot_options(self.url)) as connection:
            start, now, writer = read_base(connection), read_snapshot(connection), read_writer(connection)
            found = connection.execute(
                sa.select(events).where(events.c.seq > start.seq).order_by(events.c.seq)
            )
            yield start, map(logged, found), now, writer

    def request(self, request_id: str) -> RequestRecord | None:
        rows = self._found(_REQUEST, {"b_id": request_id})
        return request_of(rows[0]) if rows else None

    def requests(
        self,
        *,
        status: str | None,
        before: int | None,
        limit: int,
        owner: str | None = None,
        overdue: bool = False,
    ) -> list[RequestRecord]:
        """Newest first; `before` is the `order` of the last one on the page before."""
        query = sa.select(requests).order_by(requests.c.order.desc()).limit(limit)
        if status is not None:
            query = query.where(requests.c.status == status)
        if owner is not None:
            query = query.where(requests.c.owner == owner)
        if overdue:
            query = query.where(requests.c.open, requests.c.overdue)
        if before is not None:
            query = query.where(requests.c.order < before)
        return [request_of(row) for row in self._rows(query)]

    def waiting(self) -> WaitingRequests:
        """The requests that wait, in figures."""
        query: Any = sa.select(
            sa.func.count(), sa.func.sum(requests.c.count), sa.func.min(requests.c.arrived_us)
        )
        row = self._rows(query.where(requests.c.status == RequestStatus.WAITING))[0]
        return WaitingRequests(int(row[0]), int(row[1] or 0), None if row[2] is None else int(row[2]))

    def size_bytes(self) -> int | None:
        """What the database's file and its log take on the disk; None: it is not a file."""
        if not is_sqlite(self.url) or not self.url.database:
            return None
        files = (Path(self.url.database + suffix) for suffix in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def reserves(self) -> list[ReserveRecord]:
        """The active ones, oldest first."""
        with self.connected() as connection:
            return _reserves(connection)

    def answer(self, key: str) -> StoredAnswer | None:
        rows = self._found(_ANSWER, {"b_key": key})
        return answer_of(rows[0]) if rows else None

    def request_counts(self, start_us: int, end_us: int) -> dict[RequestStatus, RequestCounts]:
        """The requests that arrived from `start_us` to `end_us`, both included, by what became of them so far."""
        query: Any = sa.select(requests.c.status, sa.func.count(), sa.func.sum(requests.c["count"]))
        inside = requests.c.arrived_us.between(start_us, end_us)
        found = {
            row[0]: RequestCounts(int(row[1]), int(row[2]))
            for row in self._rows(query.where(inside).group_by(requests.c.status))
        }
        return {status: found.get(status.value, RequestCounts(0, 0)) for status in RequestStatus}

    def history(self, start_us: int, end_us: int, slot_us: int) -> list[Slot]:
        """One `Slot` for each `slot_us` from `start_us` on; the last one may reach beyond `end_us`."""
        # Counted here and not in SQL: databases do not agree on how to divide integers.
        columns = requests.c.arrived_us, requests.c["count"], requests.c.status
        inside = requests.c.arrived_us.between(start_us, end_us - 1)
        slots: dict[int, list[tuple[int, str]]] = {}
        for arrived_us, count, status in self._rows(sa.select(*columns).where(inside)):
            slots.setdefault((arrived_us - start_us) // slot_us, []).append((count, status))
        return [
            _slot(start_us + number * slot_us, slot_us, slots.get(number, []))
            for number in range(-(-(end_us - start_us) // slot_us))
        ]


def open_to_read(target: str | Path, *, may_be_older: bool = False) -> Reader:
    """A ledger that a service may be using. Raises LedgerError where there is none of this release.

    `may_be_older`: one of an older release will do; of it `writer` can be read.
    """
    url = url_of(target)
    if is_sqlite(url) and not Path(url.database or "").is_file():
        raise LedgerError(f"there is no ledger {url.database}")
    reader = Reader(url)
    try:
        with reader.connected() as connection:
            if may_be_older:
                schema.revision_of(connection)
            else:
                schema.check(connection)
    except LedgerError:
        reader.close()
        raise
    return reader


_PLACES = tuple(f"b_{number}" for number in range(100))
_DIGESTS = Statement(
    sa.select(events.c.seq, events.c.digest).where(events.c.seq.in_([sa.bindparam(name) for name in _PLACES]))
)
_NODES = Statement(sa.select(nodes))
_OPEN_REQUESTS = Statement(sa.select(requests).where(requests.c.open).order_by(requests.c.order))
_RESERVES = Statement(sa.select(reserves).where(reserves.c.ended.is_(False)).order_by(reserves.c.order))
_NEWEST_TWO = Statement(
    sa.select(events)
    .order_by(events.c.seq.desc())
    .limit(sa.literal_column("2", sa.Integer))
    .offset(sa.literal_column("0", sa.Integer))
)
_START = Statement(sa.select(base.c.seq, base.c.head))
_REQUEST = Statement(sa.select(requests).where(requests.c.request_id == sa.bindparam("b_id")))
_ANSWER = Statement(sa.select(answers).where(answers.c.key == sa.bindparam("b_key")))


def logged(row: Any) -> LoggedEvent:
    """A row of `events`."""
    changes = decode_changes(row.changes, at_us=row.at_us, serial=row.serial)
    return LoggedEvent(row.seq, row.at_us, row.serial, row.epoch, row.event_id, row.kind, changes)


def check_link(before: str, row: Any) -> str:
    """The digest of this row of `events`, which follows the one with the digest `before`. Raises BrokenLogError."""
    digest = link(before, row._mapping)  # noqa: SLF001 - SQLAlchemy's public name
    if digest != row.digest:
        raise BrokenLogError(
            f"event {row.seq} is not what was written, or not what was written after the one before"
        )
    return digest


def read_base(connection: sa.Connection) -> Base:
    """Raises DamagedError."""
    row = connection.execute(sa.select(base)).one()
    if row.digest != base_digest(read_writer(connection).ledger_id, row):
        raise DamagedError("the state from which the log goes on does not read as it was written")
    records = decode_changes(row.records, at_us=row.at_us, serial=row.serial)
    state = Snapshot(
        now_us=row.at_us,
        serial=row.serial,
        nodes=_by_name(records.nodes),
        requests=tuple(sorted(records.requests, key=lambda record: record.order)),
        reserves=tuple(sorted(records.reserves, key=lambda record: record.order)),
    )
    return Base(row.seq, state, row.head)


class BaseRow(NamedTuple):
    """The one row of `base`."""

    seq: int
    at_us: int
    serial: int
    records: str
    head: str


def base_digest(ledger_id: str, row: Any) -> str:
    """What stands in the row of `base`."""
    return seal((ledger_id, row.seq, row.at_us, row.serial, row.records, row.head))


def _by_name(records: Iterator[NodeRecord] | tuple[NodeRecord, ...]) -> tuple[NodeRecord, ...]:
    # Sorted here: databases do not agree on the order of names.
    return tuple(sorted(records, key=lambda record: record.name))


def read_snapshot(connection: sa.Connection) -> Snapshot | None:
    """The state in the tables; None in a new ledger. Raises DamagedError."""
    last = _newest(connection)
    if last is None:
        return None
    return Snapshot(
        now_us=last["at_us"],
        serial=last["serial"],
        nodes=_by_name(node_of(row) for row in _NODES.rows(connection, {})),
        requests=tuple(request_of(row) for row in _OPEN_REQUESTS.rows(connection, {})),
        reserves=tuple(_reserves(connection)),
    )


def _newest(connection: sa.Connection) -> Row | None:
    """The last event, if it is the one that the ledger was left with. Raises DamagedError."""
    found = _NEWEST_TWO.rows(connection, {})
    rows = [dict(zip(events.columns.keys(), row, strict=True)) for row in found]
    writer = read_writer(connection)
    last = rows[0]["seq"] if rows else 0
    if last != writer.seq:
        raise DamagedError(f"the log ends at event {last}, and the newest is {writer.seq}")
    ((begins, digest),) = _START.rows(connection, {})
    for row in reversed([row for row in rows if row["seq"] > begins]):
        # The older of the two is only what the newest follows.
        digest = row["digest"] if row is not rows[0] else link(digest, row)
    if digest != writer.head:
        raise DamagedError(f"event {writer.seq}, the newest, does not read as it was written")
    return rows[0] if rows else None


def _reserves(connection: sa.Connection) -> list[ReserveRecord]:
    return [reserve_of(row) for row in _RESERVES.rows(connection, {})]


def _slot(start_us: int, slot_us: int, rows: list[tuple[int, str]]) -> Slot:
    return Slot(
        start_us=start_us,
        end_us=start_us + slot_us,
        requests=len(rows),
        nodes_requested=sum(count for count, _ in rows),
        nodes_granted=sum(count for count, status in rows if status == RequestStatus.GRANTED),
        nodes_rejected=sum(count for count, status in rows if status == RequestStatus.REJECTED),
        largest_request=max((count for count, _ in rows), default=0),
    )
