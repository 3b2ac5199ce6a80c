"""Compiled loops over lists that lie behind each other in one array: the nodes of each run, above all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.kernel.compiled import compiled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from emulator.kernel.tables import Ints, Ints32

WIDEST = 11
"""Bytes that a node needs at most in `interval_text`: ten figures and what stands before it."""
_BLANK, _DASH, _ZERO = 32, 45, 48


@compiled
def gather(pool: NDArray[Any], begin: Ints, length: Ints, out: NDArray[Any]) -> None:
    """Put the lists `pool[begin[k]:begin[k] + length[k]]` behind each other; a negative length is none."""
    place = 0
    for k in range(len(begin)):
        count = length[k]
        if count > 0:
            values = pool[
                begin[k] : begin[k] + count
            ]  # slices: eight words at a time, as in `structures.copy`
            room = out[place : place + count]
            for at in range(count):
                room[at] = values[at]
            place += count


@compiled
def sort(values: Ints32, count: int) -> None:
    """Sort the first `count` values (Shell); nodes are often in order already."""
    rises = 1
    while rises < count and values[rises - 1] <= values[rises]:
        rises += 1
    if rises >= count:
        return
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(gap, count):
            value = values[at]
            place = at
            while place >= gap and values[place - gap] > value:
                values[place] = values[place - gap]
                place -= gap
            values[place] = value
        gap //= 3


@compiled
def put_number(out: NDArray[np.uint8], place: int, value: int) -> int:
    """Write a number in figures at `place`. Returns the place behind it."""
    figures = 1
    rest = value
    while rest > 9:  # noqa: PLR2004 - a figure
        rest //= 10
        figures += 1
    for at in range(place + figures - 1, place - 1, -1):
        out[at] = _ZERO + value % 10
        value //= 10
    return place + figures


@compiled
def interval_text(
    first: Ints, node: Ints32, rows: Ints, begin: int, out: NDArray[np.uint8], ends: Ints, spare: Ints32
) -> int:
    """Each row's nodes as text, consecutive ones joined: `0-3 7`. A negative row has none.

    Fills `out` from its beginning with the texts of `rows[begin:]`, as many as there is room for, and `ends` with the
    place behind each. Returns the next row. There must be room for one, WIDEST bytes a node; in `spare` for its nodes.
    """
    place = 0
    for k in range(begin, len(rows)):
        row = rows[k]
        count = first[row + 1] - first[row] if row >= 0 else 0
        if place + count * WIDEST > len(out):
            return k
        for at in range(count):
            spare[at] = node[first[row] + at]
        sort(spare, count)
        at = 0
        while at < count:
            last = at
            while last + 1 < count and spare[last + 1] == spare[last] + 1:
                last += 1
            if at > 0:
                out[place] = _BLANK
                place += 1
            place = put_number(out, place, spare[at])
            if last > at:
                out[place] = _DASH
                place = put_number(out, place + 1, spare[last])
            at = last + 1
        ends[k] = place
    return len(rows)


@compiled
def gather_intervals(pieces: NDArray[Any], out: Ints32) -> None:
    """Put the numbers of these intervals (`layout.PIECE`) behind each other."""
    place = 0
    for k in range(len(pieces)):
        begin = pieces[k].begin
        count = pieces[k].count
        room = out[place : place + count]
        for at in range(count):
            room[at] = begin + at
        place += count


@compiled
def intervals(
    first: Ints, size: Ints, node: Ints32, spare: Ints32, count: Ints, low: Ints, length: Ints
) -> int:
    """The intervals of the lists `node[first[k]:first[k] + size[k]]`: how many of each, where each begins, how long.

    Returns how many there are in all; with less room in `low` and `length` only that and `count` are right.
    """
    total = 0
    for k in range(len(first)):
        for at in range(size[k]):
            spare[at] = node[first[k] + at]
        sort(spare, size[k])
        count[k] = 0
        for at in range(size[k]):
            is_new = at == 0 or spare[at] != spare[at - 1] + 1
            if is_new:
                if total < len(low):
                    low[total] = spare[at]
                    length[total] = 0
                count[k] += 1
                total += 1
            if total <= len(low):
                length[total - 1] += 1
    return total
