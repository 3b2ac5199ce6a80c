"""What differs in a run that was stopped in the middle and went on: it is said with the mark of that moment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from balancer.nodelist import some
from emulator.kernel.job_states import RunOutcome
from emulator.record.run_record import Mark
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord
    from emulator.workload.table import JobTable

WENT_ON = "the controller was started again"
"""The mark of a run that went on; what differs from there on is added."""
_SAME = "nothing that was under way differs"
_MOST_NUMBERS = 100


def with_differences(record: RunRecord, planned: JobTable) -> RunRecord:
    """The record, whose marks say what each stop has changed. `planned`: jobs as the trace has them."""
    marks = tuple(
        Mark(mark.at_us, f"{mark.text}: {differences(record, planned, mark.at_us)}")
        if mark.text == WENT_ON
        else mark
        for mark in record.marks
    )
    return replace(record, marks=marks)


def differences(record: RunRecord, planned: JobTable, at_us: int) -> str:
    """What went otherwise of all that was under way when the run stood still, in one line.

    Jobs that ran and had to begin again, jobs that were due and came late, requests that waited and were rejected:
    by their numbers in the trace.
    """
    found = [
        _of(record, _began_again(record, at_us), "job", "began again, since their nodes were lost"),
        _of(record, _came_late(record, planned, at_us), "job", "came late"),
        _of(record, _rejected(record, planned, at_us), "request", "rejected that waited then"),
    ]
    return "; ".join(filter(None, found)) or _SAME


def _began_again(record: RunRecord, at_us: int) -> NDArray[np.int64]:
    runs = record.runs
    lost = (runs.start_us <= at_us) & (runs.end_us >= at_us) & (runs.end_us > runs.start_us)
    return np.unique(runs.job[lost & (runs.outcome == RunOutcome.REQUEUED)]).astype(np.int64)


def _came_late(record: RunRecord, planned: JobTable, at_us: int) -> NDArray[np.int64]:
    late = (planned.submit_us <= at_us) & (record.jobs.submit_us > at_us)
    return np.flatnonzero(late & (planned.kind == Kind.BATCH)).astype(np.int64)


def _rejected(record: RunRecord, planned: JobTable, at_us: int) -> NDArray[np.int64]:
    asked_us = planned.submit_us
    rows = [
        lease.job
        for lease in record.leases
        if not lease.granted and asked_us[lease.job] <= at_us <= lease.decided_us
    ]
    return np.array(rows, np.int64)


def _of(record: RunRecord, rows: NDArray[np.int64], what: str, how: str) -> str:
    if not len(rows):
        return ""
    numbers = [str(number) for number in sorted(record.jobs.number[rows].tolist())]
    return f"{len(numbers)} {what}{'s' * (len(numbers) > 1)} {how} ({some(numbers, _MOST_NUMBERS)})"
