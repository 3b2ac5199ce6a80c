"""Runs in microseconds under a mechanism that does what it is told, and all that their records say of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from emulator.cluster.cluster import Cluster
from emulator.kernel.job_states import RunOutcome
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord


def jobs_of(*rows: tuple[int, ...], **extra: Any) -> JobTable:
    """Rows (submit, run, nodes[, kind]); estimates are twice the run time."""
    submit, run, nodes = zip(*(row[:3] for row in rows), strict=True)
    return JobTable.build(
        submit_us=list(submit),
        run_us=list(run),
        nodes=list(nodes),
        kind=[row[3] if len(row) > 3 else Kind.BATCH for row in rows],
        estimate_us=[2 * value for value in run],
        extra=extra,
    )


@dataclass
class Script:
    """`actions`: what is done at each time, with its `act`; `seen`: what the mechanism has been told."""

    actions: dict[int, Any]
    seen: list[Any] = field(default_factory=list)

    def on_begin(self, act: Any) -> None:
        self._next(act, -1)

    def _next(self, act: Any, now_us: int) -> None:
        later = [at for at in self.actions if at > now_us]
        if later:
            act.wake(min(later))

    def on_timer(self, act: Any) -> None:
        self.seen.append(act.now_us)
        self.actions[act.now_us](act)
        self._next(act, act.now_us)

    def on_arrival(self, job: int, act: Any) -> None:
        act.enqueue(job, front=True)

    def on_preempted(self, job: int, nodes: Any, act: Any) -> None:
        self.seen.append(("preempted", job, nodes, act.now_us))

    def on_job_end(self, act: Any) -> None:
        self.seen.append(("ended", act.ended_jobs, act.now_us))


def run_script(nodes: int, jobs: JobTable, script: Any, scheduler: str = "fcfs+easy") -> RunRecord:
    loop = Loop(Cluster(nodes, SchedulerConfig.parse(scheduler), jobs), script, name="script")
    assert loop.run()
    record = loop.record()
    assert_lawful(record, jobs_in=len(jobs))
    return record


def runs_of(record: RunRecord) -> list[tuple[int, int, int, str, list[int], int, int]]:
    """Job, start, end, outcome, nodes, work done and work lost (node-us) of each run."""
    runs = record.runs
    return [
        (
            int(runs.job[row]),
            int(runs.start_us[row]),
            int(runs.end_us[row]),
            RunOutcome(int(runs.outcome[row])).name,
            runs.node[runs.first[row] : runs.first[row + 1]].tolist(),
            int(runs.done_node_us[row]),
            int(runs.lost_node_us[row]),
        )
        for row in range(len(runs.job))
    ]
