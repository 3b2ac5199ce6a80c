"""What the scheduler filter does, without Nova: ask for the nodes of one create, and say which hosts pass.

Runs inside Nova's scheduler, from many threads, with what is installed there: the standard library and requests.
Nothing here confirms a grant. Until a server or its allocation is on one of its nodes a grant is provisional, and
goes back by itself: whatever becomes of the scheduler, nothing is kept that nobody uses.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from balancer.client import Balancer, BalancerError, NotObtainable, Unreachable
from balancer.clock import micros, seconds, wall_us

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from balancer.client_records import Request

_log = logging.getLogger(__name__)
_LONG_POLL_S = 2.0
"""How often a create that waits looks whether anybody still wants it."""
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingSettings:
    """`wait`: keep the create in the scheduler for up to W, or refuse at once what is not there at once.

    `wait_s`: instead of the service's own W. `patience_s`: for how long a Balancer that does not answer is asked again,
    whatever it is asked for.
    `alternates`: as many more nodes a create, where they can be had at once, for Nova to boot on where a boot fails.
    `nodes_age_s`: how old the list of the Balancer's nodes may be.
    """

    url: str
    token: str | None = None
    name: str = "nova"
    ca_file: str | None = None
    wait: bool = True
    wait_s: float | None = None
    patience_s: float = 90.0
    alternates: int = 0
    nodes_age_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """One question of Nova's scheduler: `count` servers, and the hosts that are left for them.

    `request_id` is Nova's; `attempt` tells a server that is scheduled anew after a failed boot.
    """

    request_id: str
    count: int
    hosts: tuple[str, ...]
    attempt: str = ""

    def key(self, nodes: Collection[str]) -> str:
        """The same for the same question, so that who asks twice is granted once; `nodes` are part of the question."""
        asked = "\n".join((self.attempt, str(self.count), *sorted(nodes)))
        return f"nova:{self.request_id}:{hashlib.sha256(asked.encode()).hexdigest()[:16]}"


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

    def __init__(self, settings: AskingSettings) -> None:
        self.settings = settings
        self._nodes = NodeNames(settings.nodes_age_s)

    def passing(self, create: Create, wanted: Callable[[], int] | None = None) -> frozenset[str]:
        """The hosts that this create may use: those that are no nodes of the Balancer, and those granted for it.

        Blocks while the request waits; `wanted` says now and then how many of its servers are still wanted: where
        it is none, the request is withdrawn, and where they are fewer, fewer nodes are asked for. Without it all are.
        What cannot be had is no error: none of the Balancer's nodes passes.
        """
        still_wanted = wanted or (lambda: create.count)
        end_us = wall_us() + micros(self.settings.patience_s)
        with self._client() as balancer:
            try:
                known = self._nodes.get(balancer, end_us)
            except BalancerError as error:
                _log.error("no host passes, the Balancer's nodes are not known: %s", error)
                return frozenset()
            nodes = [host for host in create.hosts if host in known]
            others = frozenset(create.hosts) - known
            short = create.count - len(others)
            if short <= 0 or not nodes:
                return others
            balancer.patience_s = _left_s(end_us)
            try:
                granted = self._grant(balancer, create, len(others), nodes, still_wanted)
                return others | granted | self._alternates(balancer, create, nodes, granted)
            except NotObtainable as error:
                _log.info("%s: %d of %d nodes not granted: %s", create.request_id, short, len(nodes), error)
            except BalancerError as error:
                _log.error("%s: %d nodes could not be asked for: %s", create.request_id, short, error)
            return others

    def _client(self) -> Balancer:
        given = self.settings
        return Balancer(
            given.url,
            token=given.token,
            name=given.name if given.token is None else None,
            ca_file=given.ca_file,
            patience_s=given.patience_s,
        )

    def _grant(
        self,
        balancer: Balancer,
        create: Create,
        others: int,
        nodes: list[str],
        wanted: Callable[[], int],
    ) -> frozenset[str]:
        """Nodes for those servers for which `others`, hosts that need no asking, do not suffice. Raises BalancerError.

        A number is never changed in a request: who needs fewer nodes withdraws and asks anew, for what is left of W.
        """
        wait_s = self.settings.wait_s if self.settings.wait else 0.0
        count = create.count
        while True:
            request = balancer.request_nodes(
                count - others,
                wait_s=wait_s,
                candidates=sorted(nodes),
                respond_async=True,
                idempotency_key=replace(create, count=count).key(nodes),
            )
            balancer.patience_s = self.settings.patience_s  # it has answered: patience begins anew
            request, left = self._decided(balancer, request, count, wanted)
            if request.state != "withdrawn" or left <= others:
                return _nodes_of(request)
            _log.info("%s: %d of %d servers are still wanted", create.request_id, left, create.count)
            wait_s = max(0.0, request.deadline_s - (request.decided_s or request.submitted_s))
            count = left

    def _decided(
        self, balancer: Balancer, request: Request, count: int, wanted: Callable[[], int]
    ) -> tuple[Request, int]:
        """The request once it waits no longer, and how many of `count` servers were wanted last."""
        pause = threading.Event()
        left = count
        while request.state == "waiting":
            try:
                left = min(count, wanted())
            except Exception:
                # The create fails with this error, and nobody would come for what it is granted.
                balancer.withdraw_request(request.id)
                raise
            if left < count:
                return balancer.withdraw_request(request.id), left
            request = balancer.request(request.id, wait_s=_LONG_POLL_S)
            if request.state == "waiting":
                pause.wait(_PAUSE_S)  # the service may be out of threads that wait, and answer at once
        return request, left

    def _alternates(
        self, balancer: Balancer, create: Create, nodes: list[str], granted: frozenset[str]
    ) -> frozenset[str]:
        """One by one, so that one that cannot be had costs no other. What is not used goes back unconfirmed."""
        found: frozenset[str] = frozenset()
        for number in range(self.settings.alternates):
            left = [node for node in nodes if node not in granted | found]
            try:
                request = balancer.request_nodes(
                    1,
                    wait_s=0.0,
                    candidates=sorted(left),
                    respond_async=True,
                    idempotency_key=f"{create.key(nodes)}:{number}",
                ) if left else None  # fmt: skip
                while request is not None and request.state == "waiting":
                    request = balancer.request(request.id, wait_s=_LONG_POLL_S)
                found |= _nodes_of(request) if request is not None else frozenset()
            except BalancerError as error:
                _log.info("%s: no alternate: %s", create.request_id, error)
                break
        return found


def _left_s(end_us: int) -> float:
    return max(0.0, seconds(end_us - wall_us()))


def _nodes_of(request: Request) -> frozenset[str]:
    """Raises NotObtainable for a request that has no nodes (any more)."""
    if request.state == "granted" and request.ended_s is None and not request.reason:
        return frozenset(request.nodes)
    said = request.reason or f"request {request.id} was {request.state}"
    raise NotObtainable(409, "balancer.not_obtainable", said)
