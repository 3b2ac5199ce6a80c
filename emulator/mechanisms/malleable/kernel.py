"""The planner's loop between decision points, compiled: ends, submits, passes and changes of width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.kernel.occupancy import begin_run_row
from emulator.kernel.stepping import step_to
from emulator.kernel.tables import Stop
from emulator.mechanisms.malleable.planning import choose, done_at
from emulator.mechanisms.malleable.profile import length_us
from emulator.mechanisms.malleable.sharing import share
from emulator.mechanisms.malleable.tables import NEVER, JobClass, MinimumRule

if TYPE_CHECKING:
    from emulator.mechanisms.malleable.tables import Registers, State


@compiled
def has_room(state: State) -> bool:
    """At one instant each job that runs may begin one segment, and all together have as many nodes as there are."""
    free, runs, log, registers = state.free, state.runs, state.log, state.registers
    nodes = free.shape[0]
    return bool(runs.shape[0] - registers.runs_n >= nodes and log.shape[0] - registers.log_n >= nodes)


@compiled
def next_event(state: State) -> int:
    """The next end or submit, NEVER if there is none."""
    job, running, registers = state.job, state.running, state.registers
    at = NEVER
    if registers.next_submit < registers.jobs_n:
        at = job[registers.next_submit].submit_us
    for k in range(registers.running_n):
        at = min(at, job[running[k]].ends_us)
    return at


@compiled
def give(state: State, row: int, width: int) -> None:
    """Idle nodes to a job, until it has so many. The last one it gets is the first it gives back."""
    job, free, below, registers = state.job, state.free, state.below, state.registers
    while job[row].width < width:
        registers.free_n -= 1
        node = free[registers.free_n]
        below[node] = job[row].top_node
        job[row].top_node = node
        job[row].width += 1


@compiled
def take(state: State, row: int, width: int) -> None:
    """Nodes back from a job, until it has so few."""
    job, free, below, registers = state.job, state.free, state.below, state.registers
    while job[row].width > width:
        node = job[row].top_node
        job[row].top_node = below[node]
        free[registers.free_n] = node
        registers.free_n += 1
        job[row].width -= 1


@compiled
def begin_segment(state: State, row: int, now: int) -> None:
    """A row of the run table for the nodes that the job has from now on, and its end if they stay."""
    job, speed, below, runs, log = state.job, state.speed, state.below, state.runs, state.log
    registers = state.registers
    begin_run_row(job, runs, registers, row, now)
    job[row].begun = job[row].done
    node = job[row].top_node
    for _ in range(job[row].width):
        log[registers.log_n] = node
        registers.log_n += 1
        node = below[node]
    left = job[row].owed - job[row].done
    at_speed = speed[job[row].speed_row, job[row].width]
    job[row].ends_us = now + job[row].overhead_us + length_us(left, at_speed, registers.tick_us)


@compiled
def end_segment(state: State, row: int, now: int, outcome: int) -> None:
    """Account for what the job did on the nodes that it had until now."""
    job, speed, runs = state.job, state.speed, state.runs
    run_row = job[row].run_row
    runs[run_row].end_us = now
    runs[run_row].outcome = outcome
    done = min(done_at(job, speed, row, now), job[row].owed)
    job[row].overhead_us = max(job[row].since_us + job[row].overhead_us - now, 0)
    job[row].since_us = now
    job[row].done = done
    runs[run_row].done = nominal(state, row, done) - nominal(state, row, job[row].begun)


@compiled
def nominal(state: State, row: int, work: int) -> int:
    """Work in node-us of the job's nominal width: all that it owes is its run time on its nodes."""
    job, speed = state.job, state.speed
    unit = speed[job[row].speed_row, job[row].nodes]
    nodes = job[row].nodes
    node_us: int = work // unit * nodes + work % unit * nodes // unit
    return node_us


