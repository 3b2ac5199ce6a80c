"""Nodes that are not for everybody, or not at any time: passes count classes of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.cluster.cluster_tables import BACKFILL_RULES
from emulator.cluster.selection import Selection, check_options, waiting_and_running
from emulator.kernel import placing as p
from emulator.kernel.entry_points import entry_point

if TYPE_CHECKING:
    from emulator.cluster.placement import Placement
    from emulator.kernel import tables as t
    from emulator.schedulers.config import SchedulerConfig


class ClassSelection(Selection):
    """Of `node_count` nodes; `placement` has a row for each job.

    Raises ValueError for options of the scheduler that are not for such nodes.
    """

    def __init__(self, node_count: int, scheduler: SchedulerConfig, placement: Placement) -> None:
        where = "nodes are not the same for all jobs (features, partitions, reservations)"
        check_options(scheduler, where)
        self._placement = placement
        self._rule = int(BACKFILL_RULES[scheduler.backfill])
        self._place_jobs = entry_point(p.place_jobs)
        classes = placement.allowed.shape[1]
        self._by_class = [np.zeros(classes, np.int64) for _ in range(3)]
        self._picks = np.zeros((node_count, classes), np.int32)
        self._closed = np.zeros(placement.lines, np.int64)
        self._spare = np.zeros(3 * node_count + 1, np.int32)
        self._requests = placement.requests.copy()
        self._make_profile(64)
        self.events_us = placement.events_us  # reservations begin and end

    def _make_profile(self, steps: int) -> None:
        placement = self._placement
        least, taken, is_shut = self._by_class
        self._placing = p.Placing(
            node_class=placement.node_class,
            requests=self._requests,
            allowed=placement.allowed,
            times=placement.times,
            held=placement.held,
            tiers=placement.tiers,
            rank=placement.rank,
            at=np.zeros(steps, np.int64),
            level=np.zeros((steps, len(least)), np.int64),
            least=least,
            taken=taken,
            is_shut=is_shut,
            picks=self._picks,
            closed=self._closed,
            spare=self._spare,
        )

    def start_jobs(self, state: t.State, now_us: int) -> None:
        waiting, running = waiting_and_running(state)
        most = running + 2 * waiting + len(self._placement.times) + 8
        if most > len(self._placing.at):
            self._make_profile(2 * most)
        self._place_jobs(state, self._placing, now_us, self._rule)
