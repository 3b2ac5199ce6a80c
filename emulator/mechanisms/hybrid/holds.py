"""Nodes that are held for announced on-demand jobs, compiled: who collects freed nodes, and the loop with claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel import passes
from emulator.kernel.compiled import compiled
from emulator.kernel.job_states import RunOutcome
from emulator.kernel.kernel import has_room_inline, submit_due
from emulator.kernel.occupancy import end_job, set_offline, set_online
from emulator.kernel.stepping import next_submit, step_to
from emulator.kernel.structures import heap_pop
from emulator.kernel.tables import BATCH, NEVER, Stop
from emulator.mechanisms.hybrid.backfill_on_held import start_guests
from emulator.mechanisms.hybrid.claims import account, pop_idle, push_idle
from emulator.mechanisms.hybrid.easy import easy_pass
from emulator.mechanisms.hybrid.lenders import leave

if TYPE_CHECKING:
    from emulator.kernel.tables import State
    from emulator.machine.work import Work
    from emulator.mechanisms.hybrid.claims import Claims


@compiled
def hold(state: State, claims: Claims, slot: int, which: int, now: int) -> None:
    """An idle node of the pool goes to the claim."""
    set_offline(state, which)
    claims.claim[slot].need -= 1
    push_idle(claims, slot, which, now)


@compiled
def take_free(state: State, claims: Claims, slot: int, at_most: int, now: int) -> None:
    """Idle nodes of the pool go to the claim: as many as it needs, there are, and are allowed."""
    claim = claims.claim
    free, registers = state.free, state.registers
    while claim[slot].need > 0 and registers.idle_nodes > 0 and at_most > 0:
        hold(state, claims, slot, free[registers.idle_nodes - 1], now)
        at_most -= 1


@compiled
def drop(claims: Claims, slot: int, which: int, now: int) -> None:
    """An idle held node breaks: the claim needs another one."""
    claim, held, counters = claims.claim, claims.held, claims.counters
    if claim[slot].head == which:
        claim[slot].head = held[which].behind
    else:
        before = claim[slot].head
        while held[before].behind != which:
            before = held[before].behind
        held[before].behind = held[which].behind
    held[which].holder = -1
    claim[slot].idle -= 1
    claim[slot].need += 1
    account(counters, now, -1)
    counters.known_held = 0
    counters.sated = 0


@compiled
def on_demand_waits(state: State) -> bool:
    """An on-demand job stands at the head of the queue: free nodes are for it."""
    job, queue, registers = state.job, state.queue, state.registers
    return bool(registers.queue_lo < registers.queue_hi and job[queue[registers.queue_lo]].kind != BATCH)


@compiled
def collect(state: State, claims: Claims, now: int) -> None:
    """Free nodes go to the claims that collect, the earliest notice first."""
    claim, order, counters = claims.claim, claims.order, claims.counters
    registers = state.registers
    if registers.idle_nodes == 0 or counters.sated == counters.claims_n or on_demand_waits(state):
        return
    while counters.sated < counters.claims_n:
        slot = order[counters.sated]
        if claim[slot].collects:
            take_free(state, claims, slot, NEVER, now)
            if registers.idle_nodes == 0:
                return
        counters.sated += 1


@compiled
def left(state: State, claims: Claims, row: int, now: int) -> None:
    """A job has just left the nodes of its last run: a guest's go back to its claim, promised ones to theirs."""
    claim, held, attr = claims.claim, claims.held, claims.attr
    job, node, runs, log = state.job, state.node, state.runs, state.log
    leave(claims, row)
    guest = attr[row].guest
    promised = attr[row].promised
    attr[row].guest = -1
    attr[row].promised = -1
    attr[row].leaving = -1
    if guest < 0 and promised < 0:
        return
    if guest >= 0:
        claim[guest].hosts -= 1
    if promised >= 0:
        claim[promised].promises -= 1
    first = runs[job[row].run_row].first
    for k in range(first, first + job[row].nodes):
        which = log[k]
        if guest >= 0 and held[which].holder == guest:
            push_idle(claims, guest, which, now)
        elif promised >= 0 and claim[promised].need > 0 and node[which].offline == 0:
            hold(state, claims, promised, which, now)


