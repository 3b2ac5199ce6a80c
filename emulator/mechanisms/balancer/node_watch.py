"""What the service reads of nodes that fail, in virtual time: its own comparison and its own word on who has failed.

A reading is taken whenever the life cycle asks for a look, and every period, as by `balancer.service.reconciler`.
Nodes that nothing has happened to read as the ledger says; only the others are compared. Nodes are indices here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from balancer.drivers.base import NodeStatus
from balancer.lifecycle.events import NodesFailed, NodesObserved, NodesRecovered
from balancer.lifecycle.states import NodeState
from balancer.service.failure_detector import Failing
from balancer.service.reconcile import compare

if TYPE_CHECKING:
    from collections.abc import Callable

    from balancer.lifecycle.events import Event
    from balancer.lifecycle.lifecycle import Lifecycle
    from balancer.lifecycle.records import NodeRecord

_LENT = (NodeState.OD_RESERVE, NodeState.OD_ALLOC, NodeState.RECLAIMING)
_ON_THE_WAY = (NodeState.RECLAIMING, NodeState.RESTORING)
_DOWN = NodeStatus("down")
_IDLE, _BUSY = NodeStatus("idle"), NodeStatus("busy")
_HANDED_OVER = NodeStatus("offline", marked=True, is_ours=True)


@dataclass(slots=True)
class NodeWatch:
    """Which nodes are down, and which of them the service may see otherwise than they are.

    `is_busy`: whether batch runs a job there. `unmark`: these nodes lose an offline mark that was left behind, and are
    batch's again.
    """

    names: tuple[str, ...]
    failed_after_us: int
    period_us: int
    is_busy: Callable[[int], bool]
    unmark: Callable[[list[int]], None]
    down: set[int] = field(default_factory=set)
    suspects: set[int] = field(default_factory=set)
    """Down, or well again and not known to be."""
    marked: set[int] = field(default_factory=set)
    """Left their grant when they failed: batch may not use them before a reading has found them well."""
    _failing: Failing = field(init=False)
    _read_us: int = 0
    """When the latest periodic reading was; the first is one period after the start."""

    def __post_init__(self) -> None:
        self._failing = Failing(self.failed_after_us)

    def failed(self, node: int) -> None:
        self.down.add(node)
        self.suspects.add(node)

    def works_again(self, node: int) -> None:
        self.down.discard(node)

    def next_us(self, now_us: int) -> int | None:
        """When the next periodic reading may tell something; None: it would not."""
        if not self.suspects:
            return None
        after_us = max(-(-now_us // self.period_us), self._read_us // self.period_us + 1)
        return after_us * self.period_us

    def period_over(self, now_us: int) -> bool:
        """Whether a periodic reading is due; it is taken then."""
        due_us = self.next_us(now_us)
        if due_us is None or due_us > now_us:
            return False
        self._read_us = now_us
        return True

    def observed(self, at_us: int, lifecycle: Lifecycle) -> NodesObserved:
        """A reading: the news of it, and that it was taken."""
        records = self._records(lifecycle)
        states = {record.name: self._status(node, record) for node, record in records.items()}
        in_hand = [record.name for record in records.values() if record.state in _ON_THE_WAY]
        found = compare(
            records.values(), states, is_news=lambda _: True, last_jobs={}, in_hand=in_hand, now_us=at_us
        )
        node_of = {record.name: node for node, record in records.items()}
        left = [node_of[name] for name in found.left_marked]
        self.marked.difference_update(left)
        self.unmark(left)
        return NodesObserved(
            at_us=at_us,
            states={name: (state, at_us) for name, state in found.observed.items()},
            read_us=at_us,
            contested=found.contested,
            cleared=found.cleared,
            unread=found.unread,
        )

    def failures(self, at_us: int, lifecycle: Lifecycle) -> list[Event]:
        """What the same reading tells of granted nodes, once the ledger knows the rest of it."""
        records = self._records(lifecycle)
        states = {record.name: self._status(node, record) for node, record in records.items()}
        failed, recovered = self._failing.look(records.values(), states, None, at_us)
        events: list[Event] = []
        if failed:
            events.append(NodesFailed(at_us=at_us, nodes=failed))
        if recovered:
            events.append(NodesRecovered(at_us=at_us, nodes=recovered))
        return events

    def settle(self, lifecycle: Lifecycle) -> list[int]:
        """The nodes that are as the ledger says from now on: nobody has to look at them for failures."""
        known = [node for node, record in self._records(lifecycle).items() if self._is_known(node, record)]
        self.suspects.difference_update(known)
        return known

    def _is_known(self, node: int, record: NodeRecord) -> bool:
        if node in self.down or node in self.marked or record.down_since_us is not None or record.contested:
            return False
        return record.state not in (NodeState.DOWN, *_ON_THE_WAY)

    def _records(self, lifecycle: Lifecycle) -> dict[int, NodeRecord]:
        found = {node: lifecycle.node(self.names[node]) for node in sorted(self.suspects)}
        return {node: record for node, record in found.items() if record is not None}

    def _status(self, node: int, record: NodeRecord) -> NodeStatus:
        if node in self.down:
            return _DOWN
        if record.state in _LENT or node in self.marked:
            return _HANDED_OVER
        return _BUSY if self.is_busy(node) else _IDLE
