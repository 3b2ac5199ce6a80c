"""The job table: one row a job, one array a column, sorted by (submit, number)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sized

    from numpy.typing import NDArray


DEPENDENCY_NUMBER = "after_number"
"""The extra column with the number of the job that a job waits for; of its k-th such job it ends in `_k`."""


class Kind(IntEnum):
    """What a row asks for."""

    BATCH = 0
    """Waits in the batch queue until there are nodes."""
    ON_DEMAND = 1
    """A lease: wants its nodes at once, never waits in the batch queue."""


@dataclass(frozen=True, slots=True)
class JobTable:
    """Jobs and leases. All arrays have the same length; times are integer microseconds.

    `number` is the job's number in its source (unique); `submit_us` counts from the start of the trace;
    `estimate_us` is the requested walltime, at least 1; `nodes` is the number of whole nodes.
    `queue`, `user`, `group` and `status` are the source's numbers, -1 where unknown.

    `extra` holds further columns by name, which some transform, generator or format adds and some mechanism reads:
    whole numbers of 64 bits, units in the name (`setup_us`, `min_nodes`), -1 where unknown. `docs/traces.md`
    lists the names that are in use.
    """

    number: NDArray[np.int64]
    submit_us: NDArray[np.int64]
    run_us: NDArray[np.int64]
    estimate_us: NDArray[np.int64]
    nodes: NDArray[np.int32]
    kind: NDArray[np.int8]
    queue: NDArray[np.int32]
    user: NDArray[np.int32]
    group: NDArray[np.int32]
    status: NDArray[np.int32]
    extra: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.number)

    @classmethod
    def build(
        cls,
        *,
        submit_us: NDArray[np.int64] | list[int],
        run_us: NDArray[np.int64] | list[int],
        nodes: NDArray[np.int32] | list[int],
        estimate_us: NDArray[np.int64] | list[int] | None = None,
        number: NDArray[np.int64] | list[int] | None = None,
        kind: NDArray[np.int8] | list[int] | int = Kind.BATCH,
        queue: NDArray[np.int32] | list[int] | int = -1,
        user: NDArray[np.int32] | list[int] | int = -1,
        group: NDArray[np.int32] | list[int] | int = -1,
        status: NDArray[np.int32] | list[int] | int = -1,
        extra: Mapping[str, NDArray[Any] | list[int] | int] | None = None,
    ) -> Self:
        """A table from columns in any order of rows; what is left out is unknown (-1) or follows.

        Without `number` the rows are numbered from 1; without `estimate_us` the run time is the estimate.
        """
        count = len(submit_us)
        numbers = np.arange(1, count + 1) if number is None else number
        _check_whole("submit_us", submit_us)
        submits = np.asarray(submit_us, np.int64)
        _check_rows("number", numbers, count)
        order = np.lexsort((np.asarray(numbers), submits))

        def column(name: str, values: object, dtype: type[np.generic]) -> NDArray[np.generic]:
            _check_whole(name, values)
            array = np.asarray(values, dtype)
            if array.ndim == 0:
                return np.full(count, array, dtype)
            _check_rows(name, array, count)  # more rows would not be seen
            return array[order]

        columns = {
            "number": column("number", numbers, np.int64),
            "submit_us": submits[order],
            "run_us": column("run_us", run_us, np.int64),
            "estimate_us": column("estimate_us", run_us if estimate_us is None else estimate_us, np.int64),
            "nodes": column("nodes", nodes, np.int32),
            "kind": column("kind", kind, np.int8),
            "queue": column("queue", queue, np.int32),
            "user": column("user", user, np.int32),
            "group": column("group", group, np.int32),
            "status": column("status", status, np.int32),
        }
        more = {name: column(name, values, np.int64) for name, values in (extra or {}).items()}
        for name in more:
            if name in columns:
                raise ValueError(f"column {name} is one that every table has, it cannot be an extra one")
        return cls(**columns, extra=more)  # type: ignore[arg-type]

    @classmethod
    def empty(cls) -> Self:
        return cls.build(submit_us=[], run_us=[], nodes=[])

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Self:
        """The table with only these rows."""
        extra = {name: values[rows] for name, values in self.extra.items()}
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in COLUMNS}
        return type(self)(**columns, extra=extra)

    def merge(self, other: JobTable) -> JobTable:
        """Both tables as one, sorted; numbers of `other` that are taken are moved behind the largest one.

        An extra column that only one of them has is unknown in the other's rows.
        """
        if not len(self) and not self.extra and other.is_in_order:
            return other
        joined = {name: np.concatenate((getattr(self, name), getattr(other, name))) for name in COLUMNS}
        if len(self) and len(other) and _any_of(other.number, self.number):
            numbers = self.number.max() + 1 + np.arange(len(other))
            joined["number"][len(self) :] = numbers
            other = other._renumbered(numbers)
        names = [*self.extra, *(name for name in other.extra if name not in self.extra)]
        extra = {name: np.concatenate((self.column(name), other.column(name))) for name in names}
        return JobTable.build(**joined, extra=extra)

    def _renumbered(self, numbers: NDArray[np.int64]) -> JobTable:
        """The same jobs whose dependencies name jobs by `numbers`, which they get instead of their own."""
        if DEPENDENCY_NUMBER not in self.extra:
            return self
        order = np.argsort(self.number)
        columns = {}
        for name in (DEPENDENCY_NUMBER + suffix for suffix in self.dependency_suffixes()):
            named = self.column(name)
            place = np.minimum(np.searchsorted(self.number, named, sorter=order), len(self) - 1)
            columns[name] = np.where(self.number[order[place]] == named, numbers[order[place]], named)
        return self.with_extra(**columns)

    def dependency_suffixes(self) -> list[str]:
        """Of the columns of a job's first, second, ... dependency: "", "_2", ..."""
        found = [""]
        while DEPENDENCY_NUMBER + (suffix := f"_{len(found) + 1}") in self.extra:
            found.append(suffix)
        return found

    def read_only(self) -> Self:
        """The same jobs for code that might write into them: other runs may use the same arrays."""
        extra = {name: _shown(values) for name, values in self.extra.items()}
        return replace(self, **{name: _shown(getattr(self, name)) for name in COLUMNS}, extra=extra)

    @property
    def is_in_order(self) -> bool:
        """Whether the rows are sorted, as they should be, by (submit, number)."""
        before, after = slice(None, -1), slice(1, None)
        later = self.submit_us[after] > self.submit_us[before]
        same = self.submit_us[after] == self.submit_us[before]
        return bool((later | (same & (self.number[after] >= self.number[before]))).all())

    def column(self, name: str, unknown: NDArray[Any] | int = -1) -> NDArray[np.int64]:
        """An extra column as a new array; `unknown` stands where no value is known, also if there is no such column."""
        values = self.extra.get(name)
        if values is None:
            return np.full(len(self), unknown, np.int64)
        return np.where(values < 0, unknown, values)

    def with_extra(self, **columns: NDArray[Any]) -> Self:
        """The same jobs with these extra columns added or replaced; one value a row. Raises ValueError."""
        added = {name: np.asarray(values, np.int64) for name, values in columns.items()}
        for name, values in added.items():
            if name in COLUMNS:
                raise ValueError(f"column {name} is one that every table has, it cannot be an extra one")
            if values.shape != (len(self),):
                raise ValueError(f"column {name} has {len(values)} rows, the table has {len(self)}")
        return replace(self, extra=self.extra | added)


