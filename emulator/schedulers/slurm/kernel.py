"""Slurm's twin between decision points, compiled: ends, submits, priorities, passes and backfill cycles in their order.

The rules: `docs/slurm-twin.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inner
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.kernel.kernel import has_room_inline
from emulator.kernel.occupancy import end_job
from emulator.kernel.reorder import sort_queue
from emulator.kernel.stepping import next_submit, step_to
from emulator.kernel.structures import heap_pop, queue_insert, queue_remove_at
from emulator.kernel.tables import (
    BATCH,
    FRONT,
    NEVER,
    Stop,
)
from emulator.schedulers.slurm.backfill import fill
from emulator.schedulers.slurm.cycles import (
    goes_on,
    note_change,
    note_cycle_that_finds,
    note_event,
    note_passed_over,
)
from emulator.schedulers.slurm.depth import begin_pass_counts, is_beyond_depth
from emulator.schedulers.slurm.fair_share import bring_fair_shares
from emulator.schedulers.slurm.limits import count_job, count_running, is_over_limit
from emulator.schedulers.slurm.node_sharing import count_room
from emulator.schedulers.slurm.nodes import open_for, place_now, start_picked
from emulator.schedulers.slurm.preemption import changes_with_time, leave, leaves_at_end
from emulator.schedulers.slurm.preemption_sharing import make_others_leave
from emulator.schedulers.slurm.reservation_masks import is_boundary, is_kept_out, may_run, next_boundary
from emulator.schedulers.slurm.tables import TIER_STEP

if TYPE_CHECKING:
    from emulator.kernel.tables import Jobs, Registers, State
    from emulator.schedulers.slurm.tables import Twin


@inner
def key_of(twin: Twin, row: int, now: int) -> int:
    """A job's place in the queue: rank, then priority, a whole number."""
    job_ext, fixed, weights = twin.job_ext, twin.fixed, twin.weights
    value = fixed[row] + weights.age * min((now - job_ext[row].eligible_us) / weights.max_age_us, 1.0)
    value += weights.fair * twin.fair_shares[job_ext[row].account].factor
    first: int = -job_ext[row].rank * TIER_STEP
    return first - int(value + 1e-6)


@inner
def submit_due(state: State, twin: Twin, now: int) -> int:
    """Queue batch jobs that are submitted now. Returns how many."""
    job, queue, registers = state.job, state.queue, state.registers
    twin_registers = twin.registers
    count = 0
    while registers.next_submit < registers.jobs_n and job[registers.next_submit].submit_us <= now:
        row = registers.next_submit
        registers.next_submit += 1
        if job[row].kind != BATCH or job[row].state != JobState.FUTURE:
            continue
        job[row].state = JobState.QUEUED
        if twin_registers.calc_every_us:
            job[row].key = key_of(twin, row, now)
        queue_insert(job, queue, registers, row)
        count += 1
    return count


@inner
def release(state: State, twin: Twin, now: int) -> None:
    """Queue jobs that were requeued and have been held back for as long as they must be.

    That is no event by itself, but cycles that go on though nothing happens find them.
    """
    job, queue, registers = state.job, state.queue, state.registers
    twin_registers, job_ext = twin.registers, twin.job_ext
    while twin_registers.release_at_us <= now:
        row = twin_registers.first_held
        twin_registers.first_held = job_ext[row].next_held
        twin_registers.release_at_us = (
            NEVER if twin_registers.first_held == NEVER else job_ext[twin_registers.first_held].eligible_us
        )
        if job[row].state == JobState.HELD:
            job[row].state = JobState.QUEUED
            if twin_registers.calc_every_us:
                job[row].key = key_of(twin, row, now)
            queue_insert(job, queue, registers, row)
    twin_registers.full_changed = 1
    note_cycle_that_finds(twin_registers, now)


@inner
def sort_resubmitted(state: State, twin: Twin) -> None:
    """Put jobs with equal keys in order of their submits, which a requeue changes: little is out of order."""
    job, queue, registers = state.job, state.queue, state.registers
    job_ext = twin.job_ext
    for k in range(registers.queue_lo + 1, registers.queue_hi):
        row = queue[k]
        key = (job[row].key, job_ext[row].submitted_us, row)
        place = k
        while place > registers.queue_lo:
            other = queue[place - 1]
            if (job[other].key, job_ext[other].submitted_us, other) < key:
                break
            queue[place] = other
            place -= 1
        queue[place] = row


