"""An id of the ledger's own, each event's digest with the one before it, digests of rows, and nodes in doubt.

Everything that is there already gets its digests: about 20 s for a million events.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_PAGE = 5000
_EVENT = ("seq", "at_us", "serial", "event_id", "kind", "body", "epoch", "changes")
# Table -> its key and the columns that its digest covers. Written out: a migration must not change later.
_SEALED = {
    "nodes": ("name", ("name", "state", "since_us", "held_for", "generation", "jobs", "doubt")),
    "requests": (
        "request_id",
        (
            *("request_id", "count", "arrived_us", "deadline_us", "order", "status", "nodes", "decided_us"),
            *("reason", "generation"),
        ),
    ),
    "reserves": (
        "reserve_id",
        ("reserve_id", "count", "by_us", "ends_us", "added_us", "order", "used", "ended", "generation"),
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
    head = _chain(bind, start.seq, first)
    bind.execute(
        sa.text("UPDATE writer SET ledger_id = :ledger_id, head = :head"),
        {"ledger_id": ledger_id, "head": head},
    )
    for table, (key, columns) in _SEALED.items():
        _seal(bind, table, key, columns)


def _chain(bind: Any, after: int, head: str) -> str:
    """Events of release 1, up to the base, say nothing that is replayed: the chain begins after them."""
    names = ", ".join(_EVENT)
    page = sa.text(f"SELECT {names} FROM events WHERE seq > :after ORDER BY seq LIMIT {_PAGE}")  # noqa: S608
    while rows := list(bind.execute(page, {"after": after})):
        found = []
        for row in rows:
            head = _digest((head, *row), 16)
            found.append({"seq": row.seq, "digest": head})
        bind.execute(sa.text("UPDATE events SET digest = :digest WHERE seq = :seq"), found)
        after = rows[-1].seq
    return head


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
