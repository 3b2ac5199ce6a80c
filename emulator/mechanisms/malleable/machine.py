"""The planner's machine: whole nodes, and jobs that choose or change their width. No clock, no I/O.

It stands where `Cluster` stands for rigid jobs: the same runner, record, laws and results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from emulator.cluster.cluster import Stop
from emulator.cluster.views import TableViews
from emulator.kernel.columns import longer
from emulator.kernel.entry_points import entry_point
from emulator.kernel.job_states import JobState
from emulator.kernel.rows import new_rows
from emulator.machine.account import Account
from emulator.mechanisms.malleable import kernel
from emulator.mechanisms.malleable import tables as t
from emulator.mechanisms.malleable.bounds import UNKNOWN, classes_of
from emulator.schedulers.orders import static_keys
from emulator.workload.speedup import LINEAR, Linear, Speedup, speed_table
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunTable
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

Minimum = Literal["least", "placed", "shared", "pool", "pool_waiting_first"]
_MINIMUM: dict[str, t.MinimumRule] = {
    "least": t.MinimumRule.LEAST,
    "placed": t.MinimumRule.PLACED,
    "shared": t.MinimumRule.SHARED,
    "pool": t.MinimumRule.POOL,
    "pool_waiting_first": t.MinimumRule.WAITING_FIRST,
}

_ADVANCE = entry_point(kernel.advance)
_FINISH_INSTANT = entry_point(kernel.finish_instant)
_HAS_ROOM = entry_point(kernel.has_room)
_NEXT_EVENT = entry_point(kernel.next_event)
_LONG_PLAN = 16
"""Jobs with a known place from which on it is faster to look whether it holds than to find it again."""
_LONG_PROFILE = 64
"""Steps of a profile from which on it is faster to keep bounds than to search it from the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the planner may be told. See the mechanism's parameters, whose units are seconds."""

    minimum: Minimum = "least"
    place_at_minimum: bool = False
    speedup: Speedup = LINEAR
    penalty_us: int = 0
    penalty_is_work: bool = False
    tick_us: int = 1


