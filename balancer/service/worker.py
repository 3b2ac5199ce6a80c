"""A thread of the service that sleeps until there is work, and ends with the service."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class Worker(ABC):
    """Without a thread of its own (`threaded`) somebody else does its steps. Methods from any thread."""

    def __init__(self, name: str, *, threaded: bool) -> None:
        self._changed = threading.Condition()
        self._stopped = False
        self._threaded = threaded
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def _run(self) -> None:
        """Until `_stopped`; `_changed` says when to look again."""

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
