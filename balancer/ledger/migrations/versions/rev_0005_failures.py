"""Granted nodes that fail: since when a node is down, and requests that have such nodes replaced.

The rows of nodes and requests get new digests, because these cover the new columns.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

# Table -> its key and the columns that its digest covers. Written out: a migration must not change later.
_SEALED = {
    "nodes": (
        "name",
        (
            *("name", "state", "since_us", "held_for", "generation", "jobs", "contested", "doubt"),
            "down_since_us",
        ),
    ),
    "requests": (
        "request_id",
        (
            *("request_id", "count", "arrived_us", "deadline_us", "order", "status", "nodes", "decided_us"),
            *("reason", "generation", "owner", "at_once", "candidates", "exclude", "lease_us", "confirmed"),
            *("due_us", "overdue", "ended_us", "replace", "replaces", "lost", "open"),
        ),
    ),
}


def upgrade() -> None:
    op.add_column("nodes", sa.Column("down_since_us", sa.BigInteger))
    op.add_column("requests", sa.Column("replace", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("requests", sa.Column("replaces", sa.String(64), nullable=False, server_default=""))
    op.add_column("requests", sa.Column("lost", sa.Text, nullable=False, server_default="[]"))
    for table, (key, columns) in _SEALED.items():
        _seal(op.get_bind(), table, key, columns)


def _seal(bind: Any, table: str, key: str, columns: tuple[str, ...]) -> None:
    quoted = ", ".join(f'"{name}"' for name in columns)
    rows = list(bind.execute(sa.text(f'SELECT {quoted} FROM "{table}"')))  # noqa: S608
    found = [{"key": row[columns.index(key)], "digest": _digest(map(_plain, row))} for row in rows]
    if found:
        bind.execute(sa.text(f'UPDATE "{table}" SET digest = :digest WHERE "{key}" = :key'), found)  # noqa: S608


def _plain(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


def _digest(values: Any) -> str:
    return blake2b("\x1f".join(map(str, values)).encode(), digest_size=8).hexdigest()
