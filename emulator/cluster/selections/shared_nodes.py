"""Nodes that jobs share by cores, memory and GPUs: passes count what is left of each node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.cluster.cluster import Cluster
from emulator.cluster.cluster_tables import BACKFILL_RULES
from emulator.cluster.selection import Selection, check_options, waiting_and_running
from emulator.config.node_names import default_node_names
from emulator.kernel import shared_pass as p
from emulator.kernel.columns import fill
from emulator.kernel.entry_points import entry_point
from emulator.kernel.rows import new_record, new_rows, new_table
from emulator.kernel.tables import BackfillRule

if TYPE_CHECKING:
    from emulator.cluster.shared_nodes import SharedNodes
    from emulator.kernel import tables as t
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable


def shared_cluster(nodes: int, scheduler: SchedulerConfig, jobs: JobTable, shared: SharedNodes) -> Cluster:
    """`nodes` nodes that are `shared`, and a queue of these jobs, in virtual time.

    To the harness and in records a core is what a node is elsewhere: `node_count` is the number of cores, a job has as
    many nodes as it has cores, and its nodes are in the extra column `whole_nodes`. Raises ValueError for options of
    the scheduler that are not for such nodes, and for a job that they cannot hold.
    """
    selection = SharedSelection(nodes, scheduler, jobs, shared)
    return Cluster(selection.cores, scheduler, selection.jobs, selection=selection)


class SharedSelection(Selection):
    """Of the `cores` of such nodes; `jobs`: the jobs in cores."""

    takes_events = False

    def __init__(self, nodes: int, scheduler: SchedulerConfig, jobs: JobTable, shared: SharedNodes) -> None:
        check_options(scheduler, "jobs share nodes (shared_nodes)")
        requests = shared.requests_of(jobs, nodes)
        wrong = np.logical_or.reduce(list(requests.left_out(jobs).values()))
        if wrong.any():
            number = jobs.number[wrong][0]
            raise ValueError(
                f"shared_nodes: job {number} wants more than {nodes} nodes have: leave it out first"
            )
        rooms = shared.rooms(nodes)
        self._cores_of = rooms["cores"]
        self._rule = int(BACKFILL_RULES[scheduler.backfill])
        self._share_nodes = entry_point(p.share_nodes)
        self.cores = int(self._cores_of.sum())
        self.jobs = shared.in_cores(jobs, requests.wants)
        of_nodes = zip(default_node_names(nodes), self._cores_of.tolist(), strict=True)
        # `n001/c03` is the fourth core of the first node.
        self.node_names = tuple(f"{name}/c{core:02}" for name, cores in of_nodes for core in range(cores))
        self._counts = new_record(p.Counts)
        self._counts.most_cores = int(self._cores_of.max())
        self._counts.best_fit = shared.best_fit
        self._wants = new_rows(p.Wants, max(len(jobs), 1))
        self._wants["spot"][:] = -1
        of_each = {name: requests.wants[name] for name in ("cores", "memory_kib", "gpus")}
        fill(self._wants[: len(jobs)], {"nodes": jobs.nodes, "node_set": requests.of_set, **of_each})
        self._left = rooms
        self._which_cores = np.cumsum(self._cores_of) - self._cores_of, shared.node_of_core(nodes)
        self._allowed = requests.allowed
        self._lists = np.zeros(self.cores, np.int32), np.zeros(self.cores, np.int32)
        self._make_plan(1)

    def _make_plan(self, steps: int) -> None:
        """Room for a plan of so many steps, and a queue of as many jobs."""
        running, spots = self._lists
        first_core, node_of_core = self._which_cores
        nodes = len(self._left)
        self._sharing = p.Sharing(
            counts=self._counts,
            wants=self._wants,
            room=self._left,
            then=self._left.copy(),
            running=running,
            spots=spots,
            mark=np.zeros(nodes, np.int64),
            checked=np.zeros(nodes, np.int64),
            failed=np.zeros(nodes, np.int64),
            hist=np.zeros(self._counts.most_cores + 1, np.int64),
            at=np.zeros(steps, np.int64),
            level=new_table(p.Left, steps, nodes),
            narrowest=np.zeros(steps + 1, np.int64),
            first_core=first_core,
            node_of_core=node_of_core,
            allowed=self._allowed,
        )

    def start_jobs(self, state: t.State, now_us: int) -> None:
        if self._rule == BackfillRule.CONSERVATIVE:
            most = sum(waiting_and_running(state)) + 2
            if most > len(self._sharing.at):
                self._make_plan(2 * most)
        self._share_nodes(state, self._sharing, now_us, self._rule)
