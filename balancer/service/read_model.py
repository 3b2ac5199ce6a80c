"""What has been committed: all that readers see."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from balancer.lifecycle.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from balancer.lifecycle.records import Changes, NodeRecord, RequestRecord


class ReadModel:
    """Nodes and open requests after the last event that is stored. Methods may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._nodes: dict[str, NodeRecord] = {}
        self._requests: dict[str, RequestRecord] = {}
        self._seq = 0
        self._has_ended = False

    # For the writer

    def replace(self, nodes: Iterable[NodeRecord], requests: Iterable[RequestRecord], seq: int) -> None:
        """Show this state, whatever was shown before."""
        with self._changed:
            self._nodes = {record.name: record for record in nodes}
            self._requests = {record.request_id: record for record in requests}
            self._seq = seq
            self._changed.notify_all()

    def add(self, changes: Sequence[Changes], seq: int) -> None:
        """Show these changes, up to event number `seq`."""
        with self._changed:
            for each in changes:
                self._nodes.update((record.name, record) for record in each.nodes)
                for request in each.requests:
                    if request.is_open:
                        self._requests[request.request_id] = request
                    else:
                        self._requests.pop(request.request_id, None)
            self._seq = seq
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing more comes; whoever waits for it is told."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    # For readers

    @property
    def seq(self) -> int:
        """Number of the last event that is stored."""
        with self._changed:
            return self._seq

    def open_requests(self) -> list[RequestRecord]:
        """The requests that wait or have nodes."""
        with self._changed:
            return list(self._requests.values())

    def node(self, name: str) -> NodeRecord | None:
        with self._changed:
            return self._nodes.get(name)

    def nodes(self) -> list[NodeRecord]:
        """All nodes, by name."""
        with self._changed:
            return sorted(self._nodes.values(), key=lambda record: record.name)

    def counts(self) -> dict[NodeState, int]:
        """Nodes by state."""
        counts = dict.fromkeys(NodeState, 0)
        with self._changed:
            for record in self._nodes.values():
                counts[record.state] += 1
        return counts

    def counted(self) -> tuple[int, dict[NodeState, int]]:
        """Number of the last event, and the nodes by state after it."""
        with self._changed:
            return self._seq, self.counts()

    def wait_for_events(self, after: int, timeout_s: float) -> bool:
        """Block until there is an event after number `after`; False after `timeout_s` or when nothing more comes."""
        with self._changed:
            self._changed.wait_for(lambda: self._seq > after or self._has_ended, timeout_s)
            return self._seq > after and not self._has_ended
