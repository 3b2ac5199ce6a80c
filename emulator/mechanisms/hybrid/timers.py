"""What is due by the clock: timers, and nodes that fail and are repaired. Compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner
from emulator.kernel.occupancy import set_offline, set_online
from emulator.kernel.tables import BATCH, FRONT
from emulator.mechanisms.agenda import pop
from emulator.mechanisms.hybrid.actions import Keeps, arrives, claim_of, resize, stop, wake
from emulator.mechanisms.hybrid.claims import MALLEABLE
from emulator.mechanisms.hybrid.events import close_claim, preempt, receive
from emulator.mechanisms.hybrid.holds import drop, promise
from emulator.mechanisms.hybrid.loan_return import settle
from emulator.mechanisms.hybrid.loans import Reason
from emulator.mechanisms.hybrid.strategies import pair_of
from emulator.mechanisms.move_log import To, note_move, note_move_of_noted, note_node

if TYPE_CHECKING:
    from emulator.kernel.tables import State
    from emulator.machine.work import Work
    from emulator.mechanisms.hybrid.claims import Claims
    from emulator.mechanisms.hybrid.state import HybridState


@inner
def lease_breaks(
    state: State, work: Work, claims: Claims, hybrid: HybridState, row: int, which: int, now: int
) -> None:
    """A node of an on-demand job breaks: the job begins anew, before all others, and its lenders have nodes back."""
    job, runs, log = state.job, state.runs, state.log
    job_ext, given = hybrid.job_ext, hybrid.room.found
    first = runs[job[row].run_row].first
    many = job[row].nodes
    job_ext[row].noted = 0
    job[row].key = FRONT
    stop(state, work, claims, hybrid, row, Keeps.NOTHING, now)
    if job_ext[row].when_us >= 0:
        job_ext[row].when_us = -1
        note_move(hybrid.moves, now, To.RESERVE, first, many)
    others = 0
    for k in range(first, first + many):
        if log[k] != which:
            given[others] = log[k]
            others += 1
            set_online(state, log[k], now)
            note_node(hybrid.moves, log[k])
    if others:
        note_move_of_noted(hybrid.moves, now, To.BATCH, others)
    settle(state, work, claims, hybrid, row, given[:others], Reason.LEASE_BROKE, now)


@inner
def job_breaks(
    state: State, work: Work, claims: Claims, hybrid: HybridState, row: int, which: int, now: int
) -> None:
    """A node of a batch job breaks: a malleable job goes on with one node less if it can, others restart."""
    job, runs, log = state.job, state.runs, state.log
    claim, attr = claims.claim, claims.attr
    job_ext, keeps = hybrid.job_ext, hybrid.room.wide
    first = runs[job[row].run_row].first
    many = job[row].nodes
    is_leaving = attr[row].leaving >= 0
    malleable = attr[row].job_class == MALLEABLE and not is_leaving
    if malleable and many > attr[row].least and attr[row].guest < 0:
        others = 0
        for k in range(first, first + many):
            if log[k] != which:
                keeps[others] = log[k]
                others += 1
        resize(state, work, hybrid, row, keeps[:others], now)
        return
    stop(state, work, claims, hybrid, row, Keeps.ALL if malleable else Keeps.SAVED, now)
    job_ext[row].when_us = -1
    slot = claim_of(claims, hybrid, row)
    job_ext[row].claim = -1
    if slot >= 0:
        claim[slot].leavers -= 1
        claim[slot].leaving_nodes -= job_ext[row].owes
        receive(state, claims, hybrid, slot, row, first, many, now)


@inner
def on_outage(state: State, work: Work, claims: Claims, hybrid: HybridState, now: int) -> None:
    """Nodes that are up again, or else the node that fails now: then claims are to be looked at (`next_claim`)."""
    job, node = state.job, state.node
    hybrid_registers, outages = hybrid.registers, hybrid.outages
    begin = hybrid.moves.counts.nodes
    while (
        hybrid_registers.next_outage < outages.shape[0]
        and outages[hybrid_registers.next_outage].at_us <= now
        and outages[hybrid_registers.next_outage].fails == 0
        and hybrid.moves.counts.nodes - begin < node.shape[0]
    ):
        which = outages[hybrid_registers.next_outage].node
        set_online(state, which, now)
        note_node(hybrid.moves, which)
        hybrid_registers.next_outage += 1
    if hybrid.moves.counts.nodes > begin:
        note_move_of_noted(hybrid.moves, now, To.BATCH, hybrid.moves.counts.nodes - begin)
        return
    which = outages[hybrid_registers.next_outage].node
    hybrid_registers.next_outage += 1
    hybrid_registers.failed_n += 1
    row = node[which].job
    if row >= 0:
        if job[row].kind == BATCH:
            job_breaks(state, work, claims, hybrid, row, which, now)
        else:
            lease_breaks(state, work, claims, hybrid, row, which, now)
    if claims.held[which].holder >= 0:
        drop(claims, claims.held[which].holder, which, now)
    set_offline(state, which)
    note_node(hybrid.moves, which)
    note_move_of_noted(hybrid.moves, now, To.DOWN, 1)
    hybrid_registers.next_claim = 0


@inner
def start_next(claims: Claims, hybrid: HybridState) -> None:
    """After a failure: start the on-demand job of the next claim, if it is there and has what it needs now."""
    claim, order, counters = claims.claim, claims.order, claims.counters
    hybrid_registers = hybrid.registers
    if hybrid_registers.next_claim >= counters.claims_n:
        hybrid_registers.next_claim = -1
        return
    arrives(hybrid, claim[order[hybrid_registers.next_claim]].job, 0)
    hybrid_registers.next_claim += 1


@inner
def on_timer(state: State, work: Work, claims: Claims, hybrid: HybridState, now: int) -> None:
    """One step of what is due: outages, claims after a failure, a timer. After the last, the next is waited for."""
    claim, attr = claims.claim, claims.attr
    job_ext, timers, hybrid_registers, outages = (
        hybrid.job_ext,
        hybrid.timers,
        hybrid.registers,
        hybrid.outages,
    )
    if hybrid_registers.next_claim >= 0:
        start_next(claims, hybrid)
        return
    if hybrid_registers.next_outage < outages.shape[0] and outages[hybrid_registers.next_outage].at_us <= now:
        on_outage(state, work, claims, hybrid, now)
        return
    if timers.size.entries == 0 or timers.heap[0].at_us > now:
        hybrid_registers.at_timer = 0
        wake(hybrid, now)
        return
    on_demand, row = pair_of(pop(timers))
    slot = job_ext[on_demand].claim
    if slot < 0 or claim[slot].arrived:
        return
    if row < 0:
        close_claim(state, work, claims, hybrid, slot, now)
        hybrid_registers.lapsed_n += 1
    elif attr[row].promised == slot and attr[row].leaving < 0:
        if claim[slot].need <= claim[slot].leaving_nodes:
            promise(claims, row, -1)
        else:
            preempt(state, work, claims, hybrid, slot, row, now)
