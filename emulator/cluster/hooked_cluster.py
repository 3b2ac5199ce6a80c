"""What clusters have in common whose passes do more than count nodes: the compiled loop calls a hook for each."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING

from emulator.cluster.cluster import Cluster
from emulator.cluster.seen_jobs import HOOK, failure_of_pass
from emulator.kernel import tables as t

if TYPE_CHECKING:
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

_FREE = ("order", "backfill", "priorities", "cycle_s")
"""Options of the scheduler that may be any; the others are those of passes that count all nodes as one."""


def check_options(scheduler: SchedulerConfig, where: str) -> None:
    """Raise ValueError for options of the scheduler that are not for such nodes; `where` says which these are."""
    plain = type(scheduler)()
    for name in (each.name for each in fields(scheduler)):
        if name not in _FREE and getattr(scheduler, name) != getattr(plain, name):
            raise ValueError(
                f"scheduler {name.rstrip('_')}: where {where} there is {getattr(plain, name)!r} only"
            )


class HookedCluster(Cluster, ABC):
    """`node_count` nodes and a queue of these jobs, in virtual time; `_choose` is the pass."""

    commits = False

    def __init__(self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable) -> None:
        self._failure: Exception | None = None
        self._hook = HOOK(self._ask)
        self._address = ctypes.cast(self._hook, ctypes.c_void_p).value or 0
        super().__init__(node_count, scheduler, jobs)
        self._backfill = int(self._registers.backfill)
        self._registers.backfill = t.BackfillRule.CHOSEN
        self._keep_nodes()

    @abstractmethod
    def _choose(self, now_us: int) -> None:
        """Start whoever may start now."""

    @property
    def _waiting_and_running(self) -> tuple[int, int]:
        """How many jobs, at most, wait and run."""
        registers = self._registers
        return int(registers.queue_hi - registers.queue_lo), int(registers.runs_n - registers.ended_n)

    def _make_state(self) -> None:
        super()._make_state()
        self._registers.ask = self._address

    def _ask(self, _context: int, now_us: int) -> None:
        """The hook; `_check_order` raises what failed in it."""
        self._failure = (
            failure_of_pass(self._order_hook, self._choose, self._registers, now_us) or self._failure
        )

    def _check_order(self) -> None:
        if self._failure is not None:
            raise self._failure
        super()._check_order()
