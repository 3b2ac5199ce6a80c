"""The compiled loops over node lists do what a line of Python would, on lists of all kinds."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

from emulator.kernel import lists


def drawn(seed, rows=150, nodes=3000):
    """Node lists behind each other: empty ones, whole intervals, scattered ones, all in any order."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(rows):
        width = int(rng.choice([0, 1, 2, 40, 300]))
        begin = int(rng.integers(0, nodes - width))
        scattered = rng.permutation(nodes)[:width]
        found.append(rng.permutation(np.arange(begin, begin + width)) if rng.random() < 0.5 else scattered)
    first = np.concatenate(([0], np.cumsum([len(each) for each in found])))
    return first, np.concatenate(found).astype(np.int32), [each.tolist() for each in found]


def as_text(nodes):
    """`0-3 7`, in the plainest way."""
    runs = [
        [node for _, node in run]
        for _, run in groupby(enumerate(sorted(nodes)), lambda pair: pair[1] - pair[0])
    ]
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


@pytest.mark.parametrize("seed", range(5))
def test_intervals_are_what_sorting_and_joining_gives(seed):
    first, node, found = drawn(seed)
    rows = np.random.default_rng(seed).integers(-1, len(found), 400)
    room = np.zeros(400 * 300 * lists.WIDEST, np.uint8)
    ends = np.zeros(len(rows), np.int64)

    assert lists.interval_text(first, node, rows, 0, room, ends, np.zeros(300, np.int32)) == len(rows)

    texts = [room[begin:end].tobytes().decode() for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    assert texts == [as_text(found[row]) if row >= 0 else "" for row in rows]


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.int64])
def test_lists_are_gathered_in_any_order(kind):
    first, node, _ = drawn(7)
    pool = node.astype(kind)
    rows = np.random.default_rng(7).integers(0, len(first) - 1, 300)
    begin, length = first[rows], np.diff(first)[rows]
    length[::7] = -1
    wanted = [value for b, n in zip(begin, length, strict=True) for value in pool[b : b + max(n, 0)]]
    out = np.zeros(len(wanted), kind)

    lists.gather(pool, begin, length, out)

    assert out.tolist() == wanted


def test_the_largest_number_of_figures_has_room():
    room = np.zeros(lists.WIDEST, np.uint8)
    end = lists.put_number(room, 0, 2**31 - 1)
    assert room[:end].tobytes() == b"2147483647"


@pytest.mark.parametrize("seed", range(3))
def test_intervals_are_counted_and_named(seed):
    first, node, found = drawn(seed)
    rows = np.random.default_rng(seed).integers(0, len(found), 200)
    begin, size = first[rows], np.diff(first)[rows]
    spare, count, none = np.zeros(300, np.int32), np.zeros(200, np.int64), np.zeros(0, np.int64)
    wanted = [
        (ends[0], int(ends[-1]) - int(ends[0]) + 1)
        for row in rows
        for ends in [[int(end) for end in text.split("-")] for text in as_text(found[row]).split()]
    ]

    total = lists.intervals(begin, size, node, spare, count, none, none)
    low, length = np.zeros(total, np.int64), np.zeros(total, np.int64)
    lists.intervals(begin, size, node, spare, count, low, length)

    assert list(zip(low.tolist(), length.tolist(), strict=True)) == wanted
    assert count.tolist() == [len(as_text(found[row]).split()) for row in rows]
