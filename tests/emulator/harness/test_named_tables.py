"""Tables with named rows: columns are one memory with their rows, and one that a table does not have is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emulator.harness import tables as t
from emulator.harness.compiled import compiled
from emulator.harness.rows import dtype_of, new_rows

TABLES = {t.Node: ("job", "offline", "since_us", "place")}


@compiled
def add_to_first(table: Any, much: int) -> None:
    for k in range(table.shape[0]):
        table[k].first += much


@compiled
def column_of_another_table(table: Any) -> int:
    found: int = table[0].owed_nodes
    return found


class Pair:
    first: int
    last_us: int


def test_a_row_is_one_integer_a_field_in_the_order_of_its_class():
    assert dtype_of(Pair).fields is not None
    assert {name: (str(kind), at) for name, (kind, at, *_) in dtype_of(Pair).fields.items()} == {
        "first": ("int64", 0),
        "last_us": ("int64", 8),
    }


def test_compiled_loops_rows_and_columns_see_the_same_memory():
    pairs = new_rows(Pair, 3)
    pairs["first"][:] = 1, 2, 3
    add_to_first(pairs, 10)
    pairs[1].last_us = 7
    assert [tuple(row) for row in pairs] == [(11, 0), (12, 7), (13, 0)]


@pytest.mark.parametrize("row", TABLES, ids=lambda row: row.__name__)
def test_a_column_of_another_table_does_not_compile(row):
    with pytest.raises(KeyError, match="owed_nodes"):
        column_of_another_table(new_rows(row, 1))


@pytest.mark.parametrize("row", TABLES, ids=lambda row: row.__name__)
def test_a_column_of_another_table_is_an_error_in_python(row):
    with pytest.raises(AttributeError, match="owed_nodes"):
        _ = new_rows(row, 1)[0].owed_nodes
    with pytest.raises(ValueError, match="no field of name owed_nodes"):
        _ = new_rows(row, 1)["owed_nodes"]


def test_tables_have_the_columns_that_are_written_of_them():
    assert {row: dtype_of(row).names for row in TABLES} == TABLES


def test_nodes_begin_idle_and_in_the_pool():
    node = new_rows(t.Node, 2)
    assert np.all(node["job"] == 0)
    t.clear_nodes(node)
    assert [tuple(row) for row in node] == [(-1, 0, 0, -1)] * 2
