"""A mechanism in the batch server: the harness of virtual time with events from outside and actions that go out.

Submissions, notices and the ends of jobs are learned (from users and node agents) instead of known; all accounting,
and the order of what happens at one time, is that of `emulator/harness/harness.py`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import NEVER_US
from emulator.harness.harness import Harness, _Point
from emulator.harness.record import JobState
from emulator.harness.running import Save
from emulator.live.torque.hosting import Outside, Workload, as_json, phase_in
from emulator.ranks import Rank
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from emulator.harness.cluster import Cluster
    from emulator.harness.executor_live import LiveExecutor
    from emulator.harness.mechanism import Mechanism
    from emulator.harness.record import RunOutcome
    from emulator.live.torque.jobs import JobRequest


class MechanismHost(Harness):
    """`Actions` of a mechanism in a live run. `cluster` holds the whole workload; everything is told the time."""

    def __init__(
        self,
        cluster: Cluster,
        mechanism: Mechanism,
        *,
        node_names: tuple[str, ...],
        executor: LiveExecutor,
        outside: Outside,
    ) -> None:
        self._executor = executor
        self._outside = outside
        self._points_to_come = 0
        self._ready: set[int] = set()
        """Nodes that are there before the run begins."""
        self._saves_now = False
        self._ended_now: list[int] = []
        self._reserved_and_gone: set[int] = set()
        self.begun = False
        super().__init__(cluster, mechanism, node_names=node_names)
        jobs = cluster.job_table()
        self._workload = Workload(jobs)
        self._predicted_us = jobs.column("predicted_us")

    def _add_arrivals(self, jobs: Any) -> None:
        """They come when they come."""

    # From outside.

    def row_of(self, request: JobRequest) -> int:
        return self._workload.submitted(request)

    def begin(self, now_us: int) -> None:
        self.now_us = now_us
        self.begun = True
        # In this order the first node is used first, whichever agent was there first.
        self.cluster.bring_online(sorted(self._ready, reverse=True), now_us)
        if self._at_predicted is not None:
            for row in np.flatnonzero((self._workload.kind == Kind.ON_DEMAND) & (self._predicted_us >= 0)):
                self._add(int(self._predicted_us[row]), _Point.PREDICTED, int(row))
        if self._at_begin is not None:
            self._at_begin.on_begin(self)

    def submit(self, row: int, now_us: int) -> None:
        self._enter(now_us)
        if self._workload.kind[row] == Kind.BATCH:
            self.cluster.submit(row, now_us)
        elif self._at_arrival is not None:
            self._at_arrival.on_arrival(row, self)

    def notice(self, number: int, now_us: int) -> None:
        row = self._workload.announced(number)
        if self._at_notice is not None:
            self._enter(now_us)
            self._at_notice.on_notice(row, self)

    def run_ended(self, row: int, outcome: RunOutcome, now_us: int) -> bool:
        self._enter(now_us)
        if row in self._lease_ends:
            self._complete(row)
            return True
        self.cluster.end(row, now_us, outcome)
        if not self._ended_now:  # when all ends of this time are told, and before anything else of it
            self._executor.at(now_us, self._all_ended, Rank.CHECKPOINT, order=-1)
        self._ended_now.append(row)
        return True

    def _all_ended(self, now_us: int) -> None:
        self._enter(now_us)
        ended, self._ended_now = self._ended_now, []
        self._tell_of_ends(ended)

    def run_lost(self, row: int, now_us: int) -> None:
        """A run broke off without anybody's wish: the job waits again with what it had saved."""
        self._enter(now_us)
        nodes = self.running.preempt(row, Save.LATEST_CHECKPOINT, now_us)
        super()._stopped(row, [int(node) for node in nodes])

    def pass_over(self, now_us: int) -> None:
        self.now_us = now_us
        if self._watching_passes:
            self._pass_over()

    def node_gone(self, node: int, now_us: int, *, died: bool) -> bool:
        self._ready.discard(node)
        if not self.begun:
            return True
        self._enter(now_us)
        if self.cluster.node_offline[node] and self.cluster.node_job[node] < 0:
            self._reserved_and_gone.add(node)
        elif died:
            self.take_down([node])
        else:
            self.cluster.take_offline([node], now_us)
        return True

    def node_back(self, node: int, now_us: int) -> None:
        if not self.begun:
            self._ready.add(node)
        elif node in self._reserved_and_gone:
            self._reserved_and_gone.discard(node)  # the mechanism has had it all the time
        else:
            self._enter(now_us)
            self.repair([node])

    def _enter(self, now_us: int) -> None:
        self.now_us = now_us
        self._executor.ask_for_pass(now_us)

    # Decision points that this side makes: timers, saves and predicted arrivals.

    def _add(self, at_us: int, point: _Point, job: int) -> None:
        if point != _Point.COMPLETION and at_us != NEVER_US:  # a completion is the node's to tell
            self._points_to_come += 1
            self._executor.at(at_us, partial(self._due, at_us, point, job), Rank(point), order=job)

    def _due(self, due_us: int, point: _Point, job: int, now_us: int) -> None:
        self._points_to_come -= 1
        is_timer = point == _Point.TIMER and due_us == self._wake_us and self._at_timer is not None
        is_save = point == _Point.CHECKPOINT and self._save_ends.get(job, (-1, False))[0] == due_us
        if is_timer or is_save or point == _Point.PREDICTED:
            self._enter(now_us)
        if is_timer and self._at_timer is not None:
            self._wake_us = NEVER_US
            self._at_timer.on_timer(self)
        elif is_save:
            self._written(job)
        elif point == _Point.PREDICTED and self._at_predicted is not None:
            self._at_predicted.on_predicted(job, self)

    # To the outside: each action does its accounting, then happens.

    def start(self, job: int, nodes: Iterable[int]) -> None:
        super().start(job, nodes)
        self._outside.run_begins(job, self.now_us)

    def reject(self, job: int, reason: str) -> None:
        super().reject(job, reason)
        self._outside.job_rejected(job, reason, self.now_us)

    def requeue(self, job: int, *, front: bool = False) -> None:
        super().requeue(job, front=front)
        self._leaves(job, save=False)

    def preempt(
        self, job: int, save: Save = Save.NONE, *, write_us: int = 0, front: bool = False
    ) -> list[int]:
        self._saves_now = save is Save.NOW
        nodes = super().preempt(job, save, write_us=write_us, front=front)
        self._saves_now = False
        if self.cluster.state[job] == JobState.RUNNING:  # it writes, and leaves in `_written`
            self._changed(job)
        return nodes

    def _stopped(self, job: int, nodes: list[int]) -> None:
        super()._stopped(job, nodes)
        self._leaves(job, save=self._saves_now)

    def checkpoint(self, job: int, *, write_us: int = 0) -> None:
        super().checkpoint(job, write_us=write_us)
        self._changed(job)

    def resize(self, job: int, nodes: Iterable[int], *, pause_us: int = 0) -> None:
        super().resize(job, nodes, pause_us=pause_us)
        self._changed(job)

    def suspend(self, job: int) -> None:
        super().suspend(job)
        self._changed(job)

    def resume(self, job: int) -> None:
        super().resume(job)
        self._changed(job)

    def set_rate(self, job: int, numerator: int, denominator: int) -> None:
        super().set_rate(job, numerator, denominator)
        self._changed(job)

    def _changed(self, job: int) -> None:
        account = self.account(job)
        self._outside.run_changes(job, self.now_us, account.whole_us(self.now_us), done=account.done)

    def _leaves(self, job: int, *, save: bool) -> None:
        done, _ = self.left(job, self.cluster.run_row(job))
        self._outside.run_leaves(job, self.now_us, save=save, done=done)

    # For the outside.

    def phase(self, row: int) -> dict[str, Any]:
        rank = Rank.COMPLETION if row in self._lease_ends else Rank.JOB_END
        return phase_in(self.account(row), rank)

    def nodes_of(self, row: int) -> Sequence[int]:
        return [int(node) for node in self.cluster.nodes_of(row)]

    def slots_of(self, row: int) -> dict[int, tuple[int, ...]]:  # noqa: ARG002 - it has whole nodes
        return {}

    def cores_of(self, row: int) -> list[int]:  # noqa: ARG002 - as above
        return []

    @property
    def is_over(self) -> bool:
        return not self._points_to_come and not np.any(self.cluster.state == JobState.RUNNING)

    def export(self) -> dict[str, Any]:
        return as_json(self.record())
