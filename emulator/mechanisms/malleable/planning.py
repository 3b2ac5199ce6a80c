"""One scheduling pass of the planner, compiled: who starts now. The rules: `docs/mechanisms/malleable.md`.

Jobs behind one another in the queue are placed in the profile; those whose place is now are put into `started`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled, inlined
from emulator.harness.profile import earliest_start
from emulator.mechanisms.malleable.profile import (
    earliest_completion,
    length_us,
    reserve,
    widest_from,
)
from emulator.mechanisms.malleable.tables import (
    AT_MINIMUM,
    CHANGED,
    CLASS,
    DONE,
    ESTIMATE,
    EXPECTED,
    FLOOR,
    GUESSED,
    KEPT,
    LEAST,
    LOOSE,
    MALLEABLE,
    MALLEABLE_N,
    MAX,
    MIN,
    MINIMUM,
    NEVER,
    NODES,
    OVERHEAD,
    PLANNED,
    POOL,
    QUEUE_N,
    QUEUED,
    RIGID,
    RUNNING,
    RUNNING_N,
    SHARED,
    SINCE,
    SPEED,
    STARTED_N,
    STATE,
    STEPS,
    TARGET,
    TICK,
    WAITING_FIRST,
    WIDTH,
)

if TYPE_CHECKING:
    from emulator.mechanisms.malleable.tables import Ints, State


@inlined
def done_at(job: Ints, speed: Ints, who: int, now: int) -> int:
    """Work that a running job has done."""
    computing = now - job[who, SINCE] - job[who, OVERHEAD]
    done: int = job[who, DONE]
    done += max(computing, 0) * speed[job[who, SPEED], job[who, WIDTH]]
    return done


@inlined
def expected_end(job: Ints, speed: Ints, who: int, now: int, tick: int) -> int:
    """When a malleable job that runs ends by its estimate if it gets no more than its minimum (section 5)."""
    left = max(job[who, GUESSED] - done_at(job, speed, who, now), 1)
    standing = max(job[who, SINCE] + job[who, OVERHEAD] - now, 0)
    length: int = length_us(left, speed[job[who, SPEED], job[who, FLOOR]], tick)
    end: int = now + standing + length
    return end


@compiled
def make_profile(state: State, now: int) -> None:
    """What is vacant, now and at the expected ends of the running jobs, of which only the minima count."""
    job, speed, _, by_end, _, started, at, level, free, _, _, _, reg = state
    count = reg[RUNNING_N] + reg[STARTED_N]  # those that joined before the plan (`pool_waiting_first`)
    vacant = free.shape[0]
    for k in range(count):
        if k >= reg[RUNNING_N]:
            by_end[k] = started[k - reg[RUNNING_N]]
        vacant -= job[by_end[k], FLOOR]
    for k in range(count):
        who = by_end[k]
        if job[who, CLASS] == MALLEABLE:
            job[who, EXPECTED] = expected_end(job, speed, who, now, reg[TICK])
        end = job[who, EXPECTED]
        place = k  # the list was in order at the last pass, and few ends have moved since
        while place > 0 and job[by_end[place - 1], EXPECTED] > end:
            by_end[place] = by_end[place - 1]
            place -= 1
        by_end[place] = who
    at[0] = now
    level[0] = vacant
    steps = 1
    for k in range(count):
        end = max(job[by_end[k], EXPECTED], now + 1)  # past its estimate: soon, but not yet
        if end != at[steps - 1]:
            at[steps] = end
            level[steps] = level[steps - 1]
            steps += 1
        level[steps - 1] += job[by_end[k], FLOOR]
    reg[STEPS] = steps
    reg[PLANNED] = 0


@compiled
def may_start_now(state: State, who: int) -> bool:
    """Whether there is room for the job from now on: it may still do better later."""
    job, speed, _, _, _, _, at, level, _, _, _, _, reg = state
    if job[who, CLASS] == RIGID:
        step = 0
        while step < reg[STEPS] and (step == 0 or at[step] - at[0] < job[who, ESTIMATE]):
            if level[step] < job[who, NODES]:
                return False
            step += 1
        return True
    if level[0] < job[who, MIN]:
        return False
    speeds = speed[job[who, SPEED]]
    width, _ = widest_from(
        at,
        level,
        reg[STEPS],
        0,
        speeds,
        job[who, GUESSED],
        job[who, MIN],
        most_nodes(job, reg, who),
        reg[TICK],
    )
    return bool(width > 0)


@inlined
def most_nodes(job: Ints, reg: Ints, who: int) -> int:
    """The widest that a flexible job is placed."""
    at_minimum = reg[AT_MINIMUM] and job[who, CLASS] == MALLEABLE
    most: int = job[who, MIN] if at_minimum else job[who, MAX]
    return most


@compiled
def place(state: State, who: int) -> tuple[int, int, int]:
    """(step, width, end) of a waiting job; step -1 if it fits nowhere."""
    job, speed, _, _, _, _, at, level, _, _, _, _, reg = state
    steps = reg[STEPS]
    if job[who, CLASS] == RIGID:
        first = earliest_start(at, level, steps, job[who, NODES], job[who, ESTIMATE])
        if first >= steps:
            return -1, 0, NEVER
        return first, job[who, NODES], at[first] + job[who, ESTIMATE]
    most = most_nodes(job, reg, who)
    speeds = speed[job[who, SPEED]]
    return earliest_completion(at, level, steps, speeds, job[who, GUESSED], job[who, MIN], most, reg[TICK])


@compiled
def begin(state: State, who: int, floor: int, end: int) -> None:
    """The job starts in this pass; what width it gets beyond its minimum is decided when all have been chosen."""
    job, _, _, _, _, started, _, _, _, _, _, _, reg = state
    started[reg[STARTED_N]] = who
    reg[STARTED_N] += 1
    reg[CHANGED] = 1
    job[who, STATE] = RUNNING
    job[who, FLOOR] = floor
    job[who, TARGET] = floor
    job[who, EXPECTED] = end
    if job[who, CLASS] == MALLEABLE:
        reg[MALLEABLE_N] += 1


@compiled
def plan(state: State, now: int) -> None:
    """Place the waiting jobs in queue order and choose those whose place is now.

    The plan is made from scratch, unless nothing has happened since the last one but submits behind the jobs in it, and
    no malleable job runs, whose expected end moves: then it would come out the same, and is gone on with.
    """
    job, speed, _, _, queue, _, at, level, _, _, _, _, reg = state
    waiting = reg[QUEUE_N]
    if reg[KEPT] and (reg[STEPS] == 1 or at[1] > now):
        at[0] = now
    else:
        make_profile(state, now)
    k = reg[PLANNED]
    candidate = k
    while True:
        # What is not vacant now will not be when more jobs are placed: a job without room stays without.
        candidate = max(candidate, k)
        while candidate < waiting and not may_start_now(state, queue[candidate]):
            candidate += 1
        if candidate == waiting:
            break  # nobody further back can start now, and what is planned for them does not matter
        who = queue[k]
        k += 1
        first, width, end = place(state, who)
        if first < 0:
            continue
        if first == 0:
            if job[who, CLASS] == MALLEABLE and (reg[MINIMUM] == LEAST or reg[MINIMUM] >= POOL):
                width = job[who, MIN]
                end = now + length_us(job[who, GUESSED], speed[job[who, SPEED], width], reg[TICK])
            begin(state, who, width, end)
        reg[STEPS] = reserve(at, level, reg[STEPS], first, end, width)
    reg[PLANNED] = k
    reg[KEPT] = reg[MALLEABLE_N] == 0


@inlined
def held_by(state: State) -> int:
    """Nodes that the malleable jobs that run, or have been chosen, keep."""
    job, _, running, _, _, started, _, _, _, _, _, _, reg = state
    held = 0
    for k in range(reg[RUNNING_N] + reg[STARTED_N]):
        who = running[k] if k < reg[RUNNING_N] else started[k - reg[RUNNING_N]]
        if job[who, CLASS] == MALLEABLE:
            held += job[who, FLOOR]
    return held


@compiled
def divide(state: State, held: int) -> None:
    """Let the malleable jobs keep so many nodes, evenly, in order of start; none more than it may have."""
    job, _, running, _, _, started, _, _, _, _, _, _, reg = state
    count = reg[RUNNING_N]
    among = count + reg[STARTED_N]
    even = held // reg[MALLEABLE_N]
    rest = held % reg[MALLEABLE_N]
    over = 0
    for k in range(among):
        who = running[k] if k < count else started[k - count]
        if job[who, CLASS] == MALLEABLE:
            share = even + 1 if rest > 0 else even
            rest -= 1
            job[who, FLOOR] = min(share, job[who, MAX]) if reg[MINIMUM] >= POOL else share
            over += share - job[who, FLOOR]
    while over > 0:
        before = over
        least = NEVER
        for k in range(among):
            who = running[k] if k < count else started[k - count]
            if job[who, CLASS] == MALLEABLE and job[who, FLOOR] < job[who, MAX]:
                least = min(least, job[who, FLOOR])
        for k in range(among):
            who = running[k] if k < count else started[k - count]
            has_least = job[who, CLASS] == MALLEABLE and job[who, FLOOR] == least
            if over > 0 and has_least and job[who, FLOOR] < job[who, MAX]:
                job[who, FLOOR] += 1
                over -= 1
        if over == before:
            break  # all have what they may have
    for k in range(reg[STARTED_N]):
        if job[started[k], CLASS] == MALLEABLE:
            job[started[k], TARGET] = job[started[k], FLOOR]


@compiled
def join(state: State, held: int) -> None:
    """Malleable jobs that wait start beside those that run and share what these keep (`shared` and the pools)."""
    job, _, _, _, queue, _, _, _, _, _, _, _, reg = state
    joined = 0
    for k in range(reg[QUEUE_N]):
        who = queue[k]
        if reg[MALLEABLE_N] >= held:
            break
        if job[who, STATE] == QUEUED and job[who, CLASS] == MALLEABLE:
            begin(state, who, 1, NEVER)
            joined += 1
    if joined > 0:
        reg[KEPT] = 0
        divide(state, held)


@compiled
def hand_on(state: State) -> None:
    """What ended malleable jobs kept goes to the others; waiting ones join before the plan (`pool_waiting_first`)."""
    reg = state[12]
    held = held_by(state) + reg[LOOSE]
    loose = reg[LOOSE]
    reg[LOOSE] = 0
    if reg[MINIMUM] == WAITING_FIRST:
        join(state, held)
    if loose > 0 and reg[MALLEABLE_N] > 0:
        divide(state, held)


@compiled
def leave_queue(state: State) -> None:
    """Those that have been chosen are in the queue no more."""
    job, _, _, _, queue, _, _, _, _, _, _, _, reg = state
    left = 0
    planned = 0
    for k in range(reg[QUEUE_N]):
        who = queue[k]
        if job[who, STATE] == QUEUED:
            queue[left] = who
            left += 1
            if k < reg[PLANNED]:
                planned += 1
    reg[QUEUE_N] = left
    reg[PLANNED] = planned


@compiled
def choose(state: State, now: int) -> None:
    """Who starts now: `started[:reg[STARTED_N]]`, in order. They leave the queue."""
    reg = state[12]
    reg[STARTED_N] = 0
    if reg[MINIMUM] >= POOL:
        hand_on(state)
        if reg[STARTED_N] > 0:
            leave_queue(state)
    if reg[QUEUE_N] == 0:
        return
    plan(state, now)
    if (reg[MINIMUM] == SHARED or reg[MINIMUM] == POOL) and reg[MALLEABLE_N] > 0:
        join(state, held_by(state))
    if reg[STARTED_N] > 0:
        leave_queue(state)
