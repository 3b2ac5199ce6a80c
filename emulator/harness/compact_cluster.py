"""A cluster that gives each job nodes that go together (`interconnect.py`): its passes choose single nodes."""

from __future__ import annotations

import ctypes
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.harness import compact as c
from emulator.harness import tables as t
from emulator.harness.chosen import HOOK
from emulator.harness.cluster import Cluster
from emulator.harness.record import RunOutcome

if TYPE_CHECKING:
    from emulator.harness.interconnect import Interconnect
    from emulator.harness.record import RunTable
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

_FREE = ("order", "backfill", "priorities", "cycle_s")
"""Options of the scheduler that may be any where a place is required: the others are of passes that count nodes."""


class CompactCluster(Cluster):
    """`node_count` nodes and a queue of these jobs, in virtual time, on this interconnect.

    Raises ValueError for options of the scheduler that are not for such nodes.
    """

    def __init__(
        self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable, interconnect: Interconnect
    ) -> None:
        plain = type(scheduler)()
        for name in (each.name for each in fields(scheduler)) if interconnect.required else ():
            if name not in _FREE and getattr(scheduler, name) != getattr(plain, name):
                raise ValueError(
                    f"scheduler {name.rstrip('_')}: where a job waits for nodes that go together (placement.policy "
                    f"contiguous, local) there is {getattr(plain, name)!r} only"
                )
        self._interconnect = interconnect
        self._pass = c.require if interconnect.required else c.prefer
        self._failure: Exception | None = None
        self._hook = HOOK(self._ask)
        self._address = ctypes.cast(self._hook, ctypes.c_void_p).value or 0
        how = np.zeros(c.HOW, np.int64)
        how[c.GOAL], how[c.REQUIRED] = interconnect.goal, interconnect.required
        how[c.UNIT_NODES], how[c.HAS_UNITS] = interconnect.unit_nodes, interconnect.has_units
        how[c.KILLS] = interconnect.kills
        self._how = how
        self._full = jobs.run_us.astype(np.int64)
        self._base = self._full.copy()
        units = -(-node_count // interconnect.unit_nodes)
        self._by_node = [np.zeros(node_count, np.int32) for _ in range(5)]
        self._unit_free = np.zeros(units, np.int32)
        self._release = np.zeros(node_count, np.int64)
        self._held = np.zeros(node_count, np.int32)
        super().__init__(node_count, scheduler, jobs)
        self._rule = int(self._reg[t.BACKFILL])
        self._reg[t.BACKFILL] = t.BACKFILL_CHOSEN
        self._plans = interconnect.required and self._rule == t.BACKFILL_CONSERVATIVE
        self._make_wires(64 if self._plans else 1)
        self._keep_nodes()

    def _make_wires(self, steps: int) -> None:
        wires, by_node = self._interconnect, self._by_node
        self._wires: Any = (
            wires.order, wires.rank, self._unit_free, *by_node, self._release, self._held,
            np.zeros(steps, np.int64), np.zeros((steps, self.node_count), np.int32),
            self._base, self._full, self._how,
        )  # fmt: skip

    def _make_state(self) -> None:
        super()._make_state()
        self._reg[t.ASK] = self._address

    def _ask(self, _context: int, now_us: int) -> None:
        """The hook. Nothing can be raised through compiled code: `_check_order` does that."""
        try:
            reg = self._reg
            if self._asked is not None:
                self._asked.reorder(now_us)
                if reg[t.ORDER_FAILED]:
                    return
            if self._plans:
                waiting = int(reg[t.QUEUE_HI] - reg[t.QUEUE_LO])
                most = int(reg[t.RUNS_N] - reg[t.ENDED_N]) + waiting + 8
                if most > len(self._wires[10]):
                    self._make_wires(2 * most)
            self._pass(self._state, self._wires, now_us, self._rule, float(self._interconnect.penalty))
        except Exception as error:  # noqa: BLE001 - raised by `_check_order`, when the compiled loop is over
            self._failure = error
            self._reg[t.ORDER_FAILED] = t.RAISED
            self._reg[t.INSTANTS_LEFT] = 0

    def _check_order(self) -> None:
        if self._failure is not None:
            raise self._failure
        super()._check_order()

    def job_table(self) -> JobTable:
        """All jobs, with the run times that they have on the nodes they got."""
        jobs = super().job_table()
        return (
            replace(jobs, run_us=self._full.astype(jobs.run_us.dtype)) if self._interconnect.penalty else jobs
        )

    def run_table(self) -> RunTable:
        """Every run so far; one that its nodes made longer than its estimate, where that kills it, was killed."""
        table = super().run_table()
        wires = self._interconnect
        if not (wires.penalty and wires.kills):
            return table
        cut = self._full[table.job] > self._job[table.job, t.ESTIMATE]
        outcome = np.where(cut & (table.outcome == RunOutcome.FINISHED), RunOutcome.KILLED, table.outcome)
        return replace(table, outcome=outcome.astype(np.int8))
