"""The loop of a whole run, compiled: the cluster's instants and the Balancer's decision points in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import emulator.mechanisms.balancer.tables as b
from emulator.harness.compiled import compiled, inner
from emulator.harness.kernel import advance, finish_instant, has_room_inline
from emulator.harness.occupancy import end_job, start_on
from emulator.harness.points import Point
from emulator.harness.structures import heap_pop, heap_push
from emulator.harness.tables import (
    AT_ENDS,
    AT_UNTIL,
    ENDED_N,
    FINISHED,
    GOES_ON,
    HEAP_N,
    NEEDS_ROOM,
    NEVER,
    NOW,
    ORDER_FAILED,
    REJECTED,
    RUNS_N,
    STOP_ON_END,
)
from emulator.mechanisms.balancer.compiled_returns import look, release, report, request, settle

if TYPE_CHECKING:
    from emulator.harness.tables import State
    from emulator.mechanisms.balancer.tables import More

ORDER_RAISED = 100
"""Why `run` came back, beside what `kernel.advance` says."""
BETWEEN, AT_POINTS, AT_JOB_ENDS = range(3)
"""What an instant was stopped for (PHASE): nothing yet, decision points, or job ends alone."""
NO_DEED, LOOK, REQUEST, RELEASE, ANNOUNCE, CARRY_OUT, RESERVE_AHEAD, FIRE = range(8)
"""What a handler does next (NEXT_DEED): a look at the batch pool first, and then what it is there for (AFTER_LOOK)."""
NOTHING, ANSWERS, EVENT, TIMER_EVENT = range(4)
"""What follows a step: nothing; what is due is done (`_carry_out`); that after an event is settled, or the timer's."""
POINT_SHIFT = 40
"""A point's key: what it is, then the job plus 1; in order at one time."""
BY_TIMER, BY_COMPLETION = int(Point.TIMER) << POINT_SHIFT, int(Point.COMPLETION) << POINT_SHIFT
BY_ARRIVAL, BY_NOTICE = int(Point.ARRIVAL), int(Point.NOTICE)


@inner
def has_room(state: State, more: More) -> bool:
    """Whether all tables have rows for the next event and its answers."""
    nodes, reg = state[1].shape[0], more[10]
    return bool(
        has_room_inline(state)
        and more[3].shape[0] - reg[b.HINTS_N] > 0
        and more[7].shape[0] - reg[b.MOVES_N] > nodes + 2
        and more[8].shape[0] - reg[b.MOVED_N] > 2 * nodes
    )


@inner
def next_point(more: More) -> tuple[int, int]:
    """Time and key of the next decision point; NEVER if there is none."""
    points, agenda, reg = more[5], more[6], more[10]
    at = reg[b.WAKE]
    key = BY_TIMER
    if reg[HEAP_N] and agenda[0].at_us < at:
        at = agenda[0].at_us
        key = BY_COMPLETION + agenda[0].key + 1
    if reg[b.NEXT_POINT] < points.shape[0]:
        one = points[reg[b.NEXT_POINT]]
        if one.at_us < at or (one.at_us == at and one.key < key):
            return one.at_us, one.key
    return at, key


@inner
def wake(more: More, now: int) -> None:
    """The Balancer is woken when the first of what it waits for is due; if it waits for nothing, as it was before."""
    leases, slots, reg = more[2], more[4], more[10]
    at = min(reg[b.PLAN_WAKE], reg[b.HINTS_END])
    if reg[b.WAIT_US] and reg[b.FIRST_WAITING] >= 0:
        at = min(at, leases[reg[b.FIRST_WAITING], b.END_US])
    if reg[b.NEXT_SLOT] < slots.shape[0]:
        at = min(at, slots[reg[b.NEXT_SLOT], b.SLOT_US])
    if at != NEVER:
        reg[b.WAKE] = max(at, now)


@inner
def start(state: State, more: More, lease: int, who: int, now: int) -> None:
    """A lease begins on the nodes that were held for it."""
    own, chosen, leases, reg = more[0], more[1][b.ROOM], more[2], more[10]
    count = 0
    which = leases[lease, b.FIRST_HELD]
    while which >= 0:
        chosen[count] = which
        b.note_node(more, which)
        count += 1
        which = own[which, b.LINK]
    start_on(state, who, chosen[:count], now)
    b.note_move(more, now, b.TO_ALLOC, count)
    heap_push(more[6], reg, now + state[0][who].run_us, who)
    reg[b.OWN_N] += 1
    reg[b.GRANTED_N] += 1


@inner
def give_answers(state: State, more: More, now: int) -> None:
    """What leases are answered is done to them, in order (`BalancerMechanism._carry_out`)."""
    job, leases, answers, reg = state[0], more[2], more[9], more[10]
    while reg[b.ANSWERED_N] < reg[b.ANSWERS_N]:
        one = answers[reg[b.ANSWERED_N]]
        who = leases[one[b.LEASE], b.JOB_ROW]
        if one[b.ANSWER] == b.GRANTED:
            start(state, more, one[b.LEASE], who, now)
        else:
            job[who].state = REJECTED
            job[who].end_us = now
            reg[b.REJECTED_N] += 1
        reg[b.ANSWERED_N] += 1
    wake(more, now)


