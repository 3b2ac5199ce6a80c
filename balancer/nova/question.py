"""One question of Nova's scheduler to the Balancer, from the first request to hosts that still fit."""

from __future__ import annotations

import hashlib
import logging
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from balancer.client import Balancer, BalancerError, NotObtainable
from balancer.clock import micros, wall_us

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from balancer.client_records import Request

_log = logging.getLogger(__name__)
_LONG_POLL_S = 2.0
"""How often a create that waits looks whether anybody still wants it."""
_PAUSE_S = 0.1
_FRESH_S = 0.2
"""For how long what Nova said of its hosts is taken as true, if the request did not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSettings:
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
        text = "\n".join((self.attempt, str(self.count), *sorted(nodes)))
        return f"nova:{self.request_id}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nova:
    """What a question asks of Nova itself. Each may raise what Nova raises: the create then fails with it."""

    required: Callable[[], int]
    fitting: Callable[[frozenset[str]], frozenset[str]]
    occupied: Callable[[frozenset[str]], frozenset[str]]


class Question:
    """`free`: the hosts that pass without being asked for. Raises BalancerError."""

    def __init__(
        self,
        settings: QuestionSettings,
        balancer: Balancer,
        create: Create,
        *,
        nova: Nova,
        known: frozenset[str],
        seen_us: int,
    ) -> None:
        """`known`: the names of the Balancer's nodes. `seen_us`: when Nova gave its hosts, by the wall clock."""
        self.free = frozenset(create.hosts) - known
        self._nodes = frozenset(create.hosts) & known
        self._settings, self._balancer, self._create, self._nova = settings, balancer, create, nova
        self._count = create.count
        self._wait_s = settings.wait_s if settings.wait else 0.0
        self._seen_us, self._is_second_look = seen_us, False

    def hosts(self) -> frozenset[str]:
        """Those that need no asking, and as many nodes as are short. Raises NotObtainable where they are not obtained.

        A number or a candidate is never changed in a request: who needs fewer nodes, or others, asks anew, for what is
        left of W. Who needs others asks before it gives back what it has, so that what fits of that goes to the new
        request and to nobody else.
        """
        if self._short <= 0 or not self._nodes:
            return self.free
        self.free |= self._occupied_by_owner()
        held: frozenset[str] = frozenset()
        turn = 0
        try:
            while self._short > 0:
                request = self._ask(turn)
                self._release(held)
                held = frozenset()
                turn += 1
                has_waited = request.state == "waiting"
                request, left = self._decided(request)
                if request.state == "withdrawn" and left > len(self.free):
                    _log.info("%s: %d of %d servers are wanted", self._id, left, self._create.count)
                    self._count = left
                    self._wait_for_the_rest_of(request)
                    continue
                held = _nodes_of(request)
                is_fresh = not has_waited and wall_us() - self._seen_us < micros(_FRESH_S)
                if is_fresh or not self._look_again(held):
                    return self._with_alternates(held)
                self._wait_for_the_rest_of(request)
        except BaseException:
            self._release(held)
            raise
        self._release(held)
        return self.free

    @property
    def _id(self) -> str:
        return self._create.request_id

    @property
    def _short(self) -> int:
        return self._count - len(self.free)

    def _wait_for_the_rest_of(self, request: Request) -> None:
        self._wait_s = max(0.0, request.deadline_s - (request.decided_s or request.submitted_s))

    def _occupied_by_owner(self) -> frozenset[str]:
        """The caller's nodes on which a server of its runs: the Balancer has nobody to ask about another one there.

        One without a server may be on its way to another create, or back to batch.
        """
        occupied = self._nova.occupied(self._nodes)
        if not occupied:
            return frozenset()
        own_requests = self._balancer.requests(owner="me", limit=1)
        if not own_requests:
            return frozenset()
        found = set()
        for name in sorted(occupied):
            node = self._balancer.node(name)
            if node.state == "OD_ALLOC" and node.request_id:
                holder = self._balancer.request(node.request_id)
                if holder.owner == own_requests[0].owner and holder.ended_s is None:
                    found.add(name)
        return frozenset(found)

    def _ask(self, turn: int) -> Request:
        nodes = self._nodes - self.free
        if not nodes:
            raise NotObtainable(409, "balancer.not_obtainable", "no node is left that Nova can use")
        create = replace(self._create, count=self._count)
        if turn:
            create = replace(create, attempt=f"{create.attempt} {turn}")
        request = self._balancer.request_nodes(
            self._short,
            wait_s=self._wait_s,
            candidates=sorted(nodes),
            respond_async=True,
            idempotency_key=create.key(nodes),
        )
        self._balancer.patience_s = self._settings.patience_s  # it has answered: patience begins anew
        return request

    def _decided(self, request: Request) -> tuple[Request, int]:
        """The request once it waits no longer, and how many servers were wanted last."""
        pause = threading.Event()
        left = self._count
        while request.state == "waiting":
            try:
                left = min(self._count, self._nova.required())
            except Exception:
                # The create fails with this error, and nobody would come for what it is granted.
                self._balancer.withdraw_request(request.id)
                raise
            if left < self._count:
                return self._balancer.withdraw_request(request.id), left
            request = self._balancer.request(request.id, wait_s=_LONG_POLL_S)
            if request.state == "waiting":
                pause.wait(_PAUSE_S)  # the service may be out of threads that wait, and answer at once
        return request, left

    def _look_again(self, granted: frozenset[str]) -> bool:
        """Whether some host does not fit any more; it is asked for no more in this question."""
        looked = self.free | granted
        self._seen_us, self._is_second_look = wall_us(), True
        found = self._nova.fitting(looked)
        lost = looked - found
        if lost:
            _log.info("%s: Nova can use %s no more", self._id, ", ".join(sorted(lost)))
            self._nodes -= lost
            self.free &= found
            self.free |= self._nova.fitting(self._occupied_by_owner() - granted)
        return bool(lost)

    def _release(self, nodes: frozenset[str]) -> None:
        """Give back what is of no use. What the Balancer does not hear goes back by itself: nobody confirms it."""
        if not nodes:
            return
        try:
            self._balancer.release_nodes(sorted(nodes))
        except BalancerError as error:
            _log.warning("%s: %s not given back: %s", self._id, ", ".join(sorted(nodes)), error)

    def _with_alternates(self, granted: frozenset[str]) -> frozenset[str]:
        """One by one, so that one that cannot be had costs no other. What is not used goes back unconfirmed."""
        found: frozenset[str] = frozenset()
        for number in range(self._settings.alternates):
            left = self._nodes - self.free - granted - found
            if not left:
                break
            try:
                request = self._balancer.request_nodes(
                    1,
                    wait_s=0.0,
                    candidates=sorted(left),
                    respond_async=True,
                    idempotency_key=f"{self._create.key(self._nodes)}:{number}",
                )
                while request.state == "waiting":
                    request = self._balancer.request(request.id, wait_s=_LONG_POLL_S)
                found |= _nodes_of(request)
            except BalancerError as error:
                _log.info("%s: no alternate: %s", self._id, error)
                break
        if found and self._is_second_look:
            found = self._nova.fitting(found)
        return self.free | granted | found


def _nodes_of(request: Request) -> frozenset[str]:
    """Raises NotObtainable for a request that has no nodes (any more)."""
    if request.state == "granted" and request.ended_s is None and not request.reason:
        return frozenset(request.nodes)
    reason = request.reason or f"request {request.id} was {request.state}"
    raise NotObtainable(409, "balancer.not_obtainable", reason)
