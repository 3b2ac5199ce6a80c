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
    from emulator.mechanisms.hybrid.machine import HybridCluster


@compiled
def describe_running(
    job: Jobs, work: Work, attr: HybridJobs, who: Ints, now: int, nodes: Ints, overhead: Ints, spare: Ints
) -> None:
    """The columns of `Running` for these jobs."""
    for k in range(who.shape[0]):
        one = who[k]
        nodes[k] = job[one].nodes
        overhead[k] = overhead_at(job, work, attr, one, now)
        spare[k] = max(nodes[k] - attr[one].least, 0) if attr[one].job_class == MALLEABLE else 0


@compiled
def overhead_at(job: Jobs, work: Work, attr: HybridJobs, who: int, now: int) -> int:
    """What preempting the job at this time costs it, in us (section III-B.2)."""
    if attr[who].job_class == MALLEABLE:
        return int(work[who].setup_us)
    if work[who].interval_us == 0:
        return int(now - job[who].start_us)
    done, saved = w.done_at(job, work, who, now)
    return int((done - saved) // work[who].width + work[who].setup_us)


@compiled
def stop_at(job: Jobs, work: Work, attr: HybridJobs, who: int, now: int, by: int, warning: int) -> int:
    """When to stop the job for an arrival predicted `by` a time (section III-B.1)."""
    if attr[who].job_class == MALLEABLE:
        return int(max(by - warning, now))
    if work[who].interval_us > 0:
        since = w.phase_of(job, work, who)[2]
        cycle = work[who].interval_us + work[who].cost_us
        last = since + max(by - since, 0) // cycle * cycle
        if last > max(since, now):
            return int(last)
    return int(max(by, now))


@compiled
def describe_candidates(
    job: Jobs, work: Work, attr: HybridJobs, who: Ints, now: int, by: int, warning: int, nodes: Ints, end: Ints,
    stop: Ints, overhead: Ints,
) -> None:  # fmt: skip
    """The columns of `Candidates` for these jobs and a predicted arrival `by`."""
    for k in range(who.shape[0]):
        one = who[k]
        nodes[k] = job[one].nodes
        end[k] = job[one].expected_end_us
        stop[k] = stop_at(job, work, attr, one, now, by, warning)
        overhead[k] = overhead_at(job, work, attr, one, stop[k])


@dataclass(frozen=True, slots=True)
class View:
    """Makes the strategies' views of the jobs that may give nodes; `lenders_n`: so many are in their table."""

    cluster: HybridCluster
    work: Work
    warning_us: int
    lenders_n: int

    def running(self, now_us: int) -> Running:
        who = self._jobs()
        nodes, overhead, spare = (np.empty(len(who), np.int64) for _ in range(3))
        table, attr = self.cluster.kernel_table, self.cluster.attributes
        describe_running(table, self.work, attr, who, now_us, nodes, overhead, spare)
        return Running(who, nodes, overhead, spare)

    def candidates(self, now_us: int, predicted_us: int) -> Candidates:
        who = self._jobs()
        table, attr = self.cluster.kernel_table, self.cluster.attributes
        who = who[attr["promised"][who] < 0]
        nodes, end, stop, overhead = (np.empty(len(who), np.int64) for _ in range(4))
        describe_candidates(
            table, self.work, attr, who, now_us, predicted_us, self.warning_us, nodes, end, stop, overhead
        )
        return Candidates(who, nodes, end, stop, overhead)

    def _jobs(self) -> Ints:
        return np.sort(self.cluster.lenders.job[: self.lenders_n])


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
