"""A cluster on which somebody outside picks the next job: its queue is told, its choice is followed, time goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from emulator.cluster.cluster import Cluster
from emulator.cluster.views import read_only
from emulator.config.node_names import default_node_names
from emulator.kernel import picking
from emulator.kernel import tables as t
from emulator.kernel.entry_points import entry_points
from emulator.kernel.picking import Decision
from emulator.kernel.rows import clear, plain
from emulator.kernel.tables import State
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord, RunTable
    from emulator.workload.table import JobTable


_GO_ON, _NEXT_INSTANT = entry_points(picking.go_on, picking.next_instant)
_START_NEXT, _START_FITTING = entry_points(picking.start_next, picking.start_fitting)


class PickedCluster(Cluster):
    """`node_count` nodes and a queue, first come first, from which somebody picks.

    `go_on` first, and after every pick; then the queue's first jobs are `queue`. `backfill`: behind a job that is
    waited for (NEXT). `node_room`: for so many nodes of all runs there is room; `restart` needs it for its jobs.
    All jobs must be batch jobs that fit on the machine; ValueError.
    """

    has_own_rules = True

    def __init__(
        self,
        node_count: int,
        jobs: JobTable,
        *,
        backfill: Literal["none", "easy"] = "none",
        node_room: int = 0,
    ) -> None:
        _check(jobs, node_count)
        super().__init__(node_count, SchedulerConfig(backfill=backfill), jobs)
        self._most_jobs = len(jobs)
        if len(self._log) < node_room:
            self._log = np.zeros(node_room, np.int32)
            self._make_state()

    def go_on(self, decision: Decision = Decision.NEXT, window: int = t.NEVER) -> bool:
        """Let time go on until there is something to decide; False when all is over. See `picking.go_on`."""
        return bool(_GO_ON(self._state, int(decision), window))

    def pick(self, place: int) -> None:
        """Start the job at this place of the queue, 0 for its head, as soon as it fits (NEXT)."""
        self._must_be_there(place)
        _START_NEXT(self._state, place)

    def pick_fitting(self, place: int) -> None:
        """Start the job at this place of the queue now (FITTING)."""
        job = self._must_be_there(place)
        if self.nodes_wanted(job) > self.free_count:
            raise ValueError(
                f"job {self.number(job)} wants {self.nodes_wanted(job)} nodes, {self.free_count} are free"
            )
        _START_FITTING(self._state, place)

    def wait(self) -> None:
        """Let the next ends and submits happen (FITTING)."""
        if not _NEXT_INSTANT(self._state):
            raise ValueError("there is nothing to wait for: no job runs, and none will be submitted")

    def _must_be_there(self, place: int) -> int:
        waiting = self.queue
        if not 0 <= place < len(waiting):
            raise ValueError(f"place {place} of the queue: {len(waiting)} jobs wait")
        return int(waiting[place])

    # One after the other in the same memory.

    @property
    def kernel_state(self) -> State:
        """The tables, for compiled functions."""
        return self._state

    def restart(self, jobs: JobTable) -> None:
        """Begin anew with other jobs, no more of them than before. What was told of the jobs before is gone."""
        _check(jobs, self.node_count)
        count, registers = len(jobs), self._registers
        if count > self._most_jobs:
            raise ValueError(f"{count} jobs: there is room for {self._most_jobs}")
        if len(self._log) < (wanted := int(jobs.nodes.sum())):
            raise ValueError(f"{wanted} nodes in all runs: there is room for {len(self._log)}")
        self._known = jobs
        plain(self._job)[:] = 0
        self._fill_rows(jobs, 0)
        if registers.nodes_kept:
            t.clear_nodes(self._node)
        places = np.arange(self.node_count + 1)
        self._free[:] = places[-2::-1]
        plain(self._blocks)[:] = 0
        self._blocks["slot"][:] = places
        self._runs[:] = 0
        clear(registers)
        self._set_registers(self.scheduler, count, simulated=True)

    def live_in(self, tables: Sequence[NDArray[Any]]) -> None:
        """Use these tables, which hold what its own do, from now on."""
        for name, table in zip(_TABLES, tables, strict=True):
            setattr(self, name, table)
        self._show_nodes()
        self._make_state()

    # Afterwards.

    def run_table(self) -> RunTable:
        """Every run so far, all of it copied: `restart` uses the memory again."""
        runs = super().run_table()
        return replace(runs, node=read_only(runs.node.copy()))

    def record(self) -> RunRecord:
        """The run so far, complete or not."""
        loop = Loop(self, node_names=default_node_names(self.node_count))
        loop.decisions.actions.now_us = self.now_us
        is_over = self.next_event_us == t.NEVER and not len(self.queue)
        return loop.record(interrupted="" if is_over else "not all jobs were picked")


_TABLES = (
    "_job", "_node", "_free", "_queue", "_plan", "_blocks", "_heap", "_runs", "_log", "_started", "_scratch",
    "_registers",
)  # fmt: skip
"""What the kernel's state is made of."""


def stacked(clusters: Sequence[PickedCluster]) -> State:
    """Move clusters that are alike into tables with one more axis, the cluster, for a loop over all of them.

    They must have as many nodes, jobs and room as one another. They live there from then on.
    """
    columns: Any = zip(*(each.kernel_state for each in clusters), strict=True)
    stacks: list[Any] = [np.stack(arrays) for arrays in columns]
    for row, cluster in enumerate(clusters):
        cluster.live_in([each[row] for each in stacks])
    return State(*stacks)


def _check(jobs: JobTable, node_count: int) -> None:
    if not len(jobs):
        raise ValueError("there is no job to pick")
    if np.any(leases := jobs.kind != Kind.BATCH):
        raise ValueError(f"job {jobs.number[leases][0]} is an on-demand lease: only batch jobs can be picked")
    if np.any(wide := jobs.nodes > node_count):
        raise ValueError(
            f"job {jobs.number[wide][0]} wants {jobs.nodes[wide][0]} nodes, the cluster has {node_count}"
        )
