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
    Look,
    NodesFailed,
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
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from balancer.algorithms.interface import Algorithm
    from balancer.lifecycle.events import Event, Instruction
    from balancer.policy_settings import Settings
    from emulator.mechanisms.balancer.node_watch import NodeWatch

    _Happens = Event | Callable[[], Sequence[Event]]
    """An event, or what is to be asked for events when its turn has come."""


class Pool(Protocol):
    """The batch pool, which obeys at once. Nodes are indices."""

    def take(self, nodes: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """Take nodes out of the pool: (taken, not taken because they run a job)."""

    def give(self, nodes: Sequence[int]) -> None:
        """Put nodes back into the pool; they are idle there."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The lease has these nodes now. `replaces`: in the place of others that failed, by the request of this id."""

    lease_id: int
    nodes: tuple[int, ...]
    replaces: str = ""


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
    replaces: str = ""
    """As above: the lease has the nodes that it has."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The service has told that these nodes of the lease have failed.

    `replaced_by`: they are the lease's no longer, and this request was made for others; "": they still are.
    """

    lease_id: int
    nodes: tuple[int, ...]
    replaced_by: str = ""


Outcome = Granted | Waiting | Rejected | Failed


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
        watch: NodeWatch | None = None,
        replace: bool = False,
    ) -> None:
        """`watch`: where nodes fail. `replace`: leases get other nodes for those that fail."""
        self._watch, self._replace = watch, replace
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
            NodesRequested(
                at_us=now_us,
                request_id=key,
                count=count,
                wait_us=wait_us,
                exclude=exclude,
                replace=self._replace,
            )
        )
        record = self.lifecycle.request(key)
        if record is not None:
            outcomes.append(Waiting(lease_id, record.deadline_us))
        return outcomes

    def withdraw(self, now_us: int, lease_id: int) -> list[Outcome]:
        """The lease waits no longer; it gets no outcome of its own."""
        return self._run(RequestWithdrawn(at_us=now_us, request_id=str(lease_id)))

    def withdraw_replacement(self, now_us: int, request_id: str) -> list[Outcome]:
        """The lease is over, and wants no other node any more."""
        return self._run(RequestWithdrawn(at_us=now_us, request_id=request_id))

    def read(self, now_us: int) -> list[Outcome]:
        """A periodic reading of all nodes (`NodeWatch`)."""
        return self._run(*self._reading(now_us))

    def restored(self, now_us: int, nodes: Iterable[int]) -> list[Outcome]:
        """Nodes that were down when they were to go back to batch are there."""
        return self._run(NodesRestored(at_us=now_us, done=self._names_of(nodes)))

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

    def _run(self, *happened: _Happens) -> list[Outcome]:
        """Handle the events and everything they lead to."""
        self._has_begun = True
        outcomes: list[Outcome] = []
        events: deque[_Happens] = deque(happened)
        while events:
            event = events.popleft()
            if callable(event):
                events.extendleft(reversed(event()))
                continue
            holders = self._holders(event) if isinstance(event, NodesFailed) else {}
            for instruction in self.lifecycle.handle(event):
                self._follow(instruction, event.at_us, events, outcomes)
            outcomes += self._told(holders)
        self.lifecycle.forget_changes()
        return outcomes

    def _follow(
        self, instruction: Instruction, at_us: int, events: deque[_Happens], outcomes: list[Outcome]
    ) -> None:
        match instruction:
            case Reclaim(nodes=names):
                events += self._reclaim(self._nodes_of(names), at_us)
            case Restore(nodes=names):
                done = self._that_work(self._nodes_of(names))
                self._pool.give(done)
                if done:
                    events.append(NodesRestored(at_us=at_us, done=self._names_of(done)))
            case Grant(request_id=key, nodes=names):
                outcomes.append(Granted(_lease_of(key), self._nodes_of(names), _replacement(key)))
            case Reject(request_id=key, reason=reason):
                outcomes.append(Rejected(_lease_of(key), reason, _replacement(key)))
            case PlanRefused(algorithm=name, detail=detail):
                raise BadPlan(name, detail)
            case Look() if self._watch is not None:
                events += self._reading(at_us)
            case _:  # WakeAt: next_wake_us says it
                pass

    # Where nodes fail.

    def _that_work(self, nodes: Iterable[int]) -> tuple[int, ...]:
        down = () if self._watch is None else self._watch.down
        return tuple(node for node in nodes if node not in down)

    def _reclaim(self, nodes: Sequence[int], at_us: int) -> list[Event]:
        """What becomes of the command: a node that is down is found to be so when it does not obey."""
        there = self._that_work(nodes)
        events: list[Event] = []
        if there:
            done, busy = self._pool.take(there)
            events.append(NodesReclaimed(at_us=at_us, done=self._names_of(done), busy=self._names_of(busy)))
        if lost := self._names_of(node for node in nodes if node not in there):
            events.append(NodesObserved(at_us=at_us, states=dict.fromkeys(lost, ("down", at_us))))
        return events

    def _reading(self, at_us: int) -> list[_Happens]:
        watch, lifecycle = self._watch, self.lifecycle
        assert watch is not None  # noqa: S101 - nobody else reads
        return [
            lambda: [watch.observed(at_us, lifecycle)],
            lambda: watch.failures(at_us, lifecycle),
        ]

    def _holders(self, event: NodesFailed) -> dict[str, list[str]]:
        """Request -> its nodes that have failed."""
        found: dict[str, list[str]] = {}
        for name in event.nodes:
            record = self.lifecycle.node(name)
            if record is not None and record.reserved_for is not None:
                found.setdefault(record.reserved_for, []).append(name)
        return found

    def _told(self, holders: Mapping[str, list[str]]) -> list[Outcome]:
        """What the owners of these nodes are told."""
        if not holders:
            return []
        changed = {record.request_id: record for record in self.lifecycle.drain_changes().requests}
        outcomes: list[Outcome] = []
        for key, names in holders.items():
            lost = changed[key].lost if key in changed else ()
            by = next((each.replaced_by for each in reversed(lost) if each.node in names), "")
            outcomes.append(Failed(_lease_of(key), self._nodes_of(names), by))
        return outcomes


def _lease_of(request_id: str) -> int:
    """The lease that a request, or a chain of replacements, was made for."""
    return int(request_id.partition(".")[0])


def _replacement(request_id: str) -> str:
    return request_id if "." in request_id else ""
