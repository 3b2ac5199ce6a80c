"""The life of a segment, compiled: read back, work, write checkpoints, end or be preempted.

A batch job that was preempted before reads its checkpoint, then works; after every INTERVAL of progress it writes
(eqs 6, 11: a job of run time T writes floor(T / interval) times, however often it is preempted).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.checkpoint_io import rate_of, time_for
from emulator.harness.compiled import compiled
from emulator.mechanisms.realtime.tables import (
    BASE,
    CKPT,
    CLAIM,
    DATA_OWED,
    DIRTY,
    END,
    ENDED,
    ENDED_N,
    ESTIMATE,
    FINISHED,
    FREE_N,
    HARD,
    HARD_N,
    INTERVAL,
    KEY,
    LAST_IO,
    LEAVING,
    LOG_N,
    NEVER,
    NODE_RATE,
    OUT,
    OWED,
    OWNER,
    PHASE,
    PLACE,
    PLANNED,
    QUEUE_N,
    QUEUED,
    R_CHECKPOINTS,
    R_END,
    R_FIRST,
    R_JOB,
    R_LOST,
    R_OUTCOME,
    R_PLACE,
    R_READS,
    R_REDO,
    R_START,
    R_WORK,
    R_WRITES,
    READ_CAP,
    READERS,
    READING,
    READY,
    REALTIME,
    RESTART,
    RUN,
    RUN_ROW,
    RUNNING,
    RUNNING_N,
    RUNS_N,
    SAVED,
    SCHEME,
    SHARED,
    SINCE,
    SOFT,
    START,
    STATE,
    TO_THE_BACK,
    UNIT_NODES,
    UNITS,
    WHEN,
    WORKING,
    WRITE_CAP,
    WRITERS,
    WRITING,
)

if TYPE_CHECKING:
    from emulator.mechanisms.realtime.tables import Ints, Ints32, State

PREEMPTED = 6
"""Outcome of a segment (`RunOutcome.PREEMPTED`)."""


# Sorted lists.


@compiled
def queue_insert(job: Ints, queue: Ints32, reg: Ints, count: int, who: int) -> None:
    """By (KEY, WHEN, row); `count` is the register with the queue's length."""
    place = reg[count]
    while place > 0:
        other = queue[place - 1]
        if job[other, KEY] < job[who, KEY] or (
            job[other, KEY] == job[who, KEY]
            and (job[other, WHEN] < job[who, WHEN] or (job[other, WHEN] == job[who, WHEN] and other < who))
        ):
            break
        queue[place] = other
        place -= 1
    queue[place] = who
    reg[count] += 1


@compiled
def queue_remove_at(queue: Ints32, reg: Ints, count: int, place: int) -> None:
    reg[count] -= 1
    for k in range(place, reg[count]):
        queue[k] = queue[k + 1]


@compiled
def running_insert(job: Ints, running: Ints32, reg: Ints, who: int) -> None:
    """By (PLANNED, row)."""
    place = reg[RUNNING_N]
    while place > 0:
        other = running[place - 1]
        if job[other, PLANNED] < job[who, PLANNED] or (
            job[other, PLANNED] == job[who, PLANNED] and other < who
        ):
            break
        running[place] = other
        place -= 1
    running[place] = who
    reg[RUNNING_N] += 1


@compiled
def running_remove(running: Ints32, reg: Ints, who: int) -> None:
    place = 0
    while running[place] != who:
        place += 1
    queue_remove_at(running, reg, RUNNING_N, place)


# Transfers.


@compiled
def alone_us(reg: Ints, units: int, cap: int) -> int:
    """A checkpoint of so many units when nobody else is at it."""
    return time_for(reg[DATA_OWED], rate_of(reg[NODE_RATE], reg[cap], units * reg[UNIT_NODES]))


@compiled
def rate_for(job: Ints, reg: Ints, who: int) -> int:
    """Bytes a second for each node of a job that reads or writes."""
    nodes = job[who, UNITS] * reg[UNIT_NODES]
    if job[who, PHASE] == READING:
        return rate_of(reg[NODE_RATE], reg[READ_CAP], reg[READERS] if reg[SHARED] else nodes)
    return rate_of(reg[NODE_RATE], reg[WRITE_CAP], reg[WRITERS] if reg[SHARED] else nodes)


