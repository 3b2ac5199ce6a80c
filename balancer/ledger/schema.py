"""Brings a database to the schema of this release, or refuses it; all within the caller's transaction.

The steps are files in `migrations/versions` (Alembic). Both databases take back a half-done migration as they
take back any other transaction, so a crash in a step leaves the database as it was before the first one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from balancer.ledger.errors import LedgerError, OlderError

REVISION = "0006"
"""The newest migration."""

_FIRST = "0001"
_KNOWN = ("0001", "0002", "0003", "0004", "0005", "0006")
_LOCK = 0x42616C616E636572  # "Balancer": two services that start at once must not both migrate
_IDLE_S = 60
"""How long a migration may be idle in its transaction, for PostgreSQL."""


def migrate(connection: sa.Connection) -> None:
    """Raises LedgerError for a database of a newer release or of another program."""
    if connection.dialect.name == "postgresql":
        # The steps are loaded within the transaction, which may take longer than a writer may be idle.
        connection.execute(sa.text(f"SET LOCAL idle_in_transaction_session_timeout = '{_IDLE_S} s'"))
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    found = revision_of(connection)
    if found != REVISION:
        _upgrade(connection, found)


def check(connection: sa.Connection) -> None:
    """For those that only read. Raises LedgerError unless the schema is that of this release."""
    found = revision_of(connection)
    if found != REVISION:
        raise (OlderError if found else LedgerError)(
            f"the ledger has schema {found or 'none'}, this Balancer reads {REVISION}: "
            "start `balancer serve` on it once"
        )


def revision_of(connection: sa.Connection) -> str | None:
    """The newest migration that was carried out; None in an empty database. Raises LedgerError."""
    tables = set(sa.inspect(connection).get_table_names())
    if "alembic_version" in tables:
        found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
        if found is not None and found not in _KNOWN:
            raise LedgerError(
                f"the ledger has schema {found}, this Balancer reads {REVISION}: "
                "use the version that wrote it, or a newer one"
            )
        return found
    if "meta" in tables and "nodes" in tables:
        schema = connection.execute(sa.text("SELECT value FROM meta WHERE name = 'schema'")).scalar()
        if schema == "1":
            return _FIRST  # release 1 did not know Alembic
        raise LedgerError(
            f"the ledger has schema {schema}, this Balancer reads {REVISION}: use the version that wrote it"
        )
    if tables:
        raise LedgerError(f"the database holds tables of another program: {', '.join(sorted(tables))}")
    return None


def _upgrade(connection: sa.Connection, found: str | None) -> None:
    # Imported here: a start on an up-to-date ledger does without.
    from alembic.config import Config  # noqa: PLC0415
    from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    script = ScriptDirectory(str(Path(__file__).parent / "migrations"))

    tables = sa.inspect(connection).get_table_names()
    if found is not None and "alembic_version" not in tables:
        MigrationContext.configure(connection).stamp(script, found)

    def steps(revision: Any, _: MigrationContext) -> Any:
        return script._upgrade_revs(REVISION, revision)  # noqa: SLF001 - as Alembic's own command does

    with EnvironmentContext(Config(), script, fn=steps) as environment:
        environment.configure(connection=connection, transactional_ddl=True)
        with environment.begin_transaction():
            environment.run_migrations()
