"""The tables of claims of on-demand jobs on nodes, and who is on which list. Compiled.

A *claim* is the hold of one on-demand job. A node it holds is out of the batch pool (`OFFLINE`), has the claim's slot
as `holder`, and is idle or runs a *guest*: a batch job that goes when the on-demand job comes (hybrid-fan-2021, section
III-B.1). Idle held nodes of a claim are a list linked by `behind`. Claims are kept in order of notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from emulator.harness.compiled import inlined

if TYPE_CHECKING:
    from emulator.harness.rows import Rows
    from emulator.harness.tables import Ints


class Claim:
    """The hold of one on-demand job. The last four are of compiled runs only (`whole.py`)."""

    job: int
    need: int
    """Nodes that are still wanted."""
    idle: int
    """Nodes that are held and idle."""
    head: int
    """The first of those, -1 for none."""
    deadline_us: int
    """Guests should end by then, -1: no guests."""
    collects: int
    """1 if it takes any node that becomes free, not only promised ones."""
    hosts: int
    """Guests that run on its nodes."""
    promises: int
    """Running jobs whose nodes it gets when they end."""
    arrived: int
    """1 if the on-demand job is there."""
    leavers: int
    """Jobs that write their last checkpoint for it."""
    leaving_nodes: int
    """How many nodes it will have of them."""
    serial: int
    """A number that no other claim has, -1 when it is over."""


class HeldNode:
    """Who holds a node."""

    holder: int
    """The claim, -1 for none."""
    behind: int
    """The next idle node of the same claim, -1 for none."""


class HybridJob:
    """What the mechanism knows of a job beside the job table; -1 for none."""

    job_class: int
    least: int
    """The fewest nodes that a malleable job runs on."""
    guest: int
    """The claim on whose nodes it runs."""
    promised: int
    """The claim that gets its nodes when it ends."""
    leaving: int
    """1 if it writes its last checkpoint and goes."""
    place: int
    """In compiled runs its column in the table of `lenders.py`, step by step a mark of loops (`view.py`)."""


MALLEABLE = 2
# Counters. CLAIMS_N active claims; IDLE_N idle held nodes in all; CHANGED: the queue has to be looked through, for
# somebody may have become able to run as a guest; IDLE_NODE_US up to IDLE_AT_US; GUESTS_N: starts of guests;
# IN_ORDER: the last submitted is the last of the queue; EASY: passes are those of `easy.py`.
CLAIMS_N, IDLE_N, CHANGED, IDLE_NODE_US, IDLE_AT_US, GUESTS_N, IN_ORDER, EASY = range(8)
# Of `easy.py`. PASS_SEEN: jobs from this row on, which stand at the end, were not looked at; PASS_RESCAN: somebody
# stands elsewhere who was not. Of the others one would have to have this: PASS_WIDE, so many free nodes; PASS_LONG, so
# much time before the head starts; PASS_SPARE, so many nodes that the head leaves over.
PASS_SEEN, PASS_RESCAN, PASS_WIDE, PASS_LONG, PASS_SPARE = range(8, 13)
# Of `backfill_on_held.py`. GUESTS_SEEN, GUESTS_RESCAN: likewise, as guests. To run as one, one of the others
# would have to have this: GUEST_WIDE, so many nodes of one claim; GUEST_LONG, so much time until an on-demand job is
# due; GUEST_LEAST, so many nodes of one claim (malleable). MOST_HELD and LATEST_HELD: what `best_hosts` says, if it is
# KNOWN_HELD.
GUESTS_SEEN, GUESTS_RESCAN, GUEST_WIDE, GUEST_LONG, GUEST_LEAST, MOST_HELD, LATEST_HELD, KNOWN_HELD = range(
    13, 21
)
# Of `deep_queue.py`. DEEP: the index is kept; INDEXED: rows from here on are not in it yet; DEEP_FROM: it is kept from
# so many waiting jobs on, and given up at a quarter of them.
DEEP, INDEXED, DEEP_FROM = range(21, 24)
# Of `lenders.py`: jobs in the table; runs from this row on were not looked at. SATED: so many of the earliest claims
# collect nothing, or need no node any more.
GIVERS_N, RUNS_SEEN, SATED = range(24, 27)
COUNTERS = 27

ClaimRows: TypeAlias = "Rows[Claim]"
HeldNodes: TypeAlias = "Rows[HeldNode]"
HybridJobs: TypeAlias = "Rows[HybridJob]"
Claims: TypeAlias = "tuple[ClaimRows, Ints, HeldNodes, HybridJobs, Ints, Ints, Ints, Ints]"
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
    held[which].holder = slot
    held[which].behind = claim[slot].head
    claim[slot].head = which
    claim[slot].idle += 1
    account(count, now, 1)
    count[CHANGED] = 1
    count[KNOWN_HELD] = 0


@inlined
def pop_idle(claims: Claims, slot: int, now: int) -> int:
    """Take an idle node from the claim's list; it still belongs to the claim."""
    claim, _, held, _, _, count, _, _ = claims
    which: int = claim[slot].head
    claim[slot].head = held[which].behind
    claim[slot].idle -= 1
    account(count, now, -1)
    count[KNOWN_HELD] = 0
    return which