@inner
def look_at_priorities(state: State, twin: Twin, now: int) -> None:
    """Work out the priorities of all waiting jobs anew and put the queue in their order."""
    job, queue, registers = state.job, state.queue, state.registers
    spare = twin.spare
    for place in range(registers.queue_lo, registers.queue_hi):
        row = int(queue[place])
        if job[row].key != FRONT:
            job[row].key = key_of(twin, row, now)
    sort_queue(job, queue, registers, spare)


@inner
def begin_pass(state: State, twin: Twin, marks: int) -> None:
    """Nothing is blocked, and nobody was looked at. `marks`: the first mark of `tests` that says what is blocked."""
    count_running(state, twin)
    if twin.registers.shares:
        count_room(state, twin)
    for k in range(marks, twin.tests.shape[0]):
        twin.tests[k] = 0
    for which in range(twin.first_mask.shape[0]):
        twin.first_mask[which] = 0
    begin_pass_counts(twin)


@inner
def main_pass(state: State, twin: Twin, now: int, depth: int) -> bool:
    """Start jobs in queue order; the first of a partition that cannot start keeps its nodes from all who come after.

    One that asks for an advance reservation keeps those from others who ask for it, and is kept from them by nobody.
    Returns whether a job was passed over for such a one.
    """
    job, queue, registers = state.job, state.queue, state.registers
    twin_registers, job_ext, parts, tests = twin.registers, twin.job_ext, twin.parts, twin.tests
    reservations = twin.times.shape[0]
    marks = tests.shape[0] - twin_registers.partitions - reservations
    begin_pass(state, twin, marks)
    blocked = looked_at = started = 0
    passes_over = False
    place = registers.queue_lo
    while (
        place < registers.queue_hi
        and looked_at <= depth
        and (registers.idle_nodes > 0 or twin_registers.preempts or not passes_over)
    ):
        if started and started == twin_registers.pass_starts:
            break
        row = queue[place]
        if is_beyond_depth(twin, row):
            place += 1
            continue
        if blocked == twin_registers.partitions + reservations:
            return True
        looked_at += 1
        partition = job_ext[row].partition
        asks = job_ext[row].reservation >= 0
        mark = marks + (twin_registers.partitions + job_ext[row].reservation if asks else partition)
        if tests[mark]:
            passes_over = True
            place += 1
            continue
        if is_over_limit(job, twin, row) or not may_run(twin, row, now, now + job[row].estimate_us):
            place += 1
            continue
        if place_now(state, twin, row, now):
            place = queue_remove_at(queue, registers, place)
            start_picked(state, twin, row, now)
            count_job(job, twin, row)
            started += 1
            continue
        others_leave = False
        if twin_registers.preempts:
            open_for(state, twin, row, now)
            others_leave = make_others_leave(state, twin, row, now)
        if now - job_ext[row].eligible_us >= twin_registers.min_age_us and (
            asks or others_leave or not is_kept_out(state, twin, row, now)
        ):
            tests[mark] = 1
            for which in range(0 if asks else parts.shape[1]):
                twin.first_mask[which] |= parts[partition, which]
            blocked += 1
        place += 1
    return passes_over


@inner
def pass_if_due(state: State, twin: Twin, now: int) -> None:
    """The pass that is due now, if one is: over all jobs at multiples of its interval."""
    twin_registers = twin.registers
    depth = twin_registers.depth
    if (
        twin_registers.sched_every_us
        and twin_registers.full_changed
        and now > 0
        and now % twin_registers.sched_every_us == 0
    ):
        twin_registers.full_changed = twin_registers.preempts and changes_with_time(state, twin, now)
        twin_registers.pass_at_us = now
        depth = NEVER
    if twin_registers.pass_at_us <= now:
        twin_registers.pass_at_us = NEVER
        twin_registers.last_pass_us = now
        passes_over = main_pass(state, twin, now, depth) and goes_on(
            state.job, state.registers, twin_registers
        )
        # With time who is in time for no reservation any more keeps nobody back, who is old enough does, and who has
        # run for long enough can be preempted. Otherwise what follows from pass to pass over all jobs is counted.
        by_time = twin.times.shape[0] or twin_registers.min_age_us or twin_registers.preempts
        is_counted = twin_registers.passes_over and depth == NEVER and not by_time
        if passes_over and not is_counted:
            note_change(twin_registers, now)
        note_passed_over(twin_registers, passes_over, now)


