"""Nodes about which the ledger may be wrong: quarantined, until the cloud or an operator says whose they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.lifecycle.errors import Refused
from balancer.lifecycle.states import Cause, NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from balancer.lifecycle.events import NodesAdopted, NodesDoubted
    from balancer.lifecycle.leases import LeaseBook
    from balancer.lifecycle.nodes import Node, NodeTable
    from balancer.lifecycle.requests import RequestQueue


ANOTHERS_MARK = "its mark is of "
"""How the doubt begins that a mark of another ledger raises."""


def is_anothers_mark(doubt: str, reserved_for: str | None) -> bool:
    """Whether a node is quarantined for the mark of another ledger alone: this one never gave it to anybody."""
    return reserved_for is None and doubt.startswith(ANOTHERS_MARK)


class Doubts:
    """Quarantines nodes and settles whose they are. A doubt is raised once: what was settled stays so."""

    def __init__(self, nodes: NodeTable, requests: RequestQueue, leases: LeaseBook) -> None:
        self._nodes = nodes
        self._requests = requests
        self._leases = leases

    def raised(self, event: NodesDoubted, now_us: int) -> None:
        for name, reason in event.reasons.items():
            node = self._nodes.get(name)
            if node is None or node.doubt == reason:
                continue
            if node.state is NodeState.QUARANTINED:
                self._nodes.set_doubt(node, reason)
                continue
            granted_to = node.reserved_for if node.state is NodeState.OD_ALLOC else None
            if granted_to is None:
                self._requests.lose(node)
            self._nodes.move(
                node, NodeState.QUARANTINED, Cause.DOUBTED, since_us=now_us, reserved_for=granted_to
            )
            node.doubt = reason

    def settled(self, event: NodesAdopted, now_us: int) -> list[str]:
        """The QUARANTINED nodes that go back to batch. Raises Refused for an operator's word about another one."""
        on_demand, batch = self._nodes.find(event.on_demand), self._nodes.find(event.batch)
        if event.by_cloud:
            on_demand, batch = _quarantined(on_demand), _quarantined(batch)
        for node in (*on_demand, *batch):
            if node.state is not NodeState.QUARANTINED:
                raise Refused(
                    Refused.NODE_NOT_QUARANTINED,
                    f"node {node.name} is {node.state}: its owner is not in doubt",
                )
        if not {node.name for node in on_demand}.isdisjoint(node.name for node in batch):
            raise Refused(Refused.DUPLICATE_NODE, "a node is said to be both on-demand's and batch's")
        for node in on_demand:
            cause = Cause.SEEN_IN_CLOUD if event.by_cloud else Cause.ADOPTED
            self._nodes.move(node, NodeState.OD_ALLOC, cause, since_us=now_us, reserved_for=node.reserved_for)
            self._leases.keep(node)
        for node in batch:
            cause = Cause.NOT_IN_CLOUD if event.by_cloud else Cause.ADOPTED
            self._leases.lose(node, cause, now_us)
            self._nodes.move(node, NodeState.RESTORING, cause, since_us=now_us)
        return [node.name for node in batch]


def _quarantined(nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if node.state is NodeState.QUARANTINED]
