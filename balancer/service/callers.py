"""Who still waits for a request: one whose caller has gone and does not come back is withdrawn.

A caller has gone when it hung up, or when the service started anew (its connections ended with the former process).
Times are wall times: connections are real, also where the cluster's clock runs faster.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from balancer.clock import NEVER_US, micros, wall_us
from balancer.ledger.log import log_failure
from balancer.service.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_log = structlog.get_logger()

_AGAIN_US = 1_000_000


class CallerGoneError(Exception):
    """Nobody reads the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerSettings:
    """How long one that hung up, and one that waited before a restart, may take to call again."""

    hangup_s: float = 5.0
    return_s: float = 120.0


class Callers(Worker):
    """`withdraw(request_id, reason)` is called when time is up. Methods may be called from any thread."""

    def __init__(
        self, withdraw: Callable[[str, str], object], settings: CallerSettings, *, threaded: bool = True
    ) -> None:
        super().__init__("callers", threaded=threaded)
        self._withdraw = withdraw
        self._settings = settings
        self._away: dict[str, tuple[int, str]] = {}
        """Request -> when it is withdrawn, and why."""
        self._present: dict[str, int] = {}
        """Request -> how many calls wait for it."""

    def start(self, waiting: Iterable[str]) -> None:
        """These requests waited before: their callers have to show up."""
        for request_id in waiting:
            self._leave(request_id, self._settings.return_s, "after a restart its caller did not come back")
        self.begin()

    def calls(self, request_id: str) -> None:
        """Its owner asks for it."""
        with self._changed:
            self._away.pop(request_id, None)

    @contextmanager
    def waiting(self, request_id: str) -> Iterator[None]:
        """A call waits for the request, until it has its answer or raises CallerGoneError."""
        with self._changed:
            self._away.pop(request_id, None)
            self._present[request_id] = self._present.get(request_id, 0) + 1
        is_gone = False
        try:
            yield
        except CallerGoneError:
            is_gone = True
            raise
        finally:
            with self._changed:
                self._present[request_id] -= 1
                if not self._present[request_id]:
                    del self._present[request_id]
            if is_gone:
                self.hung_up(request_id)

    def hung_up(self, request_id: str) -> None:
        """A call that waited for the request has lost its caller."""
        self._leave(request_id, self._settings.hangup_s, "its caller hung up and did not come back")

    def _leave(self, request_id: str, back_s: float, why: str) -> None:
        with self._changed:
            if request_id not in self._present:
                self._away[request_id] = wall_us() + micros(back_s), f"{why} within {back_s:g} s"
                self._changed.notify_all()

    @property
    def due_us(self) -> int:
        with self._changed:
            return min((at_us for at_us, _ in self._away.values()), default=NEVER_US)

    def step(self) -> None:
        """Withdraw what nobody has come back for."""
        now_us = wall_us()
        with self._changed:
            due = {key: why for key, (at_us, why) in self._away.items() if at_us <= now_us}
            for request_id in due:
                del self._away[request_id]
        for request_id, why in due.items():
            try:
                self._withdraw(request_id, why)
            except Exception as error:  # noqa: BLE001 - the ledger may be away: it is tried again
                what = "a request without a caller could not be withdrawn; it is tried again"
                log_failure(_log, what, error)
                with self._changed:
                    self._away.setdefault(request_id, (now_us + _AGAIN_US, why))
