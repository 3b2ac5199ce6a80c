"""The compiled loop between decision points: ends, submits and scheduling passes, instant by instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.callbacks import call_hook
from emulator.kernel.compiled import compiled, inlined
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.kernel.occupancy import end_job
from emulator.kernel.passes import schedule_pass, schedule_pass_inline
from emulator.kernel.stepping import next_submit, step_to
from emulator.kernel.structures import heap_pop, heap_remove, queue_insert
from emulator.kernel.tables import (
    BATCH,
    NEVER,
    EndOrder,
    Stop,
)

if TYPE_CHECKING:
    from emulator.kernel.tables import Heap, Ints32, Jobs, Registers, State


@inlined
def submit_due(job: Jobs, queue: Ints32, registers: Registers, now: int, at_most: int) -> int:
    """Queue batch jobs that are submitted now, `at_most` so many. Returns how many."""
    count = 0
    while (
        count < at_most
        and registers.next_submit < registers.jobs_n
        and job[registers.next_submit].submit_us <= now
    ):
        row = registers.next_submit
        registers.next_submit += 1
        if job[row].kind == BATCH and job[row].state == JobState.FUTURE:
            job[row].state = JobState.QUEUED
            queue_insert(job, queue, registers, row)
            count += 1
    return count


@compiled
def submit_one_by_one(state: State, now: int) -> None:
    """One pass after each submit (scheduler option `pass: event`), or each that fits (`submit_pass: if_it_fits`)."""
    job, queue, registers = state.job, state.queue, state.registers
    while submit_due(job, queue, registers, now, 1):
        if registers.fitting_submits and job[registers.next_submit - 1].nodes > registers.idle_nodes:
            if registers.ask and registers.ask_always:
                call_hook(registers.ask, registers.ask_context, now)
        else:
            schedule_pass(state, now)


@inlined
def ends_before(job: Jobs, registers: Registers, one: int, other: int) -> bool:
    """By start, but by expected end for two that ran when the last reservation was made (`expected_end`)."""
    both_ran = job[one].run_row < registers.kept_runs and job[other].run_row < registers.kept_runs
    if (
        registers.ends_by == EndOrder.EXPECTED_END
        and both_ran
        and job[one].expected_end_us != job[other].expected_end_us
    ):
        return bool(job[one].expected_end_us < job[other].expected_end_us)
    return bool(job[one].run_row < job[other].run_row)


@inlined
def pop_end(job: Jobs, heap: Heap, registers: Registers, now: int) -> int:
    """Remove the next of the ends of this instant: by job, or as the scheduler option `ends_in_order_of` has it."""
    if registers.ends_by == EndOrder.SUBMIT:
        row: int = heap_pop(heap, registers)
        return row
    first: int = heap[0].key
    for k in range(1, registers.heap_n):
        row = heap[k].key
        if heap[k].at_us == now and ends_before(job, registers, row, first):
            first = row
    heap_remove(heap, registers, first)
    return first


@compiled
def end_one_by_one(state: State, now: int, until: int) -> None:
    """The ends of an instant with a pass after each (`pass: event`), but at a decision point (`until`).

    With `exact_ends_first` those that come when they were expected give their nodes back before all others, and before
    the first pass. With `submits_first` the submits have their passes before the ends.
    """
    job, node, free, plan, blocks = state.job, state.node, state.free, state.plan, state.blocks
    heap, runs, log, registers = state.heap, state.runs, state.log, state.registers
    if registers.exact_first:
        if registers.correct:
            call_hook(registers.correct, 0, now)
        for k in range(registers.heap_n):
            row = heap[k].key
            if heap[k].at_us == now and job[row].run_us == job[row].estimate_us:
                end_job(job, node, free, plan, blocks, runs, log, registers, row, now, RunOutcome.FINISHED)
    if registers.submits_first and now != until:
        submit_one_by_one(state, now)
    while registers.heap_n and heap[0].at_us == now:
        row = pop_end(job, heap, registers, now)
        if job[row].state == JobState.RUNNING:
            end_job(job, node, free, plan, blocks, runs, log, registers, row, now, RunOutcome.FINISHED)
        if now != until:
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


@inlined
def has_room_inline(state: State) -> bool:
    """One instant's passes can start at most as many jobs, on at most as many nodes, as there are nodes."""
    node, runs, log, registers = state.node, state.runs, state.log, state.registers
    nodes = node.shape[0]
    return bool(runs.shape[0] - registers.runs_n > nodes and log.shape[0] - registers.log_n > nodes)


@compiled
def advance(state: State, until: int) -> int:
    """Let ends, submits and passes happen up to the decision point at `until`.

    Returns Stop.AT_UNTIL when all instants before `until` are over and the ends of `until` itself have happened
    (its submits and pass are `finish_instant`'s); Stop.AT_ENDS, if STOP_ON_END is set, after the ends of an
    earlier instant (registers.now), which `finish_instant` must complete; Stop.AT_PASS, if STOP_ON_PASS is
    set, when an earlier instant is over; Stop.PAUSED between two instants, when INSTANTS_LEFT are over;
    Stop.NEEDS_ROOM when the run table has to grow first.
    """
    job, node, free, queue, plan = state.job, state.node, state.free, state.queue, state.plan
    blocks, heap, runs, log, registers = state.blocks, state.heap, state.runs, state.log, state.registers
    while True:
        if not has_room_inline(state):
            return Stop.NEEDS_ROOM
        next_end = heap[0].at_us if registers.heap_n else NEVER
        now = min(next_end, next_submit(job, registers), registers.next_cycle)
        code = step_to(registers, now, until)
        if code != Stop.GOES_ON:
            return code
        if registers.every_event and next_end == now:
            end_one_by_one(state, now, until)
        while registers.heap_n and heap[0].at_us == now:
            row = heap_pop(heap, registers)
            end_job(job, node, free, plan, blocks, runs, log, registers, row, now, RunOutcome.FINISHED)
        if now == until:
            return Stop.AT_UNTIL
        if registers.stop_on_end and next_end == now:
            return Stop.AT_ENDS
        if registers.every_event:
            submit_one_by_one(state, now)
        else:
            submit_due(job, queue, registers, now, NEVER)
            schedule_pass_inline(state, now)
        if registers.stop_on_pass:
            return Stop.AT_PASS
