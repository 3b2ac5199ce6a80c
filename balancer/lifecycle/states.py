"""The states of a node and the one table of what may follow what.

The four states of the paper (balancer-liu-2018, II-C.1), DOWN, and the two steps that lie between asking the
batch system for a node and seeing that it obeyed. `docs/balancer/lifecycle.md` draws the table.
"""

from __future__ import annotations

from enum import StrEnum


class NodeState(StrEnum):
    """Where a node is. Only OA_IDLE and OA_BUSY nodes are enabled in the batch system."""

    OD_RESERVE = "OD_RESERVE"
    """In the on-demand pool, without a lease: for a waiting request, for the reserve, or for I."""
    OD_ALLOC = "OD_ALLOC"
    """Granted to an on-demand request."""
    OA_IDLE = "OA_IDLE"
    """In the batch pool, without a job."""
    OA_BUSY = "OA_BUSY"
    """In the batch pool, runs a job."""
    DOWN = "DOWN"
    """Reported unreachable, or not reported yet. Never given to anybody."""
    RECLAIMING = "RECLAIMING"
    """The batch system was told to take it offline; not seen offline and empty yet."""
    RESTORING = "RESTORING"
    """The batch system was told to bring it online; not seen online yet."""
    QUARANTINED = "QUARANTINED"
    """Its mark or the ledger's own past say that the ledger may be wrong about it: nobody's until that is settled."""


STATE_WORDS = {
    NodeState.OA_BUSY: "batch, busy",
    NodeState.OA_IDLE: "batch, idle",
    NodeState.OD_ALLOC: "on demand",
    NodeState.OD_RESERVE: "reserve",
    NodeState.RECLAIMING: "moving to on demand",
    NodeState.RESTORING: "moving to batch",
    NodeState.DOWN: "down",
    NodeState.QUARANTINED: "quarantined",
}
"""Each state as people read it: on the dashboard, in the terminal and, as far as it has them, in a run's report."""


POOL = {
    NodeState.OD_RESERVE: "on-demand",
    NodeState.OD_ALLOC: "on-demand",
    NodeState.OA_IDLE: "batch",
    NodeState.OA_BUSY: "batch",
    NodeState.DOWN: "batch",
    NodeState.RECLAIMING: "moving",
    NodeState.RESTORING: "moving",
    NodeState.QUARANTINED: "quarantined",
}
"""Whose a node is in each state."""


class Cause(StrEnum):
    """Why a node changes its state."""

    JOB_STARTED = "job started"
    JOB_ENDED = "job ended"
    SEEN_IDLE = "seen idle"
    SEEN_BUSY = "seen busy"
    SEEN_DOWN = "seen down"
    RECLAIM = "reclaim"
    RECLAIMED = "reclaimed"
    RECLAIM_BUSY = "reclaim found a job"
    GRANTED = "granted"
    RELEASED = "released"
    RESTORE = "restore"
    RESTORED = "restored"
    DOUBTED = "doubted"
    ADOPTED = "adopted"
    SEEN_IN_CLOUD = "seen in the cloud"
    NOT_IN_CLOUD = "not in the cloud"
    FAILED = "failed"
    """A granted node is down. The state stays, unless the grant gets another node in its place."""
    RECOVERED = "recovered"
    """A granted node that had failed reads well again. The state stays, so this cause is not in the table."""
    RESERVED = "reserved"
    """For a waiting request: the state stays, as with the next three."""
    UNRESERVED = "no longer reserved"
    CONTESTED = "contested"
    CLEARED = "cleared"
    NOT_CONFIRMED = "not confirmed"
    LEASE_ENDED = "lease ended"