@compiled
def pass_io_time(job: Ints, running: Ints32, reg: Ints, now: int) -> None:
    """Let all transfers go on to `now`."""
    for_us = now - reg[LAST_IO]
    reg[LAST_IO] = now
    if for_us == 0 or reg[READERS] + reg[WRITERS] == 0:
        return
    for k in range(reg[RUNNING_N]):
        who = running[k]
        if job[who, PHASE] in (READING, WRITING, LEAVING):
            job[who, OWED] -= rate_for(job, reg, who) * for_us


@compiled
def io_end(job: Ints, reg: Ints, who: int) -> int:
    """When a job's transfer is over if nobody else begins or ends one."""
    end: int = reg[LAST_IO] + max(0, time_for(job[who, OWED], rate_for(job, reg, who)))
    return end


@compiled
def next_end(job: Ints, running: Ints32, reg: Ints) -> int:
    """The next end of a stretch of work or of a transfer."""
    least = NEVER
    for k in range(reg[RUNNING_N]):
        who = running[k]
        phase = job[who, PHASE]
        if phase == WORKING:
            least = min(least, job[who, READY])
        elif phase in (READING, WRITING, LEAVING):
            least = min(least, io_end(job, reg, who))
    return least


@compiled
def begin_phase(job: Ints, reg: Ints, who: int, phase: int, now: int) -> None:
    """Leave the present phase's transfer, if any, and begin this one's."""
    nodes = job[who, UNITS] * reg[UNIT_NODES]
    before = job[who, PHASE]
    if before == READING:
        reg[READERS] -= nodes
    elif before in (WRITING, LEAVING):
        reg[WRITERS] -= nodes
    if phase == READING:
        reg[READERS] += nodes
        job[who, OWED] = reg[DATA_OWED]
    elif phase in (WRITING, LEAVING):
        reg[WRITERS] += nodes
        job[who, OWED] = reg[DATA_OWED]
    job[who, PHASE] = phase
    job[who, SINCE] = now


# Segments.


@compiled
def segment_us(job: Ints, reg: Ints, who: int) -> int:
    """How long the scheduler expects the next segment to be: what is left of the walltime, the read and the writes."""
    left: int = max(job[who, ESTIMATE] - job[who, SAVED], 1)
    if job[who, SAVED] > 0:
        left += alone_us(reg, job[who, UNITS], READ_CAP)
    interval = job[who, INTERVAL]
    if interval > 0:
        writes = job[who, ESTIMATE] // interval - job[who, SAVED] // interval
        left += max(writes, 0) * alone_us(reg, job[who, UNITS], WRITE_CAP)
    return left


@compiled
def begin_segment(state: State, who: int, now: int) -> None:
    """The job's units are logged by the caller; from now on they are its own."""
    job, _, _, _, _, _, _, _, _, running, runs, _, _, _, _, _, reg = state
    row = reg[RUNS_N]
    reg[RUNS_N] += 1
    runs[row, R_JOB] = who
    runs[row, R_START] = now
    runs[row, R_END] = -1
    runs[row, R_FIRST] = reg[LOG_N]
    runs[row, R_PLACE] = job[who, PLACE]
    job[who, RUN_ROW] = row
    job[who, STATE] = RUNNING
    job[who, START] = now
    job[who, PLANNED] = now + segment_us(job, reg, who)
    running_insert(job, running, reg, who)
    job[who, BASE] = job[who, SAVED]
    if job[who, SAVED] > 0:
        begin_phase(job, reg, who, READING, now)
    else:
        begin_work(job, reg, who, now)


