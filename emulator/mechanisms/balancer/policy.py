"""The Balancer's decisions in virtual time: the service's life cycle, obeyed at once.

Nodes are indices into `node_names` and leases are numbers, as in the harness; the mechanism only translates.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from balancer.lifecycle.errors import BadPlan
from balancer.lifecycle.events import (
    Grant,
    NodesObserved,
    NodesReclaimed,
    NodesReleased,
    NodesRequested,
    NodesRestored,
    PlanRefused,
    Reclaim,
    Reject,
    RequestWithdrawn,
    ReserveAdded,
    Restore,
    TimerFired,
)
from balancer.lifecycle.lifecycle import Lifecycle
from balancer.lifecycle.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from balancer.algorithms.interface import Algorithm
    from balancer.lifecycle.events import Event
    from balancer.lifecycle.settings import Settings


class Pool(Protocol):
    """The batch pool, which obeys at once. Nodes are indices."""

    def take(self, nodes: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """Take nodes out of the pool: (taken, not taken because they run a job)."""

    def give(self, nodes: Sequence[int]) -> None:
        """Put nodes back into the pool; they are idle there."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The lease has these nodes now."""

    lease_id: int
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The lease waits for nodes, at the latest until `until_us`; its answer is an outcome of a later call."""

    lease_id: int
    until_us: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """The lease gets no nodes."""

    lease_id: int
    reason: str


Outcome = Granted | Waiting | Rejected


class BalancerPolicy:
    """One life cycle and the pool it acts on.

    Every method returns the outcomes of that moment: answers to leases that waited and, from `request`,
    exactly one about the new lease. `now_us` never goes back. All nodes are in the batch pool, idle since 0,
    until `observe` tells otherwise. A failing algorithm raises BadPlan: an experiment must not go on then.
    """

    def __init__(
        self,
        node_names: Sequence[str],
        algorithm: Algorithm,
        settings: Settings,
        pool: Pool,
        *,
        start_us: int = 0,
        algorithm_name: str | None = None,
    ) -> None:
        self.lifecycle = Lifecycle(
            node_names, algorithm, settings, initial=NodeState.OA_IDLE, algorithm_name=algorithm_name
        )
        self._names = tuple(node_names)
        self._node = {name: node for node, name in enumerate(self._names)}
        self._pool = pool
        self._start_us = start_us
        self._reserves = 0
        self._has_begun = False

    @property
    def next_wake_us(self) -> int | None:
        """When `timer` is to be called next; None: never, unless something happens."""
        if not self._has_begun:
            return self._start_us
        return self.lifecycle.next_wake_us

    @property
    def wants_idle(self) -> bool:
        """True while it would take a node the moment it becomes idle: then tell it of job ends at once."""
        return self.lifecycle.wants_idle

    def request(
        self,
        now_us: int,
        lease_id: int,
        count: int,
        wait_us: int | None = None,
        *,
        exclude: tuple[str, ...] = (),
    ) -> list[Outcome]:
        """A lease wants nodes, none of those excluded. Raises Refused for a count below 1 or one that waits already."""
        key = str(lease_id)
        outcomes = self._run(
            NodesRequested(at_us=now_us, request_id=key, count=count, wait_us=wait_us, exclude=exclude)
        )
        record = self.lifecycle.request(key)
        if record is not None:
            outcomes.append(Waiting(lease_id, record.deadline_us))
        return outcomes

    def withdraw(self, now_us: int, lease_id: int) -> list[Outcome]:
        """The lease waits no longer; it gets no outcome of its own."""
        return self._run(RequestWithdrawn(at_us=now_us, request_id=str(lease_id)))

    def release(self, now_us: int, nodes: Iterable[int]) -> list[Outcome]:
        """A lease ended. Raises Refused if one of the nodes is not granted."""
        return self._run(NodesReleased(at_us=now_us, nodes=self._names_of(nodes)))

    def add_reserve(self, now_us: int, by_us: int, count: int, keep_us: int | None = None) -> list[Outcome]:
        """Somebody expects to need `count` more nodes from `by_us` on (paper: `add_reserve(H, N)`).

        They are kept for `keep_us` after that; None: for I.
        """
        self._reserves += 1
        return self._run(
            ReserveAdded(
                at_us=now_us,
                reserve_id=f"reserve-{self._reserves}",
                count=count,
                by_us=by_us,
                keep_us=keep_us,
            )
        )

    def stand(self, now_us: int, every: str, count: int, lead_us: int) -> list[Outcome]:
        """`count` more nodes in each window of `every` (`Recurrence.text`), collected `lead_us` before it."""
        self._reserves += 1
        key = f"reserve-{self._reserves}"
        return self._run(
            ReserveAdded(at_us=now_us, reserve_id=key, count=count, every=every, lead_us=lead_us)
        )

    def observe(self, now_us: int, states: Mapping[int, tuple[str, int]]) -> list[Outcome]:
        """What has changed in the batch pool: node -> (`idle`, `busy` or `down`, since_us)."""
        names = self._names
        return self._run(
            NodesObserved(at_us=now_us, states={names[node]: state for node, state in states.items()})
        )

    def timer(self, now_us: int) -> list[Outcome]:
        """`next_wake_us` has come."""
        return self._run(TimerFired(at_us=now_us))

    def _names_of(self, nodes: Iterable[int]) -> tuple[str, ...]:
        return tuple(self._names[node] for node in nodes)

    def _nodes_of(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self._node[name] for name in names)

    def _run(self, event: Event) -> list[Outcome]:
        """Handle the event and everything it leads to."""
        self._has_begun = True
        outcomes: list[Outcome] = []
        events = deque((event,))
        while events:
            for instruction in self.lifecycle.handle(events.popleft()):
                match instruction:
                    case Reclaim(nodes=names):
                        done, busy = self._pool.take(self._nodes_of(names))
                        events.append(
                            NodesReclaimed(
                                at_us=event.at_us, done=self._names_of(done), busy=self._names_of(busy)
                            )
                        )
                    case Restore(nodes=names):
                        self._pool.give(self._nodes_of(names))
                        events.append(NodesRestored(at_us=event.at_us, done=names))
                    case Grant(request_id=key, nodes=names):
                        outcomes.append(Granted(int(key), self._nodes_of(names)))
                    case Reject(request_id=key, reason=reason):
                        outcomes.append(Rejected(int(key), reason))
                    case PlanRefused(algorithm=name, detail=detail):
                        raise BadPlan(name, detail)
                    case _:  # WakeAt: next_wake_us says it
                        pass
        self.lifecycle.forget_changes()
        return outcomes
