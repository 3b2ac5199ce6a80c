"""The one loop: job table + nodes + queue + policy + mechanism + events, in virtual time.

Between two decision points the compiled kernel runs alone (`Machine.advance`); here the decision points are
put in order and handed to the mechanism. A live run that has to follow a machine steps the same loop.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import NEVER_US, wall_us
from emulator.cluster.cluster import Cluster, Stop
from emulator.kernel.job_states import JobState
from emulator.machine.points import ARRIVAL, NOTICE, PREDICTED, TIMER
from emulator.simulation.decisions import Decisions
from emulator.simulation.mechanism import HasNotice, HasPredicted, ability
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from emulator.events.external_events import ExternalEvents
    from emulator.machine.machine import Machine
    from emulator.machine.points import Point
    from emulator.record.run_record import RunRecord
    from emulator.simulation.mechanism import Mechanism, WholeRun
    from emulator.workload.table import JobTable

    OnProgress = Callable[[int, int, int, int], bool]
    """(cluster time in us, jobs ended, requests granted, requests rejected) -> whether to go on."""

_PAUSE_AFTER = 1000
"""Instants until the first look at progress and interruption, where there are no decision points."""
_PAUSE_US = 200_000
"""Wall time between two looks that later ones aim at: an instant costs anything from 0.1 us to 10 ms."""
_SAY_NOTHING_OF_JOBS = (TIMER, NOTICE, PREDICTED)
"""Points that may be due when every job is over; each other one is of a job that is not."""
_OVER = (JobState.ENDED, JobState.REJECTED, JobState.CANCELLED)


class _Ahead:
    """Decision points to come, the next one first (`Agenda`)."""

    def __init__(self) -> None:
        self.points: list[tuple[int, int, int]] = []

    def add(self, at_us: int, point: Point, job: int) -> None:
        heapq.heappush(self.points, (at_us, point, job))


class Loop:
    """A machine, a mechanism and virtual time. `run` to the end; `record` whenever wanted.

    `name`: the mechanism's, for errors. Raises PluginError when it raises.
    `external_events`: what happens to jobs and nodes whoever schedules.
    """

    def __init__(
        self,
        machine: Machine,
        mechanism: Mechanism | None = None,
        *,
        node_names: tuple[str, ...] | None = None,
        name: str = "",
        external_events: ExternalEvents | None = None,
    ) -> None:
        self.machine = machine
        self._external_events = external_events
        self._whole: WholeRun | None = None
        asks = mechanism is not None or external_events is not None  # somebody, for single nodes
        if not asks and isinstance(machine, Cluster) and machine.counts_nodes:
            machine.choose_nodes_afterwards()
        ahead = (
            _Ahead()
        )  # and not the loop itself: a circle would keep the tables of a run until the next collection
        self._points = ahead.points
        self.decisions = Decisions(machine, mechanism, agenda=ahead, node_names=node_names, name=name)
        self._leases = 0
        """On-demand jobs that somebody decides about."""
        if external_events is not None and self.decisions.knows_failures:
            external_events.act_by(self.decisions)
            self._leases = int((machine.job_table().kind == Kind.ON_DEMAND).sum())
        self._known: NDArray[np.int64] | None = _arrivals(machine.job_table(), mechanism)
        """Points known from the begin, until somebody goes step by step."""
        self._first_open = 0
        """All jobs before this one were over at the latest look."""

    def begin(self, bad_input: type[Exception] | tuple[()] = ()) -> None:
        """The run begins; `bad_input` as in `Decisions.begin`."""
        self.decisions.begin(bad_input)
        if self._external_events is not None:
            self._external_events.begin(self.decisions.actions)
        else:
            if self._known is None:  # somebody has looked at them already
                self._known = np.array(sorted(self._points), np.int64).reshape(-1, 3)
                self._points.clear()
            self._whole = self.decisions.whole_run(self._known)
        if self._whole is not None:
            self._known = None  # it has made its own of them

    def run(self, on_progress: OnProgress | None = None, *, by_steps: bool = False) -> bool:
        """Run to the end. `on_progress` is called now and then; False from it stops the run.

        `by_steps`: come back after each decision point, even if the mechanism has a compiled loop for all of them.
        Returns whether the run came to its end.
        """
        actions, machine = self.decisions.actions, self.machine
        self.begin(bad_input=ValueError)
        if self._whole is not None and not by_steps:
            return self._run_whole(self._whole, on_progress)
        pause_after = _PAUSE_AFTER
        while self.next_us != NEVER_US:
            began_us = wall_us()
            if self.step(pause_after=pause_after) == Stop.PAUSED:
                pause_after = _next_pause(pause_after, wall_us() - began_us)
            if on_progress is not None and not on_progress(
                actions.now_us, machine.ended_count, actions.granted, actions.rejected
            ):
                return False
        self._stands_at_the_last_end()
        return True

    def _stands_at_the_last_end(self) -> None:
        """What came after it, such as a timer, is no part of the run: the same time, whichever loop has done it."""
        last_us = int(self.machine.end_us.max(initial=0))
        if self._is_over():
            self.decisions.actions.now_us = min(self.now_us, last_us)

    def _run_whole(self, whole: WholeRun, on_progress: OnProgress | None) -> bool:
        """The same, in the mechanism's own loop."""
        actions, machine = self.decisions.actions, self.machine
        pause_after, stop = _PAUSE_AFTER, Stop.PAUSED
        while stop != Stop.AT_UNTIL:
            began_us = wall_us()
            try:
                stop = whole.go(pause_after)
            except Exception as error:  # noqa: BLE001 - raised again, with the name of whose it is
                self.decisions.machine_failed("advance", error)
            self.decisions.count_timers(pause_after)
            pause_after = _next_pause(pause_after, wall_us() - began_us)
            if on_progress is not None and not on_progress(
                actions.now_us, machine.ended_count, actions.granted, actions.rejected
            ):
                return False
        whole.tell()
        self._stands_at_the_last_end()
        # It has told all: its tables are not needed while figures are made.
        self._whole = None
        return True

    @property
    def now_us(self) -> int:
        return self.decisions.actions.now_us

    @property
    def next_us(self) -> int:
        """When something will happen, NEVER_US if nothing will: nobody is left then who could use a node."""
        next_us = min(self.machine.next_event_us, self._next_external_us())
        point_us = self._next_point_us()
        if next_us == NEVER_US != point_us and self._is_over():
            return NEVER_US
        return min(point_us, next_us)

    def _is_over(self) -> bool:
        """Whether all jobs and leases are, whatever is on the agenda: a timer may be set again for ever."""
        at_us, point = self._next_point()
        if at_us != NEVER_US and point not in _SAY_NOTHING_OF_JOBS:
            return False
        state = self.machine.state
        if self._first_open < len(state) and int(state[self._first_open]) not in _OVER:
            return False
        for begin in (self._first_open, 0):  # who was over may wait again
            is_open = ~np.isin(state[begin:], _OVER)
            if is_open.any():
                self._first_open = begin + int(is_open.argmax())
                return False
        return True

    def _next_external_us(self) -> int:
        external = self._external_events
        if external is None:
            return NEVER_US
        actions = self.decisions.actions
        # A mechanism may give nodes to jobs that wait, at its next time; until then nodes fail.
        waits = len(actions.cluster.queue) > 0 and self._next_point_us() != NEVER_US
        leases_to_come = actions.granted + actions.rejected < self._leases
        return external.next_us(actions, more_to_come=leases_to_come or waits)

    def step(self, limit_us: int = NEVER_US, pause_after: int = -1) -> Stop:
        """Go to the next decision point, at the latest to `limit_us`, and let that instant happen."""
        if self._whole is not None:
            return self._step_whole(self._whole, limit_us, pause_after)
        decisions, machine, external = self.decisions, self.machine, self._external_events
        actions = decisions.actions
        external_us = self._next_external_us()
        until_us = min(self._next_point_us(), limit_us, external_us)
        seen_ends = machine.ended_count
        try:
            stop = machine.advance(
                until_us,
                stop_on_end=actions.needs_ends or (external is not None and external.watches_ends),
                stop_on_pass=actions.watches_passes or (external is not None and external.watches_passes),
                pause_after=pause_after,
            )
        except Exception as error:  # noqa: BLE001 - raised again, with the name of whose it is
            decisions.machine_failed("advance", error)
        actions.now_us = machine.now_us
        if stop == Stop.AT_PASS:
            self._pass_over()
        elif stop == Stop.AT_UNTIL and self._was_over_before(until_us):
            pass
        elif stop == Stop.AT_ENDS or (stop == Stop.AT_UNTIL and until_us != NEVER_US):
            if actions.needs_ends:
                decisions.jobs_ended(actions.cluster.ended_since(seen_ends))
            if external is not None:
                ended = actions.cluster.ended_since(seen_ends) if external.watches_ends else []
                self._apply_events(external, ended)
                if external_us <= actions.now_us:
                    decisions.count(external.cause)
            if stop == Stop.AT_UNTIL:
                self._handle_points(until_us)
            self._finish_instant()
            self._pass_over()
        return stop

    def _step_whole(self, run: WholeRun, limit_us: int, pause_after: int) -> Stop:
        try:
            return run.go_to(min(self._next_point_us(), limit_us), pause_after)
        except Exception as error:  # noqa: BLE001 - raised again, with the name of whose it is
            self.decisions.machine_failed("advance", error)

    def _was_over_before(self, now_us: int) -> bool:
        """Whether the last job had ended before this point: then it is no part of the run any more."""
        machine = self.machine
        if machine.next_event_us != NEVER_US or self._next_point_us() != now_us or not self._is_over():
            return False
        return int(machine.end_us.max(initial=0)) < now_us

    def _apply_events(self, external_events: ExternalEvents, ended: list[int]) -> None:
        try:
            external_events.at(ended, self.decisions.actions)
        except Exception as error:  # noqa: BLE001 - raised again; the record tells of a plug-in that failed
            self.decisions.machine_failed("external events", error)

    def _finish_instant(self) -> None:
        decisions = self.decisions
        try:
            self.machine.finish_instant(decisions.actions.now_us)
        except Exception as error:  # noqa: BLE001 - raised again, with the name of whose it is
            decisions.machine_failed("finish_instant", error)

    def _pass_over(self) -> None:
        self.decisions.pass_over()
        while self._external_events is not None and self._external_events.after_pass(self.decisions.actions):
            self._finish_instant()
            self.decisions.pass_over()

    def _next_point_us(self) -> int:
        """When the next decision point is due."""
        return self._next_point()[0]

    def _next_point(self) -> tuple[int, int]:
        """Time and kind of the next decision point; what was put off or called off is no instant of its own."""
        if self._whole is not None:
            return self._whole.next_point()
        points = self._points
        if self._known is not None:
            points += map(tuple, self._known.tolist())
            heapq.heapify(points)
            self._known = None
        while points and self.decisions.actions.is_stale(*points[0]):
            heapq.heappop(points)
        return points[0][:2] if points else (NEVER_US, 0)

    def _handle_points(self, now_us: int) -> None:
        """All decision points of this instant, in order, those that they bring about included."""
        while self._points and self._points[0][0] == now_us:
            at_us, point, job = heapq.heappop(self._points)
            self.decisions.handle(at_us, point, job)

    def record(self, *, interrupted: str = "") -> RunRecord:
        """What happened so far."""
        if self._whole is not None:
            self._whole.tell()
        return self.decisions.record(interrupted=interrupted)


