"""Whether a ledger is what was written: its pages, its rows, its log, and the note of its newest event beside it."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from balancer.ledger.connect import is_sqlite, snapshot_options
from balancer.ledger.errors import LedgerError
from balancer.ledger.files import HeadFile
from balancer.ledger.lease import read as read_writer
from balancer.ledger.reader import Reader, check_link, logged, read_base, read_snapshot
from balancer.ledger.replay import EMPTY, Replay, differences
from balancer.ledger.rows import answer_of, node_of, request_of, reserve_of
from balancer.ledger.tables import answers, events, nodes, requests, reserves

if TYPE_CHECKING:
    from collections.abc import Iterator


_SEALED = ((nodes, node_of), (requests, request_of), (reserves, reserve_of), (answers, answer_of))
_FINDINGS = 20


def verify(reader: Reader) -> tuple[list[str], str]:
    """What is wrong, one line each; and what was looked at. Also beside a running service."""
    found: list[str] = []

    @contextmanager
    def part() -> Iterator[None]:
        """What cannot be read is a finding, too; the other parts are still looked at."""
        try:
            with reader.reading_errors():
                yield
        except LedgerError as error:
            found.append(str(error))

    with reader.connected(**snapshot_options(reader.url)) as connection:
        if is_sqlite(reader.url):
            with part():
                lines = connection.exec_driver_sql(f"PRAGMA integrity_check({_FINDINGS})").scalars().all()
                found += [f"SQLite: {line}" for line in lines if line != "ok"]
        for table, read in _SEALED:
            with part():
                for row in connection.execute(sa.select(table)):
                    read(row)
        state, count = Replay(EMPTY), 0
        with part():
            state = _replayed(connection)
            stored = read_snapshot(connection) or EMPTY.snapshot
            count = len(stored.nodes)
            found += differences(stored, state.base().snapshot)
        with part():
            writer = read_writer(connection)
            if writer.doubt:
                found.append(f"{writer.doubt}: the next start compares it with the marks on the nodes")
    with part():
        # After the log: a service that is at work has noted no event that a reading after its note does not find.
        if is_sqlite(reader.url):
            contradiction = reader.contradiction(HeadFile(Path(reader.url.database or "")))
            found += [contradiction] if contradiction else []
    summary = f"events to {state.seq} give the stored state of {count} nodes"
    with part():
        writer = reader.writer()
        summary += f" (ledger {writer.ledger_id}, epoch {writer.epoch})"
    return list(dict.fromkeys(found)), summary


def _replayed(connection: sa.Connection) -> Replay:
    """Raises LedgerError where an event is missing, is not what was written, or does not fit."""
    base = read_base(connection)
    state, digest = Replay(base), base.head
    for row in connection.execute(sa.select(events).where(events.c.seq > base.seq).order_by(events.c.seq)):
        state.expect(row.seq)
        digest = check_link(digest, row)
        state.apply(logged(row))
    return state
