"""The events of on-demand jobs, and what the mechanism does at each. Compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.kernel.occupancy import end_job, set_online
from emulator.kernel.tables import NEVER
from emulator.mechanisms.agenda import push
from emulator.mechanisms.hybrid.actions import (
    Keeps,
    arrives,
    begin_save,
    change_last,
    claim_of,
    enqueue_first,
    hold_run,
    leaves_for,
    lend,
    nodes_of,
    note_time,
    start_lease,
    stop,
    wake,
    wall_us,
)
from emulator.mechanisms.hybrid.claims import MALLEABLE, pop_idle
from emulator.mechanisms.hybrid.holds import (
    close,
    collect,
    expect_nothing,
    left,
    on_demand_waits,
    promise,
    take_free,
)
from emulator.mechanisms.hybrid.lenders import enter, leave
from emulator.mechanisms.hybrid.loan_return import ANY, lent_nodes, settle
from emulator.mechanisms.hybrid.loans import Reason
from emulator.mechanisms.hybrid.state import Timed
from emulator.mechanisms.hybrid.strategies import (
    NOBODY,
    make_room,
    pair_key,
    prepare,
    promise_picked,
)
from emulator.mechanisms.move_log import To, note_move

if TYPE_CHECKING:
    from emulator.kernel.tables import State
    from emulator.machine.work import Work
    from emulator.mechanisms.hybrid.claims import Claims
    from emulator.mechanisms.hybrid.state import HybridState


@inner
def open_claim(
    state: State, claims: Claims, hybrid: HybridState, row: int, deadline: int, collects: int
) -> int:
    """A new claim, behind all others, without nodes. There must be a row for it."""
    claim, order, counters = claims.claim, claims.order, claims.counters
    slot: int = order[counters.claims_n]
    counters.claims_n += 1
    new_claim = claim[slot]
    new_claim.job = row
    new_claim.need = state.job[row].nodes
    new_claim.idle = 0
    new_claim.head = -1
    new_claim.deadline_us = deadline
    new_claim.collects = collects
    new_claim.hosts = 0
    new_claim.promises = 0
    new_claim.arrived = 0
    new_claim.leavers = 0
    new_claim.leaving_nodes = 0
    new_claim.serial = hybrid.registers.serials_n
    hybrid.registers.serials_n += 1
    hybrid.job_ext[row].claim = slot
    return slot


@inner
def close_claim(state: State, work: Work, claims: Claims, hybrid: HybridState, slot: int, now: int) -> None:
    """Nothing is held for the on-demand job any more; its lenders get back what they can."""
    free, registers = state.free, state.registers
    given = hybrid.room.found
    row = claims.claim[slot].job
    hybrid.job_ext[row].claim = -1
    end_claim(state, work, claims, slot, now)
    many = min(lent_nodes(hybrid, row), registers.idle_nodes)
    for k in range(many):
        given[k] = free[registers.idle_nodes - 1 - k]
    settle(state, work, claims, hybrid, row, given[:many], Reason.DID_NOT_START, now)


# What jobs give.


@inner
def take_back_promises(claims: Claims, slot: int) -> None:
    """As `unpromise`: whoever is promised may give nodes, and was among those when the claim was promised it."""
    claim, counters, lenders = claims.claim, claims.counters, claims.lenders
    for place in range(counters.lenders_n if claim[slot].promises else 0):
        if lenders.promised_to[place] == slot:
            promise(claims, lenders.job[place], -1)


@inner
def end_claim(state: State, work: Work, claims: Claims, slot: int, now: int) -> None:
    """The claim is over; guests are found by their ends, but for those that write their last checkpoint (`close`)."""
    job, heap, runs, log, registers = state.job, state.heap, state.runs, state.log, state.registers
    claim, held, attr = claims.claim, claims.held, claims.attr
    claim[slot].serial = -1
    take_back_promises(claims, slot)
    for k in range(registers.heap_n if claim[slot].hosts else 0):
        row = heap[k].key
        if attr[row].guest == slot:
            attr[row].guest = -1
            enter(job, work, claims, row, now)
            claim[slot].hosts -= 1
            first = runs[job[row].run_row].first
            for at in range(first, first + job[row].nodes):
                held[log[at]].holder = -1
                set_online(state, log[at], now)
    close(state, claims, slot, now)


@inner
def receive(
    state: State, claims: Claims, hybrid: HybridState, slot: int, row: int, first: int, many: int, now: int
) -> None:
    """What a preempted job left goes to the claim, as much as it wants."""
    held = hold_run(state, claims, slot, first, many, now)
    lend(hybrid, claims.claim[slot].job, row, held, -1)


@inner
def preempt(
    state: State, work: Work, claims: Claims, hybrid: HybridState, slot: int, row: int, now: int
) -> None:
    """A running job goes for the claim: at once, or when a warning is over."""
    job, runs = state.job, state.runs
    claim, attr = claims.claim, claims.attr
    job_ext, hybrid_registers = hybrid.job_ext, hybrid.registers
    promise(claims, row, -1)
    hybrid_registers.preemptions_n += 1
    is_guest = attr[row].guest >= 0
    if is_guest:
        job_ext[row].noted += 1
    malleable = attr[row].job_class == MALLEABLE
    many = job[row].nodes
    if malleable and hybrid_registers.warning_us > 0:
        wanted = claim[slot].need - claim[slot].leaving_nodes
        attr[row].leaving = 1
        leave(claims, row)
        leaves_for(claims, hybrid, row, slot)
        job_ext[row].owes = 0 if is_guest else max(0, min(wanted, many))
        claim[slot].leavers += 1
        claim[slot].leaving_nodes += job_ext[row].owes
        hybrid_registers.warned_node_us += many * hybrid_registers.warning_us
        begin_save(state, work, hybrid, row, now)
        return
    first = runs[job[row].run_row].first
    stop(state, work, claims, hybrid, row, Keeps.ALL if malleable else Keeps.SAVED, now)
    receive(state, claims, hybrid, slot, row, first, many, now)


@inner
def shrink(
    state: State, work: Work, claims: Claims, hybrid: HybridState, slot: int, row: int, fewer: int, now: int
) -> None:
    """A running malleable job gives its last nodes to the claim."""
    job, runs = state.job, state.runs
    hybrid.registers.shrinks_n += 1
    first = runs[job[row].run_row].first
    many = job[row].nodes
    change_last(state, work, hybrid, row, many - fewer, hybrid.room.wide[:0], now)
    hold_run(state, claims, slot, first + many - fewer, fewer, now)
    lend(hybrid, claims.claim[slot].job, row, fewer, job[row].start_us)


# The events.


@inner
def on_notice(state: State, work: Work, claims: Claims, hybrid: HybridState, row: int, now: int) -> None:
    """An on-demand job is announced: nodes are held for it."""
    job, registers = state.job, state.registers
    job_ext, hybrid_registers, query = hybrid.job_ext, hybrid.registers, hybrid.query
    if job_ext[row].claim >= 0 or job[row].state != JobState.FUTURE:
        return
    began = wall_us(hybrid)
    collect(state, claims, now)  # an earlier notice comes first
    at_most = 0 if on_demand_waits(state) else registers.idle_nodes
    chose = wall_us(hybrid)
    promised, stops = prepare(state, work, claims, hybrid, at_most, row, now)
    note_time(hybrid, Timed.CHOICE, chose)
    if query.is_none == 0:
        slot = open_claim(state, claims, hybrid, row, job_ext[row].known, query.collects)
        take_free(state, claims, slot, at_most, now)
        promise_picked(claims, hybrid, slot, row, promised, stops, now)
        push(hybrid.timers, job_ext[row].known + hybrid_registers.release_us, pair_key(row, -1))
        wake(hybrid, now)
    note_time(hybrid, Timed.HANDLING, began)


@inner
def has_started(state: State, work: Work, claims: Claims, hybrid: HybridState, slot: int, now: int) -> bool:
    """Start the claim's job if it is there and has its nodes. False: it needs others than it was to have."""
    claim, held = claims.claim, claims.held
    job_ext, nodes = hybrid.job_ext, hybrid.room.wide
    if claim[slot].arrived == 0 or claim[slot].leavers:
        return True
    if claim[slot].need:
        return False
    row = claim[slot].job
    job_ext[row].claim = -1
    many = claim[slot].idle
    for k in range(many):
        nodes[k] = pop_idle(claims, slot, now)
        held[nodes[k]].holder = -1
    end_claim(state, work, claims, slot, now)
    start_lease(state, work, hybrid, row, nodes[:many], now)
    return True


