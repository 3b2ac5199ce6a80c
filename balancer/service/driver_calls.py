"""Calls of the batch system's driver: what each came to, is counted and logged, and what it says no to is remembered.

For one thread, the commander's; what was remembered may be asked from any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from balancer.clock import micros, seconds, wall_us
from balancer.drivers.base import ChecksSite, DriverError, RefusedError, Tidies, UnclearError, WakesNodes
from balancer.ledger.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from balancer.drivers.base import BatchDriver, NodeStatus, SiteCheck
    from balancer.service.metrics import Metrics

_log = structlog.get_logger()

_MANY_REFUSALS = 5
"""So many in a row are no accident."""

_LONGEST_POLL_S = 60.0

_TIDY_EVERY_US = micros(5)
"""Wall time between looks at what drivers keep beside their marks; not each of a storm of readings needs one."""


class DriverCalls:
    """`check_writer` raises LedgerError when this process may not command (any more): then only readings are made.

    `signature` goes into the note of every mark.
    """

    def __init__(
        self,
        driver: BatchDriver,
        *,
        observer: Metrics,
        check_writer: Callable[[], None],
        signature: Callable[[], str],
    ) -> None:
        self._driver = driver
        self.name = driver.name
        self._observer = observer
        self._check_writer = check_writer
        self._signature = signature
        self._tidies = driver if isinstance(driver, Tidies) else None
        self._tidied_us = -_TIDY_EVERY_US
        self._refusals = 0
        self._withheld: dict[str, tuple[tuple[str, ...], str]] = {}
        self.last_read_error = ""
        """What the latest look failed with; "": it did not."""
        self.last_command_error = ""
        """What the latest command failed with; "": it did not."""

    @property
    def refused(self) -> str | None:
        """What the batch system says no to, again and again."""
        return self.last_command_error if self._refusals >= _MANY_REFUSALS else None

    def poll_s(self, least_s: float) -> float:
        """Between looks at what is open: longer and longer while every command is refused."""
        beyond = max(0, self._refusals - _MANY_REFUSALS)
        return min(least_s * 2.0 ** min(beyond, 10), max(least_s, _LONGEST_POLL_S))

    def site_checks(self, nodes: Sequence[str]) -> Sequence[SiteCheck]:
        """Whether the batch system is set up for what we do, as far as the driver can tell. Raises DriverError."""
        return self._driver.check_site(nodes) if isinstance(self._driver, ChecksSite) else ()

    # Looks

    def look(self, nodes: Sequence[str]) -> dict[str, NodeStatus]:
        """What the batch system says of these nodes; nothing where it cannot be asked."""
        return self._read(lambda: self._driver.get_status_of_nodes(nodes))[0]

    def look_at_all(self) -> tuple[dict[str, NodeStatus], DriverError | None]:
        """All states, or why there are none."""
        return self._read(self._driver.get_status_of_all_nodes)

    def _read(
        self, ask: Callable[[], Mapping[str, NodeStatus]]
    ) -> tuple[dict[str, NodeStatus], DriverError | None]:
        states: dict[str, NodeStatus] = {}
        error = self._call("status", lambda: states.update(ask()))
        self.last_read_error = str(error or "")
        return states, error

    # Commands

    def reclaim(self, nodes: Sequence[str]) -> None:
        self._change("reclaim", lambda: self._driver.reclaim_nodes(nodes, why=self._signature()), nodes)

    def restore(self, nodes: Sequence[str]) -> None:
        self._change("restore", lambda: self._driver.restore_nodes(nodes), nodes)

    @property
    def can_wake(self) -> bool:
        """Whether the driver can have nodes switched on that sleep."""
        return isinstance(self._driver, WakesNodes)

    def wake(self, nodes: Sequence[str]) -> None:
        driver = self._driver
        if isinstance(driver, WakesNodes):
            self._change("wake", lambda: driver.wake_nodes(nodes), nodes)

    def tidy(self) -> None:
        """Look after what belongs to our marks, now and then."""
        if self._tidies is None or wall_us() - self._tidied_us < _TIDY_EVERY_US:
            return
        self._tidied_us = wall_us()
        try:
            self._check_writer()
            self._tidies.tidy()
        except (LedgerError, DriverError) as error:
            _log.warning("what belongs to our marks could not be looked after", error=str(error))
        except Exception:  # noqa: BLE001 - a driver is a plug-in: its bugs must not end this thread
            _log.exception("what belongs to our marks could not be looked after")

    def _change(self, command: str, action: Callable[[], None], nodes: Sequence[str]) -> None:
        """Run a command with effects on some nodes, if this process is still the one writer of the ledger."""
        if not nodes:
            return
        try:
            self._check_writer()
        except LedgerError as error:
            withheld = tuple(nodes), str(error)
            if self._withheld.get(command) != withheld:  # it is tried again every poll
                _log.error("command not given", command=command, nodes=list(nodes), error=str(error))
            self._withheld[command] = withheld
            return
        self._withheld.clear()
        failure = self._call(command, action)
        self.last_command_error = str(failure or "")
        self._refusals = self._refusals + 1 if isinstance(failure, RefusedError) else 0
        if self._refusals == _MANY_REFUSALS:
            _log.error(
                "the batch system refuses our commands", command=command, error=self.last_command_error
            )

    def _call(self, command: str, action: Callable[[], None]) -> DriverError | None:
        """Run one driver command; its failure is counted, logged and returned. We read back anyway."""
        start_us = wall_us()
        failure: DriverError | None = None
        try:
            action()
        except DriverError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - a driver is a plug-in: its bugs must not end this thread
            failure = UnclearError(f"the driver {self.name} raised {error!r}")
        outcome = failure.outcome if failure is not None else "ok"
        self._observer.command_done(command, outcome, seconds(wall_us() - start_us))
        if failure is not None:
            _log.warning("batch command failed", command=command, outcome=outcome, error=str(failure))
        return failure