def _arrivals(jobs: JobTable, mechanism: Mechanism | None) -> NDArray[np.int64]:
    """When on-demand jobs arrive and, where somebody listens, are announced and predicted.

    Rows of (time in us, point, job) in order.
    """
    leases = np.flatnonzero(jobs.kind == Kind.ON_DEMAND)
    arrival_us = jobs.submit_us[leases]
    points = [(arrival_us, ARRIVAL)]
    at_notice = ability(mechanism, HasNotice)  # type: ignore[type-abstract]
    if at_notice is not None and at_notice.notice_us:
        points.append((np.maximum(arrival_us - at_notice.notice_us, 0), NOTICE))
    elif at_notice is not None and "notice_us" in jobs.extra:
        points.append((jobs.extra["notice_us"][leases], NOTICE))
    if ability(mechanism, HasPredicted) is not None and "predicted_us" in jobs.extra:  # type: ignore[type-abstract]
        points.append((jobs.extra["predicted_us"][leases], PREDICTED))
    at_us = np.concatenate([times_us for times_us, _ in points])
    point = np.repeat(np.array([int(which) for _, which in points]), len(leases))
    order = np.lexsort((np.tile(leases, len(points)), point, at_us))
    table = np.stack((at_us, point, np.tile(leases, len(points))), axis=1)[order]
    known: NDArray[np.int64] = table[(table[:, 0] >= 0) | (table[:, 1] == ARRIVAL)]
    return known


def points_of(
    times_us: NDArray[np.int64], jobs: NDArray[np.intp], point: Point
) -> list[tuple[int, Point, int]]:
    """A decision point for each of these jobs that has a time for it."""
    return [(int(times_us[job]), point, int(job)) for job in jobs if times_us[job] >= 0]


def _next_pause(instants: int, took_us: int) -> int:
    """Twice as many instants or half as many, when the last ones were far from the aim."""
    if took_us < _PAUSE_US // 2:
        return instants * 2
    return max(1, instants // 2) if took_us > _PAUSE_US * 2 else instants
