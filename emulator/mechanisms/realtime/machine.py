"""A machine with real-time and batch jobs over any topology: the arrays, and what others may see of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import NEVER_US
from emulator.cluster.cluster import Stop
from emulator.cluster.views import TableViews
from emulator.kernel.columns import longer
from emulator.kernel.entry_points import entry_point
from emulator.kernel.rows import new_rows
from emulator.kernel.tables import FRONT, BackfillChoice
from emulator.machine.account import Account
from emulator.mechanisms.realtime import kernel
from emulator.mechanisms.realtime import tables as t
from emulator.mechanisms.realtime.segments import io_end
from emulator.schedulers.orders import static_keys
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.cluster.topology import Layout
    from emulator.machine.checkpoint_io import CheckpointIO
    from emulator.record.run_record import RunTable
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

SCHEMES = {
    "baseline": t.Scheme.BASELINE,
    "hpq": t.Scheme.HIGH_PRIORITY,
    "pre_rest": t.Scheme.RESTART,
    "pre_ckpt_sys": t.Scheme.CKPT_SYS,
    "pre_ckpt_app": t.Scheme.CKPT_APP,
    "pre_ckpt": t.Scheme.CKPT,
}
_CHOICE = {
    "first_fit": BackfillChoice.FIRST_FIT,
    "best_fit": BackfillChoice.BEST_FIT,
    "shortest_first": BackfillChoice.SHORTEST_FIRST,
    "first_submitted": BackfillChoice.FIRST_SUBMITTED,
}
_ADVANCE = entry_point(kernel.advance)
_FINISH_INSTANT = entry_point(kernel.finish_instant)
_HAS_ROOM = entry_point(kernel.has_room)
_NEXT_INSTANT = entry_point(kernel.next_instant)


class RealtimeMachine(TableViews):
    """Jobs of which some are real-time, on a layout, under one of the schemes of realtime-wang-2017.

    `realtime`: whether each row is a real-time job. `interval_us`: each job's work between two checkpoints, 0 for
    none. `hpq_blocks`: under hpQ no batch job starts while a real-time job waits; else real-time jobs are only the
    first in one queue, and batch jobs are backfilled behind them. Jobs are given the least partition that is large
    enough, and count as that wide.
    Raises ValueError for a job that fits nowhere and a scheduler that has no meaning here.
    """

    _job: t.Jobs
    _runs: t.Runs
    _registers: Any

    def __init__(
        self,
        layout: Layout,
        scheduler: SchedulerConfig,
        jobs: JobTable,
        *,
        scheme: str,
        realtime: NDArray[np.bool_],
        interval_us: NDArray[np.int64],
        io: CheckpointIO,
        to_the_back: bool = True,
        hpq_blocks: bool = True,
    ) -> None:
        _check_scheduler(scheduler)
        self.layout = layout
        self.scheduler = scheduler
        self.node_count = layout.node_count
        self.realtime = realtime
        self.scheme = scheme
        units = layout.units_for(jobs.nodes)
        self._jobs = replace(
            jobs,
            nodes=(units * layout.unit_nodes).astype(np.int32),
            kind=np.full(len(jobs), Kind.BATCH, np.int8),  # leases too wait in a queue of this machine
        ).with_extra(real_time=realtime)
        self._job = self._job_rows(units, interval_us)
        self._registers = new_rows(t.Registers, 1)[0]
        if scheme == "hpq" and not hpq_blocks:
            self._job["key"][: len(jobs)][realtime] = FRONT
            scheme = "baseline"
        self._set_registers(scheme, io, to_the_back=to_the_back)
        count = layout.units
        self._runs = new_rows(t.Segment, len(jobs) + 4 * count + 8)
        self._log = np.zeros(int(units.sum()) + 4 * count + 8, np.int32)
        self._state = self._new_state()

    def _job_rows(self, units: NDArray[np.int64], interval_us: NDArray[np.int64]) -> t.Jobs:
        jobs, sizes = self._jobs, self.layout.sizes
        rows = new_rows(t.Job, len(jobs) + 1)
        body = rows[: len(jobs)]
        body["submit_us"][:] = jobs.submit_us
        body["run_us"][:] = jobs.run_us
        body["estimate_us"][:] = np.maximum(jobs.estimate_us, 1)
        body["nodes"][:] = units
        body["size_class"][:] = np.searchsorted(sizes, units) if len(sizes) else -1
        body["key"][:] = static_keys(jobs, self.scheduler, "realtime")
        body["realtime"][:] = self.realtime
        body["interval_us"][:] = np.where(self.realtime, 0, interval_us)
        for column in ("start_us", "end_us", "place", "run_row"):
            body[column][:] = -1
        return rows

    def _set_registers(self, scheme: str, io: CheckpointIO, *, to_the_back: bool) -> None:
        registers = self._registers
        registers.jobs_n = len(self._jobs)
        registers.free_n = self.layout.units
        registers.unit_nodes = self.layout.unit_nodes
        registers.data_owed = io.owed
        registers.node_rate = io.node_rate
        registers.read_cap = io.read_cap
        registers.write_cap = io.write_cap
        registers.scheme = SCHEMES[scheme]
        registers.backfill = self.scheduler.backfill == "easy"
        registers.choice = _CHOICE[self.scheduler.choice]
        registers.classes = len(self.layout.sizes)
        registers.to_the_back = to_the_back
        registers.shared = io.shared

    def _new_state(self) -> t.State:
        """The kernel's tables: of the layout, and empty ones."""
        partitions, units, jobs = self.layout.partitions, self.layout.units, len(self._jobs)
        sizes = np.array([len(each) for each in partitions], np.int64)
        parts, unit = new_rows(t.Partition, max(1, len(partitions))), new_rows(t.Unit, units)
        parts["first"][: len(sizes)] = np.cumsum(sizes) - sizes
        parts["units"][: len(sizes)] = sizes
        unit["owner"][:] = unit["claim"][:] = -1
        overlap = self.layout.overlap if partitions else np.zeros((1, 1), np.bool_)
        _, conflicts = np.nonzero(overlap)
        return t.State(
            job=self._job,
            unit=unit,
            parts=parts,
            part_units=np.array([unit for each in partitions for unit in each] or [0], np.int32),
            conflicts=np.append(conflicts, 0).astype(np.int32),
            conflict_first=np.append(0, np.cumsum(overlap.sum(axis=1))).astype(np.int64),
            overlap=overlap.astype(np.int8),
            queue=_new_list(jobs + 1),
            urgent=_new_list(jobs + 1),
            running=_new_list(2 * units + 1),
            runs=self._runs,
            log=self._log,
            class_first=np.append(np.searchsorted(sizes, self.layout.sizes), len(sizes)).astype(np.int64),
            values=np.zeros(units + 1, np.int64),
            take=np.zeros(2 * units, np.int8),
            tried=np.zeros(2 * len(self.layout.sizes) + 2, np.int8),
            registers=self._registers,
        )

    # Time.

    def advance(
        self,
        until_us: int,
        *,
        stop_on_end: bool = False,  # noqa: ARG002 - nobody asks for single ends or passes here
        stop_on_pass: bool = False,  # noqa: ARG002
        pause_after: int = -1,
    ) -> Stop:
        """Let everything before `until_us` happen (NEVER_US: to the end)."""
        self._registers.instants_left = pause_after
        while (code := _ADVANCE(self._state, until_us)) == Stop.NEEDS_ROOM:
            self._make_room()
        return Stop(code)

    def finish_instant(self, now_us: int) -> None:
        """Ends, submits and the pass of this instant."""
        while not _HAS_ROOM(self._state, now_us):
            self._make_room()
        _FINISH_INSTANT(self._state, now_us)

    def _make_room(self) -> None:
        units = self.layout.units
        now_us = int(self._registers.now)
        if len(self._runs) - self._registers.runs_n <= 2 * units:
            self._runs = longer(self._runs, len(self._runs) + 2 * units)
        if len(self._log) - self._registers.log_n <= 2 * units:
            self._log = longer(self._log, len(self._log) + 2 * units)
        self._state = self._state._replace(runs=self._runs, log=self._log)
        wanted = kernel.scratch_wanted(self._state, now_us)
        if len(self._state.take) < wanted:
            self._state = self._state._replace(take=np.zeros(2 * wanted, np.int8))

    @property
    def next_event_us(self) -> int:
        return int(_NEXT_INSTANT(self._state))

    # What a reader may look at.

    def job_table(self) -> JobTable:
        """All jobs, as wide as the place that they are given."""
        return self._jobs

    def account(self, job: int) -> Account:
        """`HasAccounts`: work in node-us. Reading back and writing are times in which the job does nothing."""
        row, nodes = self._job[job], int(self._jobs.nodes[job])
        phase = int(row.phase)
        writes = phase in (t.Phase.WRITING, t.Phase.LEAVING)
        return Account(
            total=int(row.run_us) * nodes,
            done=int(row.base_us) * nodes,
            since_us=int(row.since_us) if phase == t.Phase.WORKING else NEVER_US,
            saved=int(row.saved_us) * nodes,
            save_us=int(io_end(self._job, self._registers, job)) if writes else NEVER_US,
        )

    def left(self, job: int, row: int) -> tuple[int, int]:
        """`HasAccounts`."""
        nodes, saved = int(self._jobs.nodes[job]), int(self._job["saved_us"][job])
        return (saved + int(self._runs["lost_us"][row])) * nodes, saved * nodes

    @property
    def segments(self) -> t.Runs:
        """The run table as the kernel keeps it, rows of `tables.Segment`. A view."""
        return self._runs[: self._registers.runs_n]

    def units_of_segments(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """`(first, unit)`: segment r had the units `unit[first[r]:first[r + 1]]`."""
        logged = int(self._registers.log_n)
        return np.append(self.segments["first"], logged), self._log[:logged].copy()

    def run_table(self) -> RunTable:
        """Every segment so far. On a machine of midplanes node identities are not listed (see `units_of_segments`)."""
        table, rows = super().run_table(), self.segments
        if self.layout.unit_nodes > 1:
            table = replace(table, first=np.zeros_like(table.first), node=table.node[:0])
        nodes = self._jobs.nodes[table.job].astype(np.int64)
        return replace(table, done_node_us=rows["work_us"] * nodes, lost_node_us=rows["lost_us"] * nodes)


def _new_list(room: int) -> t.JobList:
    return t.JobList(np.zeros(room, np.int32), new_rows(t.ListSize, 1)[0])


def _check_scheduler(scheduler: SchedulerConfig) -> None:
    if scheduler.backfill == "conservative":
        raise ValueError("realtime: the scheduler's backfill is `easy` or `none`, not `conservative`")
    plain = {"estimates": "user", "pass_": "instant", "reservation": "refreshed", "end_at_shadow": True}
    for name, value in plain.items():
        if getattr(scheduler, name) != value:
            raise ValueError(f"realtime: the scheduler option {name.rstrip('_')} can only be {value!r} here")
    if not (scheduler.spare_nodes and scheduler.protect_head):
        raise ValueError("realtime: the scheduler options spare_nodes and protect_head can only be true here")
