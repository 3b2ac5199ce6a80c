"""Which nodes the runs of a machine get that only counted them, compiled: intervals of nodes, as few as can be.

Where nothing depends on which nodes a job has, the kernel counts them, and its starts and ends are laid out here
afterwards. A run gets the closest free interval that holds it, from its low end; where none does, the largest free
intervals, one after the other. The free intervals are kept as D. Knuth's boundary tags (The Art of Computer Programming
1, 2.5, algorithm C) in bins by length, as in TLSF (M. Masmano et al., ECRTS 2004): a start or an end costs the same on
any machine. What a run gets depends only on what happened before it, so that the nodes of a run so far stay.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from emulator.kernel.compiled import compiled, inlined
from emulator.kernel.entry_points import entry_points
from emulator.kernel.lists import gather_intervals
from emulator.kernel.rows import new_record
from emulator.record.run_record import RunTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.kernel.tables import Ints, Ints32

    Pieces = NDArray[Any]
    """Of `PIECE`."""


class Tags(NamedTuple):
    """Boundary tags, one value a node. They stand at the first node of a free interval, `first` at its last one."""

    length: Ints32
    """Of the interval, 0 elsewhere."""
    first: Ints32
    """Its first node, -1 elsewhere."""
    behind: Ints32
    """Its neighbours in its bin."""
    before: Ints32


class Counts:
    """Registers."""

    row: int
    """The next run."""
    over: int
    """The next of those that end."""
    pieces_n: int
    """Pieces so far."""
    free_n: int
    """Free intervals."""


PIECE = np.dtype((np.record, [("begin", np.int32), ("count", np.int32)]))
"""An interval that a run has: its first node, and how many."""

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
def bin_out(tags: Tags, bins: Ints32, registers: Counts, begin: int) -> None:
    """Take the free interval that begins here out of its bin; its nodes are nobody's then."""
    length = tags.length[begin]
    before = tags.before[begin]
    behind = tags.behind[begin]
    if before >= 0:
        tags.behind[before] = behind
    else:
        bins[bin_of(length)] = behind
    if behind >= 0:
        tags.before[behind] = before
    tags.first[begin + length - 1] = -1
    tags.length[begin] = 0
    registers.free_n -= 1


@inlined
def bin_in(tags: Tags, bins: Ints32, registers: Counts, begin: int, length: int) -> None:
    """Put a free interval into its bin, before the others there."""
    which = bin_of(length)
    behind = bins[which]
    tags.length[begin] = length
    tags.first[begin + length - 1] = begin
    tags.behind[begin] = behind
    tags.before[begin] = -1
    if behind >= 0:
        tags.before[behind] = begin
    bins[which] = begin
    registers.free_n += 1


@compiled
def give_back(tags: Tags, bins: Ints32, registers: Counts, begin: int, count: int) -> None:
    """Nodes are free again, one interval with the free ones beside them."""
    if begin > 0 and tags.first[begin - 1] >= 0:
        low = tags.first[begin - 1]
        bin_out(tags, bins, registers, low)
        count += begin - low
        begin = low
    behind = begin + count
    if behind < tags.length.shape[0] and tags.length[behind] > 0:
        length = tags.length[behind]
        bin_out(tags, bins, registers, behind)
        count += length
    bin_in(tags, bins, registers, begin, count)


@inlined
def closest(tags: Tags, bins: Ints32, needed: int) -> int:
    """Where the free interval begins that holds so many nodes and is about the shortest of these, -1 for none."""
    which = bin_of(needed)
    at: int = bins[which]
    while at >= 0 and tags.length[at] < needed:
        at = tags.behind[at]
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
def put_piece(pieces: Pieces, first: int, last: int, begin: int, count: int) -> None:
    """A piece takes its place among `pieces[first:last]`, which are in order."""
    place = last
    while place > first and pieces[place - 1].begin > begin:
        pieces[place].begin = pieces[place - 1].begin
        pieces[place].count = pieces[place - 1].count
        place -= 1
    pieces[place].begin = begin
    pieces[place].count = count


