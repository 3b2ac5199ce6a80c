"""Owners, leases, candidates, and nodes that are contested.

What was granted before has no known owner (""): anybody who may take nodes may give it back. It counts as confirmed.
The events before do not say which grants have ended: the replay begins at the state found here.
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_NODE = "name, state, since_us, held_for, generation, jobs, contested"
_REQUEST = (
    'request_id, "count", arrived_us, deadline_us, "order", status, nodes, decided_us, reason, generation, '
    "owner, at_once, candidates, exclude, lease_us, confirmed, due_us, overdue, ended_us"
)
_RESERVE = 'reserve_id, "count", by_us, ends_us, added_us, "order", used, ended, generation, owner'
_HELD = "SELECT 1 FROM nodes WHERE nodes.held_for = requests.request_id AND nodes.state = 'OD_ALLOC'"


def upgrade() -> None:
    op.add_column("nodes", sa.Column("contested", sa.Text, nullable=False, server_default=""))
    for column in (
        sa.Column("owner", sa.String(255), nullable=False, server_default=""),
        sa.Column("at_once", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("candidates", sa.Text, nullable=False, server_default="[]"),
        sa.Column("exclude", sa.Text, nullable=False, server_default="[]"),
        sa.Column("lease_us", sa.BigInteger),
        sa.Column("confirmed", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("due_us", sa.BigInteger),
        sa.Column("overdue", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("ended_us", sa.BigInteger),
        sa.Column("open", sa.Boolean, nullable=False, server_default=sa.false()),
    ):
        op.add_column("requests", column)
    op.add_column("reserves", sa.Column("owner", sa.String(255), nullable=False, server_default=""))
    op.create_index("requests_by_owner", "requests", ["owner"])
    op.create_index("requests_by_open", "requests", ["open"])
    op.execute(
        "UPDATE requests SET at_once = (deadline_us = arrived_us), confirmed = (status = 'granted'), "
        "ended_us = CASE WHEN status = 'granted' THEN decided_us END"
    )
    op.execute(f"UPDATE requests SET ended_us = NULL WHERE status = 'granted' AND EXISTS ({_HELD})")  # noqa: S608
    op.execute("UPDATE requests SET open = (status = 'waiting' OR (status = 'granted' AND ended_us IS NULL))")
    last = _rows("SELECT seq, at_us, serial FROM events ORDER BY seq DESC LIMIT 1")
    seq, at_us, serial = tuple(last[0]) if last else (0, 0, 0)
    op.get_bind().execute(
        sa.text("UPDATE base SET seq = :seq, at_us = :at_us, serial = :serial, records = :records"),
        {"seq": seq, "at_us": at_us, "serial": serial, "records": _records()},
    )


def _rows(query: str) -> list[Any]:
    return list(op.get_bind().execute(sa.text(query)))


def _records() -> str:
    """The present state in the format of `events.changes`. Written out: a migration must not change later."""
    nodes = [
        [*row[:5], json.loads(row[5]), *row[6:]]
        for row in _rows(f"SELECT {_NODE} FROM nodes")  # noqa: S608
    ]
    requests = [
        [*row[:6], json.loads(row[6]), *row[7:11], bool(row[11]), json.loads(row[12]), json.loads(row[13]), row[14],
         bool(row[15]), row[16], bool(row[17]), row[18]]
        for row in _rows(f"SELECT {_REQUEST} FROM requests WHERE open")  # noqa: S608
    ]  # fmt: skip
    reserves = [
        [*row[:7], bool(row[7]), *row[8:]]
        for row in _rows(f"SELECT {_RESERVE} FROM reserves WHERE NOT ended")  # noqa: S608
    ]
    records = {"nodes": nodes, "requests": requests, "reserves": reserves}
    return json.dumps({name: found for name, found in records.items() if found}, separators=(",", ":"))
