"""The planner's loop between decision points, compiled: ends, submits, passes and changes of width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled
from emulator.harness.stepping import step_to
from emulator.mechanisms.malleable.planning import choose, done_at
from emulator.mechanisms.malleable.profile import length_us
from emulator.mechanisms.malleable.sharing import share
from emulator.mechanisms.malleable.tables import (
    AT_ENDS,
    AT_UNTIL,
    CHANGED,
    ENDED,
    ENDED_N,
    FINISHED,
    FREE_N,
    FREED,
    FUTURE,
    GOES_ON,
    JOBS_N,
    KEPT,
    LOG_N,
    LOOSE,
    MALLEABLE,
    MALLEABLE_N,
    MINIMUM,
    NEEDS_ROOM,
    NEVER,
    NEXT_SUBMIT,
    NOW,
    PENALTY,
    PENALTY_IS_WORK,
    PLANNED,
    POOL,
    QUEUE_N,
    QUEUED,
    REMEMBERED,
    RESIZED,
    RUNNING_N,
    RUNS_N,
    STARTED_N,
    STOP_ON_END,
    TICK,
    WAITING_FIRST,
)

if TYPE_CHECKING:
    from emulator.mechanisms.malleable.tables import Ints, State


@compiled
def has_room(state: State) -> bool:
    """At one instant each job that runs may begin one segment, and all together have as many nodes as there are."""
    _, _, _, _, _, _, _, _, free, _, runs, log, reg, _ = state
    nodes = free.shape[0]
    return bool(runs.shape[0] - reg[RUNS_N] >= nodes and log.shape[0] - reg[LOG_N] >= nodes)


@compiled
def next_event(state: State) -> int:
    """The next end or submit, NEVER if there is none."""
    job, _, running, _, _, _, _, _, _, _, _, _, reg, _ = state
    at = NEVER
    if reg[NEXT_SUBMIT] < reg[JOBS_N]:
        at = job[reg[NEXT_SUBMIT]].submit_us
    for k in range(reg[RUNNING_N]):
        at = min(at, job[running[k]].ends_us)
    return at


@compiled
def give(state: State, who: int, width: int) -> None:
    """Idle nodes to a job, until it has so many. The last one it gets is the first it gives back."""
    job, _, _, _, _, _, _, _, free, below, _, _, reg, _ = state
    while job[who].width < width:
        reg[FREE_N] -= 1
        node = free[reg[FREE_N]]
        below[node] = job[who].top_node
        job[who].top_node = node
        job[who].width += 1


@compiled
def take(state: State, who: int, width: int) -> None:
    """Nodes back from a job, until it has so few."""
    job, _, _, _, _, _, _, _, free, below, _, _, reg, _ = state
    while job[who].width > width:
        node = job[who].top_node
        job[who].top_node = below[node]
        free[reg[FREE_N]] = node
        reg[FREE_N] += 1
        job[who].width -= 1


@compiled
def begin_segment(state: State, who: int, now: int) -> None:
    """A row of the run table for the nodes that the job has from now on, and its end if they stay."""
    job, speed, _, _, _, _, _, _, _, below, runs, log, reg, _ = state
    row = reg[RUNS_N]
    reg[RUNS_N] = row + 1
    runs[row].job = who
    runs[row].start_us = now
    runs[row].end_us = -1
    runs[row].first = reg[LOG_N]
    job[who].run_row = row
    job[who].begun = job[who].done
    node = job[who].top_node
    for _ in range(job[who].width):
        log[reg[LOG_N]] = node
        reg[LOG_N] += 1
        node = below[node]
    left = job[who].owed - job[who].done
    at_speed = speed[job[who].speed_row, job[who].width]
    job[who].ends_us = now + job[who].overhead_us + length_us(left, at_speed, reg[TICK])


@compiled
def end_segment(state: State, who: int, now: int, outcome: int) -> None:
    """Account for what the job did on the nodes that it had until now."""
    job, speed, _, _, _, _, _, _, _, _, runs, _, _, _ = state
    row = job[who].run_row
    runs[row].end_us = now
    runs[row].outcome = outcome
    done = min(done_at(job, speed, who, now), job[who].owed)
    job[who].overhead_us = max(job[who].since_us + job[who].overhead_us - now, 0)
    job[who].since_us = now
    job[who].done = done
    runs[row].done = nominal(state, who, done) - nominal(state, who, job[who].begun)


@compiled
def nominal(state: State, who: int, work: int) -> int:
    """Work in node-us of the job's nominal width: all that it owes is its run time on its nodes."""
    job, speed, _, _, _, _, _, _, _, _, _, _, _, _ = state
    unit = speed[job[who].speed_row, job[who].nodes]
    nodes = job[who].nodes
    node_us: int = work // unit * nodes + work % unit * nodes // unit
    return node_us


