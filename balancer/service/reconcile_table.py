"""What is done when the ledger says one thing of a node and the systems report another: one cell for each pair.

The page `docs/balancer/reconcile.md` is made from this table:

    python -m balancer.service.reconcile_table > docs/balancer/reconcile.md
"""

from __future__ import annotations

import sys
import textwrap
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from balancer.lifecycle.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Mapping


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


SEEN_MEANS = {
    Seen.BATCH_IDLE: "enabled in batch, no job",
    Seen.BATCH_BUSY: "enabled in batch, runs a job",
    Seen.DRAINED_IDLE: "offline in batch, no job; no cloud is configured or it did not answer",
    Seen.DRAINED_BUSY: "offline in batch, runs a job",
    Seen.FOREIGN: "carries somebody else's offline mark, no job (it may be down as well)",
    Seen.FOREIGN_BUSY: "carries somebody else's offline mark, runs a job",
    Seen.ABSENT: "batch answered and does not list it",
    Seen.CLOUD_ENABLED: "offline and empty in batch, enabled in the cloud",
    Seen.CLOUD_EMPTY: "offline and empty in batch, disabled in the cloud, no VM",
    Seen.CLOUD_VM: "not busy in batch, disabled in the cloud, has a VM",
    Seen.BOTH_ENABLED: "enabled in batch and in the cloud",
    Seen.UNREACHABLE: "down, or what batch said could not be read",
}


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


ACTION_MEANS = {
    Action.NOTHING: "it is as it should be, or that is unknown",
    Action.SEE_IDLE: "the ledger takes it as idle",
    Action.SEE_BUSY: "the ledger takes it as busy",
    Action.SEE_DOWN: "the ledger takes it as down: not given to anybody until it reads well again",
    Action.QUARANTINE_IN_BATCH: "down in the ledger; an offline mark of ours that was left behind is taken off, "
    "somebody else's is left alone and shown",
    Action.FLAG_CONFLICT: "shown with the reason, and not granted until a look finds it offline, empty and without "
    "another system's mark; its owner keeps the node",
    Action.FAIL: "once batch has said so for `failed_after_s`, and no cloud says that its host is up: its owner is "
    "told, or gets another node for it, as the request says ([API](api.md))",
    Action.MARK: "its lost offline mark is set again, so that no job starts on it; a lent one is contested as well",
    Action.ABANDON: "somebody else's mark or a job is on a reserved node, or one on its way is down for longer than "
    "`confirm_limit_s`: it goes back to batch, and a mark of others stays there; a request gets another",
    Action.ORDER: "its command is given again every `confirm_poll_s` until it shows; a mark of somebody else's is not "
    "taken off: the node is down then",
    Action.HAND_OVER: "two such looks, a `confirm_poll_s` apart: it is on-demand's",
    Action.ROLL_BACK: "for longer than `confirm_limit_s`: our mark is taken off, and the ledger takes it as "
    "busy; a request gets another",
    Action.RECLAIM: "the ledger takes it as idle or busy: batch has it again",
    Action.WAIT: "no command, until it reads otherwise",
    Action.KEEP: "quarantined, until the cloud or an operator says whose it is",
    Action.ADOPT: "the cloud has it: granted, as before",
    Action.RELEASE: "no server on it for `quarantine_s`: it goes back to batch",
}

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

_HEAD = """\
# Reconcile: the ledger against what is there

Made from the table: `python -m balancer.service.reconcile_table > docs/balancer/reconcile.md`.

At the start, every `reconcile_period_s` and after a fault all nodes are read, and each node's pair (what the ledger
says, what was seen) has one written action. A node that changed in the ledger after the reading began is left to the
next one. A reading that failed as a whole says nothing of any node: nothing is done.
"""

_TAIL = """
* A job that nobody reported is one of a busy node's jobs if the batch system lists it there. One that it lists no more
  does not keep the node busy.
* Only a `RECLAIMING` node becomes on-demand's, after two looks that agree, at least `confirm_poll_s` apart, both begun
  after the command: offline and without a job.
* Unknown never becomes idle: what cannot be read is `unreachable`.
* A `RESTORING` node that is asleep without a mark is `DOWN`: it is batch's.
* Before all this, marks and ledger are compared ([nodes in doubt](backup.md#nodes-in-doubt)). A `QUARANTINED` node that
  this ledger never granted, and that stays so for the mark of another ledger alone, is batch's again when that mark is
  gone.
* A mark is ours when its note has exactly our form. A node with somebody else's mark is not used, whatever the ledger
  says of it: in batch, on its way or in reserve it is `DOWN`, granted it stays with its owner, contested.
* The mark of a lent node that has changed in the ledger is set again at the next reconcile, to name a younger event.
* A job that starts on a `RECLAIMING` node whose command has been without an outcome for `confirm_limit_s` keeps
  the node.
* A cloud that is configured and does not answer leaves a node that is down where it is, and its mark on it. Without a
  cloud, `batch drained idle` stands for the three cloud rows.

`balancer/service/confirmation.py` says what a look means for a command in progress.
"""


def _items(means: Mapping[Any, str]) -> str:
    """A line for each word and what it means."""
    lines = (f"* {each}: {what}" for each, what in means.items())
    return "".join(f"{textwrap.fill(line, 120, subsequent_indent='  ')}\n" for line in lines)


def page() -> str:
    """The whole page: what is seen, what is done, the table."""
    seen = _items(SEEN_MEANS)
    done = _items(ACTION_MEANS)
    states = " | ".join(f"`{state}`" for state in TABLE)
    rows = "".join(f"| {each} | {' | '.join(row[each] for row in TABLE.values())} |\n" for each in Seen)
    return (
        f"{_HEAD}\nSeen, the node is:\n\n{seen}\nWhat is done:\n\n{done}"
        f"\n| seen \\ ledger | {states} |\n|{' --- |' * (len(TABLE) + 1)}\n{rows}{_TAIL}"
    )


if __name__ == "__main__":
    sys.stdout.write(page())