def _shown(values: NDArray[Any]) -> NDArray[Any]:
    view = values.view()
    view.flags.writeable = False
    return view


def _any_of(numbers: NDArray[np.int64], used: NDArray[np.int64]) -> bool:
    """Whether one of the numbers is taken."""
    # `np.intersect1d` makes both unique by hashing, which took nine tenths of the time in which a sweep makes its jobs.
    near = np.sort(used[(used >= numbers.min()) & (used <= numbers.max())])
    if not len(near):
        return False
    place = np.minimum(np.searchsorted(near, numbers), len(near) - 1)
    return bool((near[place] == numbers).any())


COLUMNS = tuple(field.name for field in fields(JobTable) if field.name != "extra")
"""The columns that every table has."""


def _check_whole(name: str, values: object) -> None:
    """Raises ValueError for a number that no column of whole numbers has; fractions of a microsecond are dropped."""
    found = np.asarray(values)
    if found.dtype.kind != "f":
        return
    wrong = found[~np.isfinite(found) | ((np.floor(found) != found) & (not name.endswith("_us")))]
    for value in wrong.ravel().tolist():
        raise ValueError(f"column {name} has {value}, which is no whole number")


def _check_rows(name: str, values: Sized, count: int) -> None:
    """Raises ValueError."""
    if len(values) != count:
        raise ValueError(f"column {name} has {len(values)} rows, submit_us has {count}")


def joined(first: JobTable, second: JobTable) -> JobTable:
    """Two tables behind each other, without extra columns."""
    columns: dict[str, Any] = {
        name: np.concatenate((getattr(first, name), getattr(second, name))) for name in COLUMNS
    }
    return JobTable(**columns)
