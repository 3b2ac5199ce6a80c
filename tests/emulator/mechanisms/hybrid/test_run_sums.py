"""What is added up over all runs in one compiled pass, against the runs of each job one by one."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from emulator.kernel.job_states import RunOutcome
from emulator.mechanisms.hybrid.run_sums import RunSums
from emulator.record.run_record import RunTable
from emulator.workload.table import JobTable

HORIZON_US = 50


def random_record(rng):
    """Runs in order of start with any outcomes; a job's last one may go on. Some without nodes or account of work."""
    many, rows = int(rng.integers(1, 8)), int(rng.integers(0, 30))
    jobs = JobTable.build(
        submit_us=[0] * many,
        run_us=[9] * many,
        nodes=rng.integers(1, 6, many),
        extra={
            "setup_us": rng.integers(-1, 6, many),
            "checkpoint_interval_us": rng.integers(-1, 3, many),
        },
    )
    start = np.sort(rng.integers(0, HORIZON_US, rows))
    width = rng.integers(1, 6, rows) if rng.random() < 0.8 else np.zeros(rows, np.int64)
    has_work = rng.random() < 0.8
    runs = RunTable(
        job=rng.integers(0, many, rows).astype(np.int32),
        start_us=start,
        end_us=np.where(rng.random(rows) < 0.1, -1, start + rng.integers(0, 20, rows)),
        outcome=rng.integers(0, len(RunOutcome), rows).astype(np.int8),
        first=np.append(0, np.cumsum(width)),
        node=np.zeros(int(width.sum()), np.int32),
        done_node_us=rng.integers(0, 60, rows) if has_work else np.empty(0, np.int64),
        lost_node_us=np.zeros(rows if has_work else 0, np.int64),
    )
    return SimpleNamespace(jobs=jobs, runs=runs, horizon_us=HORIZON_US)


def slow_sums(record):
    """The same, job by job."""
    jobs, runs = record.jobs, record.runs
    again, writes, ran, preempted = 0, 0, [0] * len(jobs), [0] * len(jobs)
    for job in range(len(jobs)):
        before = None
        for row in np.flatnonzero(runs.job == job).tolist():
            nodes = int(runs.first[row + 1] - runs.first[row]) or int(jobs.nodes[job])
            end_us = HORIZON_US if runs.end_us[row] < 0 else int(runs.end_us[row])
            length = end_us - int(runs.start_us[row])
            setup = min(max(int(jobs.extra["setup_us"][job]), 0), length)
            is_same_run = before == RunOutcome.RESIZED
            if before is not None and not is_same_run:
                again += nodes * setup
            if runs.has_work and jobs.extra["checkpoint_interval_us"][job] > 0:
                lost = nodes * (length - (0 if is_same_run else setup)) - int(runs.done_node_us[row])
                writes += max(lost, 0)
            ran[job] += length
            before = RunOutcome(int(runs.outcome[row]))
            preempted[job] += before == RunOutcome.PREEMPTED
    return again, writes, ran, preempted


def test_they_are_those_of_the_runs_one_by_one():
    seen = np.zeros(2, np.int64)
    for seed in range(400):
        record = random_record(np.random.default_rng(seed))
        found = RunSums.of(record)
        assert (
            found.setups_again_node_us,
            found.checkpoints_node_us,
            found.ran_us.tolist(),
            found.preempted.tolist(),
        ) == slow_sums(record), seed
        seen += found.setups_again_node_us > 0, found.checkpoints_node_us > 0
    assert (seen > 100).all()


def test_no_columns_of_setups_and_checkpoints_are_none():
    record = random_record(np.random.default_rng(3))
    plain = JobTable.build(
        submit_us=record.jobs.submit_us, run_us=record.jobs.run_us, nodes=record.jobs.nodes
    )
    found = RunSums.of(SimpleNamespace(jobs=plain, runs=record.runs, horizon_us=HORIZON_US))
    assert (found.setups_again_node_us, found.checkpoints_node_us) == (0, 0)
    assert found.ran_us.sum() > 0
