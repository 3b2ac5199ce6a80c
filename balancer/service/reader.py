"""The one thread that reads batch system and cloud for everybody: whoever wants a reading asks, and does not wait.

A reading that failed is repeated, with longer pauses each time, until one succeeds: as long as `refresh_age_s` after
either nobody is asked again. A paced clock stands still from the asking to the end of the first attempt.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from balancer.clock import NEVER_US, Clock, micros, wall_us
from balancer.ledger.log import log_failure
from balancer.service.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Contact:
    """When a system that we depend on (batch system, cloud) answered last, and why it does not. Times: cluster time."""

    name: str
    answered_us: int | None = None
    error: str | None = None
    """Why the last question had no answer; None: it had one, or none was asked yet."""

    def answered(self, at_us: int) -> None:
        self.answered_us, self.error = at_us, None

    def age_us(self, now_us: int) -> int | None:
        """How old the last answer is; None: there was none."""
        return None if self.answered_us is None else max(0, now_us - self.answered_us)


_log = structlog.get_logger()

_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 60.0


class Reader(Worker):
    """`read(with_cloud)` does it and says whether the batch system answered. Methods may be called from any thread."""

    def __init__(
        self, read: Callable[[bool], bool], clock: Clock, refresh_age_s: float, *, threaded: bool = True
    ) -> None:
        super().__init__("reader", threaded=threaded)
        self._read = read
        self._clock = clock
        self._pause_s = max(_SHORTEST_PAUSE_S, refresh_age_s)
        self._is_requested = self._with_cloud = self._is_at_work = False
        self._failures = 0
        self._not_before_us = 0
        self._attempts = 0
        self._hold: ExitStack | None = None

    def start(self, wait_s: float) -> None:
        """Begin, and wait until the first attempt has ended, or for this long."""
        self.begin()
        if self._threaded:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or self._attempts, wait_s)

    def stop(self) -> None:
        super().stop()
        self._release()

    def ask(self, *, with_cloud: bool = False) -> None:
        """Have everything read soon, by a reading that begins from now on."""
        with self._changed:
            self._is_requested = True
            self._with_cloud = self._with_cloud or with_cloud
            if self._hold is None and self._failures == 0 and not self._stopped:
                self._hold = ExitStack()
                self._hold.enter_context(self._clock.paused())
            self._changed.notify_all()

    @property
    def is_idle(self) -> bool:
        """No reading is wanted or under way."""
        with self._changed:
            return not self._is_requested and not self._is_at_work

    @property
    def due_us(self) -> int:
        with self._changed:
            return self._not_before_us if self._is_requested else NEVER_US

    def step(self) -> None:
        """One attempt."""
        with self._changed:
            with_cloud, self._is_requested, self._with_cloud = self._with_cloud, False, False
            self._is_at_work = True
            hold, self._hold = self._hold, None
        is_answered = False
        try:
            is_answered = self._read(with_cloud)
        except Exception as error:  # noqa: BLE001 - the ledger may be away: what was read is read again
            log_failure(_log, "a reading could not be used; it is repeated", error)
        finally:
            with self._changed:
                self._failures = 0 if is_answered else self._failures + 1
                if not is_answered:
                    self._is_requested, self._with_cloud = True, self._with_cloud or with_cloud
                    pause_s = min(self._pause_s * 2.0 ** min(self._failures - 1, 10), _LONGEST_PAUSE_S)
                    self._not_before_us = wall_us() + micros(pause_s)
                else:
                    self._not_before_us = 0
                self._is_at_work = False
                self._attempts += 1
                self._changed.notify_all()
            if hold is not None:
                hold.close()
            if not is_answered:
                self._release()

    def _release(self) -> None:
        """Time goes on while the batch system does not answer."""
        with self._changed:
            hold, self._hold = self._hold, None
        if hold is not None:
            hold.close()
