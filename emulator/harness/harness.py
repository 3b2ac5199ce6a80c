"""The one loop: job table + nodes + queue + policy + mechanism + events, in virtual time.

Between two decision points the compiled kernel runs alone (`Cluster.advance`); here the decision points are
put in order and handed to the mechanism.
"""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import NEVER_US, Rank, wall_us
from emulator.harness.cluster import Stop
from emulator.harness.mechanism import HasBegin, HasCompletion, HasJobEnd, HasNotice, HasTimer, ability
from emulator.harness.record import LeaseOutcome, Mark, NodePool, PoolMove, RunOutcome, RunRecord
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from emulator.harness.cluster import Cluster
    from emulator.harness.mechanism import Mechanism

    OnProgress = Callable[[int, int, int, int], bool]
    """(cluster time in us, jobs ended, requests granted, requests rejected) -> whether to go on."""

_PAUSE_AFTER = 1000
"""Instants until the first look at progress and interruption, where there are no decision points."""
_PAUSE_US = 200_000
"""Wall time between two looks that later ones aim at: an instant costs anything from 0.1 us to 10 ms."""


class _Point(IntEnum):
    """Decision points in the order in which they are handled at one time (the same as `Rank`)."""

    TIMER = Rank.TIMER
    COMPLETION = Rank.COMPLETION
    ARRIVAL = Rank.ARRIVAL
    NOTICE = Rank.NOTICE