@inner
def guests_go(state: State, work: Work, claims: Claims, hybrid: HybridState, slot: int, now: int) -> None:
    """Guests of the claim leave, in order of their rows, but those that do already."""
    heap, registers = state.heap, state.registers
    found = hybrid.room.order
    if claims.claim[slot].hosts == 0:
        return
    count = 0
    for k in range(registers.heap_n):  # who leaves already has no end to come
        if claims.attr[heap[k].key].guest == slot:
            found[count] = heap[k].key
            count += 1
    for last in range(count - 1, 0, -1):  # they are few
        for k in range(last):
            if found[k] > found[k + 1]:
                found[k], found[k + 1] = found[k + 1], found[k]
    for k in range(count):
        if claim_of(claims, hybrid, found[k]) != slot:
            preempt(state, work, claims, hybrid, slot, found[k], now)


@inner
def arrive(state: State, work: Work, claims: Claims, hybrid: HybridState, row: int, now: int) -> bool:
    """Start the job, now or when the last of its nodes are free. False: it waits at the head of the queue.

    One that was there already may have all its nodes by now, or need others than it was to have.
    """
    claim = claims.claim
    job_ext, room, hybrid_registers = hybrid.job_ext, hybrid.room, hybrid.registers
    is_new = hybrid_registers.is_new != 0
    while True:
        slot = job_ext[row].claim
        if not is_new and has_started(state, work, claims, hybrid, slot, now):
            return True
        is_new = False
        if slot < 0:
            slot = open_claim(state, claims, hybrid, row, -1, 0)
        claim[slot].arrived = 1
        expect_nothing(claims, slot)
        take_back_promises(claims, slot)
        missing = claim[slot].need - claim[slot].leaving_nodes - state.registers.idle_nodes
        shrinks = 0
        preempts = 0
        chose = wall_us(hybrid)
        if missing > 0:
            hybrid.query.job = row
            shrinks, preempts = make_room(state, work, claims, hybrid, missing, now)
        note_time(hybrid, Timed.CHOICE, chose)
        if hybrid.query.failed:
            return False
        if shrinks == NOBODY:
            close_claim(state, work, claims, hybrid, slot, now)
            enqueue_first(state, claims, row, now)
            hybrid_registers.queued_n += 1
            job_ext[row].noted = 0
            return False
        guests_go(state, work, claims, hybrid, slot, now)
        take_free(state, claims, slot, NEVER, now)
        for k in range(shrinks):
            shrink(state, work, claims, hybrid, slot, room.picked[k], room.fewer[k], now)
        for k in range(shrinks, shrinks + preempts):
            preempt(state, work, claims, hybrid, slot, room.picked[k], now)


