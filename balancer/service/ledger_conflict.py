"""Marks on the nodes against the ledger: pure; what says that the ledger may be wrong about a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.lifecycle.conflict import ANOTHERS_MARK, is_anothers_mark
from balancer.lifecycle.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from balancer.drivers.base import NodeStatus
    from balancer.drivers.marks import Stamp
    from balancer.lifecycle.records import NodeRecord

LENT = (NodeState.OD_RESERVE, NodeState.OD_ALLOC, NodeState.RECLAIMING, NodeState.RESTORING)
"""States that an older ledger may well be wrong about: a node in one may have been given back, or to somebody else."""

_LENT_BY_US = (NodeState.OD_RESERVE, NodeState.OD_ALLOC, NodeState.RECLAIMING)


def doubts(
    records: Iterable[NodeRecord],
    states: Mapping[str, NodeStatus],
    unknown: Mapping[Stamp, str],
    *,
    ledger_id: str,
    is_first: bool,
) -> dict[str, str]:
    """Node -> why it is in doubt. `unknown`: stamps on marks that the ledger cannot have given -> why.

    On the first look after a start a mark that is newer than the ledger says that all of it is old: all lent nodes are
    in doubt then. What was doubted before for the same reason is not doubted again. A node that is quarantined already
    gets the newer mark of this ledger as its reason: who settles it has settled that mark.
    """
    if not unknown:
        return {}
    found: dict[str, str] = {}
    newer, lent = [], []
    for record in records:
        status = states.get(record.name)
        if status is not None and status.stamp is not None and status.stamp in unknown:
            reason, is_ours = unknown[status.stamp], status.stamp.ledger_id == ledger_id
            if record.doubt != reason and (is_ours or record.state is not NodeState.QUARANTINED):
                found[record.name] = reason
                newer += [record.name] if is_ours else []
        elif record.state in LENT:
            lent.append(record.name)
    if is_first and newer:
        found |= dict.fromkeys(lent, f"the ledger is older than the mark on {newer[0]}: {found[newer[0]]}")
    return found


def unknown_stamps(
    stamps: Iterable[Stamp], ledger_id: str, last_seq: int, digests: Mapping[int, str]
) -> dict[Stamp, str]:
    """Those that this ledger did not give -> why. `digests`: number -> digest, of the events that are in its log."""
    found = {}
    for stamp in stamps:
        if stamp.ledger_id != ledger_id:
            found[stamp] = f"{ANOTHERS_MARK}{stamp}; this is ledger {ledger_id}"
        elif stamp.seq > last_seq or not digests.get(stamp.seq, stamp.digest).startswith(stamp.digest):
            found[stamp] = (
                f"its mark is newer, of event {stamp.seq}-{stamp.digest}, which this ledger does not have"
            )
    return found


def has_lent(records: Iterable[NodeRecord]) -> bool:
    """Whether nodes are lent by this ledger, or were when they came in doubt."""
    return any(record.state in _LENT_BY_US or record.reserved_for is not None for record in records)


def another_claims(records: Iterable[NodeRecord], found: Mapping[str, str], ledger_id: str) -> str:
    """Why a service that has lent nothing moves no node; "": it may. `found`: as `doubts` gave it."""
    named = [
        record.name
        for record in records
        if (record.name in found or record.state is NodeState.QUARANTINED)
        and is_anothers_mark(found.get(record.name, record.doubt), record.reserved_for)
    ]
    if not named:
        return ""
    nodes = f"node {named[0]} has" if len(named) == 1 else f"{len(named)} nodes ({named[0]}, ...) have"
    return (
        f"{nodes} a mark of another ledger, and this one, {ledger_id}, has lent nothing: it moves no node. Another "
        "Balancer may be running: stop one of the two. Only if no other runs: `balancer adopt`"
    )
