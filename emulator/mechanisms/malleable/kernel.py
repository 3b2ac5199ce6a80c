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
    BEGUN,
    CHANGED,
    CLASS,
    DONE,
    END,
    ENDED,
    ENDED_N,
    ENDS,
    EXPECTED,
    FINISHED,
    FLOOR,
    FREE_N,
    FREED,
    FUTURE,
    GOES_ON,
    JOBS_N,
    KEPT,
    KEY,
    LOG_N,
    LOOSE,
    MALLEABLE,
    MALLEABLE_N,
    MINIMUM,
    NEEDS_ROOM,
    NEVER,
    NEXT_SUBMIT,
    NODES,
    NOW,
    OVERHEAD,
    OWED,
    PENALTY,
    PENALTY_IS_WORK,
    PLANNED,
    POOL,
    QUEUE_N,
    QUEUED,
    R_DONE,
    R_END,
    R_FIRST,
    R_JOB,
    R_OUTCOME,
    R_START,
    REMEMBERED,
    RESIZED,
    RUN_ROW,
    RUNNING_N,
    RUNS_N,
    SINCE,
    SPEED,
    START,
    STARTED_N,
    STATE,
    STOP_ON_END,
    SUBMIT,
    TARGET,
    TICK,
    TOP_NODE,
    WAITING_FIRST,
    WIDTH,
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
        at = job[reg[NEXT_SUBMIT], SUBMIT]
    for k in range(reg[RUNNING_N]):
        at = min(at, job[running[k], ENDS])
    return at


@compiled
def give(state: State, who: int, width: int) -> None:
    """Idle nodes to a job, until it has so many. The last one it gets is the first it gives back."""
    job, _, _, _, _, _, _, _, free, below, _, _, reg, _ = state
    while job[who, WIDTH] < width:
        reg[FREE_N] -= 1
        node = free[reg[FREE_N]]
        below[node] = job[who, TOP_NODE]
        job[who, TOP_NODE] = node
        job[who, WIDTH] += 1


@compiled
def take(state: State, who: int, width: int) -> None:
    """Nodes back from a job, until it has so few."""
    job, _, _, _, _, _, _, _, free, below, _, _, reg, _ = state
    while job[who, WIDTH] > width:
        node = job[who, TOP_NODE]
        job[who, TOP_NODE] = below[node]
        free[reg[FREE_N]] = node
        reg[FREE_N] += 1
        job[who, WIDTH] -= 1


@compiled
def begin_segment(state: State, who: int, now: int) -> None:
    """A row of the run table for the nodes that the job has from now on, and its end if they stay."""
    job, speed, _, _, _, _, _, _, _, below, runs, log, reg, _ = state
    row = reg[RUNS_N]
    reg[RUNS_N] = row + 1
    runs[row, R_JOB] = who
    runs[row, R_START] = now
    runs[row, R_END] = -1
    runs[row, R_FIRST] = reg[LOG_N]
    job[who, RUN_ROW] = row
    job[who, BEGUN] = job[who, DONE]
    node = job[who, TOP_NODE]
    for _ in range(job[who, WIDTH]):
        log[reg[LOG_N]] = node
        reg[LOG_N] += 1
        node = below[node]
    left = job[who, OWED] - job[who, DONE]
    at_speed = speed[job[who, SPEED], job[who, WIDTH]]
    job[who, ENDS] = now + job[who, OVERHEAD] + length_us(left, at_speed, reg[TICK])


@compiled
def end_segment(state: State, who: int, now: int, outcome: int) -> None:
    """Account for what the job did on the nodes that it had until now."""
    job, speed, _, _, _, _, _, _, _, _, runs, _, _, _ = state
    row = job[who, RUN_ROW]
    runs[row, R_END] = now
    runs[row, R_OUTCOME] = outcome
    done = min(done_at(job, speed, who, now), job[who, OWED])
    job[who, OVERHEAD] = max(job[who, SINCE] + job[who, OVERHEAD] - now, 0)
    job[who, SINCE] = now
    job[who, DONE] = done
    runs[row, R_DONE] = nominal(state, who, done) - nominal(state, who, job[who, BEGUN])


@compiled
def nominal(state: State, who: int, work: int) -> int:
    """Work in node-us of the job's nominal width: all that it owes is its run time on its nodes."""
    job, speed, _, _, _, _, _, _, _, _, _, _, _, _ = state
    unit = speed[job[who, SPEED], job[who, NODES]]
    nodes = job[who, NODES]
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
        if job[who, ENDS] == now:
            end_segment(state, who, now, FINISHED)
            take(state, who, 0)
            job[who, STATE] = ENDED
            job[who, END] = now
            if job[who, CLASS] == MALLEABLE:
                reg[MALLEABLE_N] -= 1
                if reg[MINIMUM] >= POOL:
                    reg[LOOSE] += job[who, FLOOR]
            reg[FREED] = max(reg[FREED], job[who, EXPECTED])
        else:
            running[left] = who
            left += 1
    if left == count:
        return 0
    still = 0
    for k in range(count):
        if job[by_end[k], STATE] != ENDED:
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
    while reg[NEXT_SUBMIT] < reg[JOBS_N] and job[reg[NEXT_SUBMIT], SUBMIT] <= now:
        who = reg[NEXT_SUBMIT]
        reg[NEXT_SUBMIT] += 1
        if job[who, STATE] != FUTURE:
            continue
        job[who, STATE] = QUEUED
        place = reg[QUEUE_N]
        while place > 0 and job[queue[place - 1], KEY] > job[who, KEY]:
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
        if job[who, CLASS] != MALLEABLE:
            job[who, WIDTH] = job[who, TARGET]  # what it takes from the malleable ones
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
        if job[who, CLASS] == MALLEABLE and job[who, TARGET] < job[who, WIDTH]:
            end_segment(state, who, now, RESIZED)
            take(state, who, job[who, TARGET])
            job[who, OVERHEAD] += penalty(reg, job[who, WIDTH])
            begin_segment(state, who, now)
    for k in range(before, reg[RUNNING_N]):
        who = running[k]
        job[who, WIDTH] = 0
        job[who, START] = now
        job[who, SINCE] = now
        give(state, who, job[who, TARGET])
        begin_segment(state, who, now)
    for k in range(before):
        who = running[k]
        if job[who, CLASS] == MALLEABLE and job[who, TARGET] > job[who, WIDTH]:
            end_segment(state, who, now, RESIZED)
            give(state, who, job[who, TARGET])
            job[who, OVERHEAD] += penalty(reg, job[who, WIDTH])
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
