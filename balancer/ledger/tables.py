"""The ledger's tables. Times are integer microseconds of cluster time; lists are JSON text."""

from __future__ import annotations

import sqlalchemy as sa

SCHEMA_VERSION = 1

metadata = sa.MetaData()

nodes = sa.Table(
    "nodes",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("since_us", sa.BigInteger, nullable=False),
    sa.Column("held_for", sa.String(64)),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("jobs", sa.Text, nullable=False),
)

requests = sa.Table(
    "requests",
    metadata,
    sa.Column("request_id", sa.String(64), primary_key=True),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("arrived_us", sa.BigInteger, nullable=False),
    sa.Column("deadline_us", sa.BigInteger, nullable=False),
    sa.Column("order", sa.BigInteger, nullable=False, unique=True),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("nodes", sa.Text, nullable=False),
    sa.Column("decided_us", sa.BigInteger),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Index("requests_by_arrival", "arrived_us"),
    sa.Index("requests_by_status", "status"),
)

reserves = sa.Table(
    "reserves",
    metadata,
    sa.Column("reserve_id", sa.String(64), primary_key=True),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("by_us", sa.BigInteger, nullable=False),
    sa.Column("ends_us", sa.BigInteger, nullable=False),
    sa.Column("added_us", sa.BigInteger, nullable=False),
    sa.Column("order", sa.BigInteger, nullable=False, unique=True),
    sa.Column("used", sa.BigInteger, nullable=False),
    sa.Column("ended", sa.Boolean, nullable=False),
)

events = sa.Table(
    "events",
    metadata,
    # Numbered by the one writer, without a gap: a database sequence would leave holes after a rollback.
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at_us", sa.BigInteger, nullable=False),
    sa.Column("serial", sa.BigInteger, nullable=False),
    sa.Column("event_id", sa.String(64), nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)

answers = sa.Table(
    "answers",
    metadata,
    sa.Column("key", sa.String(255), primary_key=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("at_us", sa.BigInteger, nullable=False),
    # Either the answer itself, or the request whose state is the answer.
    sa.Column("request_id", sa.String(64)),
    sa.Column("status", sa.Integer),
    sa.Column("body", sa.Text),
    sa.Index("answers_by_age", "at_us"),
)

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
