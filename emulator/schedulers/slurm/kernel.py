"""Slurm's twin between decision points, compiled: ends, submits, priorities, passes and backfill cycles in their order.

The rules: `docs/slurm-twin.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled, inner
from emulator.harness.kernel import has_room_inline
from emulator.harness.occupancy import end_job
from emulator.harness.reorder import SHARES, USAGE, count_usage, sort_queue
from emulator.harness.stepping import next_submit, step_to
from emulator.harness.structures import heap_pop, queue_insert, queue_remove_at
from emulator.harness.tables import (
    AT_ENDS,
    AT_PASS,
    AT_UNTIL,
    BATCH,
    FINISHED,
    FREE,
    FRONT,
    FUTURE,
    GOES_ON,
    HEAP_N,
    HELD,
    JOBS_N,
    KILLED,
    NEEDS_ROOM,
    NEVER,
    NEXT_SUBMIT,
    NOW,
    QUEUE_HI,
    QUEUE_LO,
    QUEUED,
    STARTED_N,
    STOP_ON_END,
    STOP_ON_PASS,
)
from emulator.schedulers.slurm.backfill import fill
from emulator.schedulers.slurm.limits import count_job, count_running, is_over_limit
from emulator.schedulers.slurm.node_sharing import count_room
from emulator.schedulers.slurm.nodes import note_change, place_now, start_picked
from emulator.schedulers.slurm.reserved import is_boundary, is_kept_out, may_run, next_boundary
from emulator.schedulers.slurm.tables import (
    AGE_WEIGHT,
    CALC_EVERY,
    DEFER,
    DEPTH,
    ELIGIBLE,
    FAIR_WEIGHT,
    FILL_AT,
    FIRST_HELD,
    FULL_CHANGED,
    HALF_LIFE,
    LAST_FILL,
    LAST_PASS,
    MAX_AGE,
    MIN_AGE,
    NEXT_HELD,
    NODES_MOVED,
    PARTITION,
    PARTITIONS,
    PASS_AT,
    PASS_GAP,
    PER_NODE,
    RELEASE_AT,
    RESERVATION,
    RESUBMITS,
    SCHED_EVERY,
    SECOND,
    SUBMITTED,
    TIER,
    TIER_STEP,
    WHOSE,
)

if TYPE_CHECKING:
    from emulator.harness.tables import Ints, Jobs, State
    from emulator.schedulers.slurm.tables import Twin


@inner
def look_at_usage(state: State, twin: Twin, now: int) -> float:
    """Bring the usage of all users to `now`. Returns all of it, 0 where fair share does not count."""
    _, _, _, _, _, _, _, runs, _, _, _, reg = state
    _, _, _, _, _, _, _, _, _, weights, accounts, open_runs, count, view, _, _ = twin
    total = 0.0
    if weights[FAIR_WEIGHT] > 0.0:
        count_usage(runs, view, accounts, open_runs, count, reg, now, weights[HALF_LIFE])
        for which in range(accounts.shape[0]):
            total += accounts[which, USAGE]
    return total


@inner
def key_of(twin: Twin, who: int, used: float, now: int) -> int:
    """A job's place in the queue: tier, then priority, a whole number. `used`: what all users have used."""
    _, mine, fixed, _, _, _, _, _, _, weights, accounts, _, _, _, _, _ = twin
    value = fixed[who] + weights[AGE_WEIGHT] * min((now - mine[who, ELIGIBLE]) / weights[MAX_AGE], 1.0)
    if weights[FAIR_WEIGHT] > 0.0:
        part = accounts[mine[who, WHOSE], USAGE] / used if used > 0.0 else 0.0
        value += weights[FAIR_WEIGHT] * 0.5 ** (part / accounts[mine[who, WHOSE], SHARES])
    first: int = -mine[who, TIER] * TIER_STEP
    return first - int(value + 1e-6)


@inner
def submit_due(state: State, twin: Twin, now: int) -> int:
    """Queue batch jobs that are submitted now. Returns how many."""
    job, _, _, queue, _, _, _, _, _, _, _, reg = state
    own = twin[0]
    count = 0
    used = 0.0
    while reg[NEXT_SUBMIT] < reg[JOBS_N] and job[reg[NEXT_SUBMIT]].submit_us <= now:
        who = reg[NEXT_SUBMIT]
        reg[NEXT_SUBMIT] += 1
        if job[who].kind != BATCH or job[who].state != FUTURE:
            continue
        if count == 0 and own[CALC_EVERY]:
            used = look_at_usage(state, twin, now)
        job[who].state = QUEUED
        if own[CALC_EVERY]:
            job[who].key = key_of(twin, who, used, now)
        queue_insert(job, queue, reg, who)
        count += 1
    return count


