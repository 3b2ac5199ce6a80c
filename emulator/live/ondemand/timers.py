"""What has to be done at its time: a paced clock does not pass that time until it is."""

from __future__ import annotations

import heapq
from itertools import count
from threading import Lock, Thread
from typing import TYPE_CHECKING

import structlog

from balancer.clock import NEVER_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from balancer.clock import Clock

_log = structlog.get_logger(__name__)


class Timers:
    """Does each piece of work once its time has come, one after the other, on a thread of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alarm = clock.alarm()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._lock = Lock()
        self._closing = False
        self._thread: Thread | None = None

    def at(self, due_us: int, work: Callable[[], None]) -> None:
        """On return the clock stops at that time. What `work` raises is logged and ends it."""
        with self._lock:
            heapq.heappush(self._due, (due_us, next(self._order), work))
            self._alarm.set(self._due[0][0])
            if self._thread is None:
                self._thread = Thread(target=self._run, name="timers", daemon=True)
                self._thread.start()
        self._alarm.wake()

    def close(self) -> None:
        """Stop; what was to come does not come."""
        self._closing = True
        self._alarm.wake()
        if self._thread is not None:
            self._thread.join()
        self._alarm.close()

    def _run(self) -> None:
        while not self._closing:
            if not self._alarm.wait():
                continue
            with self._lock:
                item = self._due[0]
            if item[0] <= self._clock.now_us():
                self._do(item[2])
                with self._lock:
                    self._due.remove(item)
                    heapq.heapify(self._due)
                    self._alarm.set(self._due[0][0] if self._due else NEVER_US)

    @staticmethod
    def _do(work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:  # noqa: BLE001 - logged in full; what comes after it must still be done
            _log.exception("timer_failed")
