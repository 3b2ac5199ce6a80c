"""Which nodes the runs of a machine get that only counted them, compiled: intervals of nodes, as few as can be.

Where nothing depends on which nodes a job has, the kernel counts them, and its starts and ends are laid out here
afterwards. A run gets the closest free interval that holds it, from its low end; where none does, the largest free
intervals, one after the other. The free intervals are kept as D. Knuth's boundary tags (The Art of Computer Programming
1, 2.5, algorithm C) in bins by length, as in TLSF (M. Masmano et al., ECRTS 2004): a start or an end costs the same on
any machine. What a run gets depends only on what happened before it, so that the nodes of a run so far stay.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.harness.compiled import compiled, inlined
from emulator.harness.lists import gather_intervals
from emulator.harness.record import RunTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.harness.tables import Ints, Ints32

# Columns of the tags, one row a node. LENGTH, NEXT and BEFORE stand at the first node of a free interval (its length,
# its neighbours in its bin), FIRST at its last one. LENGTH is 0 and FIRST -1 elsewhere.
LENGTH, FIRST, NEXT, BEFORE = range(4)
# Registers. ROW: the next run; OVER: the next of those that end; PIECES_N: pieces so far; FREE_N: free intervals.
ROW, OVER, PIECES_N, FREE_N = range(4)
# Columns of the pieces, the intervals that runs have.
BEGIN, COUNT = range(2)

_EXACT = 64
"""Lengths below have a bin each, from there on each power of two has 16."""
BINS = _EXACT + (31 - 6) * 16


@inlined
def bin_of(length: int) -> int:
    """The bin of a free interval: a longer one is in no lower bin."""
    if length < _EXACT:
        return length
    power = 6
    while length >> (power + 1):
        power += 1
    return _EXACT + (power - 6) * 16 + ((length >> (power - 4)) & 15)


@inlined
def bin_out(tags: Ints32, bins: Ints32, reg: Ints, begin: int) -> None:
    """Take the free interval that begins here out of its bin; its nodes are nobody's then."""
    length = tags[begin, LENGTH]
    before = tags[begin, BEFORE]
    behind = tags[begin, NEXT]
    if before >= 0:
        tags[before, NEXT] = behind
    else:
        bins[bin_of(length)] = behind
    if behind >= 0:
        tags[behind, BEFORE] = before
    tags[begin + length - 1, FIRST] = -1
    tags[begin, LENGTH] = 0
    reg[FREE_N] -= 1


@inlined
def bin_in(tags: Ints32, bins: Ints32, reg: Ints, begin: int, length: int) -> None:
    """Put a free interval into its bin, before the others there."""
    which = bin_of(length)
    behind = bins[which]
    tags[begin, LENGTH] = length
    tags[begin + length - 1, FIRST] = begin
    tags[begin, NEXT] = behind
    tags[begin, BEFORE] = -1
    if behind >= 0:
        tags[behind, BEFORE] = begin
    bins[which] = begin
    reg[FREE_N] += 1


@compiled
def give_back(tags: Ints32, bins: Ints32, reg: Ints, begin: int, count: int) -> None:
    """Nodes are free again, one interval with the free ones beside them."""
    if begin > 0 and tags[begin - 1, FIRST] >= 0:
        low = tags[begin - 1, FIRST]
        bin_out(tags, bins, reg, low)
        count += begin - low
        begin = low
    behind = begin + count
    if behind < tags.shape[0] and tags[behind, LENGTH] > 0:
        length = tags[behind, LENGTH]
        bin_out(tags, bins, reg, behind)
        count += length
    bin_in(tags, bins, reg, begin, count)


@inlined
def closest(tags: Ints32, bins: Ints32, needed: int) -> int:
    """Where the free interval begins that holds so many nodes and is about the shortest of these, -1 for none."""
    which = bin_of(needed)
    at: int = bins[which]
    while at >= 0 and tags[at, LENGTH] < needed:
        at = tags[at, NEXT]
    while at < 0 and which + 1 < BINS:
        which += 1
        at = bins[which]
    return at


@inlined
def largest(bins: Ints32) -> int:
    """Where a free interval of the highest bin begins. There must be one."""
    which = BINS - 1
    while bins[which] < 0:
        which -= 1
    first: int = bins[which]
    return first


@inlined
def put_piece(pieces: Ints32, first: int, last: int, begin: int, count: int) -> None:
    """A piece takes its place among `pieces[first:last]`, which are in order."""
    place = last
    while place > first and pieces[place - 1, BEGIN] > begin:
        pieces[place, BEGIN] = pieces[place - 1, BEGIN]
        pieces[place, COUNT] = pieces[place - 1, COUNT]
        place -= 1
    pieces[place, BEGIN] = begin
    pieces[place, COUNT] = count


