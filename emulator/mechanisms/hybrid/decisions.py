"""Who gives nodes to an on-demand job: pure choices over arrays (hybrid-fan-2021, section III-B). Compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from emulator.kernel.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.kernel.tables import Ints


@dataclass(frozen=True, slots=True)
class Running:
    """Running batch jobs that may be preempted, in order of their rows; one entry a job in each array.

    `overhead_us` is what preempting the job now costs it: rigid with checkpoints, the work since the last one and
    the setup; without, the time since its start; malleable, the setup. `spare` is how many nodes it can give and go
    on: 0 for rigid jobs, `nodes` less its least width for malleable ones.
    """

    job: NDArray[np.int64]
    nodes: NDArray[np.int64]
    overhead_us: NDArray[np.int64]
    spare: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Room:
    """How nodes are made free: jobs to preempt, in order, and (job, nodes fewer) to shrink."""

    preempt: tuple[int, ...] = ()
    shrink: tuple[tuple[int, int], ...] = ()


class Arrival(Protocol):
    """What to do when an on-demand job arrives and lacks nodes. A plug-in of `emulator.hybrid_arrivals`."""

    def make_room(self, running: Running, needed: int) -> Room | None:
        """How to get at least `needed` (1 or more) nodes from running jobs; None if they do not have so many."""


@compiled
def _before(key: Ints, job: Ints, one: int, other: int) -> bool:
    return bool(key[one] < key[other] or (key[one] == key[other] and job[one] < job[other]))


@compiled
def _sift(key: Ints, job: Ints, heap: Ints, place: int, count: int) -> None:
    who = heap[place]
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and _before(key, job, heap[child + 1], heap[child]):
            child += 1
        if not _before(key, job, heap[child], who):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = who


@compiled
def choose_least(  # noqa: PLR0917 - compiled code has no keywords
    key: Ints, job: Ints, nodes: Ints, needed: int, heap: Ints, chosen: Ints
) -> int:
    """Entries in ascending (key, job) until their nodes are enough; how many, -1 if all are too few."""
    count = key.shape[0]
    total = 0
    for k in range(count):
        heap[k] = k
        total += nodes[k]
    if total < needed:
        return -1
    for place in range(count // 2 - 1, -1, -1):
        _sift(key, job, heap, place, count)
    taken = 0
    while needed > 0:
        first = heap[0]
        chosen[taken] = first
        taken += 1
        needed -= nodes[first]
        count -= 1
        heap[0] = heap[count]
        if count:
            _sift(key, job, heap, 0, count)
    return taken


def least_first(key: NDArray[np.int64], nodes: NDArray[np.int64], needed: int) -> NDArray[np.int64] | None:
    """The entries with the least keys (of equals the first), just as many as have `needed` nodes; None: too few.

    It costs O(all + taken log all): thousands of one-node jobs run where one is wanted.
    """
    heap, chosen = np.empty(len(key), np.int64), np.empty(len(key), np.int64)
    count = choose_least(key, np.arange(len(key)), nodes, needed, heap, chosen)
    return None if count < 0 else chosen[:count]


@compiled
def give_evenly(most: Ints, needed: int, given: Ints) -> None:
    """`given`: as even as possible, at most `most` each, `needed` in all (which is not more than there is)."""
    low = 0  # everybody gives at least so much (or all it has) and it is not enough, or just enough
    high = needed
    while low < high:  # the highest level that does not give too much
        level = (low + high + 1) // 2
        total = 0
        for k in range(most.shape[0]):
            total += min(most[k], level)
        if total <= needed:
            low = level
        else:
            high = level - 1
    rest = needed
    for k in range(most.shape[0]):
        given[k] = min(most[k], low)
        rest -= given[k]
    for k in range(most.shape[0]):
        if rest > 0 and most[k] > low:
            given[k] += 1
            rest -= 1


def evenly(most: NDArray[np.int64], needed: int) -> NDArray[np.int64] | None:
    """How many each gives of at most `most`, so that they give `needed` in all and as evenly as possible.

    Those that are not at their limit differ by one at most, the first ones give the one more. None: too few.
    """
    if int(most.sum()) < needed:
        return None
    given = np.zeros(len(most), np.int64)
    give_evenly(most, needed, given)
    return given
