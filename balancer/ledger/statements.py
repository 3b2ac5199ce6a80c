"""The statements of every call, compiled once for each kind of database.

SQLAlchemy builds, looks up and checks a statement anew each time it runs; for the handful that each call needs
that was most of the call's processor time. Their text is the same, and runs on the same connections; on SQLite, where
no connection is ever lost, straight through the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from sqlite3 import Error
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

Row = Mapping[str, Any]
_Values = tuple[Any, ...] | list[tuple[Any, ...]]


class Found(Protocol):
    """What the database did: rows as tuples in the order of the statement's columns, or how many were changed."""

    @property
    def rowcount(self) -> int: ...
    def fetchall(self) -> Sequence[Any]: ...


class Statement:
    """An insert, update or select of columns whose values need no conversion on their way in or out.

    `columns`: those of an insert.
    """

    def __init__(
        self, statement: sa.Insert | sa.Update | sa.Select[Any], columns: Sequence[str] | None = None
    ) -> None:
        self._statement = statement
        self._columns = columns
        self._compiled: dict[str, tuple[str, list[str] | None]] = {}

    def run(self, connection: sa.Connection, rows: Row | Sequence[Row]) -> Found:
        """Once, or once for each of several rows. Raises SQLAlchemyError."""
        text, names = self._text(connection.dialect)
        if names is None:
            return connection.exec_driver_sql(text, rows)
        if isinstance(rows, Mapping):
            return _run(connection, text, tuple([rows[name] for name in names]))
        return _run(connection, text, [tuple([row[name] for name in names]) for row in rows])

    def _text(self, dialect: sa.Dialect) -> tuple[str, list[str] | None]:
        """For a driver that counts its parameters, with their names in order."""
        found = self._compiled.get(dialect.name)
        if found is None:
            made = self._statement.compile(dialect=dialect, column_keys=self._columns)
            order = list(made.positiontup or ()) if dialect.positional else None
            found = self._compiled[dialect.name] = str(made), order
        return found


def _run(connection: sa.Connection, text: str, values: _Values) -> Found:
    if connection.get_execution_options() and not connection.in_transaction():
        connection.begin()  # as SQLAlchemy does with the first statement
    return run_on_driver(connection, text, values)


def run_on_driver(connection: sa.Connection, text: str, values: _Values = ()) -> Found:
    """On SQLite. Raises SQLAlchemyError. Where somebody watches the statements they go by SQLAlchemy, as all others."""
    driver = connection.connection.driver_connection
    if driver is None or connection.dispatch.before_cursor_execute:
        return connection.exec_driver_sql(text, values)
    try:
        run = driver.executemany if isinstance(values, list) else driver.execute
        found: Found = run(text, values)
    except Error as error:
        raise DBAPIError.instance(text, values, error, Error) from error
    return found
