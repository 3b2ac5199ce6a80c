"""The node table: one entry a node, and the indices that make every decision cheap.

No event scans all nodes: a change costs a search in sorted lists, whatever the size of the cluster.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, overload

from balancer.lifecycle.errors import IllegalTransition, Refused
from balancer.lifecycle.records import NodeRecord
from balancer.lifecycle.states import ALLOWED, Cause, NodeState
from balancer.lifecycle.story import Story, StoryEntry
from balancer.policy_settings import PickOrder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, KeysView

MAY_BE_CONTESTED = (NodeState.OD_RESERVE, NodeState.OD_ALLOC, NodeState.RECLAIMING)
"""States in which batch may not use the node: that somebody says it does is a contradiction."""

GRANTED = (NodeState.OD_ALLOC, NodeState.QUARANTINED)
"""States in which `reserved_for` is the request that a node was granted to, and not one that waits."""

_SIGN = {PickOrder.LONGEST_IDLE: 1, PickOrder.SHORTEST_IDLE: -1, PickOrder.NAME: 0}

_MAY_BE_RESERVED = (NodeState.OD_RESERVE, NodeState.RECLAIMING, NodeState.OD_ALLOC, NodeState.QUARANTINED)
"""For a request; QUARANTINED: for the one it was granted to."""


class Node:
    """The present state of one node; see `NodeRecord` for the fields."""

    __slots__ = (
        "contested",
        "doubt",
        "down_since_us",
        "generation",
        "jobs",
        "name",
        "reserved_for",
        "seen_us",
        "since_us",
        "state",
    )

    def __init__(self, record: NodeRecord) -> None:
        self.name = record.name
        self.state = record.state
        self.since_us = record.since_us
        self.reserved_for = record.reserved_for
        self.generation = record.generation
        self.jobs = record.jobs
        self.contested = record.contested
        self.doubt = record.doubt
        self.down_since_us = record.down_since_us
        self.seen_us = -1
        """When it was seen to be handed over, by a look at this node."""

    @property
    def is_listed(self) -> bool:
        """Whether an algorithm may dispose of it."""
        return self.reserved_for is None and not self.contested

    def record(self) -> NodeRecord:
        return NodeRecord(
            name=self.name,
            state=self.state,
            since_us=self.since_us,
            reserved_for=self.reserved_for,
            generation=self.generation,
            jobs=self.jobs,
            contested=self.contested,
            doubt=self.doubt,
            down_since_us=self.down_since_us,
        )


class NodeIndex:
    """Nodes sorted by (time, name), (reversed time, name) or name. Implements `Candidates`."""

    def __init__(self, order: PickOrder = PickOrder.LONGEST_IDLE) -> None:
        self._sign = _SIGN[order]
        self._entries: list[tuple[int, str]] = []
        self._since_us: dict[str, int] = {}

    def add(self, node: str, since_us: int) -> None:
        self._since_us[node] = since_us
        insort(self._entries, (self._sign * since_us, node))

    def remove(self, node: str) -> None:
        del self._entries[bisect_left(self._entries, (self._sign * self._since_us.pop(node), node))]

    def since_us(self, node: str) -> int:
        return self._since_us[node]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return (node for _, node in self._entries)

    def __contains__(self, node: object) -> bool:
        return node in self._since_us

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        if isinstance(at, slice):
            return tuple(node for _, node in self._entries[at])
        return self._entries[at][1]

    def check(self, expected: dict[str, int]) -> None:
        """Assert that exactly these nodes, since these times, are here and in order."""
        assert self._since_us == expected, (self._since_us, expected)  # noqa: S101 - self-check
        entries = sorted((self._sign * since_us, node) for node, since_us in expected.items())
        assert self._entries == entries, (self._entries, entries)  # noqa: S101


class NodeTable:
    """All nodes. An event's changes lie between `begin` and `end` and go through the methods between them."""

    def __init__(self, records: Iterable[NodeRecord], pick: PickOrder) -> None:
        self.idle = NodeIndex(pick)
        """OA_IDLE."""
        self.free = NodeIndex()
        """OD_RESERVE, reserved for nobody, not contested."""
        self.coming = NodeIndex()
        """RECLAIMING, reserved for nobody, not contested."""
        self.counts = dict.fromkeys(NodeState, 0)
        self.contested = 0
        """How many OD_RESERVE nodes are contested."""
        self.story = Story()
        self._index = {
            NodeState.OA_IDLE: self.idle,
            NodeState.OD_RESERVE: self.free,
            NodeState.RECLAIMING: self.coming,
        }
        self._nodes: dict[str, Node] = {}
        self._touched: dict[str, Node] = {}
        self._changed: dict[str, Node] = {}
        self._at_us = 0
        self._event_id = ""
        for record in records:
            if record.name in self._nodes:
                raise ValueError(f"node {record.name} is listed twice")
            node = self._nodes[record.name] = Node(record)
            self._enter(node)

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __getitem__(self, name: str) -> Node:
        return self._nodes[name]

    @property
    def names(self) -> KeysView[str]:
        return self._nodes.keys()

    def get(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def find(self, names: Iterable[str]) -> list[Node]:
        """The nodes of these names. Raises Refused for a name that is unknown or given twice."""
        found: dict[str, Node] = {}
        for name in names:
            node = self._nodes.get(name)
            if node is None:
                raise Refused(Refused.UNKNOWN_NODE, f"there is no node {name}")
            if name in found:
                raise Refused(Refused.DUPLICATE_NODE, f"node {name} is named twice")
            found[name] = node
        return list(found.values())

    def begin(self, at_us: int, event_id: str) -> None:
        """From here on changes happen at this time because of this event."""
        self._at_us = at_us
        self._event_id = event_id

    def move(
        self, node: Node, to: NodeState, cause: Cause, *, since_us: int, reserved_for: str | None = None
    ) -> None:
        """The node is in another state now. Raises IllegalTransition where the table has no such row."""
        start = node.state
        if (to, cause) not in ALLOWED[start]:
            raise IllegalTransition(node.name, start, to, cause, self.story.tail(node.name))
        self._leave(node)
        node.state = to
        node.since_us = since_us
        node.reserved_for = reserved_for
        if to is not NodeState.OA_BUSY:
            node.jobs = ()
        if to not in MAY_BE_CONTESTED:
            node.contested = ""
        if to is not NodeState.OD_ALLOC:
            node.down_since_us = None
        self._enter(node)
        self._changed_by(cause, node, reserved_for, start=start)

    def reserve(self, node: Node, request_id: str) -> None:
        """Keep a free or coming node for a request."""
        self._change_holder(node, request_id, Cause.RESERVED, request_id)

    def let_go(self, node: Node) -> None:
        """It is reserved for no request any more; a reserved one is free from now on."""
        holder = node.reserved_for
        self._change_holder(node, None, Cause.UNRESERVED, holder)

    def contest(self, node: Node, why: str) -> None:
        """Nobody may be given the node, because of this; "": it may be given again. No request waits with it."""
        self._leave(node)
        node.contested = why
        self._enter(node)
        self._changed_by(Cause.CONTESTED if why else Cause.CLEARED, node, None)

    def set_down(self, node: Node, since_us: int | None) -> None:
        """A granted node is down since then, or well again (None); it stays granted."""
        node.down_since_us = since_us
        self._changed_by(Cause.RECOVERED if since_us is None else Cause.FAILED, node, node.reserved_for)

    def set_doubt(self, node: Node, reason: str) -> None:
        """Why a quarantined node stays so."""
        node.doubt = reason
        self._touched[node.name] = node

    def set_jobs(self, node: Node, jobs: tuple[str, ...]) -> None:
        node.jobs = jobs
        self._touched[node.name] = node

    def refresh(self, node: Node, since_us: int) -> None:
        """The node left its state unseen and came back to it at this time."""
        self._leave(node)
        node.since_us = since_us
        self._enter(node)
        self._touched[node.name] = node

    def end(self) -> None:
        """The event is done: each node that changed has a new generation."""
        for node in self._touched.values():
            node.generation += 1
        self._changed.update(self._touched)
        self._touched.clear()

    def drain(self) -> tuple[NodeRecord, ...]:
        """The nodes that changed since the last call."""
        changed = tuple(node.record() for node in self._changed.values())
        self._changed.clear()
        return changed

    def forget(self) -> None:
        """What changed so far is nobody's business."""
        self._changed.clear()

    def _change_holder(self, node: Node, reserved_for: str | None, cause: Cause, whom: str | None) -> None:
        self._leave(node)
        node.reserved_for = reserved_for
        if reserved_for is None and node.state is NodeState.OD_RESERVE:
            node.since_us = self._at_us
        self._enter(node)
        self._changed_by(cause, node, whom)

    def _changed_by(
        self, cause: Cause, node: Node, request_id: str | None, *, start: NodeState | None = None
    ) -> None:
        """The node has changed because of the present event: from the state `start`, or within its state."""
        self._touched[node.name] = node
        self.story.add(
            StoryEntry(
                self._at_us, self._event_id, node.name, start or node.state, node.state, cause, request_id
            )
        )

    def _enter(self, node: Node) -> None:
        state = node.state
        self.counts[state] += 1
        if node.contested:
            self.contested += state is NodeState.OD_RESERVE
        elif node.reserved_for is None and (index := self._index.get(state)) is not None:
            index.add(node.name, node.since_us)

    def _leave(self, node: Node) -> None:
        state = node.state
        self.counts[state] -= 1
        if node.contested:
            self.contested -= state is NodeState.OD_RESERVE
        elif node.reserved_for is None and (index := self._index.get(state)) is not None:
            index.remove(node.name)

    def check(self) -> None:
        """Assert that counts and indices agree with the nodes."""
        for state in NodeState:
            inside = [node for node in self if node.state is state]
            assert self.counts[state] == len(inside), (state, self.counts[state], len(inside))  # noqa: S101
            index = self._index.get(state)
            if index is not None:
                index.check({node.name: node.since_us for node in inside if node.is_listed})
        reserved = [node for node in self if node.state is NodeState.OD_RESERVE]
        assert self.contested == sum(bool(node.contested) for node in reserved), self.contested  # noqa: S101
        for node in self:
            assert node.state in _MAY_BE_RESERVED or node.reserved_for is None, node.record()  # noqa: S101
            assert node.state is NodeState.OA_BUSY or not node.jobs, node.record()  # noqa: S101
            assert node.state in MAY_BE_CONTESTED or not node.contested, node.record()  # noqa: S101
            assert node.state is NodeState.OD_ALLOC or node.down_since_us is None, node.record()  # noqa: S101
            is_reserved = node.reserved_for is not None and node.state is not NodeState.OD_ALLOC
            assert not (is_reserved and node.contested), node.record()  # noqa: S101
            assert node.generation >= 0, node.record()  # noqa: S101
        assert not self._touched, "an event was not ended"  # noqa: S101
