"""Calls to the node source that must succeed in the end, however often it is away."""

from __future__ import annotations

from threading import Condition, Thread
from typing import TYPE_CHECKING

import structlog

from emulator.live.ondemand.nodes import SourceUnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

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

    def wait_until_done(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout_s)

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
