"""Tables whose rows have names: a class says once what a row has, and arrays, compiled loops and mypy go by it.

`node[which].job` is one integer in memory, as `node[which, 0]` would be, and costs no more; a column that the table
does not have is an error when the loop is compiled.
"""

from __future__ import annotations

import ctypes
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, get_type_hints, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

R = TypeVar("R")
S_co = TypeVar("S_co", covariant=True)


class Rows(Protocol[S_co]):
    """An array of rows: `rows[k].name` is one value, `rows["name"]` a column, a view of the same memory."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def ctypes(self) -> Any: ...

    def __len__(self) -> int: ...

    def copy(self) -> Rows[S_co]: ...

    def __iter__(self) -> Iterator[S_co]: ...

    @overload
    def __getitem__(self, row: int | tuple[int, int]) -> S_co: ...

    @overload
    def __getitem__(self, rows: slice | NDArray[Any]) -> Rows[S_co]: ...

    @overload
    def __getitem__(self, column: str) -> NDArray[np.int64]: ...

    def __getitem__(self, which: Any) -> Any: ...

    def __setitem__(self, which: int | slice | NDArray[Any], values: Any) -> None: ...


class RowTable(Protocol[S_co]):
    """Rows in two dimensions: `table[step]` are the rows of one step, `table[step, k]` is one of them."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @overload
    def __getitem__(self, step: int) -> Rows[S_co]: ...

    @overload
    def __getitem__(self, place: tuple[int, int]) -> S_co: ...

    def __getitem__(self, which: Any) -> Any: ...

    def __setitem__(self, place: tuple[int, int], values: Any) -> None: ...


@cache
def dtype_of(row: Hashable) -> np.dtype[Any]:
    """How a row of this class lies in memory: an integer or float of 64 bits a field, in the order of the class.

    Rows have `np.record`, so that `rows[k].name` also works where nothing is compiled (NUMBA_DISABLE_JIT). A name that
    records have of themselves would be theirs there.
    """
    kinds = get_type_hints(row)
    if taken := [name for name in kinds if hasattr(np.record, name)]:
        raise TypeError(f"{row}: a field cannot be called {taken[0]}, which every record has")
    fields = [(name, np.float64 if kind is float else np.int64) for name, kind in kinds.items()]
    return np.dtype((np.record, np.dtype(fields, align=True)))


def new_rows(row: type[R], *shape: int) -> Rows[R]:
    """An array of this shape of rows of zeros. Memory that is not used costs nothing."""
    return cast("Rows[R]", np.zeros(shape, dtype_of(cast("Hashable", row))))


def new_table(row: type[R], steps: int, count: int) -> RowTable[R]:
    """Rows of zeros in two dimensions."""
    return cast("RowTable[R]", np.zeros((steps, count), dtype_of(cast("Hashable", row))))


def new_record(row: type[R]) -> R:
    """One row of zeros: the registers of a compiled loop. `record.name` is a value in memory that both sides see."""
    return cast("R", np.zeros(1, _record_dtype(cast("Hashable", row)))[0])


@cache
def _record_dtype(row: Hashable) -> np.dtype[Any]:
    """As `dtype_of`, with quick records. There is one for all: where NumPy makes one out of several, it has others."""
    return np.dtype((_record_type(row), dtype_of(row)))


class _Record(np.record):  # type: ignore[misc]  # final in NumPy's stubs alone
    """A record whose fields are properties: NumPy's own look at all attributes first and take 30 times as long."""

    __getattribute__ = object.__getattribute__
    __setattr__ = object.__setattr__

    @cached_property
    def integers(self) -> memoryview[int]:
        return self._bytes().cast("q")

    @cached_property
    def floats(self) -> memoryview[float]:
        return self._bytes().cast("d")

    def _bytes(self) -> memoryview[int]:
        """The memory of the record, which lives as long as the record does."""
        return memoryview((ctypes.c_char * self.nbytes).from_address(address_of(self))).cast("B")


def _record_type(row: Hashable) -> type[_Record]:
    """The records of this class."""
    kinds = get_type_hints(row)
    fields = {name: _field(place, is_float=kind is float) for place, (name, kind) in enumerate(kinds.items())}
    if taken := [name for name in kinds if hasattr(_Record, name)]:
        raise TypeError(f"{row}: a field cannot be called {taken[0]}, which every record has")
    return type(f"{getattr(row, '__name__', row)}Record", (_Record,), fields)


def _field(place: int, *, is_float: bool) -> property:
    if is_float:
        return property(
            lambda record: record.floats[place],
            lambda record, value: record.floats.__setitem__(place, float(value)),
        )
    return property(
        lambda record: record.integers[place],
        lambda record, value: record.integers.__setitem__(place, int(value)),
    )


def clear(record: Any) -> None:
    """Set every field of a record to zero."""
    for name in record.dtype.names:
        record[name] = 0


def address_of(record: Any) -> int:
    """Where a record lies in memory, for compiled hooks."""
    return int(np.frombuffer(record, np.int64).ctypes.data)


def plain(table: Any) -> NDArray[Any]:
    """The same memory without names: rows as integers, one more axis. NumPy copies these seven times as fast."""
    whole: NDArray[Any] = table
    names = whole.dtype.names
    return whole if names is None else whole.view(np.int64).reshape(*whole.shape, len(names))


def rows_of(row: type[R], **columns: NDArray[Any]) -> Rows[R]:
    """Rows of these columns, each as long as the others."""
    (count,) = {len(values) for values in columns.values()}
    rows = new_rows(row, count)
    for name, values in columns.items():
        rows[name][:] = values
    return rows
