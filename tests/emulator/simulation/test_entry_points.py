"""Compiled functions bound to tables with names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from emulator.kernel.compiled import compiled
from emulator.kernel.entry_points import entry_point
from emulator.kernel.rows import dtype_of, new_record, new_rows
from emulator.kernel.tables import State

if TYPE_CHECKING:
    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Ints


class Entry:
    nodes: int
    weight: float


class Sums:
    nodes: int
    weight: float


class Tables(NamedTuple):
    entries: Rows[Entry]
    order: Ints
    own: Sums


@compiled
def add_up(tables: Tables, factor: int) -> int:
    for k in range(tables.order.shape[0]):
        which = tables.order[k]
        tables.own.nodes += factor * tables.entries[which].nodes
        tables.own.weight += factor * tables.entries[which].weight
    return tables.own.nodes


@compiled
def of_a_table_that_there_is_not(state: State) -> int:
    found: int = state.waiting[0]  # type: ignore[attr-defined]
    return found


def tables(*nodes: int) -> Tables:
    entries = new_rows(Entry, len(nodes))
    entries["nodes"][:] = nodes
    entries["weight"][:] = 0.5
    return Tables(entries, np.arange(len(nodes)), new_record(Sums))


def test_both_sides_see_the_same_registers_at_each_call_of_a_bound_function():
    bound = entry_point(add_up)
    one, other = tables(1, 2), tables(3, 4, 5)
    assert [bound(one, 1), bound(one, 10), bound(other, 2)] == [3, 33, 24]
    assert (one.own.nodes, one.own.weight) == (33, 11.0)
    other.own.nodes = 0
    assert bound(other, 1) == add_up(other, 0) == 12


def test_a_field_is_a_whole_number_or_a_float():
    assert [str(dtype_of(Entry)[name]) for name in ("nodes", "weight")] == ["int64", "float64"]


def test_a_table_that_the_state_does_not_have_is_an_error_when_it_is_compiled():
    arrays: Any = [np.zeros(1, np.int64)] * len(State._fields)
    with pytest.raises(Exception, match="waiting"):
        entry_point(of_a_table_that_there_is_not)(State(*arrays))
