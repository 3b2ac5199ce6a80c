"""Rules of a cluster with claims: what the kernel needs to know of nodes held for on-demand jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.cluster.cluster import Cluster
from emulator.cluster.rules import ClusterRules
from emulator.kernel import tables as t
from emulator.kernel.columns import fill, longer
from emulator.kernel.rows import new_rows
from emulator.machine.work import JobWork
from emulator.mechanisms.hybrid import claims as c
from emulator.mechanisms.hybrid.deep_queue import LINE_COLUMNS, lines_for

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from emulator.machine.work import Work
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

_FIRST_ROOM = 64
LONG_QUEUE = 1024
"""Waiting jobs from which on an index of them pays."""
_RUNS_ROOM, _LOG_ROOM = 2, 8
"""Rows of the run table and of the node log, over those that there are if each job runs once on all its nodes."""


def hybrid_cluster(node_count: int, scheduler: SchedulerConfig, jobs: JobTable) -> Cluster:
    """Whole nodes, a batch queue, and claims of on-demand jobs on nodes. Raises ValueError as `HybridRules` does."""
    return Cluster(node_count, scheduler, jobs, rules=HybridRules(node_count, scheduler, jobs))


class HybridRules(ClusterRules):
    """Claims of on-demand jobs on a cluster's nodes (`claims.py`).

    All that happens is compiled (`whole.py`). Raises ValueError for a scheduler with a pass after each event.
    """

    need_nodes = True
    work: Work
    """The work table of the jobs, which the kernel may change; must be set before the first job is submitted."""

    def __init__(self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable) -> None:
        super().__init__("hybrid")
        _check(scheduler)
        self.room = _RUNS_ROOM, _LOG_ROOM
        self.work = new_rows(JobWork, 0)
        self._claim = new_rows(c.Claim, _FIRST_ROOM)
        self._claim_order = np.arange(_FIRST_ROOM)
        self._held = new_rows(c.HeldNode, node_count)
        fill(self._held, {"holder": -1, "behind": -1})
        self._attr = new_rows(c.HybridJob, len(jobs))
        columns: dict[str, ArrayLike] = dict.fromkeys(("guest", "promised", "leaving", "place"), -1)
        columns["job_class"] = jobs.column("job_class", 0)
        columns["least"] = jobs.column("min_nodes", jobs.nodes)
        fill(self._attr, columns)
        self._chosen = np.zeros(node_count, np.int64)
        self._lenders = c.Lenders(*np.zeros((len(c.Lenders._fields), node_count), np.int64))
        self._count = new_rows(c.ClaimCounters, 1)[0]
        self._count.deep_from = t.NEVER
        self._index = np.zeros((1, LINE_COLUMNS), np.int64)
        self._count.in_order = scheduler.order_name == "fcfs"
        self._count.easy = (
            scheduler.order_name == "fcfs"
            and (scheduler.backfill, scheduler.choice) == ("easy", "first_fit")
            and scheduler.estimates == "user"
            and scheduler.protect_head
            and scheduler.reservation != "kept"
        )
        self._count.pass_rescan = self._count.guests_rescan = 1  # whoever waits was never seen by a pass
        self._make_claims()

    def use(self, state: t.State) -> None:
        self.jobs = state.job
        state.registers.ask_always = 1  # guests start in queue order where the pool has no idle node

    def _make_claims(self) -> None:
        self.claims = c.Claims(
            self._claim, self._claim_order, self._held, self._attr, self._chosen, self._count,
            self._index, self._lenders,
        )  # fmt: skip

    def index_long_queues(self, known: int) -> None:
        """Keep an index of who waits while so many do (`deep_queue.py`). Only the kernel may act on jobs then."""
        keys = self.jobs["key"][:known]
        if self._count.easy and bool((keys[1:] >= keys[:-1]).all()):
            self._index = np.zeros((lines_for(len(self.jobs)), LINE_COLUMNS), np.int64)
            self._count.deep_from = LONG_QUEUE
            self._make_claims()

    def let_go(self) -> None:
        """The run is over: give back the large tables that only the kernel needs, before figures are made."""
        self.work, self._index = self.work[:0].copy(), self._index[:0].copy()
        self._attr = new_rows(c.HybridJob, 0)
        self._make_claims()

    @property
    def claims_left(self) -> int:
        """Claims that can be opened before their table has to grow."""
        return len(self._claim) - int(self._count.claims_n)

    def grow_claims(self) -> None:
        """Room for twice as many claims."""
        many = len(self._claim)
        self._claim = longer(self._claim, many)
        self._claim_order = np.concatenate((self._claim_order, np.arange(many, 2 * many)))
        self._make_claims()

    @property
    def attributes(self) -> c.HybridJobs:
        """One row a job: class, least width, guest of, promised to (`claims.py`). A live view."""
        return self._attr

    @property
    def lenders(self) -> c.Lenders:
        """Those that may give nodes (`lenders.py`). A live view."""
        return self._lenders

    def idle_held_node_us(self, now_us: int) -> int:
        """Node-time up to now that nodes were held and idle."""
        count = self._count
        return int(count.idle_node_us + count.idle_n * (now_us - count.idle_at_us))

    @property
    def guest_starts(self) -> int:
        return int(self._count.guests_n)


def _check(scheduler: SchedulerConfig) -> None:
    """Raises ValueError."""
    if scheduler.pass_ == "event":  # noqa: S105 - a scheduling pass
        raise ValueError("hybrid: the scheduler must have one pass an instant (`pass: instant`)")
    if scheduler.cycle_s:
        raise ValueError("hybrid: its passes happen when something happens; cycle_s must be 0")
    if scheduler.start_delay_s:
        raise ValueError("hybrid: jobs start when they are chosen; start_delay_s must be 0")
    if scheduler.head_waits:
        raise ValueError("hybrid: heads start as soon as they fit; head_waits can only be false")
    if scheduler.commit:
        raise ValueError(
            "hybrid: guests start ahead of a head that waits; leave the scheduler option commit out"
        )
    if scheduler.is_plain:
        raise ValueError(
            "hybrid: it starts guests itself in queue order; a scheduler of your own cannot decide that"
        )
