"""What is done later, on threads of their own: at its time, or when the source of nodes is there again."""

from __future__ import annotations

import heapq
from itertools import count
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING

import structlog

from balancer.clock import NEVER_US
from emulator.live.ondemand.nodes import SourceUnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from balancer.clock import Clock

_log = structlog.get_logger(__name__)
_RETRY_S = 1.0


class RetryQueue:
    """Does each action on a thread of its own order, again and again until the source has answered.

    So no node is lost while the Balancer is away: what could not be returned at once is returned later.
    """

    def __init__(self, retry_s: float = _RETRY_S) -> None:
        self._retry_s = retry_s
        self._open: list[tuple[str, Callable[[], object]]] = []
        self._changed = Condition()
        self._closing = False
        self._thread: Thread | None = None

    def add(self, what: str, action: Callable[[], object]) -> None:
        """`action` may raise SourceUnreachableError; anything else it raises is logged and ends it."""
        with self._changed:
            self._open.append((what, action))
            if self._thread is None:
                self._thread = Thread(target=self._run, name="retries", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> tuple[str, ...]:
        """Stop; what was still to do."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        return tuple(what for what, _ in self._open)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._open)
                if self._closing:
                    return
                what, action = self._open[0]
            done = self._try(what, action)
            with self._changed:
                if done:
                    self._open.pop(0)
                    self._changed.notify_all()
                else:
                    self._changed.wait_for(lambda: self._closing, self._retry_s)

    @staticmethod
    def _try(what: str, action: Callable[[], object]) -> bool:
        try:
            action()
        except SourceUnreachableError as error:
            _log.warning("retry_delayed", what=what, error=str(error))
            return False
        except Exception:  # noqa: BLE001 - logged in full; the retries behind it must still be done
            _log.exception("retry_failed", what=what)
        return True


class Timers:
    """Does each piece of work once its time has come, one after the other; a paced clock does not pass that time."""

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