@compiled
def end_due(state: State, now: int) -> int:
    """End the jobs that are due. Returns how many."""
    job, _, running, by_end, _, _, _, _, _, _, _, _, reg, _ = state
    count = reg[RUNNING_N]
    left = 0
    for k in range(count):
        who = running[k]
        if job[who].ends_us == now:
            end_segment(state, who, now, FINISHED)
            take(state, who, 0)
            job[who].state = ENDED
            job[who].end_us = now
            if job[who].job_class == MALLEABLE:
                reg[MALLEABLE_N] -= 1
                if reg[MINIMUM] >= POOL:
                    reg[LOOSE] += job[who].floor
            reg[FREED] = max(reg[FREED], job[who].expected_end_us)
        else:
            running[left] = who
            left += 1
    if left == count:
        return 0
    still = 0
    for k in range(count):
        if job[by_end[k]].state != ENDED:
            by_end[still] = by_end[k]
            still += 1
    reg[RUNNING_N] = left
    reg[ENDED_N] += count - left
    reg[KEPT] = 0
    reg[CHANGED] = 1
    ended: int = count - left
    return ended


@compiled
def submit_due(state: State, now: int) -> None:
    """Queue the batch jobs that are submitted now, sorted by (key, job)."""
    job, _, _, _, queue, _, _, _, _, _, _, _, reg, _ = state
    while reg[NEXT_SUBMIT] < reg[JOBS_N] and job[reg[NEXT_SUBMIT]].submit_us <= now:
        who = reg[NEXT_SUBMIT]
        reg[NEXT_SUBMIT] += 1
        if job[who].state != FUTURE:
            continue
        job[who].state = QUEUED
        place = reg[QUEUE_N]
        while place > 0 and job[queue[place - 1]].key > job[who].key:
            queue[place] = queue[place - 1]
            place -= 1
        queue[place] = who
        reg[QUEUE_N] += 1
        if place < reg[PLANNED]:
            reg[KEPT] = 0
        reg[REMEMBERED] = min(reg[REMEMBERED], place)


@compiled
def penalty(reg: Ints, width: int) -> int:
    """What a change to so many nodes costs, in run time: so long, or as long as they need for so much work."""
    lost: int = reg[PENALTY] // width if reg[PENALTY_IS_WORK] else reg[PENALTY]
    return lost


@compiled
def finish_instant(state: State, now: int) -> None:
    """Submits, one pass, and the new widths."""
    job, _, running, by_end, _, started, _, _, _, _, _, _, reg, _ = state
    reg[NOW] = now
    submit_due(state, now)
    choose(state, now)
    if reg[CHANGED] == 0:
        return
    reg[CHANGED] = 0
    before = reg[RUNNING_N]
    for k in range(reg[STARTED_N]):
        who = started[k]
        if job[who].job_class != MALLEABLE:
            job[who].width = job[who].target  # what it takes from the malleable ones
        running[before + k] = who
        by_end[before + k] = who
    reg[RUNNING_N] = before + reg[STARTED_N]
    if reg[MINIMUM] == WAITING_FIRST:
        for k in range(reg[RUNNING_N]):
            by_end[k] = running[k]  # the plan has put those that joined before it among them
    if reg[MALLEABLE_N]:
        share(state)
    for k in range(before):
        who = running[k]
        if job[who].job_class == MALLEABLE and job[who].target < job[who].width:
            end_segment(state, who, now, RESIZED)
            take(state, who, job[who].target)
            job[who].overhead_us += penalty(reg, job[who].width)
            begin_segment(state, who, now)
    for k in range(before, reg[RUNNING_N]):
        who = running[k]
        job[who].width = 0
        job[who].start_us = now
        job[who].since_us = now
        give(state, who, job[who].target)
        begin_segment(state, who, now)
    for k in range(before):
        who = running[k]
        if job[who].job_class == MALLEABLE and job[who].target > job[who].width:
            end_segment(state, who, now, RESIZED)
            give(state, who, job[who].target)
            job[who].overhead_us += penalty(reg, job[who].width)
            begin_segment(state, who, now)


@compiled
def advance(state: State, until: int) -> int:
    """As the harness's kernel: everything before `until`, and the ends at it, happen. Returns why it came back."""
    _, _, _, _, _, _, _, _, _, _, _, _, reg, _ = state
    while True:
        if not has_room(state):
            return NEEDS_ROOM
        now = next_event(state)
        code = step_to(reg, now, until)
        if code != GOES_ON:
            return code
        ended = end_due(state, now)
        if now == until:
            return AT_UNTIL
        if reg[STOP_ON_END] and ended > 0:
            return AT_ENDS
        finish_instant(state, now)
