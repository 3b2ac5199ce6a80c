"""The life of a segment, compiled: read back, work, write checkpoints, end or be preempted.

A batch job that was preempted before reads its checkpoint, then works; after every INTERVAL of progress it writes
(eqs 6, 11: a job of run time T writes floor(T / interval) times, however often it is preempted).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.checkpoint_io import rate_of, time_for
from emulator.harness.compiled import compiled, inner
from emulator.mechanisms.realtime.tables import (
    CKPT,
    CLAIM,
    DATA_OWED,
    DIRTY,
    ENDED,
    ENDED_N,
    FINISHED,
    FREE_N,
    HARD,
    HARD_N,
    LAST_IO,
    LEAVING,
    LOG_N,
    NEVER,
    NODE_RATE,
    OUT,
    OWNER,
    QUEUE_N,
    QUEUED,
    READ_CAP,
    READERS,
    READING,
    RESTART,
    RUNNING,
    RUNNING_N,
    RUNS_N,
    SCHEME,
    SHARED,
    SOFT,
    TO_THE_BACK,
    UNIT_NODES,
    WORKING,
    WRITE_CAP,
    WRITERS,
    WRITING,
)

if TYPE_CHECKING:
    from emulator.mechanisms.realtime.tables import Ints, Ints32, Jobs, Runs, State

PREEMPTED = 6
"""Outcome of a segment (`RunOutcome.PREEMPTED`)."""


# Sorted lists.


@inner
def queue_insert(job: Jobs, queue: Ints32, reg: Ints, count: int, who: int) -> None:
    """By (key, queued_us, row); `count` is the register with the queue's length."""
    place = reg[count]
    while place > 0:
        other = queue[place - 1]
        if job[other].key < job[who].key or (
            job[other].key == job[who].key
            and (
                job[other].queued_us < job[who].queued_us
                or (job[other].queued_us == job[who].queued_us and other < who)
            )
        ):
            break
        queue[place] = other
        place -= 1
    queue[place] = who
    reg[count] += 1


@inner
def queue_remove_at(queue: Ints32, reg: Ints, count: int, place: int) -> None:
    reg[count] -= 1
    for k in range(place, reg[count]):
        queue[k] = queue[k + 1]


@inner
def running_insert(job: Jobs, running: Ints32, reg: Ints, who: int) -> None:
    """By (PLANNED, row)."""
    place = reg[RUNNING_N]
    while place > 0:
        other = running[place - 1]
        if job[other].planned_us < job[who].planned_us or (
            job[other].planned_us == job[who].planned_us and other < who
        ):
            break
        running[place] = other
        place -= 1
    running[place] = who
    reg[RUNNING_N] += 1


@inner
def running_remove(running: Ints32, reg: Ints, who: int) -> None:
    place = 0
    while running[place] != who:
        place += 1
    queue_remove_at(running, reg, RUNNING_N, place)


# Transfers.


@inner
def alone_us(reg: Ints, units: int, cap: int) -> int:
    """A checkpoint of so many units when nobody else is at it."""
    return time_for(reg[DATA_OWED], rate_of(reg[NODE_RATE], reg[cap], units * reg[UNIT_NODES]))


@inner
def rate_for(job: Jobs, reg: Ints, who: int) -> int:
    """Bytes a second for each node of a job that reads or writes."""
    nodes = job[who].nodes * reg[UNIT_NODES]
    if job[who].phase == READING:
        return rate_of(reg[NODE_RATE], reg[READ_CAP], reg[READERS] if reg[SHARED] else nodes)
    return rate_of(reg[NODE_RATE], reg[WRITE_CAP], reg[WRITERS] if reg[SHARED] else nodes)


