"""The compiled loop, instant by instant: ends, checkpoints, submits, one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inner
from emulator.kernel.job_states import JobState
from emulator.kernel.stepping import next_submit
from emulator.kernel.tables import Stop
from emulator.mechanisms.realtime.passes import schedule
from emulator.mechanisms.realtime.segments import go_on, next_end, pass_io_time, queue_insert
from emulator.mechanisms.realtime.tables import NEVER, Phase, Scheme

if TYPE_CHECKING:
    from emulator.mechanisms.realtime.tables import State


@compiled
def has_room(state: State, now: int) -> bool:
    """At one instant real-time jobs and then batch jobs can start, each on at most all units."""
    runs, log, take, registers = state.runs, state.log, state.take, state.registers
    units = state.unit.shape[0]
    if runs.shape[0] - registers.runs_n <= 2 * units or log.shape[0] - registers.log_n <= 2 * units:
        return False
    return bool(take.shape[0] >= scratch_wanted(state, now))


@compiled
def scratch_wanted(state: State, now: int) -> int:
    """Victims are chosen among all that run or have a claim, those that get one at this instant included."""
    job, registers, units = state.job, state.registers, state.unit.shape[0]
    coming = state.running.size.jobs + state.urgent.size.jobs
    row = registers.next_submit
    while row < registers.jobs_n and job[row].submit_us <= now:
        coming += 1
        row += 1
    return min(coming, 2 * units) * (units + 1) if registers.classes == 0 else 2 * units


@inner
def submit_due(state: State, now: int) -> None:
    job, queue, urgent, registers = state.job, state.queue, state.urgent, state.registers
    while registers.next_submit < registers.jobs_n and job[registers.next_submit].submit_us <= now:
        row = registers.next_submit
        registers.next_submit += 1
        job[row].state = JobState.QUEUED
        job[row].queued_us = now
        if job[row].realtime and registers.scheme != Scheme.BASELINE:
            queue_insert(job, urgent, row)
        else:
            queue_insert(job, queue, row)
        registers.dirty = 1


@inner
def end_due(state: State, now: int) -> None:
    """Stretches of work and transfers that are over by now; what a job does next may be over at once."""
    job, running, registers = state.job, state.running, state.registers
    pass_io_time(job, running, registers, now)
    at = 0
    while at < running.size.jobs:
        row = running.rows[at]
        phase = job[row].phase
        over = job[row].ready_us <= now if phase == Phase.WORKING else job[row].owed <= 0
        if phase != Phase.CLAIMED and over:
            go_on(state, row, now)
            at = 0
        else:
            at += 1


@compiled
def next_instant(state: State) -> int:
    """The next submit or end, NEVER if there is none."""
    job, running, registers = state.job, state.running, state.registers
    return min(next_submit(job, registers), next_end(job, running, registers))


@compiled
def advance(state: State, until: int) -> int:
    """Let everything before `until` happen. AT_UNTIL, PAUSED between two instants, or NEEDS_ROOM."""
    registers = state.registers
    while True:
        now = next_instant(state)
        if not has_room(state, now):
            registers.now = min(now, until)
            return Stop.NEEDS_ROOM.value
        if now >= until or now == NEVER:
            if until != NEVER:
                registers.now = until
            return Stop.AT_UNTIL.value
        if registers.instants_left == 0:
            return Stop.PAUSED.value
        registers.instants_left -= 1
        registers.now = now
        end_due(state, now)
        submit_due(state, now)
        if registers.dirty:
            schedule(state, now)


@compiled
def finish_instant(state: State, now: int) -> None:
    """Ends, submits and the pass of this instant."""
    registers = state.registers
    registers.now = now
    end_due(state, now)
    submit_due(state, now)
    if registers.dirty:
        schedule(state, now)
