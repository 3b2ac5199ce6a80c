"""Tables whose rows have names: a class says once what a row has, and arrays, compiled loops and mypy go by it.

`node[which].job` is one integer in memory, as `node[which, 0]` would be, and costs no more; a column that the table
does not have is an error when the loop is compiled.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, get_type_hints, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

R = TypeVar("R")
S_co = TypeVar("S_co", covariant=True)


class Rows(Protocol[S_co]):
    """An array of rows: `rows[k].name` is one value, `rows["name"]` a column, a view of the same memory."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, row: int) -> S_co: ...

    @overload
    def __getitem__(self, column: str) -> NDArray[np.int64]: ...

    def __getitem__(self, which: Any) -> Any: ...


@cache
def dtype_of(row: type) -> np.dtype[Any]:
    """How a row of this class lies in memory: one integer of 64 bits a field, in the order of the class.

    Rows have `np.record`, so that `rows[k].name` also works where nothing is compiled (NUMBA_DISABLE_JIT).
    """
    fields = np.dtype([(name, np.int64) for name in get_type_hints(row)], align=True)
    return np.dtype((np.record, fields))


def new_rows(row: type[R], count: int) -> Rows[R]:
    """So many rows of zeros."""
    kind: type = row
    return cast("Rows[R]", np.zeros(count, dtype_of(kind)))
