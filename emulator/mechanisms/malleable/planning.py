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
    MALLEABLE,
    MALLEABLE_N,
    MAX,
    MIN,
    MINIMUM,
    NEVER,
    NODES,
    OVERHEAD,
    PLANNED,
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
    job, speed, running, by_end, _, _, at, level, free, _, _, _, reg = state
    count = reg[RUNNING_N]
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
    vacant = free.shape[0]
    for k in range(count):
        vacant -= job[running[k], FLOOR]
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
            if job[who, CLASS] == MALLEABLE and reg[MINIMUM] == LEAST:
                width = job[who, MIN]
                end = now + length_us(job[who, GUESSED], speed[job[who, SPEED], width], reg[TICK])
            begin(state, who, width, end)
        reg[STEPS] = reserve(at, level, reg[STEPS], first, end, width)
    reg[PLANNED] = k
    reg[KEPT] = reg[MALLEABLE_N] == 0


@compiled
def join(state: State) -> None:
    """Malleable jobs that wait start beside those that run and share their minima evenly (reading `shared`)."""
    job, _, running, _, queue, started, _, _, _, _, _, _, reg = state
    if reg[MALLEABLE_N] == 0:
        return
    held = 0
    for k in range(reg[RUNNING_N]):
        if job[running[k], CLASS] == MALLEABLE:
            held += job[running[k], FLOOR]
    for k in range(reg[STARTED_N]):
        if job[started[k], CLASS] == MALLEABLE:
            held += job[started[k], FLOOR]
    joined = 0
    for k in range(reg[QUEUE_N]):
        who = queue[k]
        if reg[MALLEABLE_N] == held:
            break
        if job[who, STATE] == QUEUED and job[who, CLASS] == MALLEABLE:
            begin(state, who, 1, NEVER)
            joined += 1
    if joined == 0:
        return
    reg[KEPT] = 0
    even = held // reg[MALLEABLE_N]
    rest = held % reg[MALLEABLE_N]
    count = reg[RUNNING_N]
    for k in range(count + reg[STARTED_N]):  # in order of start
        who = running[k] if k < count else started[k - count]
        if job[who, CLASS] == MALLEABLE:
            job[who, FLOOR] = even + 1 if rest > 0 else even
            rest -= 1
            if k >= count:
                job[who, TARGET] = job[who, FLOOR]


@compiled
def choose(state: State, now: int) -> None:
    """Who starts now: `started[:reg[STARTED_N]]`, in order. They leave the queue."""
    job, _, _, _, queue, _, _, _, _, _, _, _, reg = state
    reg[STARTED_N] = 0
    if reg[QUEUE_N] == 0:
        return
    plan(state, now)
    if reg[MINIMUM] == SHARED:
        join(state)
    if reg[STARTED_N] == 0:
        return
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
