"""One scheduling pass of the planner, compiled: who starts now. The rules: `docs/mechanisms/malleable.md`.

Jobs behind one another in the queue are placed in the profile; those whose place is now are put into `started`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inlined
from emulator.kernel.job_states import JobState
from emulator.kernel.profile import earliest_start
from emulator.mechanisms.malleable.bounds import forget_bounds, keep_flexible, keep_rigid
from emulator.mechanisms.malleable.memory import has_room, is_remembered, may_fit, measure_rooms, remember
from emulator.mechanisms.malleable.profile import (
    earliest_completion,
    length_us,
    reserve,
    step_at,
    widest_from,
)
from emulator.mechanisms.malleable.tables import NEVER, JobClass, MinimumRule

if TYPE_CHECKING:
    from emulator.mechanisms.malleable.tables import Ints, Jobs, Registers, State

MEASURED_AGAIN_AFTER = 8
"""Jobs placed until it may be worth while to measure the rooms anew."""


@inlined
def done_at(job: Jobs, speed: Ints, row: int, now: int) -> int:
    """Work that a running job has done."""
    computing = now - job[row].since_us - job[row].overhead_us
    done: int = job[row].done
    done += max(computing, 0) * speed[job[row].speed_row, job[row].width]
    return done


@inlined
def expected_end(job: Jobs, speed: Ints, row: int, now: int, tick: int) -> int:
    """When a malleable job that runs ends by its estimate if it gets no more than its minimum (section 5)."""
    left = max(job[row].guessed - done_at(job, speed, row, now), 1)
    standing = max(job[row].since_us + job[row].overhead_us - now, 0)
    length: int = length_us(left, speed[job[row].speed_row, job[row].floor], tick)
    end: int = now + standing + length
    return end


@compiled
def make_profile(state: State, now: int) -> None:
    """What is vacant, now and at the expected ends of the running jobs, of which only the minima count."""
    job, speed, by_end, started, at = state.job, state.speed, state.by_end, state.started, state.at
    level, free, registers = state.level, state.free, state.registers
    count = (
        registers.running_n + registers.started_n
    )  # those that joined before the plan (`pool_waiting_first`)
    vacant = free.shape[0]
    for k in range(count):
        if k >= registers.running_n:
            by_end[k] = started[k - registers.running_n]
        vacant -= job[by_end[k]].floor
    for k in range(count):
        row = by_end[k]
        if job[row].job_class == JobClass.MALLEABLE:
            job[row].expected_end_us = expected_end(job, speed, row, now, registers.tick_us)
        end = job[row].expected_end_us
        place = k  # the list was in order at the last pass, and few ends have moved since
        while place > 0 and job[by_end[place - 1]].expected_end_us > end:
            by_end[place] = by_end[place - 1]
            place -= 1
        by_end[place] = row
    at[0] = now
    level[0] = vacant
    steps = 1
    for k in range(count):
        end = max(job[by_end[k]].expected_end_us, now + 1)  # past its estimate: soon, but not yet
        if end != at[steps - 1]:
            at[steps] = end
            level[steps] = level[steps - 1]
            steps += 1
        level[steps - 1] += job[by_end[k]].floor
    registers.steps = steps
    registers.planned = 0
    registers.bounded = 0


@compiled
def room_until(state: State, row: int) -> int:
    """Until when the job could run if it started now; -1 if there is no room. It may still do better later."""
    job, speed, at, level, registers = state.job, state.speed, state.at, state.level, state.registers
    if job[row].job_class == JobClass.RIGID:
        until = at[0] + job[row].estimate_us
        step = 0
        while step < registers.steps and (step == 0 or at[step] < until):
            if level[step] < job[row].nodes:
                return -1
            step += 1
        return int(until)
    if level[0] < job[row].min_nodes:
        return -1
    speeds = speed[job[row].speed_row]
    width, end = widest_from(
        at,
        level,
        registers.steps,
        0,
        speeds,
        job[row].guessed,
        job[row].min_nodes,
        most_nodes(job, registers, row),
        registers.tick_us,
    )
    return end if width > 0 else -1


@inlined
def most_nodes(job: Jobs, registers: Registers, row: int) -> int:
    """The widest that a flexible job is placed."""
    at_minimum = registers.at_minimum and job[row].job_class == JobClass.MALLEABLE
    most: int = job[row].min_nodes if at_minimum else job[row].max_nodes
    return most


@compiled
def place(state: State, row: int, after: int) -> tuple[int, int, int]:
    """(step, width, end) of a waiting job; step -1 if it fits nowhere.

    It is known that a rigid job starts, or a flexible one completes, at `after` or later.
    """
    job, speed, at, level, registers = state.job, state.speed, state.at, state.level, state.registers
    steps = registers.steps
    if job[row].job_class == JobClass.RIGID:
        if registers.bounded:
            after = max(after, state.bounds.rigid[job[row].length_class, job[row].width_class])
        begin = step_at(at, steps, after)
        first = earliest_start(at, level, steps, begin, job[row].nodes, job[row].estimate_us)
        if first >= steps:
            return -1, 0, NEVER
        if registers.bounded:
            keep_rigid(state.bounds, job[row].length_from, job[row].width_from, at[first])
        return first, job[row].nodes, at[first] + job[row].estimate_us
    if registers.bounded:
        after = max(after, state.bounds.flexible[job[row].length_class])
    begin = step_at(at, steps, after)
    while begin > 0 and level[begin - 1] >= job[row].min_nodes:
        begin -= 1
    first, width, end = earliest_completion(
        at,
        level,
        steps,
        begin,
        speed[job[row].speed_row],
        job[row].guessed,
        job[row].min_nodes,
        most_nodes(job, registers, row),
        registers.tick_us,
    )
    if registers.bounded and first >= 0:
        keep_flexible(state.bounds, job[row].length_from, end)
    return first, width, end


@inlined
def place_again(state: State, row: int, moved: int) -> tuple[int, int, int]:
    """As `place`, of a job that fits nowhere better than before if nobody in front of it has left a place.

    `moved`: the earliest time at which someone did.
    """
    job, at, level, registers = state.job, state.at, state.level, state.registers
    start, until, width = job[row].placed_at_us, job[row].placed_until_us, job[row].placed_on
    if until <= moved:
        first = step_at(at, registers.steps, start)
        is_step = first < registers.steps and at[first] == start
        if is_step and has_room(at, level, registers.steps, first, until, width):
            return first, width, until
    if job[row].job_class == JobClass.RIGID:
        return place(state, row, min(start, moved - job[row].estimate_us + 1))  # it overlaps what was left
    return place(state, row, min(until, moved))


@compiled
def begin(state: State, row: int, floor: int, end: int) -> None:
    """The job starts in this pass; what width it gets beyond its minimum is decided when all have been chosen."""
    job, started, registers = state.job, state.started, state.registers
    started[registers.started_n] = row
    registers.started_n += 1
    registers.changed = 1
    job[row].state = JobState.RUNNING
    job[row].floor = floor
    job[row].target = floor
    job[row].expected_end_us = end
    if job[row].job_class == JobClass.MALLEABLE:
        registers.malleable_n += 1


@inlined
def recall(state: State, k: int, reached: int) -> int:
    """A plan begins with the k-th job; the last one reached so many. Returns how many places are worth remembering."""
    registers = state.registers
    if registers.malleable_n or registers.remembered - k < registers.long_plan:
        registers.remembered = 0
    registers.moved = NEVER
    registers.corners = 0
    registers.measured = -MEASURED_AGAIN_AFTER
    if k == reached:
        recall_far(state, k)
    known: int = registers.remembered
    return known


@inlined
def recall_far(state: State, k: int) -> None:
    """From the k-th job on, what has changed since the last plans is not all that has changed."""
    registers = state.registers
    registers.moved = min(registers.moved, registers.far_moved)
    if registers.far_freed > registers.freed:
        registers.freed = registers.far_freed
        registers.corners = 0
        registers.measured = k - MEASURED_AGAIN_AFTER


@inlined
def keep_memory(state: State, k: int) -> None:
    """A plan ends before the k-th job: what has changed is still to be looked at for those behind it."""
    registers = state.registers
    if k >= registers.remembered:
        registers.remembered = k
        registers.far_freed = 0
        registers.far_moved = NEVER
    else:
        registers.far_freed = max(registers.far_freed, registers.freed)
        registers.far_moved = min(registers.far_moved, registers.moved)
    registers.freed = 0
    if registers.malleable_n:
        registers.remembered = 0


@compiled
def may_do_better(state: State, k: int, now: int) -> bool:
    """Whether the k-th job of the queue may fit better than before where ended jobs were."""
    job, speed, queue, at, level = state.job, state.speed, state.queue, state.at, state.level
    free, registers, notes = state.free, state.registers, state.notes
    if registers.freed <= now:
        return False
    row = queue[k]
    speeds = speed[job[row].speed_row]
    most = most_nodes(job, registers, row)
    if registers.corners > 0 and not may_fit(job, speeds, notes, registers.corners, row, most):
        return False
    if k - registers.measured < MEASURED_AGAIN_AFTER:
        return True
    registers.corners = measure_rooms(notes, at, level, registers.steps, registers.freed, free.shape[0])
    registers.measured = k
    return may_fit(job, speeds, notes, registers.corners, row, most)


@compiled
def plan(state: State, now: int) -> None:
    """Place the waiting jobs in queue order and choose those whose place is now.

    The plan is made anew, unless nothing has happened since the last one but submits behind the jobs in it, and no
    malleable job runs, whose expected end moves: then it would come out the same, and is gone on with. Places that must
    come out as in the last plan are not looked for.
    """
    job, speed, queue, at, level = state.job, state.speed, state.queue, state.at, state.level
    registers = state.registers
    waiting = registers.queue_n
    reached = registers.planned
    if registers.kept and (registers.steps == 1 or at[1] > now):
        at[0] = now
    else:
        make_profile(state, now)
    k = registers.planned
    known = recall(state, k, reached)
    candidate = k - 1
    until = -1
    while level[0] > 0:
        # What is not vacant now will not be when more jobs are placed: a job without room stays without.
        if candidate < k:
            candidate = k
            until = -1
        while until < 0 and candidate < waiting:
            until = room_until(state, queue[candidate])
            if until < 0:
                candidate += 1
        if candidate == waiting:
            break  # nobody further back can start now, and what is planned for them does not matter
        if registers.bounded == 0 and registers.steps >= registers.long_profile:
            forget_bounds(state.bounds)
            registers.bounded = 1
        if k == reached:
            recall_far(state, k)
        row = queue[k]
        if k < known and job[row].placed_at_us >= now and not may_do_better(state, k, now):
            first, width, end = place_again(state, row, registers.moved)
        else:
            first, width, end = place(state, row, 0)
        if first == 0:
            if job[row].job_class == JobClass.MALLEABLE and (
                registers.minimum == MinimumRule.LEAST or registers.minimum >= MinimumRule.POOL
            ):
                width = job[row].min_nodes
                end = now + length_us(job[row].guessed, speed[job[row].speed_row, width], registers.tick_us)
            begin(state, row, width, end)
        start = at[first] if first >= 0 else -1
        if k < known and not is_remembered(job, row, start, end, width):
            registers.moved = min(registers.moved, job[row].placed_at_us)
        remember(job, row, start, end, width)
        k += 1
        if start < until:
            until = -1  # what is taken may have been the candidate's room
        if first >= 0:
            registers.steps = reserve(at, level, registers.steps, first, end, width)
    registers.planned = k
    registers.kept = registers.malleable_n == 0
    keep_memory(state, k)


@inlined
def held_by(state: State) -> int:
    """Nodes that the malleable jobs that run, or have been chosen, keep."""
    job, running, started, registers = state.job, state.running, state.started, state.registers
    held = 0
    for k in range(registers.running_n + registers.started_n):
        row = running[k] if k < registers.running_n else started[k - registers.running_n]
        if job[row].job_class == JobClass.MALLEABLE:
            held += job[row].floor
    return held


@compiled
def divide(state: State, held: int) -> None:
    """Let the malleable jobs keep so many nodes, evenly, in order of start; none more than it may have."""
    job, running, started, registers = state.job, state.running, state.started, state.registers
    count = registers.running_n
    among = count + registers.started_n
    even = held // registers.malleable_n
    rest = held % registers.malleable_n
    over = 0
    for k in range(among):
        row = running[k] if k < count else started[k - count]
        if job[row].job_class == JobClass.MALLEABLE:
            share = even + 1 if rest > 0 else even
            rest -= 1
            job[row].floor = (
                min(share, job[row].max_nodes) if registers.minimum >= MinimumRule.POOL else share
            )
            over += share - job[row].floor
    while over > 0:
        before = over
        least = NEVER
        for k in range(among):
            row = running[k] if k < count else started[k - count]
            if job[row].job_class == JobClass.MALLEABLE and job[row].floor < job[row].max_nodes:
                least = min(least, job[row].floor)
        for k in range(among):
            row = running[k] if k < count else started[k - count]
            has_least = job[row].job_class == JobClass.MALLEABLE and job[row].floor == least
            if over > 0 and has_least and job[row].floor < job[row].max_nodes:
                job[row].floor += 1
                over -= 1
        if over == before:
            break  # all have what they may have
    for k in range(registers.started_n):
        if job[started[k]].job_class == JobClass.MALLEABLE:
            job[started[k]].target = job[started[k]].floor


@compiled
def join(state: State, held: int) -> None:
    """Malleable jobs that wait start beside those that run and share what these keep (`shared` and the pools)."""
    job, queue, registers = state.job, state.queue, state.registers
    joined = 0
    for k in range(registers.queue_n):
        row = queue[k]
        if registers.malleable_n >= held:
            break
        if job[row].state == JobState.QUEUED and job[row].job_class == JobClass.MALLEABLE:
            begin(state, row, 1, NEVER)
            joined += 1
    if joined > 0:
        registers.kept = 0
        divide(state, held)


@compiled
def hand_on(state: State) -> None:
    """What ended malleable jobs kept goes to the others; waiting ones join before the plan (`pool_waiting_first`)."""
    registers = state.registers
    held = held_by(state) + registers.loose
    loose = registers.loose
    registers.loose = 0
    if registers.minimum == MinimumRule.WAITING_FIRST:
        join(state, held)
    if loose > 0 and registers.malleable_n > 0:
        divide(state, held)


@compiled
def leave_queue(state: State) -> None:
    """Those that have been chosen are in the queue no more."""
    job, queue, registers = state.job, state.queue, state.registers
    left = 0
    planned = 0
    remembered = 0
    for k in range(registers.queue_n):
        row = queue[k]
        if job[row].state == JobState.QUEUED:
            queue[left] = row
            left += 1
            if k < registers.planned:
                planned += 1
            if k < registers.remembered:
                remembered += 1
    registers.queue_n = left
    registers.planned = planned
    registers.remembered = remembered


@compiled
def choose(state: State, now: int) -> None:
    """Who starts now: `started[:registers.started_n]`, in order. They leave the queue."""
    registers = state.registers
    registers.started_n = 0
    if registers.minimum >= MinimumRule.POOL:
        hand_on(state)
        if registers.started_n > 0:
            leave_queue(state)
    if registers.queue_n == 0:
        return
    plan(state, now)
    if MinimumRule.SHARED <= registers.minimum <= MinimumRule.POOL and registers.malleable_n > 0:
        join(state, held_by(state))
    if registers.started_n > 0:
        leave_queue(state)
