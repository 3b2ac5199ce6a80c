"""The tables of claims of on-demand jobs on nodes, and who is on which list. Compiled.

A *claim* is the hold of one on-demand job. A node it holds is out of the batch pool (`OFFLINE`), has the claim's slot
as `holder`, and is idle or runs a *guest*: a batch job that goes when the on-demand job comes (hybrid-fan-2021, section
III-B.1). Idle held nodes of a claim are a list linked by `behind`. Claims are kept in order of notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from emulator.kernel.compiled import inlined

if TYPE_CHECKING:
    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Ints


class Claim:
    """The hold of one on-demand job."""

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
    """Its place in the table of `lenders.py`."""


MALLEABLE = 2
"""Of `HybridJob.job_class`."""


class ClaimCounters:
    """Registers of the claims, of passes with them, and of what these remember."""

    claims_n: int
    """Active claims."""
    idle_n: int
    """Idle held nodes in all."""
    changed: int
    """1: the queue has to be looked through, for somebody may have become able to run as a guest."""
    idle_node_us: int
    """Node-time that nodes were held and idle, up to `idle_at_us`."""
    idle_at_us: int
    guests_n: int
    """Starts of guests."""
    in_order: int
    """1 if the last submitted is the last of the queue."""
    easy: int
    """1 if passes are those of `easy.py`."""

    # Of `easy.py`: who was not looked at, and what one of the others would have to have to start.
    pass_seen: int
    """Jobs from this row on, which stand at the end, were not looked at."""
    pass_rescan: int
    """1: somebody stands elsewhere who was not."""
    pass_wide: int
    """So many free nodes."""
    pass_long: int
    """So much time before the head starts."""
    pass_spare: int
    """So many nodes that the head leaves over."""

    # Of `backfill_on_held.py`: likewise, as guests.
    guests_seen: int
    guests_rescan: int
    guest_wide: int
    """So many nodes of one claim."""
    guest_long: int
    """So much time until an on-demand job is due."""
    guest_least: int
    """So many nodes of one claim, for a malleable job."""
    most_held: int
    """What `best_hosts` says, if it is known."""
    latest_held: int
    known_held: int

    # Of `deep_queue.py`.
    deep: int
    """1 if the index is kept."""
    indexed: int
    """Rows from here on are not in it yet."""
    deep_from: int
    """It is kept from so many waiting jobs on, and given up at a quarter of them."""

    # Of `lenders.py` and of collecting.
    lenders_n: int
    """Jobs in the table."""
    runs_seen: int
    """Runs from this row on were not looked at."""
    sated: int
    """So many of the earliest claims collect nothing, or need no node any more."""


class Lenders(NamedTuple):
    """Running batch jobs that may give nodes, a place for each (`lenders.py`)."""

    job: Ints
    nodes: Ints
    base: Ints
    least_cost: Ints
    most_cost: Ints
    changes: Ints
    """When what preempting it costs changes."""
    ends: Ints
    """When it should end by its estimate."""
    promised_to: Ints
    """The claim that gets its nodes then, -1 for none."""
    spare: Ints
    """Nodes that it can give and go on."""


class Claims(NamedTuple):
    """The mechanism's tables beside the cluster's."""

    claim: Rows[Claim]
    order: Ints
    """Rows of `claim`: the active ones in order of notice, then the others."""
    held: Rows[HeldNode]
    attr: Rows[HybridJob]
    chosen: Ints
    """Room for the nodes of a guest."""
    counters: ClaimCounters
    queue_index: Ints
    """Who waits, by width and estimate (`deep_queue.py`)."""
    lenders: Lenders


HybridJobs: TypeAlias = "Rows[HybridJob]"


@inlined
def account(counters: ClaimCounters, now: int, change: int) -> None:
    """The number of idle held nodes changes."""
    counters.idle_node_us += counters.idle_n * (now - counters.idle_at_us)
    counters.idle_at_us = now
    counters.idle_n += change


@inlined
def push_idle(claims: Claims, slot: int, which: int, now: int) -> None:
    """A node of the claim is idle from now on."""
    claim, held, counters = claims.claim, claims.held, claims.counters
    held[which].holder = slot
    held[which].behind = claim[slot].head
    claim[slot].head = which
    claim[slot].idle += 1
    account(counters, now, 1)
    counters.changed = 1
    counters.known_held = 0


@inlined
def pop_idle(claims: Claims, slot: int, now: int) -> int:
    """Take an idle node from the claim's list; it still belongs to the claim."""
    claim, held, counters = claims.claim, claims.held, claims.counters
    which: int = claim[slot].head
    claim[slot].head = held[which].behind
    claim[slot].idle -= 1
    account(counters, now, -1)
    counters.known_held = 0
    return which
