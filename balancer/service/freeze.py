"""A pause that people order: no node changes its pool, everything else goes on.

The order is a file beside the ledger, so that it can be given without the service, and lasts over restarts.
Commands that are under way end. Requests are granted from the reserve that is there; beyond it they wait or are
rejected.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from balancer import secret_files as files
from balancer.algorithms.interface import Algorithm, ChecksSettings, Plan, View

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from balancer.policy_settings import Settings
    from balancer.secret_files import Stamp

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Order:
    """Who ordered the pause and why; `at` is ISO 8601."""

    by: str
    reason: str
    at: str


class Freeze:
    """The file; it is looked at for each plan and read when it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: Stamp | None = None
        self._order: Order | None = None
        self._looking = threading.Lock()

    def order(self) -> Order | None:
        """None: nodes may move. A file that cannot be read is an order, too: better no move than a wrong one."""
        with self._looking:
            try:
                now = files.stamp(self.path)
                if now != self._stamp:
                    self._order = None if now is None else _parse(files.read(self.path))
                    self._stamp = now
                    _log.warning(
                        "nodes may move again" if now is None else "no node moves", order=self._order
                    )
            except files.AuthFileError as error:
                return Order("unknown", str(error), "")
            return self._order

    def freeze(self, order: Order) -> Order | None:
        """The order that stood already and is left as it is; None: this one stands. Raises AuthFileError."""
        if files.stamp(self.path) is not None:
            return _parse(files.read(self.path))
        text = json.dumps({"by": order.by, "reason": order.reason, "at": order.at})
        files.replace(self.path, text + "\n", mode=0o644)  # no secret; the service must be able to read it
        return None

    def thaw(self) -> bool:
        """False: nothing was frozen. Raises AuthFileError."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise files.AuthFileError(f"{self.path} cannot be removed: {error.strerror}") from error
        return True


def _parse(text: str) -> Order:
    try:
        content = json.loads(text)
        return Order(str(content["by"]), str(content["reason"]), str(content["at"]))
    except (ValueError, KeyError, TypeError):
        return Order("unknown", "the file is not of `balancer freeze`", "")


class Unmoving:
    """The algorithm, to which no node is idle and whose restores are put off unless nodes `may_move`."""

    def __init__(self, algorithm: Algorithm, may_move: Callable[[], bool]) -> None:
        self._algorithm = algorithm
        self._may_move = may_move

    def check(self, settings: Settings) -> None:
        if isinstance(self._algorithm, ChecksSettings):
            self._algorithm.check(settings)

    def plan(self, view: View) -> Plan:
        if self._may_move():
            return self._algorithm.plan(view)
        return replace(self._algorithm.plan(replace(view, idle=_NoNodes())), restore=())


class _NoNodes(tuple[str, ...]):
    __slots__ = ()

    def since_us(self, node: str) -> int:
        raise KeyError(node)
