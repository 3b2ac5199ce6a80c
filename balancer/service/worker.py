"""A thread of the service that sleeps until there is work, and ends with the service."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from balancer.clock import seconds, wall_us

_LONGEST_PAUSE_S = 3600.0
"""A lock cannot wait for ever and a time."""


class Worker(ABC):
    """Without a thread of its own (`threaded`) somebody else does its steps. Methods from any thread."""

    def __init__(self, name: str, *, threaded: bool) -> None:
        self._changed = threading.Condition()
        self._stopped = False
        self._threaded = threaded
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    @abstractmethod
    def due_us(self) -> int:
        """When `step` has something to do, by `wall_us`. What makes it earlier notifies `_changed`."""

    @abstractmethod
    def step(self) -> None:
        """What is due. Called by the thread, or by whoever drives it without."""

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and (pause_us := self.due_us - wall_us()) > 0:
                    self._changed.wait(min(seconds(pause_us), _LONGEST_PAUSE_S))
                if self._stopped:
                    return
            self.step()

    def begin(self) -> None:
        if self._threaded:
            self._thread.start()

    def stop(self) -> None:
        """Ends after the step that is under way."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.ident is not None:  # a start that failed before has none
            self._thread.join()
