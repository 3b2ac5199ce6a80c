"""A cluster whose nodes jobs share by cores, memory and GPUs: its passes count what is left of each node."""

from __future__ import annotations

import ctypes
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.harness import shared_pass as p
from emulator.harness import tables as t
from emulator.harness.chosen import HOOK
from emulator.harness.cluster import Cluster
from emulator.harness.decisions import default_node_names

if TYPE_CHECKING:
    from emulator.harness.shared_nodes import SharedNodes
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

_RULES = {"none": p.NONE, "easy": p.EASY, "conservative": p.CONSERVATIVE}
_FREE = ("order", "backfill", "priorities", "cycle_s")
"""Options of the scheduler that may be any; the others are those of passes that count nodes."""


class SharedNodesCluster(Cluster):
    """`nodes` nodes that are `shared`, and a queue of these jobs, in virtual time.

    To the harness and in records a core is what a node is elsewhere: `node_count` is the number of cores, a job has as
    many nodes as it has cores, and its nodes are in the extra column `whole_nodes`. Raises ValueError for options of
    the scheduler that are not for such nodes, and for a job that they cannot hold.
    """

    def __init__(self, nodes: int, scheduler: SchedulerConfig, jobs: JobTable, shared: SharedNodes) -> None:
        _check_options(scheduler)
        wrong = (jobs.nodes > nodes) | shared.too_much(jobs)
        if wrong.any():
            number = jobs.number[wrong][0]
            raise ValueError(
                f"shared_nodes: job {number} wants more than {nodes} nodes have: leave it out first"
            )
        self._shared = shared
        self._names = default_node_names(nodes)
        self._rule = _RULES[scheduler.backfill]
        self._failure: Exception | None = None
        self._hook = HOOK(self._ask)
        self._address = ctypes.cast(self._hook, ctypes.c_void_p).value or 0
        cores = nodes * shared.cores
        self._own = np.zeros(p.REGISTERS, np.int64)
        self._own[p.PER_NODE] = shared.cores
        self._own[p.BEST_FIT] = shared.best_fit
        self._wants = np.zeros((max(len(jobs), 1), p.WANTS_COLUMNS), np.int64)
        self._wants[: len(jobs), p.WIDTH] = jobs.nodes
        self._wants[: len(jobs), [p.CORES, p.MEMORY, p.GPUS]] = shared.wants(jobs)
        self._wants[:, p.SPOT] = -1
        self._left = np.tile(np.array(shared.room, np.int64), (nodes, 1))
        self._lists = np.zeros(cores, np.int32), np.zeros(cores, np.int32)
        self._marks = np.zeros((p.MARK_ROWS, nodes), np.int64)
        self._make_plan(1)
        super().__init__(cores, scheduler, shared.in_cores(jobs))
        self._reg[t.BACKFILL] = t.BACKFILL_CHOSEN
        self._keep_nodes()

    @property
    def node_names(self) -> tuple[str, ...]:
        """Of the cores: `n001/c03` is the fourth of the first node."""
        return tuple(f"{name}/c{core:02}" for name in self._names for core in range(self._shared.cores))

    def _make_plan(self, steps: int) -> None:
        """Room for a plan of so many steps, and a queue of as many jobs."""
        running, spots = self._lists
        self._sharing: Any = (
            self._own, self._wants, self._left, self._left.copy(), running, spots, self._marks,
            np.zeros(self._shared.cores + 1, np.int64), np.zeros(steps, np.int64),
            np.zeros((steps, *self._left.shape), np.int64), np.zeros(steps + 1, np.int64),
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
            if self._rule == p.CONSERVATIVE:
                running = int(reg[t.RUNS_N] - reg[t.ENDED_N])
                most = running + int(reg[t.QUEUE_HI] - reg[t.QUEUE_LO]) + 2
                if most > len(self._sharing[8]):
                    self._make_plan(2 * most)
            p.share_nodes(self._state, self._sharing, now_us, self._rule)
        except Exception as error:  # noqa: BLE001 - raised by `_check_order`, when the compiled loop is over
            self._failure = error
            self._reg[t.ORDER_FAILED] = t.RAISED
            self._reg[t.INSTANTS_LEFT] = 0

    def _check_order(self) -> None:
        if self._failure is not None:
            raise self._failure
        super()._check_order()


def _check_options(scheduler: SchedulerConfig) -> None:
    plain = type(scheduler)()
    for name in (each.name for each in fields(scheduler)):
        if name not in _FREE and getattr(scheduler, name) != getattr(plain, name):
            raise ValueError(
                f"scheduler {name.rstrip('_')}: where jobs share nodes (shared_nodes) there is "
                f"{getattr(plain, name)!r} only"
            )
