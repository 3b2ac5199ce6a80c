"""Nodes that go together (`interconnect.py`): passes choose single nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from emulator.cluster.cluster_tables import BACKFILL_RULES
from emulator.cluster.selection import Selection, check_options, waiting_and_running
from emulator.kernel import compact as c
from emulator.kernel import tables as t
from emulator.kernel.entry_points import entry_point
from emulator.kernel.job_states import RunOutcome
from emulator.kernel.rows import new_record

if TYPE_CHECKING:
    from emulator.cluster.interconnect import Interconnect
    from emulator.record.run_record import RunTable
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable


class CompactSelection(Selection):
    """Of `node_count` nodes for these jobs, on this interconnect.

    Raises ValueError for options of the scheduler that are not for such nodes.
    """

    def __init__(
        self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable, interconnect: Interconnect
    ) -> None:
        if interconnect.required:
            where = "a job waits for nodes that go together (placement.policy contiguous, local)"
            check_options(scheduler, where)
        self._interconnect = interconnect
        self._pass = entry_point(c.require if interconnect.required else c.prefer)
        how = new_record(c.How)
        how.goal, how.required = interconnect.goal, interconnect.required
        how.has_units, how.kills = interconnect.has_units, interconnect.kills
        self._how = how
        self._full = jobs.run_us.astype(np.int64)
        self._base = self._full.copy()
        self._by_node = [np.zeros(node_count, np.int32) for _ in range(5)]
        self._unit_free = np.zeros(len(interconnect.unit_begin), np.int32)
        self._release = np.zeros(node_count, np.int64)
        self._held = np.zeros(node_count, np.int32)
        self._node_count = node_count
        self._rule = int(BACKFILL_RULES[scheduler.backfill])
        self._plans = interconnect.required and self._rule == t.BackfillRule.CONSERVATIVE
        self._make_wires(64 if self._plans else 1)

    def _make_wires(self, steps: int) -> None:
        wires = self._interconnect
        open_now, may, picked, given, spare = self._by_node
        self._wires = c.Wires(
            order=wires.order,
            rank=wires.rank,
            unit_free=self._unit_free,
            open_now=open_now,
            may=may,
            picked=picked,
            given=given,
            spare=spare,
            release=self._release,
            held=self._held,
            at=np.zeros(steps, np.int64),
            level=np.zeros((steps, self._node_count), np.int32),
            base=self._base,
            full=self._full,
            how=self._how,
            unit=wires.unit,
            unit_begin=wires.unit_begin,
            fewest=wires.fewest_of_width,
        )

    def start_jobs(self, state: t.State, now_us: int) -> None:
        if self._plans:
            most = sum(waiting_and_running(state)) + 8
            if most > len(self._wires.at):
                self._make_wires(2 * most)
        self._pass(state, self._wires, now_us, self._rule, float(self._interconnect.penalty))

    def job_table(self, jobs: JobTable, rows: t.Jobs) -> JobTable:  # noqa: ARG002 - as the base has it
        """All jobs, with the run times that they have on the nodes they got."""
        return (
            replace(jobs, run_us=self._full.astype(jobs.run_us.dtype)) if self._interconnect.penalty else jobs
        )

    def run_table(self, runs: RunTable, rows: t.Jobs) -> RunTable:
        """Every run so far; one that its nodes made longer than its estimate, where that kills it, was killed."""
        wires = self._interconnect
        if not (wires.penalty and wires.kills):
            return runs
        cut = self._full[runs.job] > rows["estimate_us"][runs.job]
        outcome = np.where(cut & (runs.outcome == RunOutcome.FINISHED), RunOutcome.KILLED, runs.outcome)
        return replace(runs, outcome=outcome.astype(np.int8))