class PlanningMachine(TableViews):
    """`node_count` whole nodes, a queue and a plan. Jobs end by themselves: it is a simulated machine.

    Extra columns read: `job_class`, `min_nodes`, `max_nodes` (0 or less: unknown). A job without class is rigid, a
    flexible one without limits runs on anything from one node to all.
    """

    _job: t.Jobs
    _runs: t.Runs
    _registers: Any

    def __init__(self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable, rules: Rules) -> None:
        if node_count < 1:
            raise ValueError(f"a machine needs at least one node, not {node_count}")
        if scheduler.backfill != "conservative":
            raise ValueError(
                f"malleable is a planning scheduler: scheduler must be {scheduler.order_name}+conservative,"
                f" not {scheduler.order_name}+{scheduler.backfill}"
            )
        self.node_count = node_count
        count = len(jobs)
        longest_us = int(jobs.estimate_us.max(initial=1))
        self._speed, row = speed_table(rules.speedup, jobs.nodes, node_count, longest_us)
        self._job = new_rows(t.Job, count)
        self._fill(jobs, row, scheduler, rules)
        steps = 2 * count + node_count + 8
        self._runs = new_rows(t.Segment, count + 2 * node_count + 8)
        self._log = np.zeros(int(jobs.nodes.sum()) + 2 * node_count + 8, np.int32)
        registers = self._registers = new_rows(t.Registers, 1)[0]
        registers.jobs_n, registers.free_n = count, node_count
        registers.tick_us, registers.penalty = rules.tick_us, rules.penalty_us
        registers.penalty_is_work = rules.penalty_is_work
        registers.minimum, registers.at_minimum = _MINIMUM[rules.minimum], rules.place_at_minimum
        registers.long_plan, registers.long_profile = _LONG_PLAN, _LONG_PROFILE
        self._state = t.State(
            job=self._job,
            speed=self._speed,
            running=np.zeros(node_count, np.int32),
            by_end=np.zeros(node_count, np.int32),
            queue=np.zeros(count, np.int32),
            started=np.zeros(node_count, np.int32),
            at=np.zeros(steps, np.int64),
            level=np.zeros(steps, np.int64),
            free=np.arange(node_count, dtype=np.int32)[::-1].copy(),
            below=np.zeros(node_count, np.int32),
            runs=self._runs,
            log=self._log,
            registers=registers,
            notes=t.Notes(*np.zeros((len(t.Notes._fields), node_count + 2), np.int64)),
            bounds=t.Bounds(np.zeros(t.CLASSES, np.int64), np.zeros((t.CLASSES, t.CLASSES), np.int64)),
        )

    def _fill(self, jobs: JobTable, row: NDArray[np.int64], scheduler: SchedulerConfig, rules: Rules) -> None:
        job, nodes = self._job, jobs.nodes.astype(np.int64)
        kind = jobs.column("job_class", t.JobClass.RIGID)
        unknown = np.flatnonzero(kind > t.JobClass.MALLEABLE)
        if len(unknown):
            at = int(unknown[0])
            raise ValueError(f"job {jobs.number[at]}: job_class {kind[at]} is none of 0, 1 and 2")
        rigid = kind == t.JobClass.RIGID
        least, most = jobs.column("min_nodes", 1), jobs.column("max_nodes", self.node_count)
        least = np.where(rigid, nodes, np.maximum(least, 1))
        most = np.where(rigid, nodes, np.minimum(np.where(most < 1, self.node_count, most), self.node_count))
        wrong = np.flatnonzero(least > most)
        if len(wrong):
            at = int(wrong[0])
            raise ValueError(
                f"job {jobs.number[at]} runs on {least[at]} to {most[at]} nodes of {self.node_count}: on none"
            )
        bounds = {"job_class": kind, "min_nodes": least, "max_nodes": most}
        if not isinstance(rules.speedup, Linear):
            bounds["sublinear"] = np.ones(len(jobs), np.int64)
        self._jobs = jobs.with_extra(**bounds)
        tick = rules.tick_us
        estimate_us = np.maximum(jobs.estimate_us, 1)
        unit = self._speed[row, nodes]
        for column, values in (
            ("submit_us", jobs.submit_us), ("key", static_keys(jobs, scheduler, "malleable")),
            ("run_us", jobs.run_us), ("estimate_us", -(-estimate_us // tick) * tick), ("nodes", nodes),
            ("job_class", kind), ("min_nodes", least), ("max_nodes", most), ("speed_row", row),
            ("owed", jobs.run_us * unit), ("guessed", estimate_us * unit),
            ("start_us", -1), ("end_us", -1), ("run_row", -1),
        ):  # fmt: skip
            job[column][:] = values
        self._classify(rules)

    def _classify(self, rules: Rules) -> None:
        """Which jobs speak for which others in a plan (`bounds.py`)."""
        job = self._job
        rigid = job["job_class"] == t.JobClass.RIGID
        job["length_class"][rigid], job["length_from"][rigid] = classes_of(job["estimate_us"][rigid])
        job["width_class"][rigid], job["width_from"][rigid] = classes_of(job["nodes"][rigid])
        flexible = ~rigid
        job["length_class"][flexible], speaks_from = classes_of(job["guessed"][flexible])
        narrow = rules.place_at_minimum & (job["job_class"][flexible] == t.JobClass.MALLEABLE)
        least = job["min_nodes"][flexible]
        most = np.where(narrow, least, job["max_nodes"][flexible])
        may_all = (least == least.min(initial=t.NEVER)) & (most == most.max(initial=0))
        if len(self._speed) > 1:
            may_all[:] = False  # how long a job takes depends on more than its work
        job["length_from"][flexible] = np.where(may_all, speaks_from, UNKNOWN)

    @property
    def next_event_us(self) -> int:
        return int(_NEXT_EVENT(self._state))

    def account(self, job: int) -> Account:
        """`HasAccounts`: work in units of the speed table."""
        row = self._job[job]
        return Account(
            total=int(row.owed),
            done=int(row.done),
            since_us=int(row.since_us + row.overhead_us),
            num=int(self._speed[row.speed_row, row.width]),
            den=int(row.width),
        )

    def left(self, job: int, row: int) -> tuple[int, int]:
        """`HasAccounts`."""
        raise ValueError(f"job {self._jobs.number[job]}, run {row}: no run is broken off on this machine")

    # Time.

    def advance(
        self,
        until_us: int,
        *,
        stop_on_end: bool = False,
        stop_on_pass: bool = False,  # noqa: ARG002 - the mechanism of this machine watches no passes
        pause_after: int = -1,
    ) -> Stop:
        """Let everything before `until_us`, and the job ends at it, happen (NEVER_US: to the end)."""
        self._registers.stop_on_end = stop_on_end
        self._registers.instants_left = pause_after
        while (code := _ADVANCE(self._state, until_us)) == Stop.NEEDS_ROOM:
            self._grow()
        return Stop(code)

    def finish_instant(self, now_us: int) -> None:
        """Submits of this instant, then one scheduling pass and the new widths."""
        while not _HAS_ROOM(self._state):
            self._grow()
        _FINISH_INSTANT(self._state, now_us)

    def reject(self, job: int, now_us: int) -> None:
        """An on-demand lease gets no nodes."""
        if self._jobs.kind[job] != Kind.ON_DEMAND or self._job["state"][job] != JobState.FUTURE:
            raise ValueError(f"job {self._jobs.number[job]} is no lease that has just arrived")
        self._job["state"][job] = JobState.REJECTED
        self._job["end_us"][job] = now_us

    def _grow(self) -> None:
        """Twice the rows where an instant might not find as many as it needs."""
        if len(self._runs) - self._registers.runs_n < self.node_count:
            self._runs = longer(self._runs, len(self._runs))
        if len(self._log) - self._registers.log_n < self.node_count:
            self._log = longer(self._log, len(self._log))
        self._state = self._state._replace(runs=self._runs, log=self._log)

    # Afterwards.

    def job_table(self) -> JobTable:
        return self._jobs

    def run_table(self) -> RunTable:
        """Every segment so far: a job on a fixed set of nodes."""
        table = super().run_table()
        done = self._runs["done"][: len(table.job)]
        return replace(table, done_node_us=done.copy(), lost_node_us=np.zeros_like(done))
