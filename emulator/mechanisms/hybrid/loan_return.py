"""What becomes of loans in a compiled run when an on-demand job is over, as in `mechanism.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import inner
from emulator.harness.tables import FREE, QUEUED, RUNNING
from emulator.mechanisms.hybrid.claims import MALLEABLE
from emulator.mechanisms.hybrid.compiled_actions import (
    EXPANDED_N,
    LOAN_FREE,
    LOANS_LEFT,
    RESUMED_N,
    change_last,
    settle_one,
    start_waiting,
)
from emulator.mechanisms.hybrid.compiled_strategies import WIDE

if TYPE_CHECKING:
    from emulator.harness.tables import Ints, State
    from emulator.harness.work import Work
    from emulator.mechanisms.hybrid.claims import Claims
    from emulator.mechanisms.hybrid.compiled_actions import More

# Reasons, as places in `deeds.REASONS`; ANY: preempted lenders may resume.
DID_NOT_START, WAITS, RUNS_NO_MORE, HAS_ALL, BROKE, WAITS_NO_MORE, TOO_FEW, LEASE_BROKE = range(8)
ANY = -1


@inner
def expand(  # noqa: PLR0917
    state: State, work: Work, claims: Claims, more: More, one: int, nodes: Ints, now: int
) -> None:
    """A lender that was shrunk, and runs on, gets these idle nodes, as many as it lacks."""
    job, attr = state[0], claims[3]
    own, loans = more[0], more[5]
    lender = loans[one].lender
    runs_on = (
        job[lender].state == RUNNING
        and job[lender].start_us == loans[one].shrunk_us
        and attr[lender].leaving < 0
    )
    if not runs_on:
        settle_one(more, one, 0, RESUMED_N, RUNS_NO_MORE)
        return
    lacks = own[lender].known - job[lender].nodes
    given = max(0, min(nodes.shape[0], lacks))
    if given:
        change_last(state, work, more, lender, job[lender].nodes, nodes[:given], now)
    settle_one(more, one, given, EXPANDED_N, HAS_ALL if given == lacks else BROKE)


@inner
def resume(  # noqa: PLR0917
    state: State, work: Work, claims: Claims, more: More, one: int, nodes: Ints, others: int, now: int
) -> None:
    """A lender that was preempted, and waits, runs on these nodes and idle ones that are not marked."""
    job, free, attr, reg = state[0], state[2], claims[3], state[11]
    loans, room, mark = more[5], more[9], more[10]
    lender = loans[one].lender
    if job[lender].state != QUEUED:
        settle_one(more, one, 0, RESUMED_N, WAITS_NO_MORE)
        return
    wanted = job[lender].nodes
    least = attr[lender].least if attr[lender].job_class == MALLEABLE else wanted
    width = min(wanted, reg[FREE] - others)
    if width < least:
        settle_one(more, one, 0, RESUMED_N, TOO_FEW)
        return
    fresh = room[WIDE]
    back = min(nodes.shape[0], width)
    for k in range(back):
        fresh[k] = nodes[k]
    place = reg[FREE]
    many = back
    while many < width:
        place -= 1
        if mark[free[place]] == 0:
            fresh[many] = free[place]
            many += 1
    start_waiting(state, work, lender, fresh[:width], now)
    settle_one(more, one, back, RESUMED_N, HAS_ALL)


@inner
def settle(  # noqa: PLR0917
    state: State, work: Work, claims: Claims, more: More, borrower: int, nodes: Ints, why: int, now: int
) -> None:
    """Lenders get of these idle nodes what they lent. `why` preempted ones do not; ANY: they do."""
    own, loans, mark, reg = more[0], more[5], more[10], more[11]
    last = own[borrower].owes
    if last < 0:
        return
    own[borrower].owes = -1
    count = nodes.shape[0]
    for k in range(count):
        mark[nodes[k]] = 1
    one = loans[last].next
    place = 0
    while True:
        to = min(place + loans[one].lent, count)
        if loans[one].shrunk_us >= 0:
            expand(state, work, claims, more, one, nodes[place:to], now)
        elif why >= 0:
            settle_one(more, one, 0, RESUMED_N, why)
        else:
            resume(state, work, claims, more, one, nodes[place:to], count - to, now)
        for k in range(place, to):
            mark[nodes[k]] = 0
        place = to
        after = loans[one].next
        loans[one].next = reg[LOAN_FREE]
        reg[LOAN_FREE] = one
        reg[LOANS_LEFT] += 1
        if one == last:
            break
        one = after
    for k in range(place, count):
        mark[nodes[k]] = 0


@inner
def lent_nodes(more: More, borrower: int) -> int:
    """Nodes of all its loans."""
    own, loans = more[0], more[5]
    last = own[borrower].owes
    total = 0
    if last >= 0:
        one = last
        while True:
            total += loans[one].lent
            one = loans[one].next
            if one == last:
                break
    return total
