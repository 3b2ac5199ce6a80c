"""The compiled loop, instant by instant: ends, checkpoints, submits, one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled, inner
from emulator.harness.stepping import next_submit
from emulator.mechanisms.realtime.passes import schedule
from emulator.mechanisms.realtime.segments import go_on, next_end, pass_io_time, queue_insert
from emulator.mechanisms.realtime.tables import (
    AT_UNTIL,
    BASELINE,
    CLAIMED,
    CLASSES,
    DIRTY,
    INSTANTS_LEFT,
    JOBS_N,
    LOG_N,
    NEEDS_ROOM,
    NEVER,
    NEXT_SUBMIT,
    NOW,
    PAUSED,
    QUEUE_N,
    QUEUED,
    RUNNING_N,
    RUNS_N,
    SCHEME,
    URGENT_N,
    WORKING,
)

if TYPE_CHECKING:
    from emulator.mechanisms.realtime.tables import Ints, Jobs, State


@compiled
def has_room(state: State, now: int) -> bool:
    """At one instant real-time jobs and then batch jobs can start, each on at most all units."""
    job, unit, _, _, _, _, _, _, _, _, runs, log, _, _, take, _, reg = state
    units = unit.shape[0]
    if runs.shape[0] - reg[RUNS_N] <= 2 * units or log.shape[0] - reg[LOG_N] <= 2 * units:
        return False
    return bool(take.shape[0] >= scratch_wanted(job, units, reg, now))


@compiled
def scratch_wanted(job: Jobs, units: int, reg: Ints, now: int) -> int:
    """Victims are chosen among all that run or have a claim, those that get one at this instant included."""
    coming = reg[RUNNING_N] + reg[URGENT_N]
    row = reg[NEXT_SUBMIT]
    while row < reg[JOBS_N] and job[row].submit_us <= now:
        coming += 1
        row += 1
    return min(coming, 2 * units) * (units + 1) if reg[CLASSES] == 0 else 2 * units


@inner
def submit_due(state: State, now: int) -> None:
    job, _, _, _, _, _, _, queue, urgent, _, _, _, _, _, _, _, reg = state
    while reg[NEXT_SUBMIT] < reg[JOBS_N] and job[reg[NEXT_SUBMIT]].submit_us <= now:
        who = reg[NEXT_SUBMIT]
        reg[NEXT_SUBMIT] += 1
        job[who].state = QUEUED
        job[who].queued_us = now
        if job[who].realtime and reg[SCHEME] != BASELINE:
            queue_insert(job, urgent, reg, URGENT_N, who)
        else:
            queue_insert(job, queue, reg, QUEUE_N, who)
        reg[DIRTY] = 1


@inner
def end_due(state: State, now: int) -> None:
    """Stretches of work and transfers that are over by now; what a job does next may be over at once."""
    job, _, _, _, _, _, _, _, _, running, _, _, _, _, _, _, reg = state
    pass_io_time(job, running, reg, now)
    at = 0
    while at < reg[RUNNING_N]:
        who = running[at]
        phase = job[who].phase
        over = job[who].ready_us <= now if phase == WORKING else job[who].owed <= 0
        if phase != CLAIMED and over:
            go_on(state, who, now)
            at = 0
        else:
            at += 1


@compiled
def next_instant(state: State) -> int:
    """The next submit or end, NEVER if there is none."""
    job, _, _, _, _, _, _, _, _, running, _, _, _, _, _, _, reg = state
    return min(next_submit(job, reg), next_end(job, running, reg))


@compiled
def advance(state: State, until: int) -> int:
    """Let everything before `until` happen. AT_UNTIL, PAUSED between two instants, or NEEDS_ROOM."""
    reg = state[16]
    while True:
        now = next_instant(state)
        if not has_room(state, now):
            reg[NOW] = min(now, until)
            return NEEDS_ROOM
        if now >= until or now == NEVER:
            if until != NEVER:
                reg[NOW] = until
            return AT_UNTIL
        if reg[INSTANTS_LEFT] == 0:
            return PAUSED
        reg[INSTANTS_LEFT] -= 1
        reg[NOW] = now
        end_due(state, now)
        submit_due(state, now)
        if reg[DIRTY]:
            schedule(state, now)


@compiled
def finish_instant(state: State, now: int) -> None:
    """Ends, submits and the pass of this instant."""
    reg = state[16]
    reg[NOW] = now
    end_due(state, now)
    submit_due(state, now)
    if reg[DIRTY]:
        schedule(state, now)
