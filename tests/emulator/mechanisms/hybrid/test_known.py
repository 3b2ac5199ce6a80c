"""Columns of the job table that may be unknown."""

from __future__ import annotations

import numpy as np

from emulator.mechanisms.hybrid.mechanism import _Known
from emulator.workload.table import JobTable


def some_jobs(rng, count):
    """Jobs of which only some have a value, and what each has."""
    values = rng.integers(-1, 4, count)
    nodes = rng.integers(5, 9, count)
    return JobTable.build(submit_us=[0] * count, run_us=[1] * count, nodes=nodes, extra={"most": values})


def test_what_is_unknown_is_what_stands_for_it():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        jobs = some_jobs(rng, 30)
        for known, column in (
            (_Known(jobs.extra["most"], jobs.nodes), jobs.column("most", jobs.nodes)),
            (_Known(None, jobs.nodes), jobs.column("least", jobs.nodes)),
        ):
            assert known.where(np.ones(30, bool), known).tolist() == column.tolist()


def test_some_have_one_column_and_the_rest_the_other():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        jobs, rows = some_jobs(rng, 30), rng.random(30) < 0.5
        most, none = _Known(jobs.extra["most"], jobs.nodes), _Known(None, jobs.submit_us)
        of_most = jobs.column("most", jobs.nodes)
        for one, other, slow in (
            (most, none, np.where(rows, of_most, jobs.submit_us)),
            (none, most, np.where(rows, jobs.submit_us, of_most)),
        ):
            found = one.where(rows, other)
            assert found.dtype == np.int64
            assert np.array_equal(found, slow)
