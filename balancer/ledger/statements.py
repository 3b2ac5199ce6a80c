"""The statements of every call, compiled once for each kind of database.

SQLAlchemy builds, looks up and checks a statement anew each time it runs; for the handful that each call needs
that was most of the call's processor time. Their text is the same, and runs on the same connections.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

Row = Mapping[str, Any]


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

    def run(self, connection: sa.Connection, rows: Row | Sequence[Row]) -> sa.CursorResult[Any]:
        """Once, or once for each of several rows. Raises SQLAlchemyError."""
        text, names = self._text(connection.dialect)
        values: Any = rows
        if names is not None:
            if isinstance(rows, Mapping):
                values = tuple([rows[name] for name in names])
            else:
                values = [tuple([row[name] for name in names]) for row in rows]
        return connection.exec_driver_sql(text, values)

    def _text(self, dialect: sa.Dialect) -> tuple[str, list[str] | None]:
        """For a driver that counts its parameters, with their names in order."""
        found = self._compiled.get(dialect.name)
        if found is None:
            made = self._statement.compile(dialect=dialect, column_keys=self._columns)
            order = list(made.positiontup or ()) if dialect.positional else None
            found = self._compiled[dialect.name] = str(made), order
        return found
