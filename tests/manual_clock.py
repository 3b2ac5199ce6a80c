"""A clock that tests move by hand."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from balancer.clock import NEVER_US

if TYPE_CHECKING:
    from collections.abc import Iterator


class ManualClock:
    """It stands where it was put."""

    def __init__(self, now_us: int = 0) -> None:
        self._now_us = now_us
        self._changed = threading.Condition()

    def now_us(self) -> int:
        return self._now_us

    def advance_to(self, now_us: int) -> None:
        with self._changed:
            if now_us < self._now_us:
                raise ValueError(f"the clock is at {self._now_us} us and cannot go back to {now_us} us")
            self._now_us = now_us
            self._changed.notify_all()

    def not_before(self, at_us: int) -> None:
        self.advance_to(max(self._now_us, at_us))

    def alarm(self) -> ManualAlarm:
        return ManualAlarm(self)

    @contextmanager
    def paused(self) -> Iterator[int]:
        yield self._now_us


class ManualAlarm:
    """A timer on a clock that is moved by hand."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._due_us = NEVER_US
        self._woken = False

    def set(self, due_us: int) -> None:
        self._due_us = due_us

    def wait(self, timeout_s: float | None = None) -> bool:
        changed = self._clock._changed
        with changed:
            changed.wait_for(lambda: self._woken or self._clock.now_us() >= self._due_us, timeout_s)
            woken, self._woken = self._woken, False
            return not woken and self._clock.now_us() >= self._due_us

    def wake(self) -> None:
        with self._clock._changed:
            self._woken = True
            self._clock._changed.notify_all()

    def close(self) -> None:
        self._due_us = NEVER_US
