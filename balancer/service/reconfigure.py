"""What the configuration says of nodes and their life cycle; what a ledger stores is brought together with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from balancer.ledger.errors import LedgerError
from balancer.lifecycle.lifecycle import Lifecycle
from balancer.lifecycle.records import NodeRecord, Snapshot
from balancer.lifecycle.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from balancer.algorithms.interface import Algorithm
    from balancer.policy_settings import Settings

_MAY_LEAVE = (NodeState.OA_IDLE, NodeState.OA_BUSY, NodeState.DOWN)
"""States in which a node may vanish from the configuration: the batch system has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """These are not stored."""

    nodes: tuple[str, ...]
    algorithm: Algorithm
    algorithm_name: str
    settings: Settings

    def records(self, stored: Mapping[str, NodeRecord], now_us: int) -> tuple[NodeRecord, ...]:
        """Of all nodes; those that the ledger does not know are DOWN until seen.

        Raises LedgerError for a node that is lent and not listed any more.
        """
        names = set(self.nodes)
        for name, record in stored.items():
            if name not in names and record.state not in _MAY_LEAVE:
                raise LedgerError(
                    f"node {name} is {record.state} in the ledger and missing from the configured nodes: "
                    "list it until it has been given back"
                )
        return tuple(
            stored.get(name) or NodeRecord(name=name, state=NodeState.DOWN, since_us=now_us)
            for name in self.nodes
        )

    def restored(self, stored: Snapshot | None) -> tuple[Snapshot, Lifecycle]:
        """The state that a ledger has (None: it is new), with the configured nodes.

        Raises LedgerError as `records` does, and ValueError where the settings contradict each other.
        """
        before = stored or Snapshot(now_us=0, serial=0, nodes=(), requests=(), reserves=())
        nodes = self.records({record.name: record for record in before.nodes}, before.now_us)
        state = replace(before, nodes=nodes)
        return state, Lifecycle.restore(
            state, self.algorithm, self.settings, algorithm_name=self.algorithm_name
        )
