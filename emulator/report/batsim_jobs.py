"""`jobs.csv` of a results folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from balancer.clock import US
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.metrics.energy import energy_of
from emulator.metrics.runs import last_run_of_job
from emulator.report import columns
from emulator.report.columns import numbers
from emulator.report.sheets import Sheet
from emulator.report.tables import KINDS, node_places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

_FINAL_STATE = {
    JobState.FUTURE: "NOT_SUBMITTED",
    JobState.QUEUED: "SUBMITTED",
    JobState.HELD: "SUBMITTED",
    JobState.RUNNING: "RUNNING",
    JobState.ENDED: "COMPLETED_SUCCESSFULLY",
    JobState.REJECTED: "REJECTED",
    JobState.CANCELLED: "COMPLETED_KILLED",
    JobState.SUSPENDED: "SUSPENDED",
}
_WALLTIME_REACHED = "COMPLETED_WALLTIME_REACHED"
_BEHIND_STRETCH = 14
"""Where Batsim has the nodes of a job."""


def batsim_table(record: RunRecord) -> Sheet:
    """`jobs.csv`: the columns of Batsim's job output, which evalys reads; times in seconds."""
    last = last_run_of_job(record)
    has_run = last >= 0
    outcome = np.full(len(last), RunOutcome.RUNNING, np.int8)
    outcome[has_run] = record.runs.outcome[last[has_run]]
    killed = (record.state == JobState.ENDED) & (outcome == RunOutcome.KILLED)
    names = [*(_FINAL_STATE[state] for state in JobState), _WALLTIME_REACHED]
    final = np.where(killed, len(JobState), record.state).astype(np.int8)
    # A running job has a start but no end in its record; the start is that of its run.
    start_us = record.start_us.copy()
    going = (record.state == JobState.RUNNING) & has_run
    start_us[going] = record.runs.start_us[last[going]]
    started, ended = start_us >= 0, (record.start_us >= 0) & (record.end_us >= 0)
    runs = np.bincount(record.runs.job, minlength=len(last))
    run_names = [f"runs={number}" for number in range(int(runs.max(initial=0)) + 1)]
    energy = energy_of(record)
    job_j = np.full(len(last), -1, np.int8) if energy is None else energy.job_j
    workload = [str(record.scenario.get("name", "workload"))]

    def table(rows: slice) -> pa.Table:
        jobs = record.jobs
        submit_us, begin_us, end_us = jobs.submit_us[rows], start_us[rows], record.end_us[rows]
        run_us, turnaround_us = end_us - record.start_us[rows], end_us - submit_us
        is_started, is_over = started[rows], ended[rows]

        def seconds(values_us: NDArray[np.int64], known: NDArray[np.bool_] | None = None) -> pa.Array:
            return numbers(values_us / US, known)

        with np.errstate(divide="ignore", invalid="ignore"):
            stretch = numbers(turnaround_us / run_us, is_over & (run_us > 0))
        succeeded = is_over & (record.state[rows] == JobState.ENDED) & ~killed[rows]
        found = {
            "job_id": numbers(jobs.number[rows]),
            "workload_name": columns.chosen(np.zeros(len(run_us), np.int64), workload),
            "profile": columns.chosen(jobs.kind[rows].astype(np.int64), KINDS),
            "submission_time": seconds(submit_us),
            "requested_number_of_resources": numbers(jobs.nodes[rows]),
            "requested_time": seconds(jobs.estimate_us[rows]),
            "success": numbers(succeeded.astype(np.int8)),
            "final_state": columns.chosen(final[rows].astype(np.int64), names),
            "starting_time": seconds(begin_us, is_started),
            "execution_time": seconds(run_us, is_over),
            "finish_time": seconds(end_us, is_over),
            "waiting_time": seconds(begin_us - submit_us, is_started),
            "turnaround_time": seconds(turnaround_us, is_over),
            "stretch": stretch,
            "consumed_energy": numbers(job_j[rows]),
            "metadata": columns.chosen(runs[rows], run_names),
        }
        return pa.table(found)

    shown = np.where(started & has_run, last, -1)
    return Sheet(
        len(last),
        table,
        "allocated_resources",
        _BEHIND_STRETCH,
        np.maximum(node_places(record, shown)[1], 0),
        lambda rows: columns.intervals(record.runs.first, record.runs.node, shown[rows]),
    )
