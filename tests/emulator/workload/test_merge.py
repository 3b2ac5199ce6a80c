"""Two job tables as one: numbers that are taken are moved behind the largest one, others are kept."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.workload.table import JobTable


def table(numbers: list[int], submit_us: int = 0) -> JobTable:
    count = len(numbers)
    return JobTable.build(
        submit_us=[submit_us] * count,
        run_us=[1] * count,
        nodes=[1] * count,
        number=np.array(numbers, np.int64),
    )


def merged(mine: list[int], others: list[int]) -> list[int]:
    """Their numbers, those of the second table (submitted later) behind those of the first."""
    return table(mine).merge(table(others, submit_us=1)).number.tolist()


@pytest.mark.parametrize(
    ("mine", "others", "together"),
    [
        ([1, 2, 3], [4, 5], [1, 2, 3, 4, 5]),
        ([4, 5], [1, 2], [4, 5, 1, 2]),
        ([1, 9], [4, 5], [1, 9, 4, 5]),
        ([4, 5], [1, 9], [4, 5, 1, 9]),
        ([1, 2, 3], [3, 4], [1, 2, 3, 4, 5]),
        ([1, 2, 3], [1], [1, 2, 3, 4]),
        ([7], [2, 7], [7, 8, 9]),
        ([-3, 1 << 60], [-3], [-3, 1 << 60, (1 << 60) + 1]),
        ([], [2, 1], [1, 2]),
        ([2, 1], [], [1, 2]),
    ],
)
def test_numbers_that_are_taken_are_moved_behind_the_largest(mine, others, together):
    assert merged(mine, others) == together


def test_it_is_so_for_any_numbers():
    rng = np.random.default_rng(1)
    for _ in range(500):
        numbers = rng.permutation(40)
        mine = sorted(numbers[: rng.integers(1, 20)].tolist())
        others = sorted(rng.permutation(np.arange(rng.integers(0, 60), 80))[: rng.integers(1, 8)].tolist())
        clash = bool(set(mine) & set(others))
        expected = [max(mine) + 1 + place for place in range(len(others))] if clash else others
        assert merged(mine, others) == mine + expected


def test_an_empty_table_and_another_are_the_other_sorted():
    empty = JobTable.empty()
    other = table([2, 5, 1])
    assert empty.merge(other) is other
    rows = np.array([2, 0, 1])
    assert other.number.tolist() == [1, 2, 5]
    assert empty.merge(other.take(rows)).number.tolist() == [1, 2, 5]
    known = empty.with_extra(setup_us=np.empty(0, np.int64)).merge(other)
    assert known.extra["setup_us"].tolist() == [-1, -1, -1]


def test_a_table_is_in_order_by_submit_then_number():
    for rows, is_so in (
        ([0, 1, 2], True),
        ([0, 2, 1], False),
        ([1, 0, 2], False),
        ([2, 0, 1], False),
        ([], True),
    ):
        jobs = table([1, 2]).merge(table([3], submit_us=1)).take(np.array(rows, np.intp))
        assert jobs.is_in_order == is_so
