"""How many more nodes could be granted soon, from what is known now."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from balancer.clock import micros
from balancer.lifecycle.records import NodeRecord, RequestStatus
from balancer.lifecycle.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from balancer.service.engine import Engine

SOON_US = micros(300)


@dataclass(frozen=True, slots=True)
class Headroom:
    """Nodes that could be granted: of the reserve, idle, and busy with jobs that must end in time.

    `wanted`: how many of them the requests that wait now still need. All are 0 while no node may move.
    """

    reserve: int = 0
    idle: int = 0
    ending: int = 0
    wanted: int = 0

    @property
    def nodes(self) -> int:
        return max(0, self.reserve + self.idle + self.ending - self.wanted)


def headroom(source: Engine, now_us: int, *, within_us: int = SOON_US) -> Headroom:
    """What a request for any nodes could get that waits for `within_us`; nodes reserved for another are not counted."""
    if source.frozen is not None or source.claimed or source.is_read_only:
        return Headroom()
    by_hand = set(source.taken_offline_by_others)
    reserve = idle = ending = 0
    nodes = source.nodes()
    reserved = reserved_nodes(nodes)
    for node in nodes:
        if _is_reserved(node) or node.contested or node.name in by_hand:
            continue
        if node.state in (NodeState.OD_RESERVE, NodeState.RECLAIMING):
            reserve += 1
        elif node.state is NodeState.OA_IDLE:
            idle += 1
        elif node.state is NodeState.OA_BUSY:
            end_us = job_end_us(source, node)
            ending += end_us is not None and end_us <= now_us + within_us
    waiting = (
        record for record in source.published.open_requests() if record.status is RequestStatus.WAITING
    )
    needed = sum(max(0, record.count - reserved[record.request_id]) for record in waiting)
    return Headroom(reserve, idle, ending, needed)


def reserved_nodes(nodes: Iterable[NodeRecord]) -> Counter[str]:
    """How many nodes each waiting request has already."""
    return Counter(
        node.reserved_for for node in nodes if node.reserved_for is not None and _is_reserved(node)
    )


def _is_reserved(node: NodeRecord) -> bool:
    return node.reserved_for is not None and node.state is not NodeState.OD_ALLOC


def job_end_us(source: Engine, node: NodeRecord) -> int | None:
    """When the node's jobs must have ended, by the last reading or else by hooks; None: not known."""
    reading = source.reading(node.name)
    read_us = source.batch.answered_us
    if reading is not None and reading.remaining_us is not None and read_us is not None:
        return read_us + reading.remaining_us
    return source.job_ends.latest_us(node.name, node.jobs)
