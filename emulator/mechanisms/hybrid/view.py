"""What strategies of one's own see of the running jobs, filled by compiled loops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from emulator.kernel.compiled import compiled
from emulator.machine import work as w
from emulator.mechanisms.hybrid.claims import MALLEABLE
from emulator.mechanisms.hybrid.decisions import Running
from emulator.mechanisms.hybrid.notice_plan import Candidates

if TYPE_CHECKING:
    from emulator.kernel.tables import Ints, Jobs
    from emulator.machine.work import Work
    from emulator.mechanisms.hybrid.claims import HybridJobs
    from emulator.mechanisms.hybrid.machine import HybridRules


@compiled
def describe_running(
    job: Jobs, work: Work, attr: HybridJobs, rows: Ints, now: int, nodes: Ints, overhead: Ints, spare: Ints
) -> None:
    """The columns of `Running` for these jobs."""
    for k in range(rows.shape[0]):
        row = rows[k]
        nodes[k] = job[row].nodes
        overhead[k] = overhead_at(job, work, attr, row, now)
        spare[k] = max(nodes[k] - attr[row].least, 0) if attr[row].job_class == MALLEABLE else 0


@compiled
def overhead_at(job: Jobs, work: Work, attr: HybridJobs, row: int, now: int) -> int:
    """What preempting the job at this time costs it, in us (section III-B.2)."""
    if attr[row].job_class == MALLEABLE:
        return int(work[row].setup_us)
    if work[row].interval_us == 0:
        return int(now - job[row].start_us)
    done, saved = w.done_at(job, work, row, now)
    return int((done - saved) // work[row].width + work[row].setup_us)


@compiled
def stop_at(job: Jobs, work: Work, attr: HybridJobs, row: int, now: int, by: int, warning: int) -> int:
    """When to stop the job for an arrival predicted `by` a time (section III-B.1)."""
    if attr[row].job_class == MALLEABLE:
        return int(max(by - warning, now))
    if work[row].interval_us > 0:
        since = w.phase_of(job, work, row)[2]
        cycle = work[row].interval_us + work[row].cost_us
        last = since + max(by - since, 0) // cycle * cycle
        if last > max(since, now):
            return int(last)
    return int(max(by, now))


@compiled
def describe_candidates(
    job: Jobs, work: Work, attr: HybridJobs, rows: Ints, now: int, by: int, warning: int, nodes: Ints,
    end: Ints, stop: Ints, overhead: Ints,
) -> None:  # fmt: skip
    """The columns of `Candidates` for these jobs and a predicted arrival `by`."""
    for k in range(rows.shape[0]):
        row = rows[k]
        nodes[k] = job[row].nodes
        end[k] = job[row].expected_end_us
        stop[k] = stop_at(job, work, attr, row, now, by, warning)
        overhead[k] = overhead_at(job, work, attr, row, stop[k])


@dataclass(frozen=True, slots=True)
class View:
    """Makes the strategies' views of the jobs that may give nodes; `lenders_n`: so many are in their table."""

    rules: HybridRules
    warning_us: int
    lenders_n: int

    def running(self, now_us: int) -> Running:
        rows = self._jobs()
        nodes, overhead, spare = (np.empty(len(rows), np.int64) for _ in range(3))
        table, work, attr = self.rules.jobs, self.rules.work, self.rules.attributes
        describe_running(table, work, attr, rows, now_us, nodes, overhead, spare)
        return Running(rows, nodes, overhead, spare)

    def candidates(self, now_us: int, predicted_us: int) -> Candidates:
        rows = self._jobs()
        table, work, attr = self.rules.jobs, self.rules.work, self.rules.attributes
        rows = rows[attr["promised"][rows] < 0]
        nodes, end, stop, overhead = (np.empty(len(rows), np.int64) for _ in range(4))
        describe_candidates(
            table, work, attr, rows, now_us, predicted_us, self.warning_us, nodes, end, stop, overhead
        )
        return Candidates(rows, nodes, end, stop, overhead)

    def _jobs(self) -> Ints:
        return np.sort(self.rules.lenders.job[: self.lenders_n])


@dataclass(frozen=True)
class NoticeOutlook:
    """`Outlook` of one notice."""

    view: View
    now_us: int
    needed: int
    free: int
    predicted_us: int

    @cached_property
    def candidates(self) -> Candidates:
        return self.view.candidates(self.now_us, self.predicted_us)
