"""The statements of every call, compiled once for each kind of database.

SQLAlchemy builds, looks up and checks a statement anew each time it runs; for the handful that each call needs
that was most of the call's processor time. Their text is the same, and runs on the same connections; on SQLite, where
no connection is ever lost, straight through the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from sqlite3 import Error
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    import sqlalchemy as sa

Row = Mapping[str, Any]
_Values = tuple[Any, ...] | list[tuple[Any, ...]]


BEGIN = "BEGIN IMMEDIATE"
"""How a transaction that writes begins: two that read first could not both go on."""


class ResultRows(Protocol):
    """What the database did: how many rows were changed."""

    @property
    def rowcount(self) -> int: ...


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

    def run(self, connection: sa.Connection, rows: Row | Sequence[Row]) -> ResultRows:
        """Once, or once for each of several rows. Raises SQLAlchemyError."""
        text, names = self._text(connection.dialect)
        if names is None:
            return connection.exec_driver_sql(text, rows)
        return _run(connection, text, _values(names, rows))

    def rows(self, connection: sa.Connection, values: Row) -> list[Any]:
        """What a select finds, as tuples in the order of its columns. Raises SQLAlchemyError."""
        found: Any = self.run(connection, values)
        try:
            return list(found.fetchall())
        except Error as error:  # SQLite's driver reads a page when its rows are asked for
            raise DBAPIError.instance(self._text(connection.dialect)[0], values, error, Error) from error

    def run_on(self, driver: Any, dialect: sa.Dialect, rows: Row | Sequence[Row]) -> ResultRows:
        """As `run`, in SQLite's own connection."""
        text, names = self._text(dialect)
        return _execute(driver, text, _values(names or [], rows))

    def _text(self, dialect: sa.Dialect) -> tuple[str, list[str] | None]:
        """For a driver that counts its parameters, with their names in order."""
        found = self._compiled.get(dialect.name)
        if found is None:
            made = self._statement.compile(dialect=dialect, column_keys=self._columns)
            order = list(made.positiontup or ()) if dialect.positional else None
            found = self._compiled[dialect.name] = str(made), order
        return found


@contextmanager
def transaction(connection: sa.Connection) -> Iterator[Run]:
    """All that is run in it is stored when it ends, or nothing. Raises SQLAlchemyError.

    On SQLite the driver does it all, unless somebody watches the statements.
    """
    driver = _driver(connection) if connection.dialect.name == "sqlite" else None
    if driver is None:
        with connection.begin():
            yield lambda statement, rows: statement.run(connection, rows)
        return
    run_on_driver(connection, BEGIN)
    try:
        yield lambda statement, rows: statement.run_on(driver, connection.dialect, rows)
        driver.commit()
    except BaseException as error:
        driver.rollback()
        if isinstance(error, Error):
            raise DBAPIError.instance("COMMIT", (), error, Error) from error
        raise


def _run(connection: sa.Connection, text: str, values: _Values) -> ResultRows:
    if connection.get_execution_options() and not connection.in_transaction():
        connection.begin()  # as SQLAlchemy does with the first statement
    return run_on_driver(connection, text, values)


def run_on_driver(connection: sa.Connection, text: str, values: _Values = ()) -> ResultRows:
    """On SQLite. Raises SQLAlchemyError. Where somebody watches the statements they go by SQLAlchemy, as all others."""
    driver = _driver(connection)
    return connection.exec_driver_sql(text, values) if driver is None else _execute(driver, text, values)


def _driver(connection: sa.Connection) -> Any:
    """None: where somebody watches, or the connection is lost."""
    return None if connection.dispatch.before_cursor_execute else connection.connection.driver_connection


def _execute(driver: Any, text: str, values: _Values) -> ResultRows:
    try:
        run = driver.executemany if isinstance(values, list) else driver.execute
        found: ResultRows = run(text, values)
    except Error as error:
        raise DBAPIError.instance(text, values, error, Error) from error
    return found


def _values(names: Sequence[str], rows: Row | Sequence[Row]) -> _Values:
    if isinstance(rows, Mapping):
        return tuple([rows[name] for name in names])
    return [tuple([row[name] for name in names]) for row in rows]


Run = Callable[[Statement, Row | Sequence[Row]], ResultRows]
"""Runs a statement as `Statement.run` does, within a transaction."""