@inner
def on_arrival(state: State, work: Work, claims: Claims, hybrid: HybridState, now: int) -> None:
    """The job that is arriving starts, or waits. Events only name it: so this stands in one place, which is large."""
    counters, hybrid_registers = claims.counters, hybrid.registers
    row = hybrid_registers.arriving
    hybrid_registers.arriving = -1
    before = counters.claims_n
    began = wall_us(hybrid)
    has_nodes = arrive(state, work, claims, hybrid, row, now)
    if hybrid_registers.is_new:
        hybrid.job_ext[row].noted = 1 if has_nodes else 0
        note_time(hybrid, Timed.HANDLING, began)
    elif hybrid_registers.next_claim > 0:
        hybrid_registers.next_claim -= before - counters.claims_n


@inner
def on_completion(state: State, work: Work, claims: Claims, hybrid: HybridState, row: int, now: int) -> None:
    """An on-demand job is over: its nodes go to its lenders, the others to the pool."""
    job, node, free, plan, blocks = state.job, state.node, state.free, state.plan, state.blocks
    runs, log, registers = state.runs, state.log, state.registers
    job_ext, given = hybrid.job_ext, hybrid.room.found
    job_ext[row].when_us = -1
    end_job(job, node, free, plan, blocks, runs, log, registers, row, now, RunOutcome.FINISHED)
    left(state, claims, row, now)
    claims.counters.changed = 1
    first = runs[job[row].run_row].first
    note_move(hybrid.moves, now, To.RESERVE, first, job[row].nodes)
    began = wall_us(hybrid)
    many = nodes_of(state, row, given)
    for k in range(many):
        set_online(state, given[k], now)
    note_move(hybrid.moves, now, To.BATCH, first, many)
    why = Reason.ON_DEMAND_WAITS if on_demand_waits(state) else ANY
    settle(state, work, claims, hybrid, row, given[:many], why, now)
    note_time(hybrid, Timed.HANDLING, began)


@inner
def on_checkpoint(state: State, work: Work, claims: Claims, hybrid: HybridState, row: int, now: int) -> None:
    """A malleable job has written down where it is and leaves its nodes."""
    job, runs = state.job, state.runs
    claim = claims.claim
    job_ext = hybrid.job_ext
    first = runs[job[row].run_row].first
    many = job[row].nodes
    job_ext[row].when_us = -1
    stop(state, work, claims, hybrid, row, Keeps.ALL, now)
    slot = claim_of(claims, hybrid, row)
    job_ext[row].claim = -1
    if slot < 0:  # the on-demand job was put back meanwhile
        return
    claim[slot].leavers -= 1
    claim[slot].leaving_nodes -= job_ext[row].owes
    receive(state, claims, hybrid, slot, row, first, many, now)
    arrives(hybrid, claim[slot].job, 0)
