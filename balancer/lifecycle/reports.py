"""What the batch system reports, and what it makes of the nodes.

Reports may come late, twice or in another order. Then they change nothing, or make a node busy that is idle;
never the other way round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.lifecycle.conflict import is_anothers_mark
from balancer.lifecycle.errors import Refused
from balancer.lifecycle.nodes import MAY_BE_CONTESTED, Node, NodeTable
from balancer.lifecycle.states import Cause, NodeState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from balancer.lifecycle.events import NodesObserved, NodesReclaimed, NodesRestored, NodesUpdated
    from balancer.lifecycle.requests import RequestQueue

_IN_BATCH = (NodeState.OA_IDLE, NodeState.OA_BUSY, NodeState.DOWN, NodeState.RESTORING)
"""States in which the batch system may start a job. RESTORING: it may be faster than our look at it."""


class BatchReports:
    """Turns reports into changes of nodes; each method checks all of its event before it changes anything."""

    def __init__(self, nodes: NodeTable, requests: RequestQueue) -> None:
        self._nodes = nodes
        self._requests = requests
        self.given_up: list[str] = []
        """Nodes that were reserved or on their way and are down: to be restored."""
        self.read_us = -1
        """When the latest look at all nodes began."""
        self._unread: frozenset[str] = frozenset()

    def updated(self, event: NodesUpdated, now_us: int) -> None:
        """A job starts or has ended. Raises Refused for a start on a node that batch may not use."""
        busy = self._nodes.find(event.busy)
        idle = self._nodes.find(event.idle)
        for node in busy:
            if node.state not in _IN_BATCH:
                raise Refused(
                    Refused.NODE_NOT_IN_BATCH, f"node {node.name} is {node.state}: no batch job may run on it"
                )
        if not {*event.busy}.isdisjoint(event.idle):
            raise Refused(Refused.DUPLICATE_NODE, "a node is reported both busy and idle")
        for node in busy:
            if node.state is not NodeState.OA_BUSY:
                self._nodes.move(node, NodeState.OA_BUSY, Cause.JOB_STARTED, since_us=now_us)
            if event.job is not None and event.job not in node.jobs:
                self._nodes.set_jobs(node, (*node.jobs, event.job))
        for node in idle:
            if node.state is NodeState.OA_BUSY:
                self._end_job(node, event.job, now_us)

    def _end_job(self, node: Node, job: str | None, now_us: int) -> None:
        """The node is idle if no other job is known to run there."""
        remaining = tuple(other for other in node.jobs if other != job) if job is not None else ()
        if remaining != node.jobs:
            self._nodes.set_jobs(node, remaining)
        if not remaining:
            self._nodes.move(node, NodeState.OA_IDLE, Cause.JOB_ENDED, since_us=now_us)

    def reclaimed(self, event: NodesReclaimed, now_us: int) -> None:
        """How reclaim_node ended. Nodes that are not RECLAIMING have moved on: the report is late."""
        done, busy, _ = (
            self._nodes.find(event.done),
            self._nodes.find(event.busy),
            self._nodes.find(event.unclear),
        )
        for node in done:
            if node.state is NodeState.RECLAIMING:
                holder = node.reserved_for
                self._nodes.move(
                    node, NodeState.OD_RESERVE, Cause.RECLAIMED, since_us=now_us, reserved_for=holder
                )
                node.seen_us = now_us
                if holder is not None:
                    self._requests[holder].ready += 1
        for node in busy:
            if node.state is NodeState.RECLAIMING:
                self._requests.lose(node)
                self._nodes.move(node, NodeState.OA_BUSY, Cause.RECLAIM_BUSY, since_us=now_us)

    def restored(self, event: NodesRestored, now_us: int) -> None:
        """How restore_node ended."""
        done, _ = self._nodes.find(event.done), self._nodes.find(event.unclear)
        for node in done:
            if node.state is NodeState.RESTORING:
                self._nodes.move(node, NodeState.OA_IDLE, Cause.RESTORED, since_us=now_us)

    def observed(self, event: NodesObserved, now_us: int) -> None:
        """A look at the batch system. Raises Refused for a state that is not idle, busy or down."""
        for name, (state, _) in event.states.items():
            if state not in ("idle", "busy", "down"):
                raise Refused(Refused.BAD_STATE, f"node {name} is reported {state!r}: not idle, busy or down")
        for name, (state, since_us) in event.states.items():
            node = self._nodes.get(name)
            # The batch system may well have nodes that are not ours.
            if node is None:
                continue
            if state == "idle":
                self._see_idle(node, since_us)
            elif state == "busy":
                self._see_busy(node, since_us)
            else:
                self._see_down(node, since_us, now_us)
        for name, jobs in event.jobs.items():
            node = self._nodes.get(name)
            # Also without those whose end nobody reported: they would keep the node busy.
            if node is not None and node.state is NodeState.OA_BUSY and node.jobs != jobs:
                self._nodes.set_jobs(node, jobs)
        self.contest(event.contested)
        self.contest(dict.fromkeys(event.cleared, ""))
        if event.read_us is not None:
            self.read_us, self._unread = event.read_us, frozenset(event.unread)

    def contest(self, nodes: Mapping[str, str]) -> None:
        """What speaks against giving these nodes to anybody; "": nothing any more."""
        for name, why in nodes.items():
            node = self._nodes.get(name)
            if node is None or node.state not in MAY_BE_CONTESTED or node.contested == why:
                continue
            if node.reserved_for is not None and node.state is not NodeState.OD_ALLOC:
                self._requests.lose(node)
                self._nodes.let_go(node)
            self._nodes.contest(node, why)

    def seen_us(self, node: Node) -> int:
        """When the latest look began that found the node handed over."""
        return max(node.seen_us, -1 if node.name in self._unread else self.read_us)

    def _see_idle(self, node: Node, since_us: int) -> None:
        # A look at the node from before its job started is no news.
        is_news = node.state is NodeState.OA_BUSY and since_us >= node.since_us
        if is_news or node.state is NodeState.DOWN or _is_quarantined_for_a_mark(node):
            node.doubt = "" if node.state is NodeState.QUARANTINED else node.doubt
            self._nodes.move(node, NodeState.OA_IDLE, Cause.SEEN_IDLE, since_us=since_us)
        elif node.state is NodeState.OA_IDLE and since_us > node.since_us:
            self._nodes.refresh(node, since_us)

    def _see_busy(self, node: Node, since_us: int) -> None:
        is_in_batch = node.state in (NodeState.OA_IDLE, NodeState.DOWN, NodeState.RESTORING)
        if is_in_batch or _is_quarantined_for_a_mark(node):
            node.doubt = "" if node.state is NodeState.QUARANTINED else node.doubt
            self._nodes.move(node, NodeState.OA_BUSY, Cause.SEEN_BUSY, since_us=since_us)

    def _see_down(self, node: Node, since_us: int, now_us: int) -> None:
        if node.state in (NodeState.OA_IDLE, NodeState.OA_BUSY, NodeState.RESTORING):
            # RESTORING: somebody else holds it offline, and only they can end that.
            self._nodes.move(node, NodeState.DOWN, Cause.SEEN_DOWN, since_us=since_us)
        elif node.state in (NodeState.OD_RESERVE, NodeState.RECLAIMING):
            # Of no use to a request; its offline mark has to go, so that it is in batch when it comes back.
            self._requests.lose(node)
            self._nodes.move(node, NodeState.RESTORING, Cause.SEEN_DOWN, since_us=now_us)
            self.given_up.append(node.name)


def _is_quarantined_for_a_mark(node: Node) -> bool:
    """Of another ledger, and for nothing else: without the mark nobody doubts that batch has the node."""
    return node.state is NodeState.QUARANTINED and is_anothers_mark(node.doubt, node.reserved_for)
