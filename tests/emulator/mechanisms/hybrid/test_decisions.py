"""Who gives: the choices alone, against slow ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.mechanisms.hybrid import HybridMechanism
from emulator.mechanisms.hybrid.arrival_paa import PreemptAtArrival
from emulator.mechanisms.hybrid.arrival_spaa import ShrinkPreemptAtArrival
from emulator.mechanisms.hybrid.decisions import Room, Running, evenly, least_first
from oracle.hybrid_reference import HybridReference

few = st.lists(st.integers(0, 20), max_size=12)


def array(values):
    return np.array(values, np.int64)


@given(few, st.integers(1, 100))
def test_shrinking_is_as_even_as_one_node_from_each_in_turn(most, needed):
    given_ = evenly(array(most), needed)
    if sum(most) < needed:
        assert given_ is None
    else:
        slow = dict(HybridReference.evenly(dict(enumerate(most)), needed))
        assert given_.tolist() == [slow.get(place, 0) for place in range(len(most))]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=15), st.integers(1, 60))
def test_the_least_overhead_goes_first_and_no_more_than_needed(jobs, needed):
    keys, nodes = array([key for key, _ in jobs]), array([width for _, width in jobs])
    chosen = least_first(keys, nodes, needed)
    if nodes.sum() < needed:
        assert chosen is None
        return
    order = sorted(range(len(jobs)), key=lambda place: (jobs[place][0], place))
    assert chosen.tolist() == order[: len(chosen)]
    assert nodes[chosen].sum() >= needed > nodes[chosen[:-1]].sum()


def running(*jobs):
    """(job, nodes, overhead, spare) each."""
    return Running(*(array(column) for column in zip(*jobs, strict=True)))


def test_paa_preempts_the_cheapest():
    jobs = running((3, 4, 50, 0), (5, 2, 10, 1), (8, 8, 20, 0))
    assert PreemptAtArrival().make_room(jobs, 3) == Room(preempt=(5, 8))
    assert PreemptAtArrival().make_room(jobs, 15) is None


def test_spaa_shrinks_if_that_is_enough_and_else_does_as_paa():
    jobs = running((3, 4, 50, 2), (5, 9, 10, 8), (8, 8, 20, 0))
    assert ShrinkPreemptAtArrival().make_room(jobs, 6) == Room(shrink=((3, 2), (5, 4)))
    assert ShrinkPreemptAtArrival().make_room(jobs, 11) == Room(preempt=(5, 8))


def test_an_unknown_strategy_is_refused_with_the_nearest_right_one():
    with pytest.raises(ValueError, match=r"there is no hybrid notice 'cuaa'; did you mean 'cua'"):
        HybridMechanism("cuaa+paa")
    with pytest.raises(ValueError, match=r"such as cua\+spaa"):
        HybridMechanism("cua")
    with pytest.raises(ValueError, match="warning_s"):
        HybridMechanism(warning_s=-1)
