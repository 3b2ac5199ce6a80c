"""What is done when the ledger says one thing of a node and the systems report another: one cell for each pair.

The page `docs/balancer/reconcile.md` shows the table, and says of each word what it means.
"""

from __future__ import annotations

from enum import StrEnum

from balancer.lifecycle.states import NodeState


class Seen(StrEnum):
    """What batch system and cloud report of one node, taken together; exactly one of these."""

    BATCH_IDLE = "batch idle"
    BATCH_BUSY = "batch busy"
    DRAINED_IDLE = "batch drained idle"
    DRAINED_BUSY = "batch drained busy"
    FOREIGN = "taken by others"
    FOREIGN_BUSY = "taken by others, busy"
    ABSENT = "absent"
    CLOUD_ENABLED = "cloud enabled"
    CLOUD_EMPTY = "cloud disabled empty"
    CLOUD_VM = "cloud disabled with VM"
    BOTH_ENABLED = "both enabled"
    UNREACHABLE = "unreachable"


class Action(StrEnum):
    """What is done about it."""

    NOTHING = "nothing"
    SEE_IDLE = "see idle"
    SEE_BUSY = "see busy"
    SEE_DOWN = "see down"
    QUARANTINE_IN_BATCH = "quarantine in batch"
    FLAG_CONFLICT = "conflict"
    FAIL = "failed"
    MARK = "mark"
    ABANDON = "abandon"
    ORDER = "order again"
    HAND_OVER = "hand over"
    ROLL_BACK = "rollback to busy"
    RECLAIM = "reclaim to batch"
    WAIT = "wait"
    KEEP = "keep"
    ADOPT = "on-demand's"
    RELEASE = "release to batch"


_TO_ON_DEMAND = dict.fromkeys(Seen, Action.HAND_OVER) | {
    Seen.BATCH_IDLE: Action.ORDER,
    Seen.BATCH_BUSY: Action.ROLL_BACK,
    Seen.DRAINED_BUSY: Action.ROLL_BACK,
    Seen.BOTH_ENABLED: Action.ORDER,
    Seen.FOREIGN: Action.ABANDON,
    Seen.FOREIGN_BUSY: Action.ABANDON,
    Seen.ABSENT: Action.WAIT,
    Seen.UNREACHABLE: Action.ABANDON,
}
_TO_BATCH = dict.fromkeys(Seen, Action.ORDER) | {
    Seen.BATCH_IDLE: Action.RECLAIM,
    Seen.BATCH_BUSY: Action.RECLAIM,
    Seen.BOTH_ENABLED: Action.RECLAIM,
    Seen.FOREIGN: Action.QUARANTINE_IN_BATCH,
    Seen.FOREIGN_BUSY: Action.QUARANTINE_IN_BATCH,
    Seen.ABSENT: Action.WAIT,
    Seen.UNREACHABLE: Action.WAIT,
}
_LENT = {
    Seen.BATCH_IDLE: Action.MARK,
    Seen.BATCH_BUSY: Action.MARK,
    Seen.DRAINED_IDLE: Action.NOTHING,
    Seen.DRAINED_BUSY: Action.FLAG_CONFLICT,
    Seen.FOREIGN: Action.FLAG_CONFLICT,
    Seen.FOREIGN_BUSY: Action.FLAG_CONFLICT,
    Seen.ABSENT: Action.FAIL,
    Seen.CLOUD_ENABLED: Action.NOTHING,
    Seen.CLOUD_EMPTY: Action.NOTHING,
    Seen.CLOUD_VM: Action.NOTHING,
    Seen.BOTH_ENABLED: Action.MARK,
    Seen.UNREACHABLE: Action.FAIL,
}
_IN_BATCH = {
    Seen.BATCH_IDLE: Action.SEE_IDLE,
    Seen.BATCH_BUSY: Action.SEE_BUSY,
    Seen.DRAINED_IDLE: Action.QUARANTINE_IN_BATCH,
    Seen.DRAINED_BUSY: Action.QUARANTINE_IN_BATCH,
    Seen.FOREIGN: Action.QUARANTINE_IN_BATCH,
    Seen.FOREIGN_BUSY: Action.QUARANTINE_IN_BATCH,
    Seen.ABSENT: Action.SEE_DOWN,
    Seen.CLOUD_ENABLED: Action.QUARANTINE_IN_BATCH,
    Seen.CLOUD_EMPTY: Action.QUARANTINE_IN_BATCH,
    # A machine of somebody's runs there: nothing is given away, and no mark is touched.
    Seen.CLOUD_VM: Action.SEE_DOWN,
    Seen.BOTH_ENABLED: Action.SEE_DOWN,
    Seen.UNREACHABLE: Action.SEE_DOWN,
}
_IN_DOUBT = dict.fromkeys(Seen, Action.KEEP) | {
    Seen.BATCH_IDLE: Action.MARK,
    Seen.BATCH_BUSY: Action.MARK,
    Seen.BOTH_ENABLED: Action.MARK,
    Seen.CLOUD_ENABLED: Action.ADOPT,
    Seen.CLOUD_VM: Action.ADOPT,
    Seen.CLOUD_EMPTY: Action.RELEASE,
}

TABLE: dict[NodeState, dict[Seen, Action]] = {
    NodeState.OD_RESERVE: _LENT
    | dict.fromkeys((Seen.BATCH_BUSY, Seen.DRAINED_BUSY, Seen.FOREIGN, Seen.FOREIGN_BUSY), Action.ABANDON)
    | dict.fromkeys((Seen.ABSENT, Seen.UNREACHABLE, Seen.CLOUD_VM), Action.FLAG_CONFLICT),
    NodeState.OD_ALLOC: _LENT,
    NodeState.OA_IDLE: _IN_BATCH | {Seen.BATCH_IDLE: Action.NOTHING},
    NodeState.OA_BUSY: _IN_BATCH | {Seen.BATCH_BUSY: Action.NOTHING},
    NodeState.DOWN: _IN_BATCH
    | dict.fromkeys((Seen.ABSENT, Seen.CLOUD_VM, Seen.BOTH_ENABLED, Seen.UNREACHABLE), Action.NOTHING),
    NodeState.RECLAIMING: _TO_ON_DEMAND,
    NodeState.RESTORING: _TO_BATCH,
    NodeState.QUARANTINED: _IN_DOUBT,
}
"""Ledger state -> what is seen -> what is done. 8 x 12 cells."""
