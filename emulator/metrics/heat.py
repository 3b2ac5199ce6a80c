"""Figures of jobs by size and length, the classes of the heat maps of Minami et al. 2023 (Figures 10 and 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from balancer.clock import US

if TYPE_CHECKING:
    from numpy.typing import NDArray

Average = Literal["mean", "median"]
SIZE_EDGES = (1, 2, 5, 13, 49, 193, 769)
"""Nodes (where jobs share nodes: cores) from which a row begins; the paper does not print its own."""
LENGTH_EDGES_S = (0, 60, 600, 3600, 6 * 3600, 24 * 3600, 72 * 3600)
"""Run time from which a column begins."""


def by_size_and_length(
    size: NDArray[np.integer],
    run_us: NDArray[np.int64],
    values: NDArray[np.float64],
    average: Average = "mean",
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(jobs, average of `values`) of each class, both `[size class, length class]`; NaN where there is no job."""
    row = np.searchsorted(SIZE_EDGES, size, "right") - 1
    column = np.searchsorted(np.array(LENGTH_EDGES_S) * US, run_us, "right") - 1
    shape = len(SIZE_EDGES), len(LENGTH_EDGES_S)
    cell = row * shape[1] + column
    count = np.bincount(cell, minlength=shape[0] * shape[1])
    found = np.full(len(count), np.nan)
    if average == "mean":
        total = np.bincount(cell, values, minlength=len(count))
        np.divide(total, count, out=found, where=count > 0)
    else:
        for each in np.flatnonzero(count):
            found[each] = np.median(values[cell == each])
    return count.reshape(shape), found.reshape(shape)
