"""How compiled loops are called: what they take, what they give back, and what they refuse."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from emulator.harness.compiled import cache_folder, compiled
from emulator.harness.kernel_files import Tables, described, load


@compiled
def total(numbers, factor):
    found = 0
    for place in range(len(numbers)):
        found += numbers[place]
    return found * factor


@compiled
def fill(tables, row, value):
    whole, fractions = tables
    whole[row, 1] = value
    fractions[row] = value / 2


@compiled
def is_first(numbers, value):
    return numbers[0] == value


@compiled
def quotient(a, b):
    return a // b


@compiled
def parts(a, b):
    return a // b, a / b, a > b


@pytest.fixture(scope="module")
def five():
    return np.arange(5)


def test_numbers_come_as_python_or_numpy_has_them(five):
    assert [total(five, factor) for factor in (2, np.int64(2), np.int32(2), True)] == [20, 20, 20, 10]
    assert (total(five, 0.5), type(total(five, 0.5))) == (5.0, float)
    assert type(total(five, 2)) is int
    assert is_first(five, 0) is True
    assert is_first(five, 1) is False


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint8, np.float64, np.bool_])
def test_each_type_of_array_has_a_loop_of_its_own(kind):
    assert total(np.ones(3, kind), 1) == 3


def test_arrays_may_be_strided_or_read_only_and_equal_types_are_equal(five):
    shown = five.copy()
    shown.flags.writeable = False
    other = np.frombuffer(five.tobytes(), np.dtype("i8").newbyteorder("="))
    assert [total(each, 1) for each in (shown, five[::2], five.reshape(5, 1)[:, 0], other)] == [10, 6, 10, 10]


def test_a_loop_changes_the_arrays_of_its_caller_and_results_in_nothing():
    whole, fractions = np.zeros((2, 2), np.int64), np.zeros(2)
    assert fill((whole, fractions), 1, 3) is None
    assert (whole.tolist(), fractions.tolist()) == ([[0, 0], [0, 3]], [0.0, 1.5])


def test_a_loop_does_not_write_into_what_may_only_be_read():
    whole, fractions = np.zeros((2, 2), np.int64), np.zeros(2)
    fill((whole, fractions), 1, 3)
    whole.flags.writeable = False
    with pytest.raises(Exception, match="Cannot modify readonly array"):
        fill((whole, fractions), 0, 3)
    assert whole[0, 1] == 0


def test_what_no_loop_takes_is_named(five):
    with pytest.raises(
        TypeError, match="takes numbers, truth values, arrays and tuples of these, not <class 'str'>"
    ):
        total(five, "2")
    with pytest.raises(TypeError, match="takes arrays of numbers, not of <U1"):
        total(np.array(["a"]), 2)


def test_several_results_are_a_tuple():
    assert parts(7, 2) == (3, 3.5, True)


def test_what_a_loop_cannot_do_is_an_error_and_the_next_call_is_none():
    with pytest.raises(RuntimeError, match=r"test_compiled\.quotient met what it cannot do"):
        quotient(1, 0)
    assert quotient(7, 2) == 3


def test_tables_are_looked_at_once_and_a_copy_is_other_memory():
    whole, fractions = np.zeros((2, 2), np.int64), np.zeros(2)
    tables = Tables((whole, fractions))
    assert described((tables,)) == described(((whole, fractions),)) == described((tables,))
    other = copy.deepcopy(tables)
    fill(other, 0, 4)
    assert (whole.tolist(), other[0].tolist()) == ([[0, 0], [0, 0]], [[0, 4], [0, 0]])


def test_a_damaged_file_is_noticed_and_made_anew():
    @compiled
    def answer(a):
        return a + 40

    assert answer(2) == 42
    (path,) = cache_folder().glob("*.answer-*.kernel")
    stored = path.read_bytes()
    path.write_bytes(stored[:-1] + bytes([stored[-1] ^ 1]))
    with pytest.raises(ValueError, match="the machine code of answer is damaged"):
        load("answer", path.read_bytes())
    assert compiled(answer.py_func)(2) == 42
    assert load("answer", path.read_bytes())(described((2,))[1]) == 42
