"""What stands in the log when something cannot be stored: one line, not one for each part that notices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from balancer.clock import micros, wall_us
from balancer.ledger.errors import EndingError, FencedError, LedgerError, ReadOnlyError, ReplacedError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_THE_WRITERS = (ReadOnlyError, FencedError, ReplacedError)
"""The writer (`writer.py`) logs why nothing can be stored, and repeats it."""


_SAY_AGAIN_US = micros(60)


class Outage:
    """Logs that something lasts: at once, then once a minute, and that it is over.

    A disk with a little room is full and well by turns: that is no more lines.
    """

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._logged_us: int | None = None
        self._is_logged = False

    def lasts(self, what: str, error: Exception) -> None:
        if self._logged_us is None or wall_us() - self._logged_us >= _SAY_AGAIN_US:
            self._logged_us, self._is_logged = wall_us(), True
            self._log.error(what, error=str(error))

    def over(self, what: str) -> None:
        if self._is_logged:
            self._log.info(what)
        self._is_logged = False


def log_failure(log: FilteringBoundLogger, what: str, error: Exception, **values: Any) -> None:
    """Log that something failed and is tried again; for an error that is not the ledger's with its traceback.

    A disk stays full for hours, and each part tries again every second: what the writer logs is left out here.
    """
    if isinstance(error, _THE_WRITERS):
        return
    if isinstance(error, EndingError):
        log.info("the service ends, the next start sees to this", failed=what, **values)
    elif isinstance(error, LedgerError):
        log.error(what, error=str(error), **values)
    else:
        log.error(what, exc_info=error, **values)
