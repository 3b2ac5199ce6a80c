"""The one loop: job table + nodes + queue + policy + mechanism + events, in virtual time.

Between two decision points the compiled kernel runs alone (`Cluster.advance`); here the decision points are
put in order and handed to the mechanism.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import NEVER_US, wall_us
from emulator.harness import tables as t
from emulator.harness.account import Account
from emulator.harness.cluster import Stop
from emulator.harness.mechanism import (
    HasArrival,
    HasBegin,
    HasCompletion,
    HasFigures,
    HasJobEnd,
    HasNotice,
    HasPass,
    HasPredicted,
    HasPreempted,
    HasTimer,
    ability,
)
from emulator.harness.record import JobState, LeaseOutcome, Mark, NodePool, PoolMove, RunOutcome, RunRecord
from emulator.harness.running import RunningJobs, Save
from emulator.harness.tables import node_array
from emulator.ranks import Rank
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from emulator.harness.cluster import Cluster
    from emulator.harness.mechanism import Mechanism
    from emulator.workload.table import JobTable

    OnProgress = Callable[[int, int, int, int], bool]
    """(cluster time in us, jobs ended, requests granted, requests rejected) -> whether to go on."""

_PAUSE_AFTER = 1000
"""Instants until the first look at progress and interruption, where there are no decision points."""
_PAUSE_US = 200_000
"""Wall time between two looks that later ones aim at: an instant costs anything from 0.1 us to 10 ms."""


class _Point(IntEnum):
    """Decision points in the order in which they are handled at one time (the same as `Rank`)."""

    CHECKPOINT = Rank.CHECKPOINT
    TIMER = Rank.TIMER
    COMPLETION = Rank.COMPLETION
    ARRIVAL = Rank.ARRIVAL
    PREDICTED = Rank.PREDICTED
    NOTICE = Rank.NOTICE


# Before Python 3.12 looking a member up in its class costs more than comparing it; points are compared all the time.
_CHECKPOINT, _TIMER, _COMPLETION, _ARRIVAL, _PREDICTED, _NOTICE = _Point


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
        self._at_arrival = ability(mechanism, HasArrival)  # type: ignore[type-abstract]
        self._at_begin = ability(mechanism, HasBegin)  # type: ignore[type-abstract]
        self._at_timer = ability(mechanism, HasTimer)  # type: ignore[type-abstract]
        self._at_job_end = ability(mechanism, HasJobEnd)  # type: ignore[type-abstract]
        self._at_completion = ability(mechanism, HasCompletion)  # type: ignore[type-abstract]
        self._at_notice = ability(mechanism, HasNotice)  # type: ignore[type-abstract]
        self._at_predicted = ability(mechanism, HasPredicted)  # type: ignore[type-abstract]
        self._at_preempted = ability(mechanism, HasPreempted)  # type: ignore[type-abstract]
        self._at_pass = ability(mechanism, HasPass)  # type: ignore[type-abstract]
        self.now_us = 0
        self._points: list[tuple[int, int, int]] = []
        self._wake_us = NEVER_US
        self._watching = False
        self._watching_passes = False
        self._seen_ends = 0
        self._ended: list[int] = []
        self._held: set[int] = set()
        """Reserved nodes on which a batch job runs: they were lent to it, or wait for it to leave."""
        self._lease_ends: dict[int, int] = {}
        self._save_ends: dict[int, tuple[int, bool]] = {}
        self._moves: list[PoolMove] = []
        self._leases: list[LeaseOutcome] = []
        self.granted = 0
        self.rejected = 0
        jobs = cluster.job_table()
        if {"setup_us", "checkpoint_interval_us"} & set(jobs.extra):
            self.running  # noqa: B018 - what runs cost beyond their work must be known before the first
        self._add_arrivals(jobs)

    def _add_arrivals(self, jobs: JobTable) -> None:
        before_us = self._at_notice.notice_us if self._at_notice else 0
        leases = np.flatnonzero(jobs.kind == Kind.ON_DEMAND)
        points = [(int(jobs.submit_us[job]), _ARRIVAL, int(job)) for job in leases]
        if before_us:
            points += [(max(0, at_us - before_us), _NOTICE, job) for at_us, _, job in points]
        elif self._at_notice is not None and "notice_us" in jobs.extra:
            points += _points(jobs.extra["notice_us"], leases, _NOTICE)
        if self._at_predicted is not None and "predicted_us" in jobs.extra:
            points += _points(jobs.extra["predicted_us"], leases, _PREDICTED)
        self._points = sorted(points)

    @cached_property
    def running(self) -> RunningJobs:
        return RunningJobs(self.cluster)

    def _add(self, at_us: int, point: _Point, job: int) -> None:
        heapq.heappush(self._points, (at_us, point, job))

    # What a mechanism may do (`Actions`).

    @property
    def ended_jobs(self) -> list[int]:
        return self._ended

    def reserve(self, nodes: Iterable[int], *, when_free: bool = False) -> tuple[list[int], list[int]]:
        taken: list[int] = []
        busy: list[int] = []
        for node in nodes:
            (busy if self.cluster.node_job[node] >= 0 else taken).append(int(node))
        self.cluster.take_offline(taken, self.now_us)
        self._moved(taken, NodePool.OD_RESERVE)
        if when_free:
            self.cluster.take_offline(busy, self.now_us)
            self._held.update(busy)
        return taken, busy

    def release(self, nodes: Iterable[int]) -> None:
        given = _listed(nodes)
        self.cluster.bring_online(given, self.now_us)
        idle = [node for node in given if node not in self._held] if self._held else given
        self._moved(idle, NodePool.OA_IDLE)
        self._held.difference_update(given)

    def start(self, job: int, nodes: Iterable[int]) -> None:
        chosen = _listed(nodes)
        if self.cluster.state[job] == JobState.QUEUED:
            self.running.start(job, chosen, self.now_us)
            self._lend(chosen)
            return
        length_us = self.running.length_us(job, len(chosen))
        self.cluster.start_on(job, chosen, self.now_us)
        self._moved(chosen, NodePool.OD_ALLOC)
        self._grant(job)
        self._lease_ends[job] = self.now_us + length_us
        self._add(self._lease_ends[job], _COMPLETION, job)

    def _grant(self, job: int) -> None:
        self._leases.append(LeaseOutcome(job, granted=True, decided_us=self.now_us))
        self.granted += 1

    def _lend(self, nodes: Iterable[int]) -> None:
        """A batch job has begun on these nodes: those that are reserved are in the batch pool until it leaves."""
        is_offline = self.cluster.node_offline
        chosen = node_array(nodes)
        lent = chosen[is_offline[chosen] != 0].tolist()
        self._held.update(lent)
        self._moved(lent, NodePool.OA_BUSY)

    def _left(self, nodes: Iterable[int]) -> None:
        """A job has left these nodes: those that are held are reserved from now on."""
        if not self._held:
            return
        back = [int(node) for node in nodes if node in self._held]
        self._held.difference_update(back)
        self._moved(back, NodePool.OD_RESERVE)

    def enqueue(self, job: int, *, front: bool = False) -> None:
        self.cluster.enqueue(job, self.now_us, front=front)

    def reject(self, job: int, reason: str) -> None:
        self.cluster.reject(job, self.now_us)
        self._leases.append(LeaseOutcome(job, granted=False, decided_us=self.now_us, reason=reason))
        self.rejected += 1

    def requeue(self, job: int, *, front: bool = False) -> None:
        self._left(self.running.requeue(job, self.now_us, front=front))

    def preempt(
        self, job: int, save: Save = Save.NONE, *, write_us: int = 0, front: bool = False
    ) -> list[int]:
        if save is Save.NOW and write_us:
            written_us = self.running.begin_save(job, write_us, self.now_us)
            self._lease_ends.pop(job, None)
            self._save_ends[job] = (written_us, front)
            self._add(written_us, _CHECKPOINT, job)
            return []
        if save is Save.NOW:
            self.running.checkpoint(job, 0, self.now_us)
            save = Save.LATEST_CHECKPOINT
        nodes = _listed(self.running.preempt(job, save, self.now_us, front=front))
        self._stopped(job, nodes)
        return nodes

    def _stopped(self, job: int, nodes: list[int]) -> None:
        self._save_ends.pop(job, None)
        if self._lease_ends.pop(job, None) is not None:
            self._moved(nodes, NodePool.OD_RESERVE)
        else:
            self._left(nodes)

    def checkpoint(self, job: int, *, write_us: int = 0) -> None:
        self.running.checkpoint(job, write_us, self.now_us)

    def resize(self, job: int, nodes: Iterable[int], *, pause_us: int = 0) -> None:
        added, freed = self.running.resize(job, nodes, self.now_us, pause_us=pause_us)
        self._left(freed)
        self._lend(added)

    def suspend(self, job: int) -> None:
        self.running.suspend(job, self.now_us)

    def resume(self, job: int) -> None:
        self.running.resume(job, self.now_us)

    def set_rate(self, job: int, numerator: int, denominator: int) -> None:
        self.running.set_rate(job, numerator, denominator, self.now_us)

    def take_down(self, nodes: Iterable[int]) -> list[int]:
        failed = [int(node) for node in nodes]
        stopped = sorted({int(job) for job in self.cluster.node_job[failed] if job >= 0})
        for job in stopped:
            self.preempt(job, Save.LATEST_CHECKPOINT)
        self.cluster.take_offline(failed, self.now_us)
        self._moved(failed, NodePool.DOWN)
        return stopped

    def repair(self, nodes: Iterable[int]) -> None:
        self.release(nodes)

    def wake(self, at_us: int) -> None:
        self._wake_us = max(at_us, self.now_us)
        if at_us != NEVER_US:
            self._add(self._wake_us, _TIMER, -1)

    def watch_ends(self, watching: bool) -> None:
        self._watching = watching

    def watch_passes(self, watching: bool) -> None:
        self._watching_passes = watching

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
            self._drop_stale_points()
            self._seen_ends = cluster.ended_count
            until_us = self._points[0][0] if self._points else NEVER_US
            if until_us == NEVER_US and cluster.next_event_us == NEVER_US:
                return True
            began_us = wall_us()
            stop = cluster.advance(
                until_us,
                stop_on_end=self._watching or bool(self._held),
                stop_on_pass=self._watching_passes,
                pause_after=pause_after,
            )
            self.now_us = cluster.now_us
            if stop == Stop.PAUSED:
                pause_after = _next_pause(pause_after, wall_us() - began_us)
            if stop == Stop.AT_ENDS:
                self._jobs_ended()
                self._finish_instant()
            elif stop == Stop.AT_UNTIL and until_us != NEVER_US:
                self._jobs_ended()
                self._handle_points(until_us)
                self._finish_instant()
            elif stop == Stop.AT_PASS:
                self._pass_over()
            if on_progress is not None and not on_progress(
                self.now_us, cluster.ended_count, self.granted, self.rejected
            ):
                return False

    def _drop_stale_points(self) -> None:
        """What was put off or called off is no instant of its own: nothing happens then."""
        while self._points and self._is_stale(*self._points[0]):
            heapq.heappop(self._points)

    def _is_stale(self, at_us: int, point: int, job: int) -> bool:
        if point == _TIMER:
            return at_us != self._wake_us
        if point == _COMPLETION:
            return self._lease_ends.get(job) != at_us
        return point == _CHECKPOINT and self._save_ends.get(job, (-1, False))[0] != at_us

    def _jobs_ended(self) -> None:
        if self._watching or self._held:
            self._tell_of_ends(self.cluster.ended_since(self._seen_ends))

    def _tell_of_ends(self, ended: list[int]) -> None:
        """These jobs have come to their ends, all at this time."""
        self._ended = ended
        for job in ended if self._held else ():
            self._left(self.cluster.nodes_of(job))
        if ended and self._watching and self._at_job_end is not None:
            self._at_job_end.on_job_end(self)

    def _finish_instant(self) -> None:
        self.cluster.finish_instant(self.now_us)
        if self._watching_passes:
            self._pass_over()

    def _pass_over(self) -> None:
        if self._at_pass is not None:
            self._at_pass.on_pass(self)

    def _handle_points(self, now_us: int) -> None:
        """All decision points of this instant, in order, those that they bring about included."""
        while self._points and self._points[0][0] == now_us:
            _, point, job = heapq.heappop(self._points)
            if point == _ARRIVAL:
                if self._at_arrival is None:
                    self.reject(job, "no mechanism serves on-demand jobs")
                else:
                    self._at_arrival.on_arrival(job, self)
            elif point == _COMPLETION and self._lease_ends.get(job) == now_us:
                self._complete(job)
            elif point == _CHECKPOINT and self._save_ends.get(job, (-1, False))[0] == now_us:
                self._written(job)
            elif point == _PREDICTED and self._at_predicted is not None:
                self._at_predicted.on_predicted(job, self)
            elif point == _NOTICE and self._at_notice is not None:
                self._at_notice.on_notice(job, self)
            elif point == _TIMER and now_us == self._wake_us and self._at_timer is not None:
                self._wake_us = NEVER_US
                self._at_timer.on_timer(self)

    def _complete(self, job: int) -> None:
        del self._lease_ends[job]
        nodes = self.cluster.nodes_of(job)
        self.cluster.end(job, self.now_us, RunOutcome.FINISHED)
        self._moved(_listed(nodes), NodePool.OD_RESERVE)
        if self._at_completion is not None:
            self._at_completion.on_completion(job, nodes, self)

    def _written(self, job: int) -> None:
        _, front = self._save_ends[job]
        nodes = _listed(self.running.end_save(job, self.now_us, front=front))
        self._stopped(job, nodes)
        if self._at_preempted is not None:
            self._at_preempted.on_preempted(job, nodes, self)

    # What jobs have done (`HasAccounts`).

    def account(self, job: int) -> Account:
        if "running" in self.__dict__:
            return self.running.account(job)
        row = self.cluster.table[job]  # nothing was ever done to a running job
        start_us, run_us = int(row[t.START]), int(row[t.RUN])
        return Account(total=run_us * int(row[t.NODES]), done=0, since_us=start_us, end_us=start_us + run_us)

    def left(self, job: int, row: int) -> tuple[int, int]:
        return self.running.left(job, row)

    # Afterwards.

    def record(self, *, interrupted: str = "") -> RunRecord:
        """What happened so far."""
        cluster = self.cluster
        runs = cluster.run_table()
        horizon_us = self.now_us if interrupted else int(runs.end_us.max(initial=0))
        if "running" in self.__dict__:
            done, lost = self.running.work_of_runs(runs.job, runs.outcome, horizon_us)
            runs = replace(runs, done_node_us=done, lost_node_us=lost)
        record = RunRecord(
            jobs=cluster.job_table(),
            node_names=self.node_names,
            state=cluster.state.astype(np.int8),
            start_us=cluster.start_us.copy(),
            end_us=cluster.end_us.copy(),
            runs=runs,
            begin_us=0,
            horizon_us=horizon_us,
            moves=tuple(move for move in self._moves if move.at_us <= horizon_us),
            leases=(*self._leases, *self._started_from_the_queue()),
            marks=(Mark(self.now_us, f"interrupted: {interrupted}"),) if interrupted else (),
            interrupted=interrupted,
        )
        counts = ability(self.mechanism, HasFigures)  # type: ignore[type-abstract]
        return replace(record, figures=counts.figures(record, cluster)) if counts else record

    def _started_from_the_queue(self) -> list[LeaseOutcome]:
        """Leases that waited in the batch queue were granted when the scheduler first started them."""
        runs, jobs = self.cluster.run_table(), self.cluster.job_table()
        rows = np.flatnonzero(jobs.kind[runs.job] == Kind.ON_DEMAND)
        first = dict(zip(runs.job[rows[::-1]].tolist(), runs.start_us[rows[::-1]].tolist(), strict=True))
        for lease in self._leases:
            first.pop(lease.job, None)
        return [LeaseOutcome(job, granted=True, decided_us=at_us) for job, at_us in sorted(first.items())]


def _points(
    times_us: NDArray[np.int64], jobs: NDArray[np.intp], point: _Point
) -> list[tuple[int, _Point, int]]:
    return [(int(times_us[job]), point, int(job)) for job in jobs if times_us[job] >= 0]


def _listed(nodes: Iterable[int]) -> list[int]:
    """As plain integers, however they come."""
    listed: list[int] = node_array(nodes).tolist()
    return listed


def _next_pause(instants: int, took_us: int) -> int:
    """Twice as many instants or half as many, when the last ones were far from the aim."""
    if took_us < _PAUSE_US // 2:
        return instants * 2
    return max(1, instants // 2) if took_us > _PAUSE_US * 2 else instants


@lru_cache(maxsize=4)
def default_node_names(count: int) -> tuple[str, ...]:
    """n001, n002, ...; as many digits as the last one needs, at least three."""
    digits = max(3, len(str(count)))
    return tuple(f"n{number:0{digits}d}" for number in range(1, count + 1))
