"""A small world: a life cycle that is validated after every event, and people who do what it says."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from balancer.algorithms.basic import Basic
from balancer.clock import US
from balancer.lifecycle.events import (
    Event,
    Grant,
    GrantConfirmed,
    Instruction,
    LeaseRenewed,
    NodesFailed,
    NodesObserved,
    NodesReclaimed,
    NodesRecovered,
    NodesReleased,
    NodesRequested,
    NodesRestored,
    NodesUpdated,
    Reclaim,
    Reject,
    RequestWithdrawn,
    ReserveAdded,
    Restore,
    ServersObserved,
    TimerFired,
)
from balancer.lifecycle.lifecycle import Lifecycle
from balancer.lifecycle.states import NodeState
from balancer.policy_settings import ReserveRule, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from balancer.lifecycle.records import RequestRecord


@dataclass
class World:
    """Times are seconds here. Unless `obeys` is False, reclaim and restore are done at once."""

    lifecycle: Lifecycle
    obeys: bool = True
    now_s: float = 0
    answers: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Request id -> reason of its rejection, or the nodes it got."""

    def at(self, now_s: float) -> World:
        self.now_s = now_s
        return self

    @property
    def now_us(self) -> int:
        return round(self.now_s * US)

    def handle(self, event: Event) -> list[Instruction]:
        """The instructions of this event and of the outcomes it led to."""
        events, told = deque((event,)), []
        while events:
            instructions = self.lifecycle.handle(events.popleft())
            self.lifecycle.validate()
            told += instructions
            for instruction in instructions:
                match instruction:
                    case Reclaim(nodes=nodes) if self.obeys:
                        events.append(NodesReclaimed(at_us=event.at_us, done=nodes))
                    case Restore(nodes=nodes) if self.obeys:
                        events.append(NodesRestored(at_us=event.at_us, done=nodes))
                    case Grant(request_id=key, nodes=nodes):
                        assert key not in self.answers, f"{key} is answered twice"
                        self.answers[key] = nodes
                    case Reject(request_id=key, reason=reason):
                        assert key not in self.answers, f"{key} is answered twice"
                        self.answers[key] = reason
        return told

    def request(
        self, key: str, count: int, wait_s: float | None = None, *, lease_s: float | None = None, **more: Any
    ) -> list[Instruction]:
        wait_us = None if wait_s is None else round(wait_s * US)
        lease_us = None if lease_s is None else round(lease_s * US)
        return self.handle(
            NodesRequested(
                at_us=self.now_us, request_id=key, count=count, wait_us=wait_us, lease_us=lease_us, **more
            )
        )

    def withdraw(self, key: str, **who: Any) -> list[Instruction]:
        return self.handle(RequestWithdrawn(at_us=self.now_us, request_id=key, **who))

    def release(self, *nodes: str, **who: Any) -> list[Instruction]:
        return self.handle(NodesReleased(at_us=self.now_us, nodes=nodes, **who))

    def confirm(self, key: str, **who: Any) -> list[Instruction]:
        return self.handle(GrantConfirmed(at_us=self.now_us, request_id=key, **who))

    def renew(self, key: str, lease_s: float | None = None, **who: Any) -> list[Instruction]:
        lease_us = None if lease_s is None else round(lease_s * US)
        return self.handle(LeaseRenewed(at_us=self.now_us, request_id=key, lease_us=lease_us, **who))

    def servers(self, *nodes: str, empty: tuple[str, ...] = ()) -> list[Instruction]:
        return self.handle(
            ServersObserved(at_us=self.now_us, asked_us=self.now_us, servers=nodes, empty=empty)
        )

    def read(self, *, contested: dict[str, str] | None = None, **more: Any) -> list[Instruction]:
        """A look at all nodes that begins and ends now."""
        return self.handle(
            NodesObserved(at_us=self.now_us, read_us=self.now_us, contested=contested or {}, **more)
        )

    def fail(self, *nodes: str) -> list[Instruction]:
        return self.handle(NodesFailed(at_us=self.now_us, nodes=dict.fromkeys(nodes, self.now_us)))

    def recover(self, *nodes: str) -> list[Instruction]:
        return self.handle(NodesRecovered(at_us=self.now_us, nodes=nodes))

    def grant(self, key: str) -> RequestRecord | None:
        lease = self.lifecycle._leases.get(key)
        return None if lease is None else lease.record

    def busy(self, *nodes: str, job: str | None = None) -> list[Instruction]:
        return self.handle(NodesUpdated(at_us=self.now_us, busy=nodes, job=job))

    def idle(self, *nodes: str, job: str | None = None) -> list[Instruction]:
        return self.handle(NodesUpdated(at_us=self.now_us, idle=nodes, job=job))

    def add_reserve(self, key: str, count: int, by_s: float) -> list[Instruction]:
        return self.handle(
            ReserveAdded(at_us=self.now_us, reserve_id=key, count=count, by_us=round(by_s * US))
        )

    def see(self, state: str, *nodes: str, since_s: float | None = None) -> list[Instruction]:
        since_us = self.now_us if since_s is None else round(since_s * US)
        return self.handle(NodesObserved(at_us=self.now_us, states=dict.fromkeys(nodes, (state, since_us))))

    def reclaimed(
        self, *done: str, busy: tuple[str, ...] = (), unclear: tuple[str, ...] = ()
    ) -> list[Instruction]:
        return self.handle(NodesReclaimed(at_us=self.now_us, done=done, busy=busy, unclear=unclear))

    def restored(self, *done: str, unclear: tuple[str, ...] = ()) -> list[Instruction]:
        return self.handle(NodesRestored(at_us=self.now_us, done=done, unclear=unclear))

    def timer(self) -> list[Instruction]:
        return self.handle(TimerFired(at_us=self.now_us))

    def wake(self) -> list[Instruction]:
        """Go to the time it wants to be woken at, and wake it."""
        wake_us = self.lifecycle.next_wake_us
        assert wake_us is not None
        self.now_s = wake_us / US
        return self.timer()

    @property
    def wake_s(self) -> float | None:
        wake_us = self.lifecycle.next_wake_us
        return None if wake_us is None else wake_us / US

    def state(self, node: str) -> str:
        record = self.lifecycle.node(node)
        assert record is not None
        return record.state

    def states(self) -> dict[str, str]:
        return {record.name: record.state.value for record in self.lifecycle.snapshot().nodes}

    def in_state(self, state: str) -> tuple[str, ...]:
        return tuple(node for node, its in self.states().items() if its == state)


@pytest.fixture
def world() -> Callable[..., World]:
    """`world(5, wait_s=60)`: nodes n1..n5, all OA_IDLE; the first event collects the reserve."""

    def make(
        count: int = 5,
        *,
        reserve: int = 0,
        reserve_rule: str = "fixed",
        wait_s: float = 0,
        hold_s: float = 600,
        obeys: bool = True,
        initial: NodeState = NodeState.OA_IDLE,
        algorithm: object = None,
        pick: str = "longest_idle",
        confirm_s: float = 0,
        fresh_s: float | None = None,
        at_once_s: float = 0,
        has_cloud: bool = False,
    ) -> World:
        settings = Settings(
            static_reserve=reserve,
            reserve_rule=ReserveRule(reserve_rule),
            wait_us=round(wait_s * US),
            idle_reserve_us=round(hold_s * US),
            pick=pick,
            confirm_us=round(confirm_s * US),
            fresh_us=None if fresh_s is None else round(fresh_s * US),
            at_once_us=round(at_once_s * US),
            has_cloud=has_cloud,
        )
        names = [f"n{number}" for number in range(1, count + 1)]
        return World(Lifecycle(names, algorithm or Basic(), settings, initial=initial), obeys)

    return make
