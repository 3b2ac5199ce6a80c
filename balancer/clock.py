"""The only module that reads the time.

Times are integer microseconds since the Unix epoch, or since whatever a clock of its own begins with: a clock is a
plug-in (`balancer.clocks`), and what the service has to do and when, it says through an `Alarm`. On the wall clock an
alarm is a plain timer. A clock that is *paced* by somebody else does not pass the time of an alarm until the alarm is
moved, and stands still inside `Clock.paused`; this is how a simulator runs the service in its own time.
"""

from __future__ import annotations

import ctypes
import threading
import time
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


US = 1_000_000
"""Microseconds in a second."""

NEVER_US = (1 << 63) - 1
"""Later than everything."""

LONGEST_S = 3.2e9
"""A hundred years. Who gives a time (a call, a setting, an option) gives no longer one: its end can be stored."""


def seconds(time_us: int) -> float:
    """Microseconds (inside) as seconds (at the borders)."""
    return time_us / US


def micros(time_s: float) -> int:
    """Seconds (at the borders) as integer microseconds (inside)."""
    return round(time_s * US)


def micros_or_none(time_s: float | None) -> int | None:
    return None if time_s is None else micros(time_s)


def wall_us() -> int:
    """Microseconds of a steady clock, for durations only."""
    return time.monotonic_ns() // 1000


def steady_clock() -> tuple[int, int]:
    """The clock of `wall_us` for machine code: the address of `clock_gettime` in C, and which clock it is asked for."""
    address = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value
    return address or 0, time.CLOCK_MONOTONIC


def utc_us() -> int:
    """Microseconds since 1970 by the machine's clock, which people may set.

    Only to compare with what other machines or former processes wrote down: the age of a signature, the
    expiry of a token. Nothing is granted, released or timed by it.
    """
    return time.time_ns() // 1000


class Alarm(Protocol):
    """What is to be done next, and when. Owned by one thread; `wake` may come from any."""

    def set(self, due_us: int) -> None:
        """There is work at `due_us` (NEVER_US: none)."""

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until due (True), or until `wake` was called or the wall-clock timeout ran out (False)."""

    def wake(self) -> None:
        """End the present or the next `wait` early."""

    def close(self) -> None:
        """Forget the alarm."""


class Clock(Protocol):
    """A source of cluster time."""

    def now_us(self) -> int: ...

    def alarm(self) -> Alarm:
        """A new alarm that is set to NEVER_US."""

    def paused(self) -> AbstractContextManager[int]:
        """Work that is due now: on a paced clock, time stands still inside the block. Yields now_us."""

    def not_before(self, at_us: int) -> None:
        """What has been recorded is past: time goes on from `at_us` if the machine's clock says it is earlier.

        Once, before the clock is used: a wall clock that was set back while nobody looked must not stop every
        deadline. A paced clock is the same for all processes and never goes back.
        """


_SLOWEST = 10
"""A clock that is ahead waits for a tenth of the time that passes: no deadline is early, or later than that."""

_OFF_US = 60 * US
"""From here on the log says that the machine's clock was set."""


class SystemClock:
    """Life: microseconds since the Unix epoch, advanced by the steady clock so that they never step back.

    When the machine's clock is set nothing ends before its time. While this one is ahead of it, it goes a tenth slower:
    after a start at a time two hours ahead times are right again within a day. It stays behind one that was set ahead,
    until the next start.
    """

    def __init__(self) -> None:
        self._reading = threading.Lock()
        self._now_us, self._read_us = utc_us(), wall_us()
        self._is_off = False

    def now_us(self) -> int:
        with self._reading:
            read_us = wall_us()
            passed_us, self._read_us = read_us - self._read_us, read_us
            steady_us = self._now_us + passed_us
            ahead_us, most_us = steady_us - utc_us(), passed_us // _SLOWEST
            self._now_us = steady_us - max(0, min(most_us, ahead_us))
            was_off, self._is_off = self._is_off, abs(ahead_us) > _OFF_US
            now_us, is_news = self._now_us, self._is_off and not was_off
        if is_news:
            import structlog  # noqa: PLC0415 - the scheduler filter takes this module into Nova, which has none

            structlog.get_logger().warning(
                "the machine's clock was set: the service's does not step, and waits 6 s a minute while it is ahead",
                ahead_s=round(seconds(ahead_us)),
            )
        return now_us

    def not_before(self, at_us: int) -> None:
        with self._reading:
            self._now_us = max(self._now_us, at_us)

    def alarm(self) -> SystemAlarm:
        return SystemAlarm(self)

    @contextmanager
    def paused(self) -> Iterator[int]:
        yield self.now_us()


class SystemAlarm:
    """A timer on the system clock."""

    def __init__(self, clock: SystemClock) -> None:
        self._clock = clock
        self._due_us = NEVER_US
        self._woken = threading.Event()

    def set(self, due_us: int) -> None:
        self._due_us = due_us

    def wait(self, timeout_s: float | None = None) -> bool:
        remaining_s = max(0.0, seconds(min(self._due_us - self._clock.now_us(), 10**15)))
        bound_s = min(remaining_s, threading.TIMEOUT_MAX if timeout_s is None else timeout_s)
        woken = self._woken.wait(bound_s)
        self._woken.clear()
        return not woken and self._clock.now_us() >= self._due_us

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._due_us = NEVER_US