@compiled
def end_due(state: State, now: int) -> int:
    """End the jobs that are due. Returns how many."""
    job, running, by_end, registers = state.job, state.running, state.by_end, state.registers
    count = registers.running_n
    left = 0
    for k in range(count):
        row = running[k]
        if job[row].ends_us == now:
            end_segment(state, row, now, RunOutcome.FINISHED)
            take(state, row, 0)
            job[row].state = JobState.ENDED
            job[row].end_us = now
            if job[row].job_class == JobClass.MALLEABLE:
                registers.malleable_n -= 1
                if registers.minimum >= MinimumRule.POOL:
                    registers.loose += job[row].floor
            registers.freed = max(registers.freed, job[row].expected_end_us)
        else:
            running[left] = row
            left += 1
    if left == count:
        return 0
    still = 0
    for k in range(count):
        if job[by_end[k]].state != JobState.ENDED:
            by_end[still] = by_end[k]
            still += 1
    registers.running_n = left
    registers.ended_n += count - left
    registers.kept = 0
    registers.changed = 1
    ended: int = count - left
    return ended


@compiled
def submit_due(state: State, now: int) -> None:
    """Queue the batch jobs that are submitted now, sorted by (key, job)."""
    job, queue, registers = state.job, state.queue, state.registers
    while registers.next_submit < registers.jobs_n and job[registers.next_submit].submit_us <= now:
        row = registers.next_submit
        registers.next_submit += 1
        if job[row].state != JobState.FUTURE:
            continue
        job[row].state = JobState.QUEUED
        place = registers.queue_n
        while place > 0 and job[queue[place - 1]].key > job[row].key:
            queue[place] = queue[place - 1]
            place -= 1
        queue[place] = row
        registers.queue_n += 1
        if place < registers.planned:
            registers.kept = 0
        registers.remembered = min(registers.remembered, place)


@compiled
def penalty(registers: Registers, width: int) -> int:
    """What a change to so many nodes costs, in run time: so long, or as long as they need for so much work."""
    lost: int = registers.penalty // width if registers.penalty_is_work else registers.penalty
    return lost


@compiled
def finish_instant(state: State, now: int) -> None:
    """Submits, one pass, and the new widths."""
    job, running, by_end, started = state.job, state.running, state.by_end, state.started
    registers = state.registers
    registers.now = now
    submit_due(state, now)
    choose(state, now)
    if registers.changed == 0:
        return
    registers.changed = 0
    before = registers.running_n
    for k in range(registers.started_n):
        row = started[k]
        if job[row].job_class != JobClass.MALLEABLE:
            job[row].width = job[row].target  # what it takes from the malleable ones
        running[before + k] = row
        by_end[before + k] = row
    registers.running_n = before + registers.started_n
    if registers.minimum == MinimumRule.WAITING_FIRST:
        for k in range(registers.running_n):
            by_end[k] = running[k]  # the plan has put those that joined before it among them
    if registers.malleable_n:
        share(state)
    for k in range(before):
        row = running[k]
        if job[row].job_class == JobClass.MALLEABLE and job[row].target < job[row].width:
            end_segment(state, row, now, RunOutcome.RESIZED)
            take(state, row, job[row].target)
            job[row].overhead_us += penalty(registers, job[row].width)
            begin_segment(state, row, now)
    for k in range(before, registers.running_n):
        row = running[k]
        job[row].width = 0
        job[row].start_us = now
        job[row].since_us = now
        give(state, row, job[row].target)
        begin_segment(state, row, now)
    for k in range(before):
        row = running[k]
        if job[row].job_class == JobClass.MALLEABLE and job[row].target > job[row].width:
            end_segment(state, row, now, RunOutcome.RESIZED)
            give(state, row, job[row].target)
            job[row].overhead_us += penalty(registers, job[row].width)
            begin_segment(state, row, now)


@compiled
def advance(state: State, until: int) -> int:
    """As the harness's kernel: everything before `until`, and the ends at it, happen. Returns why it came back."""
    registers = state.registers
    while True:
        if not has_room(state):
            return Stop.NEEDS_ROOM
        now = next_event(state)
        code = step_to(registers, now, until)
        if code != Stop.GOES_ON:
            return code
        ended = end_due(state, now)
        if now == until:
            return Stop.AT_UNTIL
        if registers.stop_on_end and ended > 0:
            return Stop.AT_ENDS
        finish_instant(state, now)