@compiled
def lay_out(  # noqa: PLR0917 - arrays
    tags: Ints32,
    bins: Ints32,
    reg: Ints,
    start: Ints,
    end: Ints,
    width: Ints,
    over: Ints,
    cut: Ints,
    pieces: Ints32,
) -> bool:
    """Lay the runs from ROW on out, in order of start; `over` has the rows of those that end, in order of end.

    The pieces of run r are `pieces[cut[r]:cut[r + 1]]`, the lowest first. False: there have to be more pieces first.
    """
    while reg[ROW] < len(start):
        row = reg[ROW]
        while reg[OVER] < len(over) and end[over[reg[OVER]]] <= start[row] and over[reg[OVER]] < row:
            gone = over[reg[OVER]]
            for at in range(cut[gone], cut[gone + 1]):
                give_back(tags, bins, reg, pieces[at, BEGIN], pieces[at, COUNT])
            reg[OVER] += 1
        first = reg[PIECES_N]
        if len(pieces) - first < min(reg[FREE_N], width[row]):
            return False
        last = first
        left = width[row]
        while left > 0:
            begin = closest(tags, bins, left)
            if begin < 0:
                begin = largest(bins)
            length = tags[begin, LENGTH]
            bin_out(tags, bins, reg, begin)
            taken = min(length, left)
            if taken < length:
                bin_in(tags, bins, reg, begin + taken, length - taken)
            put_piece(pieces, first, last, begin, taken)
            last += 1
            left -= taken
        reg[PIECES_N] = last
        reg[ROW] = row + 1
        cut[row + 1] = last
    return True


class Layout:
    """Lays out runs on `node_count` nodes, all free at first."""

    def __init__(self, node_count: int) -> None:
        self._tags = np.zeros((node_count, 4), np.int32)
        self._tags[:, FIRST] = -1
        self._bins = np.full(BINS, -1, np.int32)
        self._reg = np.zeros(4, np.int64)
        give_back(self._tags, self._bins, self._reg, 0, node_count)
        self.cut = np.zeros(1, np.int64)
        """Where the pieces of each run begin; one longer than the runs."""
        self._pieces = np.zeros((64, 2), np.int32)
        self._over = np.empty(0, np.int64)

    @property
    def pieces(self) -> NDArray[np.int32]:
        """The intervals of all runs behind each other: first node, how many."""
        return self._pieces[: self._reg[PIECES_N]]

    def lay_out(self, start_us: Ints, end_us: Ints, width: Ints) -> None:
        """Runs in order of start; `end_us` -1: still running.

        Before more runs are laid out, call `keep`; those that it keeps come first then.
        """
        reg = self._reg
        over = np.flatnonzero(end_us >= 0)
        over = over[np.argsort(end_us[over], kind="stable")]
        reg[OVER] = 0
        self.cut = np.append(self.cut, np.zeros(len(start_us) + 1 - len(self.cut), np.int64))
        state = (self._tags, self._bins, reg)
        while not lay_out(*state, start_us, end_us, width, over, self.cut, self._pieces):
            more = np.zeros((len(self._pieces) + len(self._tags) + 2 * len(start_us), 2), np.int32)
            self._pieces = np.concatenate((self._pieces, more))
        self._over = over

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Forget all runs but these, which have not ended. What the others had is free."""
        for gone in self._over[self._reg[OVER] :]:
            for begin, count in self._pieces[self.cut[gone] : self.cut[gone + 1]]:
                give_back(self._tags, self._bins, self._reg, begin, count)
        self._over = np.empty(0, np.int64)
        self._reg[OVER] = 0
        first, count = self.cut[rows], np.diff(self.cut)[rows]
        self.cut = np.append(0, np.cumsum(count))
        place = np.arange(self.cut[-1]) + np.repeat(first - self.cut[:-1], count)
        pieces = self._pieces[place]
        self._pieces[: len(pieces)] = pieces
        self._reg[ROW], self._reg[PIECES_N] = len(rows), len(pieces)


def nodes_of_runs(
    node_count: int, start_us: Ints, end_us: Ints, width: Ints
) -> tuple[Ints, NDArray[np.int32]]:
    """Nodes of runs in order of start, as a run table has them: where each one's begin, and all of them.

    `end_us` -1: still running. At no time there may be more than `node_count` nodes in use.
    """
    layout = Layout(node_count)
    layout.lay_out(start_us, end_us, width)
    first = np.concatenate(([0], np.cumsum(width)))
    node: NDArray[Any] = np.empty(int(first[-1]), np.int32)
    gather_intervals(layout.pieces, node)
    return first, node


class LaidOutLater(RunTable):
    """A run table whose nodes are laid out when somebody first looks at them; a sweep's summaries never do."""

    __slots__ = ("_node_count",)
    _node_count: int

    @classmethod
    def of(cls, runs: RunTable, node_count: int) -> LaidOutLater:
        """These runs, whatever nodes they have, on `node_count` nodes."""
        later = cls.__new__(cls)
        for each in fields(RunTable):
            if each.name != "node":
                object.__setattr__(later, each.name, getattr(runs, each.name))
        object.__setattr__(later, "_node_count", node_count)
        return later

    def __getattr__(self, name: str) -> Any:
        """Only called for what is not there yet."""
        if name != "node":
            raise AttributeError(name)
        _, node = nodes_of_runs(
            self._node_count,
            *map(np.ascontiguousarray, (self.start_us, self.end_us, np.diff(self.first))),
        )
        node.setflags(write=False)
        object.__setattr__(self, "node", node)
        return node
