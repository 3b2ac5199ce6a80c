"""The loop of a whole run, compiled: the cluster's instants and the Balancer's decision points in their order."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import emulator.mechanisms.balancer.tables as b
from emulator.kernel.compiled import compiled, inner
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.kernel.kernel import advance, finish_instant, has_room_inline
from emulator.kernel.occupancy import end_job, start_on
from emulator.kernel.tables import ENDED_N, NEVER, NOW, ORDER_FAILED, RUNS_N, STOP_ON_END, Stop
from emulator.machine.points import Point
from emulator.mechanisms.agenda import job_of, point_key, point_of, pop, push, sooner_of
from emulator.mechanisms.balancer.compiled_returns import look, release, report, request, settle
from emulator.mechanisms.balancer.tables import Answer, Phase, Step
from emulator.mechanisms.move_log import To, has_room_for, note_move_of_noted, note_node

if TYPE_CHECKING:
    from emulator.kernel.tables import State
    from emulator.mechanisms.balancer.tables import BalancerState

ORDER_RAISED = 100
"""Why `run` came back, beside what `kernel.advance` says."""


class Follows(IntEnum):
    """What follows a step."""

    NOTHING = 0
    ANSWERS = 1
    """What is due is done (`_carry_out`)."""
    EVENT = 2
    """That, after an event is settled, or the timer's."""
    TIMER_EVENT = 3


@inner
def has_room(state: State, balancer: BalancerState) -> bool:
    """Whether all tables have rows for the next event and its answers."""
    nodes, registers = state.node.shape[0], balancer.registers
    return bool(
        has_room_inline(state)
        and balancer.hints.shape[0] - registers.hints_n > 0
        and has_room_for(balancer.moves, nodes + 2, 2 * nodes)
    )


@inner
def next_point(balancer: BalancerState) -> tuple[int, int]:
    """Time and key of the next decision point; NEVER if there is none."""
    agenda, registers = balancer.agenda, balancer.registers
    at = registers.wake_us
    key = point_key(Point.TIMER, -1)
    if agenda.size.entries and agenda.heap[0].at_us < at:
        at = agenda.heap[0].at_us
        key = agenda.heap[0].key
    return sooner_of(balancer.points, registers.next_point, at, key)


@inner
def wake(balancer: BalancerState, now: int) -> None:
    """The Balancer is woken when the first of what it waits for is due; if it waits for nothing, as it was before."""
    leases, slots, registers = balancer.leases, balancer.slots, balancer.registers
    at = min(registers.plan_wake_us, registers.hints_end_us)
    if registers.wait_us and registers.first_waiting >= 0:
        at = min(at, leases[registers.first_waiting].end_us)
    if registers.next_slot < slots.shape[0]:
        at = min(at, slots[registers.next_slot].begins_us)
    if at != NEVER:
        registers.wake_us = max(at, now)


@inner
def start(state: State, balancer: BalancerState, lease: int, who: int, now: int) -> None:
    """A lease begins on the nodes that were held for it."""
    own, chosen, leases, registers = balancer.nodes, balancer.chosen, balancer.leases, balancer.registers
    count = 0
    which = leases[lease].first_held
    while which >= 0:
        chosen[count] = which
        note_node(balancer.moves, which)
        count += 1
        which = own[which].link
    start_on(state, who, chosen[:count], now)
    note_move_of_noted(balancer.moves, now, To.ALLOC, count)
    push(balancer.agenda, now + state.job[who].run_us, point_key(Point.COMPLETION, who))
    registers.own_n += 1
    registers.granted_n += 1


@inner
def give_answers(state: State, balancer: BalancerState, now: int) -> None:
    """What leases are answered is done to them, in order (`BalancerMechanism._carry_out`)."""
    job, leases, answers, registers = state.job, balancer.leases, balancer.answers, balancer.registers
    while registers.answered_n < registers.answers_n:
        one = answers[registers.answered_n]
        who = leases[one.lease].job
        if one.answer == Answer.GRANTED:
            start(state, balancer, one.lease, who, now)
        else:
            job[who].state = JobState.REJECTED
            job[who].end_us = now
            registers.rejected_n += 1
        registers.answered_n += 1
    wake(balancer, now)


