"""A cluster whose nodes jobs share by cores, memory and GPUs: its passes count what is left of each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.harness import shared_pass as p
from emulator.harness.hooked_cluster import HookedCluster, check_options
from emulator.node_names import default_node_names

if TYPE_CHECKING:
    from emulator.harness.shared_nodes import SharedNodes
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

_RULES = {"none": p.NONE, "easy": p.EASY, "conservative": p.CONSERVATIVE}


class SharedNodesCluster(HookedCluster):
    """`nodes` nodes that are `shared`, and a queue of these jobs, in virtual time.

    To the harness and in records a core is what a node is elsewhere: `node_count` is the number of cores, a job has as
    many nodes as it has cores, and its nodes are in the extra column `whole_nodes`. Raises ValueError for options of
    the scheduler that are not for such nodes, and for a job that they cannot hold.
    """

    def __init__(self, nodes: int, scheduler: SchedulerConfig, jobs: JobTable, shared: SharedNodes) -> None:
        check_options(scheduler, "jobs share nodes (shared_nodes)")
        asked = shared.asked(jobs, nodes)
        wrong = np.logical_or.reduce(list(asked.left_out(jobs).values()))
        if wrong.any():
            number = jobs.number[wrong][0]
            raise ValueError(
                f"shared_nodes: job {number} wants more than {nodes} nodes have: leave it out first"
            )
        rooms = shared.rooms(nodes)
        self._cores_of = rooms[:, p.LEFT_CORES]
        self._names = default_node_names(nodes)
        self._rule = _RULES[scheduler.backfill]
        cores = int(self._cores_of.sum())
        self._own = np.zeros(p.REGISTERS, np.int64)
        self._own[p.MOST_CORES] = self._cores_of.max()
        self._own[p.BEST_FIT] = shared.best_fit
        self._wants = np.zeros((max(len(jobs), 1), p.WANTS_COLUMNS), np.int64)
        self._wants[: len(jobs), p.WIDTH] = jobs.nodes
        self._wants[: len(jobs), [p.CORES, p.MEMORY, p.GPUS]] = asked.wants
        self._wants[: len(jobs), p.SET] = asked.of_set
        self._wants[:, p.SPOT] = -1
        self._left = rooms
        self._which_cores = np.cumsum(self._cores_of) - self._cores_of, shared.node_of_core(nodes)
        self._allowed = asked.allowed
        self._lists = np.zeros(cores, np.int32), np.zeros(cores, np.int32)
        self._marks = np.zeros((p.MARK_ROWS, nodes), np.int64)
        self._make_plan(1)
        super().__init__(cores, scheduler, shared.in_cores(jobs, asked.wants))

    @property
    def node_names(self) -> tuple[str, ...]:
        """Of the cores: `n001/c03` is the fourth of the first node."""
        of_nodes = zip(self._names, self._cores_of.tolist(), strict=True)
        return tuple(f"{name}/c{core:02}" for name, cores in of_nodes for core in range(cores))

    def _make_plan(self, steps: int) -> None:
        """Room for a plan of so many steps, and a queue of as many jobs."""
        running, spots = self._lists
        self._sharing: Any = (
            self._own, self._wants, self._left, self._left.copy(), running, spots, self._marks,
            np.zeros(self._own[p.MOST_CORES] + 1, np.int64), np.zeros(steps, np.int64),
            np.zeros((steps, *self._left.shape), np.int64), np.zeros(steps + 1, np.int64),
            *self._which_cores, self._allowed,
        )  # fmt: skip

    def _choose(self, now_us: int) -> None:
        if self._rule == p.CONSERVATIVE:
            most = sum(self._waiting_and_running) + 2
            if most > len(self._sharing[8]):
                self._make_plan(2 * most)
        p.share_nodes(self._state, self._sharing, now_us, self._rule)