@inner
def pass_io_time(job: Jobs, running: Ints32, reg: Ints, now: int) -> None:
    """Let all transfers go on to `now`."""
    for_us = now - reg[LAST_IO]
    reg[LAST_IO] = now
    if for_us == 0 or reg[READERS] + reg[WRITERS] == 0:
        return
    for k in range(reg[RUNNING_N]):
        who = running[k]
        if job[who].phase in (READING, WRITING, LEAVING):
            job[who].owed -= rate_for(job, reg, who) * for_us


@compiled
def io_end(job: Jobs, reg: Ints, who: int) -> int:
    """When a job's transfer is over if nobody else begins or ends one."""
    end: int = reg[LAST_IO] + max(0, time_for(job[who].owed, rate_for(job, reg, who)))
    return end


@inner
def next_end(job: Jobs, running: Ints32, reg: Ints) -> int:
    """The next end of a stretch of work or of a transfer."""
    least = NEVER
    for k in range(reg[RUNNING_N]):
        who = running[k]
        phase = job[who].phase
        if phase == WORKING:
            least = min(least, job[who].ready_us)
        elif phase in (READING, WRITING, LEAVING):
            least = min(least, io_end(job, reg, who))
    return least


@inner
def begin_phase(job: Jobs, reg: Ints, who: int, phase: int, now: int) -> None:
    """Leave the present phase's transfer, if any, and begin this one's."""
    nodes = job[who].nodes * reg[UNIT_NODES]
    before = job[who].phase
    if before == READING:
        reg[READERS] -= nodes
    elif before in (WRITING, LEAVING):
        reg[WRITERS] -= nodes
    if phase == READING:
        reg[READERS] += nodes
        job[who].owed = reg[DATA_OWED]
    elif phase in (WRITING, LEAVING):
        reg[WRITERS] += nodes
        job[who].owed = reg[DATA_OWED]
    job[who].phase = phase
    job[who].since_us = now


# Segments.


@inner
def segment_us(job: Jobs, reg: Ints, who: int) -> int:
    """How long the scheduler expects the next segment to be: what is left of the walltime, the read and the writes."""
    left: int = max(job[who].estimate_us - job[who].saved_us, 1)
    if job[who].saved_us > 0:
        left += alone_us(reg, job[who].nodes, READ_CAP)
    interval = job[who].interval_us
    if interval > 0:
        writes = job[who].estimate_us // interval - job[who].saved_us // interval
        left += max(writes, 0) * alone_us(reg, job[who].nodes, WRITE_CAP)
    return left


@inner
def begin_segment(state: State, who: int, now: int) -> None:
    """The job's units are logged by the caller; from now on they are its own."""
    job, _, _, _, _, _, _, _, _, running, runs, _, _, _, _, _, reg = state
    row = reg[RUNS_N]
    reg[RUNS_N] += 1
    runs[row].job = who
    runs[row].start_us = now
    runs[row].end_us = -1
    runs[row].first = reg[LOG_N]
    runs[row].place = job[who].place
    job[who].run_row = row
    job[who].state = RUNNING
    job[who].start_us = now
    job[who].planned_us = now + segment_us(job, reg, who)
    running_insert(job, running, reg, who)
    job[who].base_us = job[who].saved_us
    if job[who].saved_us > 0:
        begin_phase(job, reg, who, READING, now)
    else:
        begin_work(job, reg, who, now)


