"""A cluster on which somebody outside picks the next job: its queue is told, its choice is followed, time goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from emulator.cluster.cluster import Cluster
from emulator.cluster.rules import ClusterRules
from emulator.cluster.views import read_only
from emulator.config.node_names import default_node_names
from emulator.kernel import picking
from emulator.kernel import tables as t
from emulator.kernel.entry_points import entry_points
from emulator.kernel.picking import Decision
from emulator.kernel.tables import State
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.record.run_record import RunRecord
    from emulator.workload.table import JobTable


_GO_ON, _NEXT_INSTANT = entry_points(picking.go_on, picking.next_instant)
_START_NEXT, _START_FITTING = entry_points(picking.start_next, picking.start_fitting)


class PickedCluster:
    """`node_count` nodes and a queue, first come first, from which somebody picks.

    `go_on` first, and after every pick; then the queue's first jobs are `cluster.queue`. `backfill`: behind a job that
    is waited for (NEXT). `node_room`: for so many nodes of all runs there is room; `restart` needs it for its jobs.
    All jobs must be batch jobs that fit on the machine; ValueError.
    """

    def __init__(
        self,
        node_count: int,
        jobs: JobTable,
        *,
        backfill: Literal["none", "easy"] = "none",
        node_room: int = 0,
    ) -> None:
        _check(jobs, node_count)
        self.cluster = Cluster(
            node_count, SchedulerConfig(backfill=backfill), jobs, rules=ClusterRules("picks")
        )
        self.cluster.make_room_for(node_room)
        self._most_jobs = len(jobs)

    def go_on(self, decision: Decision = Decision.NEXT, window: int = t.NEVER) -> bool:
        """Let time go on until there is something to decide; False when all is over. See `picking.go_on`."""
        return bool(_GO_ON(self.kernel_state, int(decision), window))

    def pick(self, place: int) -> None:
        """Start the job at this place of the queue, 0 for its head, as soon as it fits (NEXT)."""
        self._must_be_there(place)
        _START_NEXT(self.kernel_state, place)

    def pick_fitting(self, place: int) -> None:
        """Start the job at this place of the queue now (FITTING)."""
        job, cluster = self._must_be_there(place), self.cluster
        if cluster.nodes_wanted(job) > cluster.free_count:
            raise ValueError(
                f"job {cluster.number(job)} wants {cluster.nodes_wanted(job)} nodes, {cluster.free_count} are free"
            )
        _START_FITTING(self.kernel_state, place)

    def wait(self) -> None:
        """Let the next ends and submits happen (FITTING)."""
        if not _NEXT_INSTANT(self.kernel_state):
            raise ValueError("there is nothing to wait for: no job runs, and none will be submitted")

    def _must_be_there(self, place: int) -> int:
        waiting = self.cluster.queue
        if not 0 <= place < len(waiting):
            raise ValueError(f"place {place} of the queue: {len(waiting)} jobs wait")
        return int(waiting[place])

    @property
    def kernel_state(self) -> State:
        """The tables, for compiled functions."""
        return self.cluster.kernel_state

    def restart(self, jobs: JobTable) -> None:
        """Begin anew with other jobs, no more of them than before. What was told of the jobs before is gone."""
        _check(jobs, self.cluster.node_count)
        if len(jobs) > self._most_jobs:
            raise ValueError(f"{len(jobs)} jobs: there is room for {self._most_jobs}")
        if (room := len(self.kernel_state.log)) < (wanted := int(jobs.nodes.sum())):
            raise ValueError(f"{wanted} nodes in all runs: there is room for {room}")
        self.cluster.begin_anew(jobs)

    # Afterwards.

    def record(self) -> RunRecord:
        """The run so far, complete or not, all of it copied: `restart` uses the memory again."""
        cluster = self.cluster
        loop = Loop(cluster, node_names=default_node_names(cluster.node_count))
        loop.decisions.actions.now_us = cluster.now_us
        is_over = cluster.next_event_us == t.NEVER and not len(cluster.queue)
        record = loop.record(interrupted="" if is_over else "not all jobs were picked")
        return replace(record, runs=replace(record.runs, node=read_only(record.runs.node.copy())))


def stacked(picked: Sequence[PickedCluster]) -> State:
    """Move clusters that are alike into tables with one more axis, the cluster, for a loop over all of them.

    They must have as many nodes, jobs and room as one another. They live there from then on.
    """
    columns: Any = zip(*(each.kernel_state for each in picked), strict=True)
    stacks: list[Any] = [np.stack(arrays) for arrays in columns]
    for row, each in enumerate(picked):
        each.cluster.use_tables(State(*(stack[row] for stack in stacks)))
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
