"""Fencing in the database, generations on all records, and events from which the state can be replayed.

The events of release 1 do not say what they changed: the replay begins at the state found here.
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_NODE = "name, state, since_us, held_for, generation, jobs"
_REQUEST = (
    'request_id, "count", arrived_us, deadline_us, "order", status, nodes, decided_us, reason, generation'
)
_RESERVE = 'reserve_id, "count", by_us, ends_us, added_us, "order", used, ended, generation'


def upgrade() -> None:
    for table in ("requests", "reserves"):
        op.add_column(table, sa.Column("generation", sa.BigInteger, nullable=False, server_default="0"))
    op.execute("UPDATE requests SET generation = 1 WHERE status <> 'waiting'")
    op.add_column("events", sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("events", sa.Column("changes", sa.Text, nullable=False, server_default="{}"))
    writer = op.create_table(
        "writer",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("renewals", sa.BigInteger, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
    )
    base = op.create_table(
        "base",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("serial", sa.BigInteger, nullable=False),
        sa.Column("records", sa.Text, nullable=False),
    )
    epoch = int(_rows("SELECT value FROM meta WHERE name = 'epoch'")[0][0])
    last = _rows("SELECT seq, at_us, serial FROM events ORDER BY seq DESC LIMIT 1")
    seq, at_us, serial = tuple(last[0]) if last else (0, 0, 0)
    op.bulk_insert(writer, [{"id": 1, "epoch": epoch, "holder": "", "renewals": 0, "seq": seq}])
    op.bulk_insert(base, [{"id": 1, "seq": seq, "at_us": at_us, "serial": serial, "records": _records()}])
    op.drop_table("meta")


def _rows(query: str) -> list[Any]:
    return list(op.get_bind().execute(sa.text(query)))


def _records() -> str:
    """The present state in the format of `events.changes`. Written out: a migration must not change later."""
    nodes = [[*row[:-1], json.loads(row[-1])] for row in _rows(f"SELECT {_NODE} FROM nodes")]  # noqa: S608
    waiting = _rows(f"SELECT {_REQUEST} FROM requests WHERE status = 'waiting'")  # noqa: S608
    active = _rows(f"SELECT {_RESERVE} FROM reserves WHERE NOT ended")  # noqa: S608
    requests = [[*row[:6], json.loads(row[6]), *row[7:]] for row in waiting]
    reserves = [[*row[:7], bool(row[7]), row[8]] for row in active]
    records = {"nodes": nodes, "requests": requests, "reserves": reserves}
    return json.dumps({name: found for name, found in records.items() if found}, separators=(",", ":"))
