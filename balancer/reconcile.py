"""The ledger against what the batch system reports: pure, one row of the table below a node.

ledger says        batch reports        what is done
OA_*, DOWN         idle, busy           observed as such
OA_*, DOWN         down, unknown        observed down: not given to anybody until it reads well again
OA_*, DOWN         offline              a human's hand: observed down, shown as offline, left alone
OD_*               marked offline       as it should be
OD_*               not marked           drift: marked again, so that no job starts on a lent node
moving             anything             its command is under way and sees to it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from balancer.drivers.base import UNKNOWN
from balancer.lifecycle.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from balancer.drivers.base import NodeStatus
    from balancer.lifecycle.records import NodeRecord

_LENT = (NodeState.OD_RESERVE, NodeState.OD_ALLOC)
_MOVING = (NodeState.RECLAIMING, NodeState.RESTORING)
_SEEN = {NodeState.OA_IDLE: "idle", NodeState.OA_BUSY: "busy", NodeState.DOWN: "down"}


@dataclass(frozen=True, slots=True)
class Difference:
    """What a reading tells that the ledger does not say."""

    observed: dict[str, str] = field(default_factory=dict)
    """Node -> `idle`, `busy` or `down`, where that is news."""
    unmarked: tuple[str, ...] = ()
    """Lent nodes that the batch system could use."""
    by_hand: tuple[str, ...] = ()
    """Batch nodes that somebody else took offline."""


def compare(
    records: Iterable[NodeRecord],
    states: Mapping[str, NodeStatus],
    *,
    is_news: Callable[[str], bool],
    last_jobs: Mapping[str, str],
) -> Difference:
    """`is_news`: the node has not changed since the reading began. `last_jobs`: node -> job that ended there.

    While a job's epilogue runs (it has been reported as ended) the batch system still shows the job: no news.
    """
    observed: dict[str, str] = {}
    unmarked: list[str] = []
    by_hand: list[str] = []
    for record in records:
        if record.state in _MOVING or not is_news(record.name):
            continue
        status = states.get(record.name, UNKNOWN)
        if record.state in _LENT:
            if not status.marked and status.state != "unknown":
                unmarked.append(record.name)
            continue
        if status.state == "offline":
            by_hand.append(record.name)
        seen = status.state if status.state in ("idle", "busy") else "down"
        is_epilogue = seen == "busy" and status.jobs == (last_jobs.get(record.name),)
        if seen != _SEEN[record.state] and not (is_epilogue and record.state is NodeState.OA_IDLE):
            observed[record.name] = seen
    return Difference(observed, tuple(unmarked), tuple(by_hand))
