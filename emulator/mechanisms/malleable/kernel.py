"""The planner's loop between decision points, compiled: ends, submits, passes and changes of width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled
from emulator.kernel.job_states import JobState, RunOutcome
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
def give(state: State, who: int, width: int) -> None:
    """Idle nodes to a job, until it has so many. The last one it gets is the first it gives back."""
    job, free, below, registers = state.job, state.free, state.below, state.registers
    while job[who].width < width:
        registers.free_n -= 1
        node = free[registers.free_n]
        below[node] = job[who].top_node
        job[who].top_node = node
        job[who].width += 1


@compiled
def take(state: State, who: int, width: int) -> None:
    """Nodes back from a job, until it has so few."""
    job, free, below, registers = state.job, state.free, state.below, state.registers
    while job[who].width > width:
        node = job[who].top_node
        job[who].top_node = below[node]
        free[registers.free_n] = node
        registers.free_n += 1
        job[who].width -= 1


@compiled
def begin_segment(state: State, who: int, now: int) -> None:
    """A row of the run table for the nodes that the job has from now on, and its end if they stay."""
    job, speed, below, runs, log = state.job, state.speed, state.below, state.runs, state.log
    registers = state.registers
    row = registers.runs_n
    registers.runs_n = row + 1
    runs[row].job = who
    runs[row].start_us = now
    runs[row].end_us = -1
    runs[row].first = registers.log_n
    job[who].run_row = row
    job[who].begun = job[who].done
    node = job[who].top_node
    for _ in range(job[who].width):
        log[registers.log_n] = node
        registers.log_n += 1
        node = below[node]
    left = job[who].owed - job[who].done
    at_speed = speed[job[who].speed_row, job[who].width]
    job[who].ends_us = now + job[who].overhead_us + length_us(left, at_speed, registers.tick_us)


@compiled
def end_segment(state: State, who: int, now: int, outcome: int) -> None:
    """Account for what the job did on the nodes that it had until now."""
    job, speed, runs = state.job, state.speed, state.runs
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
    job, speed = state.job, state.speed
    unit = speed[job[who].speed_row, job[who].nodes]
    nodes = job[who].nodes
    node_us: int = work // unit * nodes + work % unit * nodes // unit
    return node_us


@compiled
def end_due(state: State, now: int) -> int:
    """End the jobs that are due. Returns how many."""
    job, running, by_end, registers = state.job, state.running, state.by_end, state.registers
    count = registers.running_n
    left = 0
    for k in range(count):
        who = running[k]
        if job[who].ends_us == now:
            end_segment(state, who, now, RunOutcome.FINISHED)
            take(state, who, 0)
            job[who].state = JobState.ENDED
            job[who].end_us = now
            if job[who].job_class == JobClass.MALLEABLE:
                registers.malleable_n -= 1
                if registers.minimum >= MinimumRule.POOL:
                    registers.loose += job[who].floor
            registers.freed = max(registers.freed, job[who].expected_end_us)
        else:
            running[left] = who
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
        who = registers.next_submit
        registers.next_submit += 1
        if job[who].state != JobState.FUTURE:
            continue
        job[who].state = JobState.QUEUED
        place = registers.queue_n
        while place > 0 and job[queue[place - 1]].key > job[who].key:
            queue[place] = queue[place - 1]
            place -= 1
        queue[place] = who
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
        who = started[k]
        if job[who].job_class != JobClass.MALLEABLE:
            job[who].width = job[who].target  # what it takes from the malleable ones
        running[before + k] = who
        by_end[before + k] = who
    registers.running_n = before + registers.started_n
    if registers.minimum == MinimumRule.WAITING_FIRST:
        for k in range(registers.running_n):
            by_end[k] = running[k]  # the plan has put those that joined before it among them
    if registers.malleable_n:
        share(state)
    for k in range(before):
        who = running[k]
        if job[who].job_class == JobClass.MALLEABLE and job[who].target < job[who].width:
            end_segment(state, who, now, RunOutcome.RESIZED)
            take(state, who, job[who].target)
            job[who].overhead_us += penalty(registers, job[who].width)
            begin_segment(state, who, now)
    for k in range(before, registers.running_n):
        who = running[k]
        job[who].width = 0
        job[who].start_us = now
        job[who].since_us = now
        give(state, who, job[who].target)
        begin_segment(state, who, now)
    for k in range(before):
        who = running[k]
        if job[who].job_class == JobClass.MALLEABLE and job[who].target > job[who].width:
            end_segment(state, who, now, RunOutcome.RESIZED)
            give(state, who, job[who].target)
            job[who].overhead_us += penalty(registers, job[who].width)
            begin_segment(state, who, now)


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