@inner
def begin_point(state: State, balancer: BalancerState, key: int, now: int) -> None:
    """The next decision point, which is due: what is to be done in it."""
    job, node, free, plan, blocks = state.job, state.node, state.free, state.plan, state.blocks
    runs, log, reg = state.runs, state.log, state.reg
    registers = balancer.registers
    point = point_of(key)
    who = job_of(key)
    registers.step_job = who
    registers.next_step = Step.LOOK
    if point == Point.TIMER:
        registers.wake_us = NEVER
        registers.after_look = Step.CARRY_OUT
    elif point == Point.ARRIVAL:
        registers.next_point += 1
        registers.after_look = Step.REQUEST
    elif point == Point.NOTICE:
        registers.next_point += 1
        registers.after_look = Step.ANNOUNCE
    else:
        pop(balancer.agenda)
        end_job(job, node, free, plan, blocks, runs, log, reg, who, now, RunOutcome.FINISHED)
        first = runs[job[who].run_row].first
        for k in range(first, first + job[who].nodes):
            note_node(balancer.moves, log[k])
        note_move_of_noted(balancer.moves, now, To.RESERVE, job[who].nodes)
        registers.own_n += 1
        registers.after_look = Step.RELEASE


@inner
def look_around(state: State, balancer: BalancerState) -> int:
    """A look at the batch pool, if anything has happened there since the latest."""
    reg, registers = state.reg, balancer.registers
    changes = reg[RUNS_N] + reg[ENDED_N] + registers.returns_n - registers.own_n
    if changes == registers.seen_n:
        return Follows.NOTHING
    registers.seen_n = changes
    return Follows.EVENT if look(state, balancer) else Follows.NOTHING


@inner
def do_next(state: State, balancer: BalancerState, now: int) -> int:
    """The next step of a handler of `BalancerMechanism`; what follows it."""
    job, runs = state.job, state.runs
    slots, registers = balancer.slots, balancer.registers
    step = registers.next_step
    who = registers.step_job
    registers.next_step = Step.NONE
    if step == Step.LOOK:
        registers.next_step = registers.after_look
        return look_around(state, balancer)
    if step == Step.CARRY_OUT:
        registers.next_step = Step.RESERVE_AHEAD
        return Follows.ANSWERS
    if step == Step.RESERVE_AHEAD:
        registers.next_step = Step.FIRE
        if registers.next_slot == slots.shape[0] or slots[registers.next_slot].begins_us > now:
            return Follows.ANSWERS
        slot = slots[registers.next_slot]
        registers.next_slot += 1
        if slot.nodes == 0:
            return Follows.ANSWERS
        b.add_hint(balancer, now, now + slot.keep_us, slot.nodes)
    elif step == Step.REQUEST:
        request(balancer, who, job[who].nodes, now)
    elif step == Step.RELEASE:
        release(state, balancer, runs[job[who].run_row].first, job[who].nodes, now)
    elif step == Step.ANNOUNCE:
        by = max(job[who].submit_us, now)
        b.add_hint(balancer, by, by + registers.hold_us, job[who].nodes)
    else:
        return Follows.TIMER_EVENT
    return Follows.EVENT


@inner
def go_on(state: State, balancer: BalancerState) -> int:
    """The rest of an instant, or the way to the next one at which somebody has to decide: GOES_ON, or why not."""
    reg, registers = state.reg, balancer.registers
    at, key = next_point(balancer)
    if registers.phase == Phase.AT_POINTS and at == reg[NOW]:
        begin_point(state, balancer, key, at)
        return Stop.GOES_ON
    if registers.phase != Phase.BETWEEN:
        registers.phase = Phase.BETWEEN
        finish_instant(state, reg[NOW])
        return ORDER_RAISED if reg[ORDER_FAILED] else Stop.GOES_ON
    reg[STOP_ON_END] = registers.unmet > 0
    ended = reg[ENDED_N]
    code = advance(state, at)
    if reg[ORDER_FAILED]:
        return ORDER_RAISED
    if code == Stop.AT_ENDS:
        registers.phase = Phase.AT_JOB_ENDS
    elif code == Stop.AT_UNTIL and at != NEVER:
        registers.phase = Phase.AT_POINTS
    else:
        found: int = code
        return found
    if reg[STOP_ON_END] and reg[ENDED_N] > ended:
        registers.next_step = Step.LOOK
        registers.after_look = Step.NONE
    return Stop.GOES_ON


@compiled
def run(state: State, balancer: BalancerState) -> int:
    """Go on to the end (AT_UNTIL), to a pause, or until a table has to grow (NEEDS_ROOM)."""
    reg, registers = state.reg, balancer.registers
    while True:
        if not has_room(state, balancer):
            return Stop.NEEDS_ROOM
        if registers.commanded:
            report(balancer, reg[NOW])
            follows: int = Follows.EVENT
        elif registers.next_step:
            follows = do_next(state, balancer, reg[NOW])
        else:
            code = go_on(state, balancer)
            if code != Stop.GOES_ON:
                return code
            continue
        if follows >= Follows.EVENT:
            settle(state, balancer, follows == Follows.TIMER_EVENT, reg[NOW])
        if follows != Follows.NOTHING and registers.commanded == 0:
            give_answers(state, balancer, reg[NOW])
