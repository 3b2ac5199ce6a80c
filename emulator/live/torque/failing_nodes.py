"""Nodes of the batch server that fail as in virtual time, where no mechanism in it knows what that means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.clock.event_priority import EventPriority
from emulator.live.torque.scheduler import QueueScheduler
from emulator.simulation.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.events.node_outages import NodeOutages
    from emulator.live.torque.batch import BatchServer
    from emulator.simulation.executor_live import LiveExecutor


class FailingNodes:
    """`node_outages.Nodes` on a batch server: each outage at its time, after the job ends of that time."""

    def __init__(self, outages: NodeOutages, batch: BatchServer, executor: LiveExecutor) -> None:
        self.now_us = 0
        self._outages = outages
        self._batch = batch
        self._executor = executor
        assert isinstance(batch.scheduler, QueueScheduler)  # noqa: S101 - as the module's text says
        self._progress = Progress(batch.scheduler.cluster)
        self._plan()

    def _plan(self) -> None:
        at_us = self._outages.next_us(goes_on=True, waiting=0)
        self._executor.at(at_us, self._due, EventPriority.CHECKPOINT, order=-1)

    def _due(self, now_us: int) -> None:
        self.now_us = now_us
        self._outages.at(self)
        self._progress.event(self._outages.cause)
        self._plan()

    def take_down(self, nodes: Iterable[int]) -> list[int]:
        return self._fail(nodes, lost=False)

    def take_down_for_good(self, nodes: Iterable[int]) -> list[int]:
        return self._fail(nodes, lost=True)

    def _fail(self, nodes: Iterable[int], *, lost: bool) -> list[int]:
        for node in nodes:
            self._batch.fail_node(node, self.now_us, lost=lost)
        return []  # jobs that depend on others are for virtual time

    def repair(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            self._batch.repair_node(node, self.now_us)