@inner
def release(state: State, twin: Twin, now: int) -> None:
    """Queue jobs that were requeued and have been held back for as long as they must be. That is no event by itself."""
    job, _, _, queue, _, _, _, _, _, _, _, reg = state
    own, mine = twin[0], twin[1]
    used = look_at_usage(state, twin, now) if own[CALC_EVERY] else 0.0
    while own[RELEASE_AT] <= now:
        who = own[FIRST_HELD]
        own[FIRST_HELD] = mine[who, NEXT_HELD]
        own[RELEASE_AT] = NEVER if own[FIRST_HELD] == NEVER else mine[own[FIRST_HELD], ELIGIBLE]
        if job[who].state == HELD:
            job[who].state = QUEUED
            if own[CALC_EVERY]:
                job[who].key = key_of(twin, who, used, now)
            queue_insert(job, queue, reg, who)
    own[FULL_CHANGED] = 1


@inner
def sort_resubmitted(state: State, twin: Twin) -> None:
    """Put jobs with equal keys in order of their submits, which a requeue changes: little is out of order."""
    job, _, _, queue, _, _, _, _, _, _, _, reg = state
    mine = twin[1]
    for k in range(reg[QUEUE_LO] + 1, reg[QUEUE_HI]):
        who = queue[k]
        key = (job[who].key, mine[who, SUBMITTED], who)
        place = k
        while place > reg[QUEUE_LO]:
            other = queue[place - 1]
            if (job[other].key, mine[other, SUBMITTED], other) < key:
                break
            queue[place] = other
            place -= 1
        queue[place] = who


@inner
def look_at_priorities(state: State, twin: Twin, now: int) -> None:
    """Work out the priorities of all waiting jobs anew and put the queue in their order."""
    job, _, _, queue, _, _, _, _, _, _, _, reg = state
    spare = twin[14]
    used = look_at_usage(state, twin, now)
    for place in range(reg[QUEUE_LO], reg[QUEUE_HI]):
        who = int(queue[place])
        if job[who].key != FRONT:
            job[who].key = key_of(twin, who, used, now)
    sort_queue(job, queue, reg, spare)


@inner
def main_pass(state: State, twin: Twin, now: int, depth: int) -> None:
    """Start jobs in queue order; the first of a partition that cannot start keeps its nodes from all who come after.

    One that asks for an advance reservation keeps those from others who ask for it, and is kept from them by nobody.
    """
    job, _, _, queue, _, _, _, _, _, _, _, reg = state
    own, mine, _, parts, _, _, _, masks, tests, _, _, _, _, _, _, _ = twin
    count_running(state, twin)
    if own[PER_NODE] > 1:
        count_room(state, twin)
    reservations = twin[15][2].shape[0]
    marks = tests.shape[0] - own[PARTITIONS] - reservations
    for k in range(marks, tests.shape[0]):
        tests[k] = 0
    for which in range(parts.shape[1]):
        masks[0, which] = 0
    blocked = 0
    tested = 0
    place = reg[QUEUE_LO]
    while place < reg[QUEUE_HI] and reg[FREE] > 0 and blocked < own[PARTITIONS] + reservations:
        who = queue[place]
        partition = mine[who, PARTITION]
        asks = mine[who, RESERVATION] >= 0
        mark = marks + (own[PARTITIONS] + mine[who, RESERVATION] if asks else partition)
        if tests[mark]:
            place += 1
            continue
        if tested == depth:
            return
        tested += 1
        if is_over_limit(job, twin, who) or not may_run(twin, who, now, now + job[who].estimate_us):
            place += 1
            continue
        if place_now(state, twin, who, now):
            place = queue_remove_at(queue, reg, place)
            start_picked(state, twin, who, now)
            count_job(job, twin, who)
            continue
        if now - mine[who, ELIGIBLE] >= own[MIN_AGE] and (asks or not is_kept_out(state, twin, who, now)):
            tests[mark] = 1
            for which in range(0 if asks else parts.shape[1]):
                masks[0, which] |= parts[partition, which]
            blocked += 1
        place += 1


@inner
def note_event(own: Ints, now: int, makes_pass: bool) -> None:
    """Something happened that may let a job start: a pass is due at the next whole second that is late enough."""
    note_change(own, now)
    if makes_pass and own[PASS_AT] == NEVER:
        earliest = max(now, own[LAST_PASS] + own[PASS_GAP])
        own[PASS_AT] = (earliest + SECOND - 1) // SECOND * SECOND


