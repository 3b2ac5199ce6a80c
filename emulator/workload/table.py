"""The job table: one row a job, one array a column, sorted by (submit, number)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    ) -> Self:
        """A table from columns in any order of rows; what is left out is unknown (-1) or follows.

        Without `number` the rows are numbered from 1; without `estimate_us` the run time is the estimate.
        """
        count = len(submit_us)
        numbers = np.arange(1, count + 1) if number is None else number
        submits = np.asarray(submit_us, np.int64)
        order = np.lexsort((np.asarray(numbers), submits))

        def column(values: object, dtype: type[np.generic]) -> NDArray[np.generic]:
            array = np.asarray(values, dtype)
            return np.full(count, array, dtype) if array.ndim == 0 else array[order]

        columns = {
            "number": column(numbers, np.int64),
            "submit_us": submits[order],
            "run_us": column(run_us, np.int64),
            "estimate_us": column(run_us if estimate_us is None else estimate_us, np.int64),
            "nodes": column(nodes, np.int32),
            "kind": column(kind, np.int8),
            "queue": column(queue, np.int32),
            "user": column(user, np.int32),
            "group": column(group, np.int32),
            "status": column(status, np.int32),
        }
        for name, values in columns.items():
            if len(values) != count:
                raise ValueError(f"column {name} has {len(values)} rows, submit_us has {count}")
        return cls(**columns)  # type: ignore[arg-type]

    @classmethod
    def empty(cls) -> Self:
        return cls.build(submit_us=[], run_us=[], nodes=[])

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Self:
        """The table with only these rows."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    def merge(self, other: JobTable) -> JobTable:
        """Both tables as one, sorted; numbers of `other` that are taken are moved behind the largest one."""
        joined = {
            field.name: np.concatenate((getattr(self, field.name), getattr(other, field.name)))
            for field in fields(self)
        }
        if len(self) and len(other) and np.intersect1d(self.number, other.number).size:
            joined["number"][len(self) :] = self.number.max() + 1 + np.arange(len(other))
        return JobTable.build(**joined)
