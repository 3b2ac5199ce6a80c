"""A cluster some of whose nodes are not for everybody, or not at any time: its passes count classes of nodes."""

from __future__ import annotations

import ctypes
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.harness import placing as p
from emulator.harness import tables as t
from emulator.harness.chosen import HOOK
from emulator.harness.cluster import Cluster

if TYPE_CHECKING:
    from emulator.harness.placement import Placement
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

_RULES = {"none": p.NONE, "easy": p.EASY, "conservative": p.CONSERVATIVE}
_FREE = ("order", "backfill", "priorities", "cycle_s")
"""Options of the scheduler that may be any; the others are those of passes that count all nodes as one."""


class PlacedCluster(Cluster):
    """`node_count` nodes and a queue of these jobs, in virtual time; `placement` has a row for each job.

    Raises ValueError for options of the scheduler that are not for such nodes.
    """

    def __init__(
        self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable, placement: Placement
    ) -> None:
        plain = type(scheduler)()
        for name in (each.name for each in fields(scheduler)):
            if name not in _FREE and getattr(scheduler, name) != getattr(plain, name):
                raise ValueError(
                    f"scheduler {name.rstrip('_')}: where nodes are not the same for all jobs "
                    f"(features, partitions, reservations) there is {getattr(plain, name)!r} only"
                )
        self._placement = placement
        self._rule = _RULES[scheduler.backfill]
        self._failure: Exception | None = None
        self._hook = HOOK(self._ask)
        self._address = ctypes.cast(self._hook, ctypes.c_void_p).value or 0
        classes = placement.allowed.shape[1]
        self._work = np.zeros((p.WORK_ROWS, classes), np.int64)
        self._picks = np.zeros((node_count, classes), np.int32)
        self._closed = np.zeros(placement.lines, np.int64)
        self._spare = np.zeros(3 * node_count + 1, np.int32)
        self._asked_of = placement.asked.copy()
        self._make_profile(64)
        super().__init__(node_count, scheduler, jobs)
        self._reg[t.BACKFILL] = t.BACKFILL_CHOSEN
        self._keep_nodes()

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
            waiting = int(reg[t.QUEUE_HI] - reg[t.QUEUE_LO])
            running = int(reg[t.RUNS_N] - reg[t.ENDED_N])
            most = running + 2 * waiting + len(self._placement.times) + 8
            if most > len(self._placing[7]):
                self._make_profile(2 * most)
            p.place_jobs(self._state, self._placing, now_us, self._rule)
        except Exception as error:  # noqa: BLE001 - raised by `_check_order`, when the compiled loop is over
            self._failure = error
            self._reg[t.ORDER_FAILED] = t.RAISED
            self._reg[t.INSTANTS_LEFT] = 0

    def _check_order(self) -> None:
        if self._failure is not None:
            raise self._failure
        super()._check_order()