@inner
def begin_point(state: State, more: More, key: int, now: int) -> None:
    """The next decision point, which is due: what is to be done in it."""
    job, node, free, _, plan, blocks, _, runs, log, _, _, reg = state
    mine = more[10]
    mine[b.DEED_JOB] = (key & ((1 << POINT_SHIFT) - 1)) - 1
    mine[b.NEXT_DEED] = LOOK
    if key == BY_TIMER:
        mine[b.WAKE] = NEVER
        mine[b.AFTER_LOOK] = CARRY_OUT
    elif key >> POINT_SHIFT == BY_ARRIVAL:
        mine[b.NEXT_POINT] += 1
        mine[b.AFTER_LOOK] = REQUEST
    elif key >> POINT_SHIFT == BY_NOTICE:
        mine[b.NEXT_POINT] += 1
        mine[b.AFTER_LOOK] = ANNOUNCE
    else:
        who = heap_pop(more[6], mine)
        end_job(job, node, free, plan, blocks, runs, log, reg, who, now, FINISHED)
        first = runs[job[who].run_row].first
        for k in range(first, first + job[who].nodes):
            b.note_node(more, log[k])
        b.note_move(more, now, b.TO_RESERVE, job[who].nodes)
        mine[b.OWN_N] += 1
        mine[b.AFTER_LOOK] = RELEASE


@inner
def look_around(state: State, more: More) -> int:
    """A look at the batch pool, if anything has happened there since the latest."""
    reg, mine = state[11], more[10]
    changes = reg[RUNS_N] + reg[ENDED_N] + mine[b.RETURNS_N] - mine[b.OWN_N]
    if changes == mine[b.SEEN_N]:
        return NOTHING
    mine[b.SEEN_N] = changes
    return EVENT if look(state, more) else NOTHING


@inner
def do_next(state: State, more: More, now: int) -> int:
    """The next step of a handler of `BalancerMechanism`; what follows it."""
    job, runs = state[0], state[7]
    slots, mine = more[4], more[10]
    deed = mine[b.NEXT_DEED]
    who = mine[b.DEED_JOB]
    mine[b.NEXT_DEED] = NO_DEED
    if deed == LOOK:
        mine[b.NEXT_DEED] = mine[b.AFTER_LOOK]
        return look_around(state, more)
    if deed == CARRY_OUT:
        mine[b.NEXT_DEED] = RESERVE_AHEAD
        return ANSWERS
    if deed == RESERVE_AHEAD:
        mine[b.NEXT_DEED] = FIRE
        if mine[b.NEXT_SLOT] == slots.shape[0] or slots[mine[b.NEXT_SLOT], b.SLOT_US] > now:
            return ANSWERS
        slot = slots[mine[b.NEXT_SLOT]]
        mine[b.NEXT_SLOT] += 1
        if slot[b.SLOT_NODES] == 0:
            return ANSWERS
        b.add_hint(more, now, now + slot[b.KEEP_US], slot[b.SLOT_NODES])
    elif deed == REQUEST:
        request(more, who, job[who].nodes, now)
    elif deed == RELEASE:
        release(state, more, runs[job[who].run_row].first, job[who].nodes, now)
    elif deed == ANNOUNCE:
        by = max(job[who].submit_us, now)
        b.add_hint(more, by, by + mine[b.HOLD_US], job[who].nodes)
    else:
        return TIMER_EVENT
    return EVENT


@inner
def go_on(state: State, more: More) -> int:
    """The rest of an instant, or the way to the next one at which somebody has to decide: GOES_ON, or why not."""
    reg, mine = state[11], more[10]
    at, key = next_point(more)
    if mine[b.PHASE] == AT_POINTS and at == reg[NOW]:
        begin_point(state, more, key, at)
        return GOES_ON
    if mine[b.PHASE] != BETWEEN:
        mine[b.PHASE] = BETWEEN
        finish_instant(state, reg[NOW])
        return ORDER_RAISED if reg[ORDER_FAILED] else GOES_ON
    reg[STOP_ON_END] = mine[b.UNMET] > 0
    ended = reg[ENDED_N]
    code = advance(state, at)
    if reg[ORDER_FAILED]:
        return ORDER_RAISED
    if code == AT_ENDS:
        mine[b.PHASE] = AT_JOB_ENDS
    elif code == AT_UNTIL and at != NEVER:
        mine[b.PHASE] = AT_POINTS
    else:
        return int(code)
    if reg[STOP_ON_END] and reg[ENDED_N] > ended:
        mine[b.NEXT_DEED] = LOOK
        mine[b.AFTER_LOOK] = NO_DEED
    return GOES_ON


@compiled
def run(state: State, more: More) -> int:
    """Go on to the end (AT_UNTIL), to a pause, or until a table has to grow (NEEDS_ROOM)."""
    reg, mine = state[11], more[10]
    while True:
        if not has_room(state, more):
            return NEEDS_ROOM
        if mine[b.COMMANDED]:
            report(more, reg[NOW])
            follows = EVENT
        elif mine[b.NEXT_DEED]:
            follows = do_next(state, more, reg[NOW])
        else:
            code = go_on(state, more)
            if code != GOES_ON:
                return code
            continue
        if follows >= EVENT:
            settle(state, more, follows == TIMER_EVENT, reg[NOW])
        if follows != NOTHING and mine[b.COMMANDED] == 0:
            give_answers(state, more, reg[NOW])
