"""The ledger's tables. Times are integer microseconds of cluster time; lists are JSON text.

A change here needs a migration in `migrations/versions`; a test compares the two.
"""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()


def _digest() -> sa.Column[str]:
    """Of an event: with the digest of the one before it (`chain.link`). Of other rows: of the row (`chain.seal`)."""
    return sa.Column("digest", sa.String(32), nullable=False, server_default="")


nodes = sa.Table(
    "nodes",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("since_us", sa.BigInteger, nullable=False),
    # Its name up to 0.3, which a service of that release beside this one reads.
    sa.Column("held_for", sa.String(64), key="reserved_for"),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("jobs", sa.Text, nullable=False),
    sa.Column("contested", sa.Text, nullable=False, server_default=""),
    sa.Column("doubt", sa.Text, nullable=False, server_default=""),
    sa.Column("down_since_us", sa.BigInteger),
    _digest(),
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
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("owner", sa.String(255), nullable=False, server_default=""),
    sa.Column("at_once", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("candidates", sa.Text, nullable=False, server_default="[]"),
    sa.Column("exclude", sa.Text, nullable=False, server_default="[]"),
    sa.Column("lease_us", sa.BigInteger),
    sa.Column("confirmed", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("due_us", sa.BigInteger),
    sa.Column("overdue", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("ended_us", sa.BigInteger),
    sa.Column("replace", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("replaces", sa.String(64), nullable=False, server_default=""),
    sa.Column("lost", sa.Text, nullable=False, server_default="[]"),
    # It waits or has nodes: these are read at a start, among all that ever were.
    sa.Column("open", sa.Boolean, nullable=False, server_default=sa.false()),
    _digest(),
    sa.Index("requests_by_arrival", "arrived_us"),
    sa.Index("requests_by_status", "status"),
    sa.Index("requests_by_owner", "owner"),
    sa.Index("requests_by_open", "open"),
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
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("owner", sa.String(255), nullable=False, server_default=""),
    _digest(),
    # It comes again in the windows of this rule (`lifecycle/recurrence.py`); "": it does not.
    sa.Column("every", sa.Text, nullable=False, server_default=""),
    sa.Column("lead_us", sa.BigInteger, nullable=False, server_default="0"),
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
    sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"),
    # Every record the event changed, as it is after it: what a replay needs (`rows.encode_changes`).
    sa.Column("changes", sa.Text, nullable=False, server_default="{}"),
    _digest(),
)

base = sa.Table(
    "base",
    metadata,
    # One row: the state after event `seq`, from which the events after it can be replayed.
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("at_us", sa.BigInteger, nullable=False),
    sa.Column("serial", sa.BigInteger, nullable=False),
    sa.Column("records", sa.Text, nullable=False),
    # The digest of event `seq`: what the next one follows.
    sa.Column("head", sa.String(32), nullable=False, server_default=""),
    _digest(),
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
    _digest(),
    sa.Index("answers_by_age", "at_us"),
)

writer = sa.Table(
    "writer",
    metadata,
    # One row: who writes (each start has the next epoch), the number and the digest of the newest event.
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.String(255), nullable=False),
    sa.Column("renewals", sa.BigInteger, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("ledger_id", sa.String(8), nullable=False, server_default=""),
    sa.Column("head", sa.String(32), nullable=False, server_default=""),
    # Why it may not know the newest state (it was put back); "" from the next event on.
    sa.Column("doubt", sa.Text, nullable=False, server_default=""),
)
