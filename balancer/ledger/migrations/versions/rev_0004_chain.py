"""An id of the ledger's own, each event's digest with the one before it, digests of rows, and nodes in doubt.

The rows that are there get their digests. The chain begins after the last event: the step before this one moved the
base there, so what earlier events said is not replayed.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

# Table -> its key and the columns that its digest covers. Written out: a migration must not change later.
_SEALED = {
    "nodes": ("name", ("name", "state", "since_us", "held_for", "generation", "jobs", "contested", "doubt")),
    "requests": (
        "request_id",
        (
            *("request_id", "count", "arrived_us", "deadline_us", "order", "status", "nodes", "decided_us"),
            *("reason", "generation", "owner", "at_once", "candidates", "exclude", "lease_us", "confirmed"),
            *("due_us", "overdue", "ended_us", "open"),
        ),
    ),
    "reserves": (
        "reserve_id",
        (
            "reserve_id",
            "count",
            "by_us",
            "ends_us",
            "added_us",
            "order",
            "used",
            "ended",
            "generation",
            "owner",
        ),
    ),
    "answers": ("key", ("key", "fingerprint", "at_us", "request_id", "status", "body")),
}


def upgrade() -> None:
    ledger_id = secrets.token_hex(4)
    op.add_column("nodes", sa.Column("doubt", sa.Text, nullable=False, server_default=""))
    for table in (*_SEALED, "base", "events"):
        op.add_column(table, sa.Column("digest", sa.String(32), nullable=False, server_default=""))
    for column, kind in (("ledger_id", sa.String(8)), ("head", sa.String(32)), ("doubt", sa.Text)):
        op.add_column("writer", sa.Column(column, kind, nullable=False, server_default=""))
    op.add_column("base", sa.Column("head", sa.String(32), nullable=False, server_default=""))
    bind = op.get_bind()
    first = _digest(("ledger", ledger_id), 16)
    start = bind.execute(sa.text("SELECT seq, at_us, serial, records FROM base")).one()
    sealed = _digest((ledger_id, *start, first), 8)
    bind.execute(sa.text("UPDATE base SET head = :head, digest = :digest"), {"head": first, "digest": sealed})
    bind.execute(
        sa.text("UPDATE writer SET ledger_id = :ledger_id, head = :head"),
        {"ledger_id": ledger_id, "head": first},
    )
    for table, (key, columns) in _SEALED.items():
        _seal(bind, table, key, columns)


def _seal(bind: Any, table: str, key: str, columns: tuple[str, ...]) -> None:
    quoted = ", ".join(f'"{name}"' for name in columns)
    rows = list(bind.execute(sa.text(f'SELECT {quoted} FROM "{table}"')))  # noqa: S608
    found = [{"key": row[columns.index(key)], "digest": _digest(map(_plain, row), 8)} for row in rows]
    if found:
        bind.execute(sa.text(f'UPDATE "{table}" SET digest = :digest WHERE "{key}" = :key'), found)  # noqa: S608


def _plain(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


def _digest(values: Any, size: int) -> str:
    return blake2b("\x1f".join(map(str, values)).encode(), digest_size=size).hexdigest()
