"""The loop of shared nodes, compiled: ends, phases, submits and passes, instant by instant.

The rules: `docs/mechanisms/oversubscribe.md`; the slow truth: `tests/oracle/oversubscribe.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.kernel.kernel import submit_due
from emulator.kernel.stepping import next_submit, step_to
from emulator.kernel.tables import NEVER, Stop
from emulator.mechanisms.oversubscribe.passes import schedule_pass
from emulator.mechanisms.oversubscribe.places import vacate
from emulator.mechanisms.oversubscribe.speeds import change_active, refresh, settle, touch

if TYPE_CHECKING:
    from emulator.mechanisms.oversubscribe.tables import State


@compiled
def end_job(state: State, row: int, now: int, outcome: int) -> None:
    job, runs, registers = state.job, state.runs, state.registers
    vacate(state, row, now)
    job[row].state = JobState.ENDED
    job[row].end_us = now
    runs[job[row].run_row].end_us = now
    runs[job[row].run_row].outcome = outcome
    registers.ended_n += 1


@compiled
def next_phase(state: State, row: int, now: int) -> None:
    """An active job becomes idle or the other way round: its neighbours run faster or slower."""
    job, slot_job, slot_next, phases = state.job, state.slot_job, state.slot_next, state.phases
    core_registers = state.core_registers
    settle(job, row, now)
    job[row].phase += 1
    job[row].phase_left = phases[job[row].phase] * core_registers.full
    job[row].is_idle ^= 1
    job[row].rate = 0
    touch(state, row)
    by = -1 if job[row].is_idle else 1
    units = slot_job.shape[1]
    slots = slot_job.shape[2]
    place = job[row].first_slot
    while place >= 0 and slots > 1:
        change_active(state, place // (units * slots), (place // slots) % units, by)
        place = slot_next[place]
    refresh(state, now)


@compiled
def submit_one_by_one(state: State, now: int) -> None:
    """One pass after each submit (scheduler option `pass: event`)."""
    job, queue, registers = state.job, state.queue, state.registers
    while submit_due(job, queue, registers, now, 1):
        schedule_pass(state, now)


@compiled
def finish_instant(state: State, now: int) -> None:
    """What comes after the decision points of an instant: submits, then one pass."""
    job, queue, registers = state.job, state.queue, state.registers
    registers.now = now
    if registers.every_event:
        submit_one_by_one(state, now)
    else:
        submit_due(job, queue, registers, now, NEVER)
    schedule_pass(state, now)


@compiled
def is_passed_over(state: State, row: int, now: int) -> bool:
    """No pass follows, by the authors' program: it ran exactly to its estimate, and others end at the same instant."""
    job, heap, registers = state.job, state.heap, state.registers
    is_last = registers.heap_n == 0 or job[heap[0]].event_us != now
    return bool(job[row].run_us == job[row].estimate_us and not is_last)


@compiled
def advance(state: State, until: int) -> int:
    """Let ends, phases, submits and passes happen up to the decision point at `until`.

    Returns as `emulator.kernel.kernel.advance` does; the tables never need to grow.
    """
    job, heap, registers = state.job, state.heap, state.registers
    core_registers = state.core_registers
    while True:
        next_event = job[heap[0]].event_us if registers.heap_n else NEVER
        submitted = next_submit(job, registers)
        now = min(next_event, submitted)
        if now > core_registers.pause_at and now <= until:
            return Stop.PAUSED
        code = step_to(registers, now, until)
        if code != Stop.GOES_ON:
            return code
        ended = registers.ended_n
        while registers.heap_n and job[heap[0]].event_us == now:
            row = heap[0]
            if job[row].phase + 1 < job[row].phase_end:
                next_phase(state, row, now)
            else:
                end_job(state, row, now, RunOutcome.FINISHED)
                if (
                    registers.every_event
                    and now != until
                    and not (core_registers.program and is_passed_over(state, row, now))
                ):
                    schedule_pass(state, now)
        if now == until:
            return Stop.AT_UNTIL
        if registers.stop_on_end and registers.ended_n > ended:
            return Stop.AT_ENDS
        if ended == registers.ended_n and submitted > now:
            continue  # only phases: passes follow ends and submits, as everywhere
        if core_registers.program:
            submit_one_by_one(state, now)
        else:
            finish_instant(state, now)
