"""Columns written and read block by block are what they are one by one."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.kernel import columns
from emulator.kernel.columns import blocks, copies, fill, longer
from emulator.kernel.rows import new_rows


class Row:
    first: int
    second: int


COUNTS = (0, 1, 4095, 4096, 4097, 9000)


def test_blocks_are_all_rows_in_order():
    for count in COUNTS:
        found = [row for rows in blocks(count) for row in range(count)[rows]]
        assert found == list(range(count))
    assert [rows.stop - rows.start for rows in blocks(10, 4)] == [4, 4, 2]


def test_columns_are_filled_as_one_by_one():
    rng = np.random.default_rng(0)
    for count in COUNTS:
        values = rng.integers(-9, 9, (3, count))
        table, slow = np.zeros((2, count, 5), np.int64)
        fill(table, {4: values[0], 0: values[1].astype(np.int8), 2: values[2].tolist(), 3: -1})
        slow[:, 4], slow[:, 0], slow[:, 2], slow[:, 3] = *values, -1
        assert np.array_equal(table, slow)


def test_columns_with_names_are_filled_and_copied_as_those_with_numbers():
    for count in COUNTS:
        table = new_rows(Row, count)
        fill(table, {"second": np.arange(count), "first": 7})
        assert np.array_equal(table["second"], np.arange(count))
        assert np.all(table["first"] == 7)
        (narrow,) = copies(table, {"second": np.int32})
        assert (narrow.dtype, narrow.tolist()) == (np.int32, list(range(count)))
        assert [row["first"] for row in longer(table, 2)] == [7] * count + [0, 0]


def test_a_column_of_another_length_is_refused():
    with pytest.raises(ValueError, match="broadcast"):
        fill(np.zeros((3, 2), np.int64), {1: np.arange(2)})


def test_copies_are_the_columns_and_nobody_elses_memory():
    rng = np.random.default_rng(1)
    for count in COUNTS:
        table = rng.integers(-9, 9, (count, 4))
        wide, narrow = copies(table, {3: np.int64, 1: np.int8})
        assert np.array_equal(wide, table[:, 3])
        assert np.array_equal(narrow, table[:, 1])
        assert (wide.dtype, narrow.dtype) == (np.int64, np.int8)
        assert not np.shares_memory(wide, table)


def test_a_longer_table_has_zeros_behind_it():
    for table in (np.arange(6).reshape(3, 2), np.arange(3, dtype=np.int32), np.zeros((0, 2), np.int64)):
        found = longer(table, 4)
        assert found.dtype == table.dtype
        assert np.array_equal(found[: len(table)], table)
        assert found[len(table) :].shape == (4, *table.shape[1:])
        assert not found[len(table) :].any()


def test_a_block_holds_so_many_rows_that_a_test_has_several():
    assert max(COUNTS) > columns._ROWS
