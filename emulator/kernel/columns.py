"""Columns of tables that have a row a job or a run, filled and read a block of rows at a time.

Column by column every line of memory would be fetched as often as there are columns: of millions of jobs that takes
three times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np

from emulator.kernel.rows import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from emulator.kernel.rows import Rows

T = TypeVar("T")
C = TypeVar("C", int, str)
Table: TypeAlias = "NDArray[Any] | Rows[Any]"

_ROWS = 4096
"""A block of the widest table fits into the processor's own memory."""


def blocks(count: int, rows: int = _ROWS) -> Iterator[slice]:
    """So many rows as slices, one behind the other."""
    for first in range(0, count, rows):
        yield slice(first, min(first + rows, count))


def _column(table: Any, column: int | str) -> NDArray[Any]:
    """A column by its name, or by its number where it has none."""
    found: NDArray[Any] = table[column] if isinstance(column, str) else table[:, column]
    return found


def fill(table: Table, columns: Mapping[C, ArrayLike]) -> None:
    """Write columns, each of them one value or one a row of the table."""
    whole = [
        (_column(table, which), np.broadcast_to(values, len(table))) for which, values in columns.items()
    ]
    for rows in blocks(len(table)):
        for column, values in whole:
            column[rows] = values[rows]


def copies(table: Table, dtypes: Mapping[C, DTypeLike]) -> list[NDArray[Any]]:
    """Columns as arrays of their own, of these types."""
    whole = [(_column(table, which), np.empty(len(table), dtype)) for which, dtype in dtypes.items()]
    for rows in blocks(len(table)):
        for column, values in whole:
            values[rows] = column[rows]
    return [values for _, values in whole]


def longer(table: T, more: int) -> T:
    """The table with so many rows of zeros behind it; of these none is touched, and what is not costs no memory."""
    old = cast("NDArray[Any]", table)
    whole = np.zeros((len(old) + more, *old.shape[1:]), old.dtype)
    plain(whole)[: len(old)] = plain(old)
    return cast("T", whole)
