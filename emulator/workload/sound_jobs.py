"""Whether a job table that a program or a plug-in made is one: compiled loops trust it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.workload.table import COLUMNS, JobTable, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONGEST_US = 9_000_000_000 * US
_RANGES = {
    "number": (0, 2**62), "submit_us": (0, _LONGEST_US), "run_us": (1, _LONGEST_US), "estimate_us": (1, _LONGEST_US),
    "nodes": (1, 2**31 - 1), "kind": (min(Kind), max(Kind)),
}  # fmt: skip
"""The least and the largest value of a column."""
_OF_LABELS = (-1, 2**31 - 1)
_OF_FURTHER = (-(2**62), 2**62)


def sound(jobs: JobTable) -> JobTable:
    """These jobs, sorted by (submit, number) and of the types of a job table.

    Times with a fraction are rounded to microseconds. Raises ValueError that names the column and the first job that is
    wrong.
    """
    rows = np.shape(jobs.number)
    columns: dict[str, Any] = {name: _column(jobs, name, getattr(jobs, name), rows) for name in COLUMNS}
    extra = {name: _column(jobs, name, values, rows) for name, values in jobs.extra.items()}
    found = replace(jobs, **columns, extra=extra)
    numbers, counts = np.unique(found.number, return_counts=True)
    if (counts > 1).any():
        number = numbers[counts.argmax()]
        raise ValueError(f"{counts.max()} jobs have the number {number}; each has one of its own")
    return found if found.is_in_order else found.take(np.lexsort((found.number, found.submit_us)))


def _column(jobs: JobTable, name: str, values: object, rows: tuple[int, ...]) -> NDArray[Any]:
    found = np.asarray(values)
    if found.shape != rows or len(rows) != 1:
        raise ValueError(f"column {name} has the shape {found.shape}, number has {rows}")
    if found.dtype.kind not in "iufb":
        raise ValueError(f"column {name} has values of the type {found.dtype}; give whole numbers")
    least, most = _OF_FURTHER if name in jobs.extra else _RANGES.get(name, _OF_LABELS)
    whole = np.rint(found) if found.dtype.kind == "f" else found
    is_wrong = ~((found >= least) & (found <= most))
    if not name.endswith("_us"):
        is_wrong |= whole != found
    for row in np.flatnonzero(is_wrong).tolist():
        which = f"row {row}" if name == "number" else f"job {jobs.number[row]}"
        raise ValueError(
            f"{name} of {which} is {found[row]}; it must be a whole number from {least} to {most}"
        )
    dtype = np.dtype(np.int64) if name in jobs.extra else _TYPES[name]
    return whole.astype(dtype, copy=False)


_EMPTY = JobTable.empty()
_TYPES = {name: getattr(_EMPTY, name).dtype for name in COLUMNS}