TRANSITIONS: tuple[tuple[NodeState, NodeState, Cause], ...] = (
    (NodeState.DOWN, NodeState.OA_BUSY, Cause.JOB_STARTED),
    (NodeState.DOWN, NodeState.OA_BUSY, Cause.SEEN_BUSY),
    (NodeState.DOWN, NodeState.OA_IDLE, Cause.SEEN_IDLE),
    (NodeState.DOWN, NodeState.QUARANTINED, Cause.DOUBTED),
    (NodeState.OA_BUSY, NodeState.DOWN, Cause.SEEN_DOWN),
    (NodeState.OA_BUSY, NodeState.OA_IDLE, Cause.JOB_ENDED),
    (NodeState.OA_BUSY, NodeState.OA_IDLE, Cause.SEEN_IDLE),
    (NodeState.OA_BUSY, NodeState.QUARANTINED, Cause.DOUBTED),
    (NodeState.OA_IDLE, NodeState.DOWN, Cause.SEEN_DOWN),
    (NodeState.OA_IDLE, NodeState.OA_BUSY, Cause.JOB_STARTED),
    (NodeState.OA_IDLE, NodeState.OA_BUSY, Cause.SEEN_BUSY),
    (NodeState.OA_IDLE, NodeState.QUARANTINED, Cause.DOUBTED),
    (NodeState.OA_IDLE, NodeState.RECLAIMING, Cause.RECLAIM),
    (NodeState.OD_ALLOC, NodeState.DOWN, Cause.FAILED),
    (NodeState.OD_ALLOC, NodeState.OD_RESERVE, Cause.LEASE_ENDED),
    (NodeState.OD_ALLOC, NodeState.OD_RESERVE, Cause.NOT_CONFIRMED),
    (NodeState.OD_ALLOC, NodeState.OD_RESERVE, Cause.RELEASED),
    (NodeState.OD_ALLOC, NodeState.QUARANTINED, Cause.DOUBTED),
    (NodeState.OD_RESERVE, NodeState.OD_ALLOC, Cause.GRANTED),
    (NodeState.OD_RESERVE, NodeState.QUARANTINED, Cause.DOUBTED),
    (NodeState.OD_RESERVE, NodeState.RESTORING, Cause.RESTORE),
    (NodeState.OD_RESERVE, NodeState.RESTORING, Cause.SEEN_DOWN),
    (NodeState.QUARANTINED, NodeState.OA_BUSY, Cause.SEEN_BUSY),
    (NodeState.QUARANTINED, NodeState.OA_IDLE, Cause.SEEN_IDLE),
    (NodeState.QUARANTINED, NodeState.OD_ALLOC, Cause.ADOPTED),
    (NodeState.QUARANTINED, NodeState.OD_ALLOC, Cause.SEEN_IN_CLOUD),
    (NodeState.QUARANTINED, NodeState.RESTORING, Cause.ADOPTED),
    (NodeState.QUARANTINED, NodeState.RESTORING, Cause.NOT_IN_CLOUD),
    (NodeState.RECLAIMING, NodeState.OA_BUSY, Cause.RECLAIM_BUSY),
    (NodeState.RECLAIMING, NodeState.OD_RESERVE, Cause.RECLAIMED),
    (NodeState.RECLAIMING, NodeState.QUARANTINED, Cause.DOUBTED),
    (NodeState.RECLAIMING, NodeState.RESTORING, Cause.SEEN_DOWN),
    (NodeState.RESTORING, NodeState.DOWN, Cause.SEEN_DOWN),
    (NodeState.RESTORING, NodeState.OA_BUSY, Cause.JOB_STARTED),
    (NodeState.RESTORING, NodeState.OA_BUSY, Cause.SEEN_BUSY),
    (NodeState.RESTORING, NodeState.OA_IDLE, Cause.RESTORED),
    (NodeState.RESTORING, NodeState.QUARANTINED, Cause.DOUBTED),
)
"""Sorted rows (from, to, cause). What is not here cannot happen: `IllegalTransition`."""

ALLOWED: dict[NodeState, frozenset[tuple[NodeState, Cause]]] = {
    state: frozenset((to, cause) for start, to, cause in TRANSITIONS if start is state) for state in NodeState
}
"""The same table, by the state a node is in."""