@compiled
def begin_work(job: Ints, reg: Ints, who: int, now: int) -> None:
    """A stretch of work up to the next checkpoint or the end."""
    begin_phase(job, reg, who, WORKING, now)
    until = job[who, RUN]
    interval = job[who, INTERVAL]
    if interval > 0:
        until = min(until, (job[who, BASE] // interval + 1) * interval)
    job[who, READY] = now + until - job[who, BASE]


@compiled
def work_done(job: Ints, runs: Ints, who: int, now: int) -> None:
    """Book the work since SINCE."""
    done = now - job[who, SINCE]
    job[who, BASE] += done
    runs[job[who, RUN_ROW], R_WORK] += done


@compiled
def leave_units(state: State, who: int) -> None:
    job, unit, parts, _, conflicts, conflict_first, _, _, _, running, runs, log, _, _, _, _, reg = state
    running_remove(running, reg, who)
    first = runs[job[who, RUN_ROW], R_FIRST]
    for k in range(first, first + job[who, UNITS]):
        unit[log[k], OWNER] = -1
        if unit[log[k], CLAIM] < 0:
            reg[FREE_N] += 1
    column = HARD if job[who, REALTIME] else SOFT
    if job[who, REALTIME]:
        reg[HARD_N] -= job[who, UNITS]
    place = job[who, PLACE]
    if place >= 0:
        for k in range(conflict_first[place], conflict_first[place + 1]):
            parts[conflicts[k], column] -= 1
    begin_phase(job, reg, who, OUT, 0)
    reg[DIRTY] = 1


@compiled
def end_segment(state: State, who: int, now: int, outcome: int) -> None:
    leave_units(state, who)
    job, runs = state[0], state[10]
    runs[job[who, RUN_ROW], R_END] = now
    runs[job[who, RUN_ROW], R_OUTCOME] = outcome


@compiled
def finish(state: State, who: int, now: int) -> None:
    end_segment(state, who, now, FINISHED)
    job = state[0]
    job[who, STATE] = ENDED
    job[who, END] = now
    state[16][ENDED_N] += 1


@compiled
def back_to_queue(state: State, who: int, now: int) -> None:
    """A preempted job has left its units and is resubmitted (section 5.2)."""
    end_segment(state, who, now, PREEMPTED)
    job, queue, reg = state[0], state[7], state[16]
    job[who, STATE] = QUEUED
    job[who, START] = -1
    if reg[TO_THE_BACK]:
        job[who, WHEN] = now
    queue_insert(job, queue, reg, QUEUE_N, who)


@compiled
def at_risk(job: Ints, reg: Ints, who: int, now: int) -> int:
    """Work of a batch job that would be lost if it were preempted now."""
    if reg[SCHEME] == CKPT:
        return 0
    done: int = job[who, BASE]
    if job[who, PHASE] == WORKING:
        done += now - job[who, SINCE]
    return done if reg[SCHEME] == RESTART else done - job[who, SAVED]


@compiled
def preempt(state: State, who: int, now: int) -> None:
    """Send a batch job off: at once, or (PRE-CKPT) when it has written what it did."""
    job, _, _, _, _, _, _, _, _, _, runs, _, _, _, _, _, reg = state
    row = job[who, RUN_ROW]
    phase = job[who, PHASE]
    if phase == WORKING:
        work_done(job, runs, who, now)
        if reg[SCHEME] == CKPT and job[who, BASE] > job[who, SAVED]:
            begin_phase(job, reg, who, LEAVING, now)
            return
    else:  # a read or a write that is cut short was in vain
        runs[row, R_REDO] += now - job[who, SINCE]
        if phase == READING:
            runs[row, R_READS] += now - job[who, SINCE]
    lost = job[who, BASE] - job[who, SAVED]
    runs[row, R_LOST] += lost
    runs[row, R_REDO] += lost
    back_to_queue(state, who, now)


@compiled
def go_on(state: State, who: int, now: int) -> None:
    """A stretch of work or a transfer of this job is over."""
    job, _, _, _, _, _, _, _, _, _, runs, _, _, _, _, _, reg = state
    row = job[who, RUN_ROW]
    phase = job[who, PHASE]
    if phase == WORKING:
        work_done(job, runs, who, now)
        interval = job[who, INTERVAL]
        if interval > 0 and job[who, BASE] % interval == 0 and job[who, BASE] > 0:
            begin_phase(job, reg, who, WRITING, now)
        else:
            finish(state, who, now)
        return
    if phase == READING:
        runs[row, R_REDO] += now - job[who, SINCE]
        runs[row, R_READS] += now - job[who, SINCE]
        begin_work(job, reg, who, now)
        return
    runs[row, R_WRITES] += now - job[who, SINCE]
    runs[row, R_CHECKPOINTS] += 1
    job[who, SAVED] = job[who, BASE]
    if phase == LEAVING:
        back_to_queue(state, who, now)
    elif job[who, BASE] == job[who, RUN]:
        finish(state, who, now)
    else:
        begin_work(job, reg, who, now)
