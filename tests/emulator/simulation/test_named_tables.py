"""Tables with named rows: columns are one memory with their rows, and one that a table does not have is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emulator.kernel import tables as t
from emulator.kernel.compiled import compiled
from emulator.kernel.rows import dtype_of, new_rows, rows_of
from emulator.mechanisms.hybrid import claims as hybrid
from emulator.mechanisms.malleable import tables as malleable
from emulator.mechanisms.oversubscribe import tables as oversubscribe
from emulator.mechanisms.realtime import tables as realtime
from emulator.schedulers import plain
from emulator.schedulers.dynamic import WAITING

EVERY_JOB = (
    "submit_us", "run_us", "estimate_us", "nodes", "key", "state", "start_us", "end_us", "run_row",
)  # fmt: skip
JOB = (*EVERY_JOB, "returns", "kind", "expected_end_us", "ended_before")
TABLES = {
    t.EveryJob: EVERY_JOB,
    t.Job: JOB,
    t.Run: ("job", "start_us", "end_us", "outcome", "first"),
    t.Node: ("job", "offline", "since_us", "place"),
    t.Due: ("at_us", "key"),
    hybrid.HeldNode: ("holder", "behind"),
    hybrid.HybridJob: ("job_class", "least", "guest", "promised", "leaving", "place"),
    t.PlanEntry: ("at_us", "nodes"),
    t.PlanBlock: ("slot", "entries", "last_us", "nodes"),
}


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


class Clash:
    sum: int


def test_a_row_is_one_integer_a_field_in_the_order_of_its_class():
    assert dtype_of(Pair).fields is not None
    assert {name: (str(kind), at) for name, (kind, at, *_) in dtype_of(Pair).fields.items()} == {
        "first": ("int64", 0),
        "last_us": ("int64", 8),
    }


def test_a_field_cannot_have_a_name_that_records_have_of_themselves():
    with pytest.raises(TypeError, match="cannot be called sum"):
        dtype_of(Clash)


@pytest.mark.parametrize(
    "row", [malleable.Job, oversubscribe.Job, realtime.Job], ids=lambda row: row.__module__
)
def test_job_tables_of_all_machines_begin_with_the_same_columns(row):
    names = dtype_of(row).names
    assert names is not None
    assert names[: len(EVERY_JOB)] == EVERY_JOB
    with pytest.raises(KeyError, match="owed_nodes"):
        column_of_another_table(new_rows(row, 1))


def test_plugins_and_compiled_loops_call_what_a_job_has_by_the_same_names():
    shared = set(JOB) & {*dir(plain.Job), *(WAITING.names or ())}
    assert shared == {"submit_us", "estimate_us", "nodes", "start_us", "expected_end_us", "returns"}


def test_compiled_loops_rows_and_columns_see_the_same_memory():
    pairs = new_rows(Pair, 3)
    pairs["first"][:] = 1, 2, 3
    add_to_first(pairs, 10)
    pairs[1].last_us = 7
    assert [tuple(row) for row in pairs] == [(11, 0), (12, 7), (13, 0)]


def test_rows_are_made_of_columns_that_are_as_long_as_each_other():
    pairs = rows_of(Pair, first=np.array([1, 2]), last_us=np.array([3, 4]))
    assert [tuple(row) for row in pairs] == [(1, 3), (2, 4)]
    with pytest.raises(ValueError, match="too many values to unpack"):
        rows_of(Pair, first=np.array([1, 2]), last_us=np.array([3]))


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
