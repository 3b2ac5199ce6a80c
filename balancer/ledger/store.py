"""The one place that speaks SQL: what is in the ledger survives, what is not was never answered.

One writer (the engine) commits entries; any thread reads. An entry is an event together with every record it
changed and the answer it led to, and is stored in one transaction with the others of its batch.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from balancer.clock import micros, wall_us
from balancer.ledger.errors import LedgerError
from balancer.ledger.filesystem import check_is_local
from balancer.ledger.tables import SCHEMA_VERSION, answers, events, meta, metadata, nodes, requests, reserves
from balancer.lifecycle.records import NodeRecord, RequestRecord, RequestStatus, ReserveRecord, Snapshot
from balancer.lifecycle.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from balancer.lifecycle.records import Changes

_BUSY_TIMEOUT_MS = 5000


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A row of the numbered log. `body` is JSON text: the event's fields and the nodes it moved."""

    seq: int
    at_us: int
    event_id: str
    kind: str
    body: str


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What a call with this key was answered: `status` and `body`, or the state of `request_id`."""

    key: str
    fingerprint: str
    request_id: str | None = None
    status: int | None = None
    body: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """What one event leaves behind."""

    event: StoredEvent
    changes: Changes
    answer: StoredAnswer | None = None


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


class Ledger:
    """A store at an SQLAlchemy URL, or at a file path (SQLite). Raises LedgerError."""

    def __init__(self, target: str | Path, *, lock_wait_s: float = 3.0) -> None:
        url = (
            target if isinstance(target, str) and "://" in target else f"sqlite:///{Path(target).absolute()}"
        )
        self.url = sa.make_url(url)
        self._lock_fd: int | None = None
        if self.url.get_backend_name() == "sqlite":
            self._prepare_file(Path(self.url.database or ""), lock_wait_s)
            insert: Any = sqlite.insert
        else:
            insert = postgresql.insert
        self._engine = _create_engine(self.url)
        self._upserts = {table: _upsert(insert, table) for table in (nodes, requests, reserves)}
        writes = self._engine.execution_options(writes=True)
        try:
            with writes.begin() as connection:
                metadata.create_all(connection)
                _check_schema(connection)
            self._writer = writes.connect()
        except SQLAlchemyError as error:
            self.close()
            raise LedgerError(f"the ledger {self.url} cannot be opened: {_cause(error)}") from error
        except LedgerError:
            self.close()
            raise

    def close(self) -> None:
        if hasattr(self, "_writer"):
            self._writer.close()
        self._engine.dispose()
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def _prepare_file(self, path: Path, lock_wait_s: float) -> None:
        if not path.parent.is_dir():
            raise LedgerError(f"the folder {path.parent} of the ledger does not exist; make it first")
        check_is_local(path.parent)
        # The lock is a file of its own because SQLite's locks would be lost when any descriptor is closed.
        try:
            self._lock_fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LedgerError(f"the ledger {path} cannot be written: {error.strerror}") from error
        # A killed service's worker may need a moment to notice; wait for it instead of failing.
        limit_us, pause = wall_us() + micros(lock_wait_s), threading.Event()
        while True:
            try:
                fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if wall_us() < limit_us:
                    pause.wait(0.05)
                    continue
                os.close(self._lock_fd)
                self._lock_fd = None
                raise LedgerError(
                    f"another Balancer uses the ledger {path}: stop it, or choose another --db"
                ) from None
            return

    # Writing: the engine only, one thread at a time.

    def take_epoch(self) -> int:
        """The number of this writer: each start has the next one."""
        try:
            with self._writer.begin():
                row = self._writer.execute(sa.select(meta.c.value).where(meta.c.name == "epoch")).one()
                epoch = int(row.value) + 1
                self._writer.execute(sa.update(meta).where(meta.c.name == "epoch").values(value=str(epoch)))
        except SQLAlchemyError as error:
            raise LedgerError(f"the ledger {self.url} cannot be written: {_cause(error)}") from error
        return epoch

    def commit(self, entries: Sequence[Entry]) -> None:
        """Store all entries durably, or none of them."""
        changed_nodes: dict[str, NodeRecord] = {}
        changed_requests: dict[str, RequestRecord] = {}
        changed_reserves: dict[str, ReserveRecord] = {}
        for entry in entries:
            changed_nodes.update((record.name, record) for record in entry.changes.nodes)
            changed_requests.update((record.request_id, record) for record in entry.changes.requests)
            changed_reserves.update((record.reserve_id, record) for record in entry.changes.reserves)
        kept = [_answer_row(entry.answer, entry.event.at_us) for entry in entries if entry.answer is not None]
        try:
            with self._writer.begin():
                self._write(nodes, [_node_row(record) for record in changed_nodes.values()])
                self._write(requests, [_request_row(record) for record in changed_requests.values()])
                self._write(reserves, [asdict(record) for record in changed_reserves.values()])
                self._writer.execute(_INSERT_EVENT, [_event_row(entry) for entry in entries])
                if kept:
                    self._writer.execute(_INSERT_ANSWER, kept)
        except SQLAlchemyError as error:
            raise LedgerError(f"the ledger {self.url} cannot be written: {_cause(error)}") from error

    def _write(self, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._writer.execute(self._upserts[table], rows)

    def forget(self, *, answers_before_us: int, events_before_us: int) -> None:
        """Drop old answers and the oldest part of the log. Requests stay: they are the history."""
        newest = sa.select(sa.func.max(events.c.seq)).scalar_subquery()
        try:
            with self._writer.begin():
                self._writer.execute(sa.delete(answers).where(answers.c.at_us < answers_before_us))
                # The newest event stays: it carries the number of the next one.
                self._writer.execute(
                    sa.delete(events).where(events.c.at_us < events_before_us, events.c.seq < newest)
                )
        except SQLAlchemyError as error:
            raise LedgerError(f"the ledger {self.url} cannot be written: {_cause(error)}") from error

    # Reading: any thread.

    def _rows(self, query: sa.Select[Any]) -> list[Any]:
        try:
            with self._engine.connect() as connection:
                return list(connection.execute(query))
        except SQLAlchemyError as error:
            raise LedgerError(f"the ledger {self.url} cannot be read: {_cause(error)}") from error

    def load(self) -> Snapshot | None:
        """The stored state; None in a new ledger."""
        last = self._rows(sa.select(events).order_by(events.c.seq.desc()).limit(1))
        if not last:
            return None
        waiting = requests.c.status == RequestStatus.WAITING
        return Snapshot(
            now_us=last[0].at_us,
            serial=last[0].serial,
            nodes=tuple(_node(row) for row in self._rows(sa.select(nodes).order_by(nodes.c.name))),
            requests=tuple(
                _request(row)
                for row in self._rows(sa.select(requests).where(waiting).order_by(requests.c.order))
            ),
            reserves=tuple(self.reserves()),
        )

    def last_seq(self) -> int:
        """The number of the newest event; 0 in a new ledger."""
        return int(self._rows(sa.select(sa.func.coalesce(sa.func.max(events.c.seq), 0)))[0][0])

    def events(self, after: int, limit: int) -> list[StoredEvent]:
        """The log from number `after` + 1 on."""
        columns = [events.c[name] for name in ("seq", "at_us", "event_id", "kind", "body")]
        rows = self._rows(sa.select(*columns).where(events.c.seq > after).order_by(events.c.seq).limit(limit))
        return [StoredEvent(*row) for row in rows]

    def request(self, request_id: str) -> RequestRecord | None:
        rows = self._rows(sa.select(requests).where(requests.c.request_id == request_id))
        return _request(rows[0]) if rows else None

    def requests(self, *, status: str | None, before: int | None, limit: int) -> list[RequestRecord]:
        """Newest first; `before` is the `order` of the last one on the page before."""
        query = sa.select(requests).order_by(requests.c.order.desc()).limit(limit)
        if status is not None:
            query = query.where(requests.c.status == status)
        if before is not None:
            query = query.where(requests.c.order < before)
        return [_request(row) for row in self._rows(query)]

    def reserves(self) -> list[ReserveRecord]:
        """The active ones, oldest first."""
        rows = self._rows(sa.select(reserves).where(reserves.c.ended.is_(False)).order_by(reserves.c.order))
        return [ReserveRecord(**row._mapping) for row in rows]  # noqa: SLF001 - SQLAlchemy's public name

    def answer(self, key: str) -> StoredAnswer | None:
        columns = [answers.c[name] for name in ("key", "fingerprint", "request_id", "status", "body")]
        rows = self._rows(sa.select(*columns).where(answers.c.key == key))
        return StoredAnswer(*rows[0]) if rows else None

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


_INSERT_EVENT = sa.insert(events)
_INSERT_ANSWER = sa.insert(answers)


def _create_engine(url: sa.URL) -> sa.Engine:
    if url.get_backend_name() != "sqlite":
        return sa.create_engine(url)
    engine = sa.create_engine(url, isolation_level=None, connect_args={"check_same_thread": False})

    @sa.event.listens_for(engine, "connect")
    def set_up(connection: Any, _: Any) -> None:
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            f"busy_timeout={_BUSY_TIMEOUT_MS}",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # Readers begin too, and must not wait for the writer: only the writer's options say so.
        connection.exec_driver_sql(
            "BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN"
        )

    return engine


def _upsert(insert: Any, table: sa.Table) -> Any:
    statement = insert(table)
    keys = [column.name for column in table.primary_key]
    values = {
        column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys
    }
    return statement.on_conflict_do_update(index_elements=keys, set_=values)


def _check_schema(connection: sa.Connection) -> None:
    stored = {row.name: row.value for row in connection.execute(sa.select(meta))}
    if not stored:
        connection.execute(sa.insert(meta), [{"name": "schema", "value": str(SCHEMA_VERSION)}])
        connection.execute(sa.insert(meta), [{"name": "epoch", "value": "0"}])
    elif stored.get("schema") != str(SCHEMA_VERSION):
        raise LedgerError(
            f"the ledger has schema {stored.get('schema')}, this Balancer reads {SCHEMA_VERSION}: "
            "use the version that wrote it"
        )


def _cause(error: SQLAlchemyError) -> str:
    return str(getattr(error, "orig", None) or error)


_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def _names(values: Iterable[str]) -> str:
    return _encode(list(values))


# Rows are written out field by field: `asdict` copies deeply and would be a tenth of a call's time.


def _node_row(record: NodeRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "state": record.state.value,
        "since_us": record.since_us,
        "held_for": record.held_for,
        "generation": record.generation,
        "jobs": _names(record.jobs),
    }


def _node(row: Any) -> NodeRecord:
    values = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name
    return NodeRecord(**values | {"state": NodeState(row.state), "jobs": tuple(json.loads(row.jobs))})


def _request_row(record: RequestRecord) -> dict[str, Any]:
    return {
        "request_id": record.request_id,
        "count": record.count,
        "arrived_us": record.arrived_us,
        "deadline_us": record.deadline_us,
        "order": record.order,
        "status": record.status.value,
        "nodes": _names(record.nodes),
        "decided_us": record.decided_us,
        "reason": record.reason,
    }


def _request(row: Any) -> RequestRecord:
    values = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name
    return RequestRecord(
        **values | {"status": RequestStatus(row.status), "nodes": tuple(json.loads(row.nodes))}
    )


def _event_row(entry: Entry) -> dict[str, Any]:
    event = entry.event
    return {
        "seq": event.seq,
        "at_us": event.at_us,
        "serial": entry.changes.serial,
        "event_id": event.event_id,
        "kind": event.kind,
        "body": event.body,
    }


def _answer_row(answer: StoredAnswer, at_us: int) -> dict[str, Any]:
    return {
        "key": answer.key,
        "fingerprint": answer.fingerprint,
        "at_us": at_us,
        "request_id": answer.request_id,
        "status": answer.status,
        "body": answer.body,
    }


def _slot(start_us: int, slot_us: int, asked: list[tuple[int, str]]) -> Slot:
    return Slot(
        start_us=start_us,
        end_us=start_us + slot_us,
        requests=len(asked),
        nodes_requested=sum(count for count, _ in asked),
        nodes_granted=sum(count for count, status in asked if status == RequestStatus.GRANTED),
        nodes_rejected=sum(count for count, status in asked if status == RequestStatus.REJECTED),
        largest_request=max((count for count, _ in asked), default=0),
    )
