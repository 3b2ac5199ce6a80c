"""The tables of release 1."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "nodes",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("since_us", sa.BigInteger, nullable=False),
        sa.Column("held_for", sa.String(64)),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("jobs", sa.Text, nullable=False),
    )
    op.create_table(
        "requests",
        sa.Column("request_id", sa.String(64), primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("arrived_us", sa.BigInteger, nullable=False),
        sa.Column("deadline_us", sa.BigInteger, nullable=False),
        sa.Column("order", sa.BigInteger, nullable=False, unique=True),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("nodes", sa.Text, nullable=False),
        sa.Column("decided_us", sa.BigInteger),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_index("requests_by_arrival", "requests", ["arrived_us"])
    op.create_index("requests_by_status", "requests", ["status"])
    op.create_table(
        "reserves",
        sa.Column("reserve_id", sa.String(64), primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("by_us", sa.BigInteger, nullable=False),
        sa.Column("ends_us", sa.BigInteger, nullable=False),
        sa.Column("added_us", sa.BigInteger, nullable=False),
        sa.Column("order", sa.BigInteger, nullable=False, unique=True),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.Column("ended", sa.Boolean, nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("serial", sa.BigInteger, nullable=False),
        sa.Column("event_id", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "answers",
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("request_id", sa.String(64)),
        sa.Column("status", sa.Integer),
        sa.Column("body", sa.Text),
    )
    op.create_index("answers_by_age", "answers", ["at_us"])
    meta = op.create_table(
        "meta",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.bulk_insert(meta, [{"name": "schema", "value": "1"}, {"name": "epoch", "value": "0"}])
