"""What the scheduler filter does, without Nova: ask for the nodes of one create, and say which hosts pass.

Runs inside Nova's scheduler, from many threads, with what is installed there: the standard library and requests.
Nothing here confirms a grant. Until a server or its allocation is on one of its nodes a grant is provisional, and
goes back by itself: whatever becomes of the scheduler, nothing is kept that nobody uses.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from balancer.client import Balancer, BalancerError, NotObtainable, Unreachable
from balancer.clock import micros, seconds, wall_us
from balancer.nova.question import Create, Nova, Question, QuestionSettings

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


@dataclass
class NodeNames:
    """The names of the Balancer's nodes, asked for anew when they are old. For many threads."""

    age_s: float
    _names: frozenset[str] | None = None
    _read_us: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, balancer: Balancer, end_us: int) -> frozenset[str]:
        """Raises BalancerError where they were never heard; what was heard serves while there is no answer.

        It is asked for until `end_us`, by one thread at a time: those that wait for its answer have no more time.
        """
        if not self._lock.acquire(timeout=_left_s(end_us)):
            if self._names is None:
                raise Unreachable(
                    0, "balancer.unreachable", f"no answer from {balancer.url} to another create"
                )
            return self._names
        try:
            if self._names is not None and wall_us() < self._read_us + micros(self.age_s):
                return self._names
            balancer.patience_s = _left_s(end_us)
            try:
                self._names = frozenset(node.name for node in balancer.nodes())
                self._read_us = wall_us()
            except BalancerError:
                if self._names is None:
                    raise
            return self._names
        finally:
            self._lock.release()


class Asker:
    """Asks for creates. Safe to use from many threads."""

    def __init__(self, settings: QuestionSettings) -> None:
        self.settings = settings
        self._nodes = NodeNames(settings.nodes_age_s)

    def passing(
        self,
        create: Create,
        required: Callable[[], int] | None = None,
        *,
        fitting: Callable[[frozenset[str]], frozenset[str]] | None = None,
        occupied: Callable[[frozenset[str]], frozenset[str]] | None = None,
    ) -> frozenset[str]:
        """The hosts that this create may use: those that need no asking, and those granted for it.

        Blocks while the request waits; `required` says now and then how many of its servers are still wanted: where
        it is none, the request is withdrawn, and where they are fewer, fewer nodes are asked for. Without it all are.
        `fitting`: which of these hosts Nova would still choose from; asked after a wait. Without it all.
        `occupied`: on which of these hosts a server runs that nobody deletes. Those of them that are the caller's need
        no asking: Nova has left them in the list, so that there is room. Without it none.
        What cannot be had is no error: none of the Balancer's nodes passes.
        """
        nova = Nova(
            required=required or (lambda: create.count),
            fitting=fitting or (lambda hosts: hosts),
            occupied=occupied or (lambda _: frozenset()),
        )
        began_us = wall_us()
        end_us = began_us + micros(self.settings.patience_s)
        with self._client() as balancer:
            try:
                known = self._nodes.get(balancer, end_us)
            except BalancerError as error:
                _log.error("no host passes, the Balancer's nodes are not known: %s", error)
                return frozenset()
            question = Question(self.settings, balancer, create, nova=nova, known=known, seen_us=began_us)
            try:
                balancer.patience_s = _left_s(end_us)
                return question.hosts()
            except NotObtainable as error:
                _log.info("%s: not granted: %s", create.request_id, error)
            except BalancerError as error:
                _log.error("%s: nodes could not be asked for: %s", create.request_id, error)
            return question.free

    def _client(self) -> Balancer:
        settings = self.settings
        return Balancer(
            settings.url,
            token=settings.token,
            name=settings.name if settings.token is None else None,
            ca_file=settings.ca_file,
            patience_s=settings.patience_s,
        )


def _left_s(end_us: int) -> float:
    return max(0.0, seconds(end_us - wall_us()))
