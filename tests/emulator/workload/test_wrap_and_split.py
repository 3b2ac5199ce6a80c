"""Workloads that begin busy, and leases as single requests."""

from __future__ import annotations

import pytest

from emulator.workload.split import SplitLeases
from emulator.workload.table import JobTable, Kind
from emulator.workload.wrap import WrapAround

S = 1_000_000


def test_what_runs_at_the_end_of_the_span_runs_at_its_begin():
    jobs = JobTable.build(
        submit_us=[0, 90 * S], run_us=[10 * S, 30 * S], estimate_us=[20 * S, 60 * S], nodes=[1, 2]
    )
    made = WrapAround(100).apply(jobs, nodes=4)
    assert made.submit_us.tolist() == [0, 1, 90 * S]
    assert made.nodes.tolist() == [2, 1, 2]
    assert made.run_us.tolist() == [20 * S, 10 * S, 30 * S]
    assert made.estimate_us.tolist() == [50 * S, 20 * S, 60 * S]


def test_only_as_many_are_put_in_front_as_fit_and_leases_never():
    jobs = JobTable.build(
        submit_us=[90 * S, 91 * S, 92 * S], run_us=[30 * S] * 3, nodes=[3, 3, 1], kind=[0, 0, Kind.ON_DEMAND]
    )
    assert WrapAround(100).apply(jobs, nodes=4).submit_us.tolist() == [0, 90 * S, 91 * S, 92 * S]


def test_a_span_of_no_length_is_refused():
    with pytest.raises(ValueError, match="span_s must be more than 0"):
        WrapAround(0)


def test_each_node_of_a_lease_becomes_a_request_and_batch_jobs_stay():
    jobs = JobTable.build(submit_us=[5, 5], run_us=[7, 8], nodes=[3, 4], kind=[Kind.ON_DEMAND, Kind.BATCH])
    made = SplitLeases().apply(jobs, nodes=8)
    assert made.number.tolist() == [1, 2, 3, 4]
    assert made.nodes.tolist() == [1, 4, 1, 1]
    assert made.run_us.tolist() == [7, 8, 7, 7]
    assert made.kind.tolist() == [1, 0, 1, 1]
