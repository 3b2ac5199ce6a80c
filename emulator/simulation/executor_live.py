"""The live executor: the one thread that owns a cluster, fed by messages, timers and the clock.

Others `post` or `call` work from any thread; timers and scheduling passes happen when the clock says that it
is their turn. Work that is under way somewhere else (a job that an agent is starting) holds the clock from
`hold` to `release`, so that on a paced clock no later event, and no further pass, can overtake it. On the
system clock nothing waits for anybody.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from concurrent.futures import Future
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from balancer.clock import NEVER_US
from emulator.clock.event_priority import EventPriority
from emulator.clock.shared_clock import alarm_of
from emulator.plugins.failure import PluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from contextlib import AbstractContextManager

    from balancer.clock import Clock

    Work: TypeAlias = Callable[[int], None]

T = TypeVar("T")


class ExecutorStoppedError(ConnectionError):
    """Nobody is there any more who could do the work."""


class LiveExecutor:
    """Runs everything that touches one cluster, one thing after the other, in the thread that calls `run`.

    `schedule_pass(now_us)` is one scheduling pass, asked for with `ask_for_pass`; a process that schedules
    nothing (a node agent) has none. `on_due(now_us)` is told before each `run_due`. A PluginError in any work is told
    to `on_failure`, while the clock is held, and is the end of `run`. All methods except `post`, `call` and `stop`
    belong to the executor's own thread.
    """

    def __init__(
        self,
        clock: Clock,
        schedule_pass: Work | None = None,
        on_due: Work | None = None,
        on_failure: Callable[[PluginError], None] | None = None,
    ) -> None:
        self._clock = clock
        self._schedule_pass = schedule_pass
        self._on_due = on_due
        self._on_failure = on_failure
        self._alarm = alarm_of(clock, EventPriority.SCHEDULE)
        self._inbox: deque[Work] = deque()
        self._due: list[tuple[int, EventPriority, int, int, Work]] = []
        self._sequence = count()
        self._next_pass_us = NEVER_US
        self._held: dict[Hashable, AbstractContextManager[int]] = {}
        self._stopping = False
        self._closing = threading.Lock()
        self._closed = False
        self._unanswered: set[Future[Any]] = set()

    def post(self, work: Work) -> None:
        """Have `work(now_us)` done soon; nothing is done after the end of `run`.

        An exception in it ends `run`: the state may be wrong then.
        """
        self._inbox.append(work)
        self._alarm.wake()

    def call(self, work: Callable[[int], T], timeout_s: float | None = None) -> T:
        """Have `work(now_us)` done and return what it returns, or raise what it raises.

        ExecutorStoppedError: the executor ended before it did the work.
        """
        future: Future[T] = Future()

        def answer(now_us: int) -> None:
            try:
                future.set_result(work(now_us))
            except Exception as error:
                if isinstance(error, PluginError):
                    self._fail(error)
                future.set_exception(error)  # the caller asked for the work
                if isinstance(error, PluginError):
                    raise

        with self._closing:
            if self._closed:
                raise ExecutorStoppedError("the executor has ended")
            self._unanswered.add(future)
        self.post(answer)
        try:
            return future.result(timeout_s)
        finally:
            self._unanswered.discard(future)

    def at(self, due_us: int, work: Work, rank: EventPriority = EventPriority.TIMER, order: int = 0) -> None:
        """Have `work(now_us)` done at `due_us`; equal times go by rank, then by `order`."""
        heapq.heappush(self._due, (due_us, rank, order, next(self._sequence), work))

    def ask_for_pass(self, at_us: int) -> None:
        """Have a scheduling pass at `at_us`, after everything else of that instant (or at an earlier one)."""
        self._next_pass_us = min(self._next_pass_us, at_us)

    def hold(self, key: Hashable) -> None:
        """Keep a paced clock from moving until `release(key)`."""
        if key in self._held:
            return
        context = self._clock.paused()
        context.__enter__()
        self._held[key] = context

    def release(self, key: Hashable) -> None:
        """Let the clock go on; a key that is not held is left alone (its work ended in another way)."""
        context = self._held.pop(key, None)
        if context is not None:
            context.__exit__(None, None, None)

    def run(self) -> None:
        """Work until `stop`; leaves no hold and no alarm behind."""
        try:
            while not self._stopping:
                self._set_alarm()
                self._turn(is_due=self._alarm.wait())
        finally:
            self._alarm.close()
            for key in list(self._held):
                self.release(key)
            with self._closing:
                self._closed = True
                unanswered = list(self._unanswered)
            for future in unanswered:
                if not future.done():
                    future.set_exception(ExecutorStoppedError("the executor has ended"))

    def settle(self) -> None:
        """Do all that is due by now, without waiting: for a clock that is moved by hand."""
        while self._inbox or self._next_us <= self._clock.now_us():
            self._turn(is_due=self._next_us <= self._clock.now_us())

    @property
    def is_idle(self) -> bool:
        """Nothing is due, now or later, and nothing is under way elsewhere."""
        return self._next_us == NEVER_US and not self._held

    def stop(self) -> None:
        def end(_: int) -> None:
            self._stopping = True

        self.post(end)

    def _turn(self, *, is_due: bool) -> None:
        with self._clock.paused() as now_us:
            try:
                while self._inbox:
                    self._inbox.popleft()(now_us)
                if is_due:
                    if self._on_due is not None:
                        self._on_due(now_us)
                    self.run_due(now_us)
            except PluginError as error:
                self._fail(error)
                raise
            self._set_alarm()

    def _fail(self, error: PluginError) -> None:
        """A plug-in's failure is told once, before anybody can see what it led to."""
        on_failure, self._on_failure = self._on_failure, None
        if on_failure is not None:
            on_failure(error)

    @property
    def _next_us(self) -> int:
        return min(self._next_due()[0], self._next_pass_us)

    def _next_due(self) -> tuple[int, EventPriority]:
        return self._due[0][:2] if self._due else (NEVER_US, EventPriority.WATCH)

    def _set_alarm(self) -> None:
        self._alarm.set(*min(self._next_due(), (self._next_pass_us, EventPriority.SCHEDULE)))

    def run_due(self, now_us: int) -> None:
        """Do what is due first; for the executor itself, and for who repeats its past."""
        # One rank at a time: the alarm is set again after it, so that other processes of this instant whose
        # rank lies between ours have their turn.
        first_us, rank = self._next_due()
        if (first_us, rank) <= (self._next_pass_us, EventPriority.SCHEDULE):
            while self._due and self._due[0][0] <= now_us and self._due[0][1] == rank:
                heapq.heappop(self._due)[-1](now_us)
        elif self._schedule_pass is not None and self._next_pass_us <= now_us:
            self._next_pass_us = NEVER_US
            self._schedule_pass(now_us)