@inner
def goes_on(job: Jobs, reg: Ints, own: Ints) -> bool:
    """Whether jobs run, will be submitted, or are held back."""
    return bool(reg[HEAP_N] or next_submit(job, reg) != NEVER or own[RELEASE_AT] != NEVER)


@compiled
def finish(state: State, twin: Twin, now: int, other_event: bool) -> None:
    """What comes after the ends and decision points of an instant: submits, priorities, a pass, a cycle."""
    _, _, _, _, _, _, _, _, _, _, _, reg = state
    own = twin[0]
    reg[NOW] = now
    reg[STARTED_N] = 0
    if own[FILL_AT] < now:  # nobody waited then
        own[LAST_FILL] = own[FILL_AT]
        own[FILL_AT] = NEVER
    released = own[RELEASE_AT] <= now
    if released:
        release(state, twin, now)
    submitted = submit_due(state, twin, now) > 0
    other_event = other_event or is_boundary(twin, now)
    if (released or own[NODES_MOVED]) and not own[SCHED_EVERY]:  # else it might be the last that ever happens
        other_event = True
    if submitted or other_event or own[NODES_MOVED]:
        note_event(own, now, other_event or (submitted and own[DEFER] == 0))
    own[NODES_MOVED] = 0
    if reg[QUEUE_LO] == reg[QUEUE_HI]:
        own[PASS_AT] = NEVER
        return
    if own[CALC_EVERY] and now > 0 and now % own[CALC_EVERY] == 0:
        look_at_priorities(state, twin, now)
        if goes_on(state[0], reg, own):  # else cycles that start nobody have no end
            note_change(own, now)
    if own[RESUBMITS]:
        sort_resubmitted(state, twin)
    depth = own[DEPTH]
    if own[SCHED_EVERY] and own[FULL_CHANGED] and now > 0 and now % own[SCHED_EVERY] == 0:
        own[FULL_CHANGED] = 0
        own[PASS_AT] = now
        depth = NEVER
    if own[PASS_AT] <= now:
        own[PASS_AT] = NEVER
        own[LAST_PASS] = now
        main_pass(state, twin, now, depth)
    if own[FILL_AT] <= now:
        fill(state, twin, now)


@inner
def next_timer(job: Jobs, reg: Ints, twin: Twin) -> int:
    """When the scheduler next has something to do by itself, NEVER if it has not."""
    own = twin[0]
    held: int = own[RELEASE_AT]
    if reg[QUEUE_LO] == reg[QUEUE_HI]:
        return held
    now = reg[NOW]
    at: int = min(held, own[PASS_AT], own[FILL_AT], next_boundary(twin, now))
    if own[SCHED_EVERY] and own[FULL_CHANGED]:
        at = min(at, (now // own[SCHED_EVERY] + 1) * own[SCHED_EVERY])
    if own[CALC_EVERY] and goes_on(job, reg, own):
        at = min(at, (now // own[CALC_EVERY] + 1) * own[CALC_EVERY])
    return at


@compiled
def next_event(state: State, twin: Twin) -> int:
    """The next end, submit or deed of the scheduler, NEVER if there is none."""
    job, _, _, _, _, _, heap, _, _, _, _, reg = state
    next_end = heap[0].at_us if reg[HEAP_N] else NEVER
    at: int = min(next_end, next_submit(job, reg), next_timer(job, reg, twin))
    return at


@compiled
def advance(state: State, twin: Twin, until: int) -> int:
    """As `harness.kernel.advance`, with the instants at which the scheduler does something by itself."""
    job, node, free, _, plan, blocks, heap, runs, log, _, _, reg = state
    while True:
        if not has_room_inline(state):
            return NEEDS_ROOM
        now = next_event(state, twin)
        code = step_to(reg, now, until)
        if code != GOES_ON:
            return code
        ended = False
        while reg[HEAP_N] and heap[0].at_us == now:
            who = heap_pop(heap, reg)
            outcome = FINISHED if now == job[who].start_us + job[who].run_us else KILLED
            end_job(job, node, free, plan, blocks, runs, log, reg, who, now, outcome)
            ended = True
        if now == until:
            return AT_UNTIL
        if reg[STOP_ON_END] and ended:
            return AT_ENDS
        finish(state, twin, now, ended)
        if reg[STOP_ON_PASS]:
            return AT_PASS