@compiled
def finish(state: State, twin: Twin, now: int, other_event: bool) -> None:
    """What comes after the ends and decision points of an instant: submits, priorities, a pass, a cycle."""
    registers = state.registers
    twin_registers = twin.registers
    registers.now = now
    registers.started_n = 0
    if twin_registers.fill_at_us < now:  # nobody waited then
        twin_registers.last_fill_us = twin_registers.fill_at_us
        twin_registers.fill_at_us = NEVER
        twin_registers.fills_go_on = twin_registers.fills_bring_passes = 0
    if twin_registers.again_at_us < now:
        twin_registers.again_at_us = NEVER
    if registers.queue_lo == registers.queue_hi:
        twin_registers.passes_over = 0
    bring_fair_shares(state, twin, now)
    released = twin_registers.release_at_us <= now
    if released:
        release(state, twin, now)
    submitted = submit_due(state, twin, now) > 0
    other_event = other_event or is_boundary(twin, now)
    if (
        released or twin_registers.nodes_moved
    ) and not twin_registers.sched_every_us:  # else it might be the last that ever happens
        other_event = True
    if submitted or other_event or twin_registers.nodes_moved:
        note_event(twin_registers, now, other_event or (submitted and twin_registers.defer == 0))
    twin_registers.nodes_moved = 0
    if registers.queue_lo == registers.queue_hi:
        twin_registers.pass_at_us = NEVER
        return
    if twin_registers.calc_every_us and now > 0 and now % twin_registers.calc_every_us == 0:
        look_at_priorities(state, twin, now)
        if goes_on(state.job, registers, twin_registers):  # else cycles that start nobody have no end
            note_change(twin_registers, now)
    if twin_registers.resubmits:
        sort_resubmitted(state, twin)
    pass_if_due(state, twin, now)
    if min(twin_registers.fill_at_us, twin_registers.again_at_us) <= now:
        fill(state, twin, now)


@inner
def next_timer(job: Jobs, registers: Registers, twin: Twin) -> int:
    """When the scheduler next has something to do by itself, NEVER if it has not."""
    twin_registers = twin.registers
    held: int = twin_registers.release_at_us
    if registers.queue_lo == registers.queue_hi:
        return held
    now = registers.now
    at: int = min(held, twin_registers.pass_at_us, twin_registers.fill_at_us, twin_registers.again_at_us)
    at = min(at, next_boundary(twin, now))
    if twin_registers.sched_every_us and twin_registers.full_changed:
        at = min(at, (now // twin_registers.sched_every_us + 1) * twin_registers.sched_every_us)
    if twin_registers.calc_every_us and goes_on(job, registers, twin_registers):
        at = min(at, (now // twin_registers.calc_every_us + 1) * twin_registers.calc_every_us)
    return at


@compiled
def next_event(state: State, twin: Twin) -> int:
    """The next end, submit or action of the scheduler, NEVER if there is none."""
    job, heap, registers = state.job, state.heap, state.registers
    next_end = heap[0].at_us if registers.heap_n else NEVER
    at: int = min(next_end, next_submit(job, registers), next_timer(job, registers, twin))
    return at


@compiled
def advance(state: State, twin: Twin, until: int) -> int:
    """As `harness.kernel.advance`, with the instants at which the scheduler does something by itself."""
    job, node, free, plan, blocks = state.job, state.node, state.free, state.plan, state.blocks
    heap, runs, log, registers = state.heap, state.runs, state.log, state.registers
    while True:
        if not has_room_inline(state):
            return Stop.NEEDS_ROOM
        now = next_event(state, twin)
        code = step_to(registers, now, until)
        if code != Stop.GOES_ON:
            return code
        ended = False
        while registers.heap_n and heap[0].at_us == now:
            row = heap_pop(heap, registers)
            ended = True
            if twin.registers.preempts and leaves_at_end(state, twin, row, now):
                leave(state, twin, row, now)
                continue
            outcome = RunOutcome.FINISHED if now == job[row].start_us + job[row].run_us else RunOutcome.KILLED
            end_job(job, node, free, plan, blocks, runs, log, registers, row, now, outcome)
        if now == until:
            return Stop.AT_UNTIL
        if registers.stop_on_end and ended:
            return Stop.AT_ENDS
        finish(state, twin, now, ended)
        if registers.stop_on_pass:
            return Stop.AT_PASS
