"""An algorithm that may never return: it is interrupted, so that the service goes on without its plan.

`plan` runs in the thread of whoever calls, under the writer's lock; one thread beside it looks at times whether
the same call is still going on, and raises an exception in it if it has been for too long. So a call costs
nothing more. Python code can be interrupted, even an endless loop; a call of C code that does not come back
(a long `sleep`, a socket without a time limit) only when it does: until then the service is not ready and writes
nothing, but still answers what only reads.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

import structlog

from balancer.algorithms.interface import Algorithm, ChecksSettings, Plan, View

if TYPE_CHECKING:
    from balancer.policy_settings import Settings

_log = structlog.get_logger()

_LOOKS = 4
"""In so many looks, a quarter of the limit apart, the same call is seen before it is interrupted."""

_PAUSE_S = 0.001


class _TooLong(BaseException):
    """Raised in the algorithm's code from outside. Not an Exception: it must not catch it and go on."""


class _Call:
    """One call of `plan`. Whoever takes `end` first decides how it ends: by itself, or interrupted."""

    __slots__ = ("end", "interrupted", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.end = threading.Lock()
        self.interrupted = False


class Bounded:
    """The algorithm, whose calls of `plan` end within `limit_s` of wall time (and a quarter) by TimeoutError."""

    def __init__(self, algorithm: Algorithm, name: str, limit_s: float) -> None:
        self._algorithm = algorithm
        self._name = name
        self._limit_s = limit_s
        self._call: _Call | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="algorithm's limit", daemon=True)
        self.is_late = False
        """A plan is overdue."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def check(self, settings: Settings) -> None:
        if isinstance(self._algorithm, ChecksSettings):
            self._algorithm.check(settings)

    def plan(self, view: View) -> Plan:
        """Raises TimeoutError."""
        call = self._call = _Call()
        try:
            try:
                plan = self._algorithm.plan(view)
            finally:
                self._finish(call)
        except _TooLong:
            raise TimeoutError(f"it had no plan within {self._limit_s:g} s") from None
        finally:
            self._call = None
        return plan

    def _finish(self, call: _Call) -> None:
        """Nothing is raised from outside any more once this has ended."""
        if call.end.acquire(blocking=False):
            return
        # Any moment now; or it has been, and the algorithm went on all the same. The pauses are waits for this call's
        # own lock, which nobody gives back: an exception that comes inside one of a shared lock or event may keep it
        # locked for ever.
        while not call.interrupted:
            call.end.acquire(timeout=_PAUSE_S)
        call.end.acquire(timeout=_PAUSE_S)
        raise _TooLong

    def _watch(self) -> None:
        seen, looks = None, 0
        while not self._stopped.wait(self._limit_s / _LOOKS):
            call = self._call
            looks = looks + 1 if call is seen and call is not None else 0
            seen = call
            self.is_late = looks >= _LOOKS
            if looks == _LOOKS and call is not None and call.end.acquire(blocking=False):
                _log.error("the algorithm does not come back; it is interrupted", algorithm=self._name)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(call.thread), ctypes.py_object(_TooLong)
                )
                call.interrupted = True