@inner
def begin_work(job: Jobs, reg: Ints, who: int, now: int) -> None:
    """A stretch of work up to the next checkpoint or the end."""
    begin_phase(job, reg, who, WORKING, now)
    until = job[who].run_us
    interval = job[who].interval_us
    if interval > 0:
        until = min(until, (job[who].base_us // interval + 1) * interval)
    job[who].ready_us = now + until - job[who].base_us


@inner
def work_done(job: Jobs, runs: Runs, who: int, now: int) -> None:
    """Book the work since SINCE."""
    done = now - job[who].since_us
    job[who].base_us += done
    runs[job[who].run_row].work_us += done


@inner
def leave_units(state: State, who: int) -> None:
    job, unit, parts, _, conflicts, conflict_first, _, _, _, running, runs, log, _, _, _, _, reg = state
    running_remove(running, reg, who)
    first = runs[job[who].run_row].first
    for k in range(first, first + job[who].nodes):
        unit[log[k], OWNER] = -1
        if unit[log[k], CLAIM] < 0:
            reg[FREE_N] += 1
    column = HARD if job[who].realtime else SOFT
    if job[who].realtime:
        reg[HARD_N] -= job[who].nodes
    place = job[who].place
    if place >= 0:
        for k in range(conflict_first[place], conflict_first[place + 1]):
            parts[conflicts[k], column] -= 1
    begin_phase(job, reg, who, OUT, 0)
    reg[DIRTY] = 1


@inner
def end_segment(state: State, who: int, now: int, outcome: int) -> None:
    leave_units(state, who)
    job, runs = state[0], state[10]
    runs[job[who].run_row].end_us = now
    runs[job[who].run_row].outcome = outcome


@inner
def finish(state: State, who: int, now: int) -> None:
    end_segment(state, who, now, FINISHED)
    job = state[0]
    job[who].state = ENDED
    job[who].end_us = now
    state[16][ENDED_N] += 1


@inner
def back_to_queue(state: State, who: int, now: int) -> None:
    """A preempted job has left its units and is resubmitted (section 5.2)."""
    end_segment(state, who, now, PREEMPTED)
    job, queue, reg = state[0], state[7], state[16]
    job[who].state = QUEUED
    job[who].start_us = -1
    if reg[TO_THE_BACK]:
        job[who].queued_us = now
    queue_insert(job, queue, reg, QUEUE_N, who)


@inner
def at_risk(job: Jobs, reg: Ints, who: int, now: int) -> int:
    """Work of a batch job that would be lost if it were preempted now."""
    if reg[SCHEME] == CKPT:
        return 0
    done: int = job[who].base_us
    if job[who].phase == WORKING:
        done += now - job[who].since_us
    return done if reg[SCHEME] == RESTART else done - job[who].saved_us


@inner
def preempt(state: State, who: int, now: int) -> None:
    """Send a batch job off: at once, or (PRE-CKPT) when it has written what it did."""
    job, _, _, _, _, _, _, _, _, _, runs, _, _, _, _, _, reg = state
    row = job[who].run_row
    phase = job[who].phase
    if phase == WORKING:
        work_done(job, runs, who, now)
        if reg[SCHEME] == CKPT and job[who].base_us > job[who].saved_us:
            begin_phase(job, reg, who, LEAVING, now)
            return
    else:  # a read or a write that is cut short was in vain
        runs[row].redo_us += now - job[who].since_us
        if phase == READING:
            runs[row].reads_us += now - job[who].since_us
    lost = job[who].base_us - job[who].saved_us
    runs[row].lost_us += lost
    runs[row].redo_us += lost
    back_to_queue(state, who, now)


@inner
def go_on(state: State, who: int, now: int) -> None:
    """A stretch of work or a transfer of this job is over."""
    job, _, _, _, _, _, _, _, _, _, runs, _, _, _, _, _, reg = state
    row = job[who].run_row
    phase = job[who].phase
    if phase == WORKING:
        work_done(job, runs, who, now)
        interval = job[who].interval_us
        if interval > 0 and job[who].base_us % interval == 0 and job[who].base_us > 0:
            begin_phase(job, reg, who, WRITING, now)
        else:
            finish(state, who, now)
        return
    if phase == READING:
        runs[row].redo_us += now - job[who].since_us
        runs[row].reads_us += now - job[who].since_us
        begin_work(job, reg, who, now)
        return
    runs[row].writes_us += now - job[who].since_us
    runs[row].checkpoints += 1
    job[who].saved_us = job[who].base_us
    if phase == LEAVING:
        back_to_queue(state, who, now)
    elif job[who].base_us == job[who].run_us:
        finish(state, who, now)
    else:
        begin_work(job, reg, who, now)
