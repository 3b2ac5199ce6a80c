"""What becomes of lent nodes when an on-demand job is done with them. Compiled.

A shrunk lender is "guaranteed to expand" (hybrid-fan-2021, observation 6), a preempted one resumes "if possible"
(section III-B4): not before an on-demand job that waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner
from emulator.kernel.job_states import JobState
from emulator.mechanisms.hybrid.actions import (
    change_last,
    settle_one,
    start_waiting,
)
from emulator.mechanisms.hybrid.claims import MALLEABLE
from emulator.mechanisms.hybrid.loans import Reason

if TYPE_CHECKING:
    from emulator.kernel.tables import Ints, State
    from emulator.machine.work import Work
    from emulator.mechanisms.hybrid.claims import Claims
    from emulator.mechanisms.hybrid.state import HybridState

ANY = -1
"""In the place of a `Reason`: preempted lenders may resume."""


@inner
def expand(
    state: State, work: Work, claims: Claims, hybrid: HybridState, loan: int, nodes: Ints, now: int
) -> None:
    """A lender that was shrunk, and runs on, gets these idle nodes, as many as it lacks."""
    job, attr = state.job, claims.attr
    job_ext, loans = hybrid.job_ext, hybrid.loans
    lender = loans[loan].lender
    runs_on = (
        job[lender].state == JobState.RUNNING
        and job[lender].start_us == loans[loan].shrunk_us
        and attr[lender].leaving < 0
    )
    if not runs_on:
        settle_one(hybrid, loan, 0, Reason.RUNS_NO_MORE)
        return
    lacks = job_ext[lender].known - job[lender].nodes
    given = max(0, min(nodes.shape[0], lacks))
    if given:
        change_last(state, work, hybrid, lender, job[lender].nodes, nodes[:given], now)
    settle_one(hybrid, loan, given, Reason.HAS_ALL if given == lacks else Reason.NODE_BROKE)


@inner
def resume(
    state: State,
    work: Work,
    claims: Claims,
    hybrid: HybridState,
    loan: int,
    nodes: Ints,
    others: int,
    now: int,
) -> None:
    """A lender that was preempted, and waits, runs on these nodes and idle ones that are not marked."""
    job, free, attr, registers = state.job, state.free, claims.attr, state.registers
    loans, room, mark = hybrid.loans, hybrid.room, hybrid.mark
    lender = loans[loan].lender
    if job[lender].state != JobState.QUEUED:
        settle_one(hybrid, loan, 0, Reason.WAITS_NO_MORE)
        return
    wanted = job[lender].nodes
    least = attr[lender].least if attr[lender].job_class == MALLEABLE else wanted
    width = min(wanted, registers.idle_nodes - others)
    if width < least:
        settle_one(hybrid, loan, 0, Reason.TOO_FEW)
        return
    fresh = room.wide
    back = min(nodes.shape[0], width)
    for k in range(back):
        fresh[k] = nodes[k]
    place = registers.idle_nodes
    many = back
    while many < width:
        place -= 1
        if mark[free[place]] == 0:
            fresh[many] = free[place]
            many += 1
    start_waiting(state, work, lender, fresh[:width], now)
    settle_one(hybrid, loan, back, Reason.HAS_ALL)


@inner
def settle(
    state: State,
    work: Work,
    claims: Claims,
    hybrid: HybridState,
    borrower: int,
    nodes: Ints,
    why: int,
    now: int,
) -> None:
    """Lenders get of these idle nodes what they lent. `why` preempted ones do not; ANY: they do."""
    job_ext, loans, mark, hybrid_registers = hybrid.job_ext, hybrid.loans, hybrid.mark, hybrid.registers
    last = job_ext[borrower].owes
    if last < 0:
        return
    job_ext[borrower].owes = -1
    count = nodes.shape[0]
    for k in range(count):
        mark[nodes[k]] = 1
    loan = loans[last].next
    place = 0
    while True:
        to = min(place + loans[loan].lent, count)
        if loans[loan].shrunk_us >= 0:
            expand(state, work, claims, hybrid, loan, nodes[place:to], now)
        elif why >= 0:
            settle_one(hybrid, loan, 0, why)
        else:
            resume(state, work, claims, hybrid, loan, nodes[place:to], count - to, now)
        for k in range(place, to):
            mark[nodes[k]] = 0
        place = to
        after = loans[loan].next
        loans[loan].next = hybrid_registers.loan_free
        hybrid_registers.loan_free = loan
        hybrid_registers.loans_left += 1
        if loan == last:
            break
        loan = after
    for k in range(place, count):
        mark[nodes[k]] = 0


@inner
def lent_nodes(hybrid: HybridState, borrower: int) -> int:
    """Nodes of all its loans."""
    job_ext, loans = hybrid.job_ext, hybrid.loans
    last = job_ext[borrower].owes
    total = 0
    if last >= 0:
        loan = last
        while True:
            total += loans[loan].lent
            loan = loans[loan].next
            if loan == last:
                break
    return total
