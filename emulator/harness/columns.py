"""Columns of tables that have a row a job or a run, filled and read a block of rows at a time.

Column by column every line of memory would be fetched as often as there are columns: of millions of jobs that takes
three times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import ArrayLike, DTypeLike, NDArray

T = TypeVar("T")

_ROWS = 4096
"""A block of the widest table fits into the processor's own memory."""


def blocks(count: int, rows: int = _ROWS) -> Iterator[slice]:
    """So many rows as slices, one behind the other."""
    for first in range(0, count, rows):
        yield slice(first, min(first + rows, count))


def fill(table: NDArray[Any], columns: Mapping[int, ArrayLike]) -> None:
    """Write columns, each of them one value or one a row of the table."""
    whole = {column: np.broadcast_to(values, len(table)) for column, values in columns.items()}
    for rows in blocks(len(table)):
        block = table[rows]
        for column, values in whole.items():
            block[:, column] = values[rows]


def copies(table: NDArray[Any], dtypes: Mapping[int, DTypeLike]) -> list[NDArray[Any]]:
    """Columns as arrays of their own, of these types."""
    found = [np.empty(len(table), dtype) for dtype in dtypes.values()]
    for rows in blocks(len(table)):
        block = table[rows]
        for column, values in zip(dtypes, found, strict=True):
            values[rows] = block[:, column]
    return found


def longer(table: T, more: int) -> T:
    """The table with so many rows of zeros behind it; of these none is touched, and what is not costs no memory."""
    old = cast("NDArray[Any]", table)
    whole = np.zeros((len(old) + more, *old.shape[1:]), old.dtype)
    whole[: len(old)] = old
    return cast("T", whole)
