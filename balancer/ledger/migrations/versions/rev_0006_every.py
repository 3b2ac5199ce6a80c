"""Reserves that come again; their rows get their digests anew."""

from __future__ import annotations

from hashlib import blake2b

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

# Written out: a migration must not change later.
_COVERED = (
    *("reserve_id", "count", "by_us", "ends_us", "added_us", "order", "used", "ended", "generation", "owner"),
    *("every", "lead_us"),
)


def upgrade() -> None:
    op.add_column("reserves", sa.Column("every", sa.Text, nullable=False, server_default=""))
    op.add_column("reserves", sa.Column("lead_us", sa.BigInteger, nullable=False, server_default="0"))
    bind = op.get_bind()
    quoted = ", ".join(f'"{name}"' for name in _COVERED)
    rows = list(bind.execute(sa.text(f"SELECT {quoted} FROM reserves")))  # noqa: S608
    found = [{"key": row[0], "digest": _digest(row)} for row in rows]
    if found:
        bind.execute(sa.text("UPDATE reserves SET digest = :digest WHERE reserve_id = :key"), found)


def _digest(row: sa.Row[tuple[object, ...]]) -> str:
    values = (int(value) if isinstance(value, bool) else value for value in row)
    return blake2b("\x1f".join(map(str, values)).encode(), digest_size=8).hexdigest()
