"""The tables of claims of on-demand jobs on nodes, and who is on which list. Compiled.

A *claim* is the hold of one on-demand job. A node it holds is out of the batch pool (`OFFLINE`), has the claim's slot
as `OWNER`, and is idle or runs a *guest*: a batch job that goes when the on-demand job comes (hybrid-fan-2021, section
III-B.1). Idle held nodes of a claim are a list linked by `BEHIND`. Claims are kept in order of notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from emulator.harness.compiled import inlined

if TYPE_CHECKING:
    from emulator.harness.tables import Ints

# Columns of the claims. NEED: nodes that are still wanted; IDLE: held and idle; HEAD: the first of those, -1 for none;
# DEADLINE: guests should end by then (-1: no guests); COLLECTS: takes any node that becomes free, not only promised;
# HOSTS: guests that run on its nodes; PROMISES: running jobs whose nodes it gets when they end. Of compiled runs only
# (`whole.py`): ARRIVED, whether the on-demand job is there; LEAVERS, jobs that write their last checkpoint for it, and
# LEAVING_NODES, so many nodes it will have of them; SERIAL, a number that no other claim has, -1 when it is over.
C_JOB, NEED, IDLE, HEAD, DEADLINE, COLLECTS, HOSTS, PROMISES, ARRIVED, LEAVERS, LEAVING_NODES, SERIAL = range(
    12
)
CLAIM_COLUMNS = 12
# Columns of the held nodes.
OWNER, BEHIND = range(2)
NODE_COLUMNS = 2
# Columns of the jobs, -1 for none. GUEST: the claim on whose nodes it runs; PROMISED: the claim that gets its nodes
# when it ends; LEAVING: it writes its last checkpoint and goes; PLACE: in compiled runs its column in the table of
# `givers.py`, step by step a mark of loops that meet a job on many nodes (`view.py`).
CLASS, LEAST, GUEST, PROMISED, LEAVING, PLACE = range(6)
JOB_COLUMNS = 6
MALLEABLE = 2
# Counters. CLAIMS_N active claims; IDLE_N idle held nodes in all; CHANGED: the queue has to be looked through, for
# somebody may have become able to run as a guest; IDLE_NODE_US up to IDLE_AT_US; GUESTS_N: starts of guests;
# IN_ORDER: the last submitted is the last of the queue; EASY: passes are those of `easy.py`.
CLAIMS_N, IDLE_N, CHANGED, IDLE_NODE_US, IDLE_AT_US, GUESTS_N, IN_ORDER, EASY = range(8)
# Of `easy.py`. PASS_SEEN: jobs from this row on, which stand at the end, were not looked at; PASS_RESCAN: somebody
# stands elsewhere who was not. Of the others one would have to have this: PASS_WIDE, so many free nodes; PASS_LONG, so
# much time before the head starts; PASS_SPARE, so many nodes that the head leaves over.
PASS_SEEN, PASS_RESCAN, PASS_WIDE, PASS_LONG, PASS_SPARE = range(8, 13)
# Of `guests.py`. GUESTS_SEEN, GUESTS_RESCAN: likewise, as guests. To run as one, one of the others would have to have
# this: GUEST_WIDE, so many nodes of one claim; GUEST_LONG, so much time until an on-demand job is due; GUEST_LEAST, so
# many nodes of one claim (malleable). MOST_HELD and LATEST_HELD: what `best_hosts` says, if it is KNOWN_HELD.
GUESTS_SEEN, GUESTS_RESCAN, GUEST_WIDE, GUEST_LONG, GUEST_LEAST, MOST_HELD, LATEST_HELD, KNOWN_HELD = range(
    13, 21
)
# Of `deep_queue.py`. DEEP: the index is kept; INDEXED: rows from here on are not in it yet; DEEP_FROM: it is kept from
# so many waiting jobs on, and given up at a quarter of them.
DEEP, INDEXED, DEEP_FROM = range(21, 24)
# Of `givers.py`: jobs in the table; runs from this row on were not looked at. SATED: so many of the earliest claims
# collect nothing, or need no node any more.
GIVERS_N, RUNS_SEEN, SATED = range(24, 27)
COUNTERS = 27

Claims: TypeAlias = "tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints]"
"""(claim, order, held, attr, scratch, count, index, givers)"""


@inlined
def account(count: Ints, now: int, change: int) -> None:
    """The number of idle held nodes changes."""
    count[IDLE_NODE_US] += count[IDLE_N] * (now - count[IDLE_AT_US])
    count[IDLE_AT_US] = now
    count[IDLE_N] += change


@inlined
def push_idle(claims: Claims, slot: int, which: int, now: int) -> None:
    """A node of the claim is idle from now on."""
    claim, _, held, _, _, count, _, _ = claims
    held[which, OWNER] = slot
    held[which, BEHIND] = claim[slot, HEAD]
    claim[slot, HEAD] = which
    claim[slot, IDLE] += 1
    account(count, now, 1)
    count[CHANGED] = 1
    count[KNOWN_HELD] = 0


@inlined
def pop_idle(claims: Claims, slot: int, now: int) -> int:
    """Take an idle node from the claim's list; it still belongs to the claim."""
    claim, _, held, _, _, count, _, _ = claims
    which: int = claim[slot, HEAD]
    claim[slot, HEAD] = held[which, BEHIND]
    claim[slot, IDLE] -= 1
    account(count, now, -1)
    count[KNOWN_HELD] = 0
    return which
