"""Figures of on-demand requests: how many were met, and how long they took to be answered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from emulator.kernel.job_states import JobState
from emulator.record.lease_table import LeaseTable
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

UNDECIDED, GRANTED, REJECTED = np.int8(-1), np.int8(1), np.int8(0)


@dataclass(frozen=True, slots=True)
class Requests:
    """On-demand requests that have arrived, in order of arrival: requests = granted + rejected + undecided.

    `row` is the request's row in the job table, `answer` GRANTED, REJECTED or UNDECIDED, `wait_us` the time
    from arrival to the answer (decided - submit; Liu 2018, section IV: at most W), -1 while undecided.
    """

    row: NDArray[np.intp]
    answer: NDArray[np.int8]
    wait_us: NDArray[np.int64]
    rejected_by_reason: dict[str, int]

    @property
    def granted_wait_us(self) -> NDArray[np.int64]:
        wait_us: NDArray[np.int64] = self.wait_us[self.answer == GRANTED]
        return wait_us


def requests(record: RunRecord) -> Requests:
    """The on-demand requests of a record and their answers.

    The answer is the lease outcome; a mechanism that starts on-demand jobs without one is judged by the
    job's state: rejected, or granted at its first start.
    """
    jobs = record.jobs
    answer = np.full(len(jobs), UNDECIDED, np.int8)
    decided_us = np.full(len(jobs), -1, np.int64)
    answer[record.state == JobState.REJECTED] = REJECTED
    decided_us[record.state == JobState.REJECTED] = jobs.submit_us[record.state == JobState.REJECTED]
    # The first start counts: a lease that was preempted later had been granted. Of several rows the last
    # assignment stays, hence backwards.
    ran = record.runs.job[::-1]
    answer[ran] = GRANTED
    decided_us[ran] = record.runs.start_us[::-1]
    reasons: Counter[str] = Counter()
    leases = LeaseTable.of(record.leases)
    answer[leases.job] = np.where(leases.granted, GRANTED, REJECTED)
    decided_us[leases.job] = leases.decided_us
    said = leases.reasons
    for place in np.flatnonzero(~leases.granted).tolist():
        reasons[said[place] or "no reason given"] += 1
    arrived = np.flatnonzero((jobs.kind == Kind.ON_DEMAND) & (record.state != JobState.FUTURE))
    wait_us = np.where(answer == UNDECIDED, -1, decided_us - jobs.submit_us)
    return Requests(arrived, answer[arrived], wait_us[arrived], dict(sorted(reasons.items())))