@compiled
def one_pass(state: State, claims: Claims, now: int) -> None:
    """What the scheduler starts from the queue on nodes of the pool."""
    if claims.counters.easy:
        easy_pass(state, claims, now)
    else:
        passes.schedule_pass(state, now)


@compiled
def schedule_pass(state: State, work: Work, claims: Claims, now: int) -> None:
    """Collecting, one pass, guests."""
    collect(state, claims, now)
    one_pass(state, claims, now)
    start_guests(state, work, claims, now)


@compiled
def finish_instant(state: State, work: Work, claims: Claims, now: int) -> None:
    """What comes after the decision points of an instant: submits, collecting, one pass, guests."""
    job, queue, registers = state.job, state.queue, state.registers
    registers.now = now
    submit_due(job, queue, registers, now, NEVER)
    schedule_pass(state, work, claims, now)


@compiled
def advance(state: State, work: Work, claims: Claims, until: int) -> int:
    """As `kernel.advance`, with claims: freed nodes are collected before the pass, guests start after it."""
    job, node, free, queue, plan = state.job, state.node, state.free, state.queue, state.plan
    blocks, heap, runs, log, registers = state.blocks, state.heap, state.runs, state.log, state.registers
    while True:
        if not has_room_inline(state):
            return Stop.NEEDS_ROOM
        next_end = heap[0].at_us if registers.heap_n else NEVER
        now = min(next_end, next_submit(job, registers))
        code = step_to(registers, now, until)
        if code != Stop.GOES_ON:
            return code
        while registers.heap_n and heap[0].at_us == now:
            row = heap_pop(heap, registers)
            end_job(job, node, free, plan, blocks, runs, log, registers, row, now, RunOutcome.FINISHED)
            left(state, claims, row, now)
        collect(state, claims, now)
        if now == until:
            return Stop.AT_UNTIL
        if registers.stop_on_end and next_end == now:
            return Stop.AT_ENDS
        submit_due(job, queue, registers, now, NEVER)
        one_pass(state, claims, now)
        start_guests(state, work, claims, now)


@compiled
def go_on(state: State, work: Work, claims: Claims, at: int, closes: int) -> int:
    """Until `at` (`advance`), or what comes last then (`finish_instant`): half of the program of a whole run."""
    if closes:
        finish_instant(state, work, claims, at)
        return Stop.AT_UNTIL
    return advance(state, work, claims, at)


@compiled
def close(state: State, claims: Claims, slot: int, now: int) -> None:
    """The claim is over: its idle nodes go back to the pool at once, those of guests when these end."""
    claim, order, held, attr, counters = claims.claim, claims.order, claims.held, claims.attr, claims.counters
    node = state.node
    while claim[slot].idle > 0:
        which = pop_idle(claims, slot, now)
        held[which].holder = -1
        set_online(state, which, now)
    for which in range(node.shape[0] if claim[slot].hosts else 0):
        if held[which].holder == slot:
            held[which].holder = -1
            attr[node[which].job].guest = -1
            set_online(state, which, now)
    claim[slot].hosts = 0
    place = 0
    while order[place] != slot:
        place += 1
    counters.sated -= place < counters.sated
    counters.claims_n -= 1
    for k in range(place, counters.claims_n):
        order[k] = order[k + 1]
    order[counters.claims_n] = slot


@compiled
def expect_nothing(claims: Claims, slot: int) -> None:
    """The on-demand job is there: the claim takes only what it is given, and has no new guests."""
    claim, counters = claims.claim, claims.counters
    claim[slot].collects = 0
    claim[slot].deadline_us = -1
    counters.known_held = 0


@compiled
def promise(claims: Claims, row: int, slot: int) -> None:
    """The claim gets the running job's nodes when it ends; -1: nobody."""
    claim, attr = claims.claim, claims.attr
    if attr[row].place >= 0:
        claims.lenders.promised_to[attr[row].place] = slot
    before = attr[row].promised
    if before >= 0:
        claim[before].promises -= 1
    if slot >= 0:
        claim[slot].promises += 1
    attr[row].promised = slot
