"""A cluster some of whose nodes are not for everybody, or not at any time: its passes count classes of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.harness import placing as p
from emulator.harness.hooked_cluster import HookedCluster, check_options

if TYPE_CHECKING:
    from emulator.harness.placement import Placement
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

_RULES = {"none": p.NONE, "easy": p.EASY, "conservative": p.CONSERVATIVE}


class PlacedCluster(HookedCluster):
    """`node_count` nodes and a queue of these jobs, in virtual time; `placement` has a row for each job.

    Raises ValueError for options of the scheduler that are not for such nodes.
    """

    def __init__(
        self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable, placement: Placement
    ) -> None:
        where = "nodes are not the same for all jobs (features, partitions, reservations)"
        check_options(scheduler, where)
        self._placement = placement
        self._rule = _RULES[scheduler.backfill]
        classes = placement.allowed.shape[1]
        self._work = np.zeros((p.WORK_ROWS, classes), np.int64)
        self._picks = np.zeros((node_count, classes), np.int32)
        self._closed = np.zeros(placement.lines, np.int64)
        self._spare = np.zeros(3 * node_count + 1, np.int32)
        self._asked_of = placement.asked.copy()
        self._make_profile(64)
        super().__init__(node_count, scheduler, jobs)

    @property
    def events_us(self) -> tuple[int, ...]:
        """When reservations begin and end."""
        return self._placement.events_us

    def _make_profile(self, steps: int) -> None:
        placement = self._placement
        self._placing: Any = (
            placement.node_class, self._asked_of, placement.allowed, placement.times, placement.held,
            placement.tiers, placement.rank, np.zeros(steps, np.int64),
            np.zeros((steps, placement.allowed.shape[1]), np.int64), self._work, self._picks, self._closed,
            self._spare,
        )  # fmt: skip

    def _choose(self, now_us: int) -> None:
        waiting, running = self._waiting_and_running
        most = running + 2 * waiting + len(self._placement.times) + 8
        if most > len(self._placing[7]):
            self._make_profile(2 * most)
        p.place_jobs(self._state, self._placing, now_us, self._rule)
