"""What is due by the clock in a mechanism's compiled run: points known from the beginning, and a heap of others.

The key of a decision point says what it is and whose, and orders the points of one time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from emulator.kernel.columns import longer
from emulator.kernel.compiled import inlined
from emulator.kernel.rows import new_rows, rows_of
from emulator.kernel.structures import climb, sink
from emulator.kernel.tables import Due

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Heap

_POINT_SHIFT = 40


class AgendaSize:
    """The register of an agenda."""

    entries: int


class Agenda(NamedTuple):
    """A heap of what is due, by time and key."""

    heap: Heap
    size: AgendaSize

    def grown(self, room: int) -> Agenda:
        """The same agenda with room for so many more at least."""
        if len(self.heap) - self.size.entries > room:
            return self
        return self._replace(heap=longer(self.heap, len(self.heap)))


def new_agenda(room: int) -> Agenda:
    return Agenda(new_rows(Due, room), new_rows(AgendaSize, 1)[0])


@inlined
def push(agenda: Agenda, at: int, key: int) -> None:
    place = agenda.size.entries
    agenda.size.entries = place + 1
    climb(agenda.heap, place, at, key)


@inlined
def pop(agenda: Agenda) -> int:
    """Remove the first entry; its key is returned."""
    heap = agenda.heap
    first: int = heap[0].key
    last = agenda.size.entries - 1
    agenda.size.entries = last
    sink(heap, last, 0, heap[last].at_us, heap[last].key)
    return first


@inlined
def point_key(point: int, job: int) -> int:
    """The key of a decision point; `job` -1: of no job."""
    return (point << _POINT_SHIFT) + job + 1


@inlined
def point_of(key: int) -> int:
    """What a decision point is (`Point`)."""
    return key >> _POINT_SHIFT


@inlined
def job_of(key: int) -> int:
    """Whose decision point it is, -1 for none."""
    return (key & ((1 << _POINT_SHIFT) - 1)) - 1


def known_points(points: NDArray[np.int64]) -> Rows[Due]:
    """Points that are known from the beginning, rows of (time, point, job), with their keys."""
    return rows_of(Due, at_us=points[:, 0], key=(points[:, 1] << _POINT_SHIFT) + points[:, 2] + 1)


@inlined
def sooner_of(points: Heap, place: int, at: int, key: int) -> tuple[int, int]:
    """Time and key of the known point at this place if it comes before this time and key; else these."""
    if place < points.shape[0]:
        point = points[place]
        if point.at_us < at or (point.at_us == at and point.key < key):
            return point.at_us, point.key
    return at, key
