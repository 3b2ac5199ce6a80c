"""The grants that have nodes: whose they are, by when they must be confirmed, and when they end.

A node of a grant that is QUARANTINED stays with it and ends with nothing: only once it is settled whose it is.

A grant is provisional until its owner confirms it, or until the cloud shows a server on it. What is past its end goes
back; where a cloud can be asked, only once that has said that no server runs there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from balancer.lifecycle.errors import Refused
from balancer.lifecycle.nodes import GRANTED, Node, NodeIndex, NodeTable
from balancer.lifecycle.records import Lost, RequestRecord, RequestStatus
from balancer.lifecycle.requests import Request, RequestQueue, check_owner
from balancer.lifecycle.states import Cause, NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from balancer.lifecycle.events import (
        GrantConfirmed,
        LeaseRenewed,
        NodesReleased,
        ServersObserved,
    )
    from balancer.policy_settings import Settings


class Lease:
    """A grant and those of its nodes that it still has."""

    __slots__ = ("nodes", "record")

    def __init__(self, record: RequestRecord, nodes: Iterable[str]) -> None:
        self.record = record
        self.nodes = dict.fromkeys(nodes)


class LeaseBook:
    """Open grants by request. Each method checks all of its event before it changes anything."""

    def __init__(
        self,
        records: Iterable[RequestRecord],
        nodes: NodeTable,
        requests: RequestQueue,
        settings: Settings,
    ) -> None:
        self._nodes, self._requests, self._settings = nodes, requests, settings
        self._leases: dict[str, Lease] = {}
        self._due = NodeIndex()
        """Requests by `due_us`, but for those that are overdue: they wait for the cloud."""
        self._overdue: set[str] = set()
        granted = {r.request_id: r for r in records if r.status is RequestStatus.GRANTED}
        granted_to: dict[str, list[str]] = {}
        for node in nodes:
            if node.state in GRANTED and node.reserved_for in granted:
                granted_to.setdefault(node.reserved_for, []).append(node.name)
        for request_id, names in granted_to.items():
            self._enter(Lease(granted[request_id], names))
        self.is_news = bool(self._overdue)
        """A grant is overdue of which the cloud has not been asked."""

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases.values())

    def get(self, request_id: str) -> Lease | None:
        return self._leases.get(request_id)

    @property
    def next_due_us(self) -> int | None:
        return self._due.since_us(self._due[0]) if len(self._due) else None

    def cares_for(self, servers: Iterable[str], empty: Iterable[str]) -> bool:
        """Whether it changes anything to hear that there are servers on these nodes, and none on those."""
        with_server = {self._nodes[node].reserved_for or "" for node in servers}
        without = {self._nodes[node].reserved_for or "" for node in empty}
        found = [lease for holder in with_server if (lease := self._leases.get(holder)) is not None]
        return not self._overdue.isdisjoint(without) or any(not lease.record.confirmed for lease in found)

    def grant(self, request: Request, nodes: tuple[str, ...], now_us: int) -> None:
        """The request has its nodes."""
        confirm_us = self._settings.confirm_us
        due_us = now_us + confirm_us if confirm_us else _end_us(request.record, now_us)
        record = self._requests.decide(
            request, RequestStatus.GRANTED, now_us, nodes=nodes, confirmed=not confirm_us, due_us=due_us
        )
        self._enter(Lease(record, record.nodes))

    def confirmed(self, event: GrantConfirmed, now_us: int) -> None:
        """Raises Refused for a grant that is not there (any more), or somebody else's."""
        lease = self._owned(event.request_id, event)
        if not lease.record.confirmed:
            self._confirm(lease, now_us)

    def renewed(self, event: LeaseRenewed, now_us: int) -> None:
        """The lease begins anew; that confirms the grant as well. Raises Refused as `confirmed` does."""
        if event.lease_us is not None and event.lease_us < 0:
            raise Refused(Refused.BAD_TIME, f"a lease cannot last {event.lease_us} us")
        lease = self._owned(event.request_id, event)
        if event.lease_us is not None:
            lease.record = replace(lease.record, lease_us=event.lease_us)
        self._confirm(lease, now_us)

    def released(self, event: NodesReleased, now_us: int) -> None:
        """Raises Refused for a node that is not granted, or granted to somebody else."""
        nodes = self._nodes.find(event.nodes)
        for node in nodes:
            if node.state is not NodeState.OD_ALLOC:
                raise Refused(Refused.NODE_NOT_ALLOCATED, f"node {node.name} is {node.state}, not OD_ALLOC")
            lease = self._leases.get(node.reserved_for or "")
            if lease is not None:
                check_owner(lease.record, event, f"node {node.name} is")
        self._give_back(nodes, Cause.RELEASED, now_us)

    def expire(self, now_us: int) -> None:
        """End what is past its end; where a cloud can be asked, that is only noted."""
        while (due_us := self.next_due_us) is not None and due_us <= now_us:
            lease = self._leases[self._due[0]]
            if self._settings.has_cloud:
                self._change(lease, overdue=True)
                self.is_news = True
                continue
            self._end(lease, lease.nodes, now_us)
            if lease.nodes:
                self._change(lease, overdue=True)

    def servers_seen(self, event: ServersObserved, now_us: int) -> None:
        """A server confirms its grant; a grant that is past its end loses the nodes that have none."""
        servers, empty = {*event.servers}, {*event.empty}
        for lease in list(self):
            record = lease.record
            if not record.confirmed and not servers.isdisjoint(lease.nodes):
                self._confirm(lease, now_us)
            elif record.overdue and record.due_us is not None and event.asked_us >= record.due_us:
                self._end(lease, [node for node in lease.nodes if node in empty], now_us)

    def _confirm(self, lease: Lease, now_us: int) -> None:
        due_us = _end_us(lease.record, now_us)
        self._change(lease, confirmed=True, due_us=due_us, overdue=False)

    def _end(self, lease: Lease, names: Iterable[str], now_us: int) -> None:
        cause = Cause.LEASE_ENDED if lease.record.confirmed else Cause.NOT_CONFIRMED
        found = [self._nodes[name] for name in names]
        gone = [node for node in found if node.state is NodeState.OD_ALLOC]
        self._give_back(gone, cause, now_us)
        if gone and lease.nodes:
            # Whatever confirms the rest of it: its owner may still think that it has them all.
            self._change(lease, reason=f"{cause}: some of its nodes went back")

    def _give_back(self, nodes: Iterable[Node], cause: Cause, now_us: int) -> None:
        for node in nodes:
            self.lose(node, cause, now_us)
            is_down = node.down_since_us is not None
            self._nodes.move(node, NodeState.OD_RESERVE, cause, since_us=now_us)
            if is_down and not node.contested:
                # Nobody's, until a look finds it well again.
                self._nodes.contest(node, "it is down")

    def lose(self, node: Node, cause: Cause, now_us: int) -> None:
        """The node is about to leave the grant that it is part of, if any; the grant ends with its last one."""
        lease = self._leases.get(node.reserved_for or "")
        if lease is None:
            return
        del lease.nodes[node.name]
        if not lease.nodes:
            reason = "" if cause is Cause.RELEASED else f"{cause}: its nodes went back"
            self._change(lease, ended_us=now_us, overdue=False, reason=reason)

    def lose_failed(self, node: Node, replaced_by: str, now_us: int) -> None:
        """The failed node leaves its grant, which notes that; the grant ends with its last node."""
        lease = self._leases[node.reserved_for or ""]
        since_us = now_us if node.down_since_us is None else node.down_since_us
        del lease.nodes[node.name]
        lost = (*lease.record.lost, Lost(node.name, since_us, replaced_by))
        if lease.nodes:
            self._change(lease, lost=lost)
        else:
            reason = f"its nodes failed: {replaced_by} was made for others"
            self._change(lease, lost=lost, ended_us=now_us, overdue=False, reason=reason)

    def keep(self, node: Node) -> None:
        """A node of a grant is the grant's beyond doubt; one that is past its end can end now."""
        lease = self._leases.get(node.reserved_for or "")
        if lease is None or not lease.record.overdue:
            return
        if self._settings.has_cloud:
            self.is_news = True
        else:
            self._change(lease, overdue=False)

    def _owned(self, request_id: str, event: GrantConfirmed | LeaseRenewed) -> Lease:
        lease = self._leases.get(request_id)
        if lease is None:
            raise Refused(Refused.NOT_GRANTED, f"request {request_id} has no nodes (any more)")
        record = lease.record
        check_owner(record, event, f"request {request_id} is")
        if record.reason:
            # Its owner would use nodes that are no longer its own.
            raise Refused(Refused.NOT_GRANTED, f"request {request_id}: {record.reason}")
        return lease

    def _enter(self, lease: Lease) -> None:
        record = lease.record
        self._leases[record.request_id] = lease
        if record.overdue:
            self._overdue.add(record.request_id)
        elif record.due_us is not None:
            self._due.add(record.request_id, record.due_us)

    def _change(self, lease: Lease, **changes: Any) -> None:
        request_id = lease.record.request_id
        if request_id in self._due:
            self._due.remove(request_id)
        self._overdue.discard(request_id)
        del self._leases[request_id]
        lease.record = self._requests.change(lease.record, **changes)
        if lease.record.is_open:
            self._enter(lease)

    def check(self) -> None:
        """Assert that book and nodes agree."""
        for request_id, lease in self._leases.items():
            nodes = {node.name for node in self._nodes if node.reserved_for == request_id}
            assert nodes == lease.nodes.keys(), (request_id, nodes, lease.nodes)  # noqa: S101
            assert lease.nodes, request_id  # noqa: S101
            assert lease.record.is_open, lease.record  # noqa: S101
        assert self._overdue == {lease.record.request_id for lease in self if lease.record.overdue}  # noqa: S101
        self._due.check(
            {
                lease.record.request_id: lease.record.due_us
                for lease in self
                if lease.record.due_us is not None and not lease.record.overdue
            }
        )


def _end_us(record: RequestRecord, now_us: int) -> int | None:
    return now_us + record.lease_us if record.lease_us is not None else None
