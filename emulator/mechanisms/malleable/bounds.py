"""What the places found so far in a plan tell about those still to be found, compiled.

While a plan is made, nodes are only taken. So a rigid job that is at least as long and as wide as one placed before
starts no earlier. A flexible one that has at least as much work, and no other widths to choose from, completes no
earlier, and cannot have begun before the last time at which even its narrowest width has no room until then. The search
begins there: the same place is found. Jobs are compared by classes, whose least value is that of a job: those of
a job are rounded down, and those of the jobs that it speaks for are rounded up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.kernel.compiled import inlined
from emulator.mechanisms.malleable.tables import CLASSES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.mechanisms.malleable.tables import Bounds

UNKNOWN = CLASSES
"""Class of a job that says nothing about others."""


def classes_of(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(class, from which on it speaks) of each value: the last class that begins at or below it, the first at or above.

    Classes begin at values that occur, and hold about as many jobs each.
    """
    if len(values) == 0:
        return values, values
    found = np.sort(values)
    begins = np.unique(found[np.arange(CLASSES) * len(found) // CLASSES])
    own = np.searchsorted(begins, values, side="right") - 1
    speaks_for = np.searchsorted(begins, values, side="left")
    return own, np.where(speaks_for < len(begins), speaks_for, UNKNOWN)


@inlined
def forget_bounds(bounds: Bounds) -> None:
    """Another plan begins: anything may happen at once."""
    for length in range(CLASSES):
        bounds.flexible[length] = 0
        for width in range(CLASSES):
            bounds.rigid[length, width] = 0


@inlined
def keep_flexible(bounds: Bounds, work: int, end: int) -> None:
    """No flexible job of this class of work, or of a higher one, completes before this from now on."""
    column = work
    while column < CLASSES and bounds.flexible[column] < end:
        bounds.flexible[column] = end
        column += 1


@inlined
def keep_rigid(bounds: Bounds, length: int, width: int, start: int) -> None:
    """No rigid job of these classes, or of higher ones, starts before this from now on."""
    if width >= CLASSES:
        return
    row = length
    while row < CLASSES and bounds.rigid[row, width] < start:
        column = width
        while column < CLASSES and bounds.rigid[row, column] < start:
            bounds.rigid[row, column] = start
            column += 1
        row += 1