@compiled
def lay_out(  # noqa: PLR0917 - arrays
    tags: Tags,
    bins: Ints32,
    registers: Counts,
    start: Ints,
    end: Ints,
    width: Ints,
    over: Ints,
    cut: Ints,
    pieces: Pieces,
) -> bool:
    """Lay the runs from ROW on out, in order of start; `over` has the rows of those that end, in order of end.

    The pieces of run r are `pieces[cut[r]:cut[r + 1]]`, the lowest first. False: there have to be more pieces first.
    """
    while registers.row < len(start):
        row = registers.row
        while (
            registers.over < len(over)
            and end[over[registers.over]] <= start[row]
            and over[registers.over] < row
        ):
            gone = over[registers.over]
            for at in range(cut[gone], cut[gone + 1]):
                give_back(tags, bins, registers, pieces[at].begin, pieces[at].count)
            registers.over += 1
        first = registers.pieces_n
        if len(pieces) - first < min(registers.free_n, width[row]):
            return False
        last = first
        left = width[row]
        while left > 0:
            begin = closest(tags, bins, left)
            if begin < 0:
                begin = largest(bins)
            length = tags.length[begin]
            bin_out(tags, bins, registers, begin)
            taken = min(length, left)
            if taken < length:
                bin_in(tags, bins, registers, begin + taken, length - taken)
            put_piece(pieces, first, last, begin, taken)
            last += 1
            left -= taken
        registers.pieces_n = last
        registers.row = row + 1
        cut[row + 1] = last
    return True


_GIVE_BACK, _LAY_OUT = entry_points(give_back, lay_out)


class Layout:
    """Lays out runs on `node_count` nodes, all free at first."""

    def __init__(self, node_count: int) -> None:
        length, first, behind, before = np.zeros((4, node_count), np.int32)
        first[:] = -1
        self._tags = Tags(length, first, behind, before)
        self._bins = np.full(BINS, -1, np.int32)
        self._registers = new_record(Counts)
        _GIVE_BACK(self._tags, self._bins, self._registers, 0, node_count)
        self.cut = np.zeros(1, np.int64)
        """Where the pieces of each run begin; one longer than the runs."""
        self._pieces = np.zeros(64, PIECE)
        self._over = np.empty(0, np.int64)

    @property
    def pieces(self) -> Pieces:
        """The intervals of all runs behind each other: first node, how many."""
        return self._pieces[: self._registers.pieces_n]

    def lay_out(self, start_us: Ints, end_us: Ints, width: Ints) -> None:
        """Runs in order of start; `end_us` -1: still running.

        Before more runs are laid out, call `keep`; those that it keeps come first then.
        """
        registers = self._registers
        over = np.flatnonzero(end_us >= 0)
        over = over[np.argsort(end_us[over], kind="stable")]
        registers.over = 0
        self.cut = np.append(self.cut, np.zeros(len(start_us) + 1 - len(self.cut), np.int64))
        state = (self._tags, self._bins, registers)
        while not _LAY_OUT(*state, start_us, end_us, width, over, self.cut, self._pieces):
            more = np.zeros(len(self._pieces) + len(self._tags.length) + 2 * len(start_us), PIECE)
            self._pieces = np.concatenate((self._pieces, more))
        self._over = over

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Forget all runs but these, which have not ended. What the others had is free."""
        for gone in self._over[self._registers.over :]:
            for begin, count in self._pieces[self.cut[gone] : self.cut[gone + 1]]:
                _GIVE_BACK(self._tags, self._bins, self._registers, begin, count)
        self._over = np.empty(0, np.int64)
        self._registers.over = 0
        first, count = self.cut[rows], np.diff(self.cut)[rows]
        self.cut = np.append(0, np.cumsum(count))
        place = np.arange(self.cut[-1]) + np.repeat(first - self.cut[:-1], count)
        pieces = self._pieces[place]
        self._pieces[: len(pieces)] = pieces
        self._registers.row, self._registers.pieces_n = len(rows), len(pieces)


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