class Harness:
    """A cluster, a mechanism and virtual time. `run` to the end; `record` whenever wanted."""

    def __init__(
        self,
        cluster: Cluster,
        mechanism: Mechanism | None = None,
        *,
        node_names: tuple[str, ...] | None = None,
    ) -> None:
        self.cluster = cluster
        self.node_names = node_names or default_node_names(cluster.node_count)
        self.mechanism = mechanism
        self._at_begin = ability(mechanism, HasBegin)  # type: ignore[type-abstract]
        self._at_timer = ability(mechanism, HasTimer)  # type: ignore[type-abstract]
        self._at_job_end = ability(mechanism, HasJobEnd)  # type: ignore[type-abstract]
        self._at_completion = ability(mechanism, HasCompletion)  # type: ignore[type-abstract]
        self._at_notice = ability(mechanism, HasNotice)  # type: ignore[type-abstract]
        self.now_us = 0
        self._points: list[tuple[int, int, int]] = []
        self._wake_us = NEVER_US
        self._watching = False
        self._moves: list[PoolMove] = []
        self._leases: list[LeaseOutcome] = []
        self.granted = 0
        self.rejected = 0
        jobs = cluster.job_table()
        self._run_us = jobs.run_us
        notice_us = self._at_notice.notice_us if self._at_notice else 0
        for job in np.flatnonzero(jobs.kind == Kind.ON_DEMAND):
            self._add(int(jobs.submit_us[job]), _Point.ARRIVAL, int(job))
            if notice_us:
                self._add(max(0, int(jobs.submit_us[job]) - notice_us), _Point.NOTICE, int(job))

    def _add(self, at_us: int, point: _Point, job: int) -> None:
        heapq.heappush(self._points, (at_us, point, job))

    # What a mechanism may do (`Actions`).

    def reserve(self, nodes: Iterable[int]) -> tuple[list[int], list[int]]:
        taken: list[int] = []
        busy: list[int] = []
        for node in nodes:
            (busy if self.cluster.node_job[node] >= 0 else taken).append(int(node))
        self.cluster.take_offline(taken, self.now_us)
        self._moved(taken, NodePool.OD_RESERVE)
        return taken, busy

    def release(self, nodes: Iterable[int]) -> None:
        given = [int(node) for node in nodes]
        self.cluster.bring_online(given, self.now_us)
        self._moved(given, NodePool.OA_IDLE)

    def start(self, job: int, nodes: Iterable[int]) -> None:
        chosen = [int(node) for node in nodes]
        self.cluster.start_on(job, chosen, self.now_us)
        self._moved(chosen, NodePool.OD_ALLOC)
        self._leases.append(LeaseOutcome(job, granted=True, decided_us=self.now_us))
        self.granted += 1
        self._add(self.now_us + int(self._run_us[job]), _Point.COMPLETION, job)

    def reject(self, job: int, reason: str) -> None:
        self.cluster.reject(job, self.now_us)
        self._leases.append(LeaseOutcome(job, granted=False, decided_us=self.now_us, reason=reason))
        self.rejected += 1

    def requeue(self, job: int, *, front: bool = False) -> None:
        self.cluster.requeue(job, self.now_us, front=front)

    def wake(self, at_us: int) -> None:
        self._wake_us = max(at_us, self.now_us)
        if at_us != NEVER_US:
            self._add(self._wake_us, _Point.TIMER, -1)

    def watch_ends(self, watching: bool) -> None:
        self._watching = watching

    def _moved(self, nodes: list[int], pool: NodePool) -> None:
        if nodes:
            self._moves.append(PoolMove(self.now_us, tuple(nodes), pool))

    # The loop.

    def run(self, on_progress: OnProgress | None = None) -> bool:
        """Run to the end. `on_progress` is called now and then; False from it stops the run.

        Returns whether the run came to its end.
        """
        if self._at_begin is not None:
            self._at_begin.on_begin(self)
        cluster = self.cluster
        pause_after = _PAUSE_AFTER
        while True:
            until_us = self._points[0][0] if self._points else NEVER_US
            if until_us == NEVER_US and cluster.next_event_us == NEVER_US:
                return True
            began_us = wall_us()
            stop = cluster.advance(until_us, stop_on_end=self._watching, pause_after=pause_after)
            self.now_us = cluster.now_us
            if stop == Stop.PAUSED:
                pause_after = _next_pause(pause_after, wall_us() - began_us)
            if stop == Stop.AT_ENDS:
                self._job_ended()
                cluster.finish_instant(self.now_us)
            elif stop == Stop.AT_UNTIL and until_us != NEVER_US:
                if self._watching:
                    self._job_ended()
                self._handle_points(until_us)
                cluster.finish_instant(self.now_us)
            if on_progress is not None and not on_progress(
                self.now_us, cluster.ended_count, self.granted, self.rejected
            ):
                return False

    def _job_ended(self) -> None:
        if self._at_job_end is not None:
            self._at_job_end.on_job_end(self)

    def _handle_points(self, now_us: int) -> None:
        """All decision points of this instant, in order, those that they bring about included."""
        while self._points and self._points[0][0] == now_us:
            _, point, job = heapq.heappop(self._points)
            if point == _Point.ARRIVAL:
                if self.mechanism is None:
                    self.reject(job, "no mechanism serves on-demand jobs")
                else:
                    self.mechanism.on_arrival(job, self)
            elif point == _Point.COMPLETION:
                self._complete(job)
            elif point == _Point.NOTICE and self._at_notice is not None:
                self._at_notice.on_notice(job, self)
            elif point == _Point.TIMER and now_us == self._wake_us and self._at_timer is not None:
                self._wake_us = NEVER_US
                self._at_timer.on_timer(self)

    def _complete(self, job: int) -> None:
        nodes = self.cluster.nodes_of(job)
        self.cluster.end(job, self.now_us, RunOutcome.FINISHED)
        self._moved([int(node) for node in nodes], NodePool.OD_RESERVE)
        if self._at_completion is not None:
            self._at_completion.on_completion(job, nodes, self)

    # Afterwards.

    def record(self, *, interrupted: str = "") -> RunRecord:
        """What happened so far."""
        cluster = self.cluster
        runs = cluster.run_table()
        horizon_us = self.now_us if interrupted else int(runs.end_us.max(initial=0))
        return RunRecord(
            jobs=cluster.job_table(),
            node_names=self.node_names,
            state=cluster.state.astype(np.int8),
            start_us=cluster.start_us.copy(),
            end_us=cluster.end_us.copy(),
            runs=runs,
            begin_us=0,
            horizon_us=horizon_us,
            moves=tuple(move for move in self._moves if move.at_us <= horizon_us),
            leases=tuple(self._leases),
            marks=(Mark(self.now_us, f"interrupted: {interrupted}"),) if interrupted else (),
            interrupted=interrupted,
        )


def _next_pause(instants: int, took_us: int) -> int:
    """Twice as many instants or half as many, when the last ones were far from the aim."""
    if took_us < _PAUSE_US // 2:
        return instants * 2
    return max(1, instants // 2) if took_us > _PAUSE_US * 2 else instants


def default_node_names(count: int) -> tuple[str, ...]:
    """n001, n002, ...; as many digits as the last one needs, at least three."""
    digits = max(3, len(str(count)))
    return tuple(f"n{number:0{digits}d}" for number in range(1, count + 1))
