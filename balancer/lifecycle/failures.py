"""Granted nodes that fail: noted on the node, or taken off the grant and replaced, as its owner has asked.

A failed node that is replaced is DOWN: nobody's, until a look at the batch system finds it well again. The replacement
is a request like any other: the algorithm, the reserve and W decide about it, and its grant is to be confirmed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.lifecycle.records import RequestRecord
from balancer.lifecycle.states import Cause, NodeState

if TYPE_CHECKING:
    from collections.abc import Callable

    from balancer.lifecycle.events import NodesFailed, NodesRecovered
    from balancer.lifecycle.leases import LeaseBook
    from balancer.lifecycle.nodes import Node, NodeTable
    from balancer.lifecycle.requests import RequestQueue


class Failures:
    """What `NodesFailed` and `NodesRecovered` make of nodes, grants and requests."""

    def __init__(self, nodes: NodeTable, requests: RequestQueue, leases: LeaseBook) -> None:
        self._nodes, self._requests, self._leases = nodes, requests, leases

    def failed(self, event: NodesFailed, now_us: int, next_order: Callable[[], int]) -> None:
        """`next_order`: the number of a request that is made now."""
        leaving: dict[str, list[Node]] = {}
        for name, since_us in event.nodes.items():
            node = self._nodes.get(name)
            if node is None or node.state is not NodeState.OD_ALLOC:
                continue
            if node.down_since_us is None:
                self._nodes.set_down(node, since_us)
            lease = self._leases.get(node.reserved_for or "")
            # One that is past its end waits for nothing but the cloud's word: there is nothing to replace.
            if lease is not None and lease.record.replace and not lease.record.overdue:
                leaving.setdefault(lease.record.request_id, []).append(node)
        for request_id, nodes in leaving.items():
            self._replace(request_id, nodes, now_us, next_order())

    def recovered(self, event: NodesRecovered) -> None:
        for name in event.nodes:
            node = self._nodes.get(name)
            if node is not None and node.down_since_us is not None:
                self._nodes.set_down(node, None)

    def _replace(self, request_id: str, nodes: list[Node], now_us: int, order: int) -> None:
        lease = self._leases.get(request_id)
        assert lease is not None, request_id  # noqa: S101 - it had these nodes a moment ago
        wish = _replacement(lease.record, len(nodes), now_us=now_us, order=order)
        for node in nodes:
            self._leases.lose_failed(node, wish.request_id, now_us)
            self._nodes.move(node, NodeState.DOWN, Cause.FAILED, since_us=now_us)
        self._requests.add(wish)


def _replacement(record: RequestRecord, count: int, *, now_us: int, order: int) -> RequestRecord:
    """The same wish for `count` nodes: as long a wait, and what is left of the lease."""
    left_us = record.lease_us
    if record.confirmed and record.due_us is not None:
        left_us = max(0, record.due_us - now_us)
    return RequestRecord(
        # The first request's id and a number: a chain of replacements makes no longer ids.
        request_id=f"{record.request_id.split('.')[0]}.{order}",
        count=count,
        arrived_us=now_us,
        deadline_us=now_us + record.deadline_us - record.arrived_us,
        order=order,
        owner=record.owner,
        at_once=record.at_once,
        candidates=record.candidates,
        exclude=record.exclude,
        lease_us=left_us,
        replace=True,
        replaces=record.request_id,
    )
