"""The one thread that waits for time to pass: the life cycle's wishes and the periodic reading."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import structlog

from balancer.clock import NEVER_US, Clock, micros
from balancer.ledger.log import log_failure

if TYPE_CHECKING:
    from collections.abc import Callable


_log = structlog.get_logger()

_AGAIN_US = 1_000_000


class Timers:
    """`on_wake(now_us)` at the time given to `wake_at`; `on_period(now_us)` every `period_s`, if not 0."""

    def __init__(
        self,
        clock: Clock,
        period_s: float,
        *,
        on_wake: Callable[[int], None],
        on_period: Callable[[int], None],
        threaded: bool = True,
    ) -> None:
        self._clock = clock
        self._period_us = micros(period_s)
        self._on_wake = on_wake
        self._on_period = on_period
        self._lock = threading.Lock()
        self._alarm = clock.alarm()
        self.due_us = NEVER_US
        """When `fire` has something to do."""
        self._wake_us = self._period_due_us = NEVER_US
        self._stopped = False
        self._threaded = threaded
        self._thread = threading.Thread(target=self._run, name="timers", daemon=True)

    def start(self) -> None:
        self._plan_period()
        if self._threaded:
            self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._alarm.wake()
        if self._thread.ident is not None:
            self._thread.join()
        self._alarm.close()

    def wake_at(self, at_us: int) -> None:
        """Replaces the earlier wish. A paced clock does not pass this time before `on_wake` was called."""
        with self._lock:
            self._wake_us = at_us
            self._set()

    def _set(self) -> None:
        due_us = min(self._wake_us, self._period_due_us)
        if due_us == self.due_us:
            return
        is_earlier, self.due_us = due_us < self.due_us, due_us
        self._alarm.set(due_us)
        if is_earlier:
            self._alarm.wake()

    def _plan_period(self) -> None:
        with self._lock:
            self._period_due_us = self._clock.now_us() + self._period_us if self._period_us else NEVER_US
            self._set()

    def _run(self) -> None:
        while not self._stopped:
            if not self._alarm.wait() or self._stopped:
                continue
            self.fire()

    def fire(self) -> None:
        """What is due now. Called by the thread, or with `threaded=False` by whoever drives the clock."""
        with self._clock.paused() as now_us:
            if now_us >= self._wake_us:
                self.wake_at(NEVER_US)
                self._call(self._on_wake, now_us)
            if now_us >= self._period_due_us:
                self._plan_period()
                self._call(self._on_period, now_us)

    def _call(self, action: Callable[[int], None], now_us: int) -> None:
        try:
            action(now_us)
        except Exception as error:  # noqa: BLE001 - time goes on whatever happened
            if self._stopped:
                return
            log_failure(_log, "a timer failed; it is tried again", error)
            self.wake_at(min(self._wake_us, now_us + _AGAIN_US))
