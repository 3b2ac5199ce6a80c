"""Calls that block until a request is decided."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from balancer.clock import Clock
    from balancer.lifecycle.records import RequestRecord


@dataclass(slots=True)
class Waiter:
    """One waiting call. `record` is None until the request is decided.

    `hold` keeps a paced clock still from the decision until the answer has been sent; close it then.
    """

    answered: threading.Event = field(default_factory=threading.Event)
    record: RequestRecord | None = None
    hold: ExitStack = field(default_factory=ExitStack)


class Waiters:
    """Who waits for which request."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Waiter]] = {}

    @contextmanager
    def waiting(self, request_id: str) -> Iterator[Waiter]:
        """A waiter that hears of the decision from now on."""
        waiter = Waiter()
        with self._lock:
            self._waiting.setdefault(request_id, []).append(waiter)
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiting[request_id].remove(waiter)
                if not self._waiting[request_id]:
                    del self._waiting[request_id]

    def decided(self, record: RequestRecord) -> None:
        """Answer all who wait for this request; called while the clock is held."""
        with self._lock:
            for waiter in self._waiting.get(record.request_id, ()):
                waiter.record = record
                waiter.hold.enter_context(self._clock.paused())
                waiter.answered.set()

    def wake_all(self) -> None:
        """The service ends: nobody waits any longer."""
        with self._lock:
            for waiters in self._waiting.values():
                for waiter in waiters:
                    waiter.answered.set()
