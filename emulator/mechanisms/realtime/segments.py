"""The life of a segment, compiled: read back, work, write checkpoints, end or be preempted.

A batch job that was preempted before reads its checkpoint, then works; after every INTERVAL of progress it writes
(eqs 6, 11: a job of run time T writes floor(T / interval) times, however often it is preempted).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inner
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.kernel.occupancy import begin_run
from emulator.machine.checkpoint_io import rate_of, time_for
from emulator.mechanisms.realtime.tables import NEVER, Phase, Scheme

if TYPE_CHECKING:
    from emulator.mechanisms.realtime.tables import JobList, Jobs, Registers, Runs, State


# Sorted lists.


@inner
def queue_insert(job: Jobs, queue: JobList, row: int) -> None:
    """By (key, queued_us, row)."""
    place = queue.size.jobs
    while place > 0:
        other = queue.rows[place - 1]
        if job[other].key < job[row].key or (
            job[other].key == job[row].key
            and (
                job[other].queued_us < job[row].queued_us
                or (job[other].queued_us == job[row].queued_us and other < row)
            )
        ):
            break
        queue.rows[place] = other
        place -= 1
    queue.rows[place] = row
    queue.size.jobs += 1


@inner
def queue_remove_at(queue: JobList, place: int) -> None:
    queue.size.jobs -= 1
    for k in range(place, queue.size.jobs):
        queue.rows[k] = queue.rows[k + 1]


@inner
def running_insert(job: Jobs, running: JobList, row: int) -> None:
    """By (planned_us, row)."""
    place = running.size.jobs
    while place > 0:
        other = running.rows[place - 1]
        if job[other].planned_us < job[row].planned_us or (
            job[other].planned_us == job[row].planned_us and other < row
        ):
            break
        running.rows[place] = other
        place -= 1
    running.rows[place] = row
    running.size.jobs += 1


@inner
def running_remove(running: JobList, row: int) -> None:
    place = 0
    while running.rows[place] != row:
        place += 1
    queue_remove_at(running, place)


# Transfers.


@inner
def alone_us(registers: Registers, units: int, cap: int) -> int:
    """A checkpoint of so many units when nobody else is at it."""
    return time_for(registers.data_owed, rate_of(registers.node_rate, cap, units * registers.unit_nodes))


@inner
def rate_for(job: Jobs, registers: Registers, row: int) -> int:
    """Bytes a second for each node of a job that reads or writes."""
    nodes = job[row].nodes * registers.unit_nodes
    if job[row].phase == Phase.READING:
        return rate_of(
            registers.node_rate, registers.read_cap, registers.readers if registers.shared else nodes
        )
    return rate_of(registers.node_rate, registers.write_cap, registers.writers if registers.shared else nodes)


@inner
def pass_io_time(job: Jobs, running: JobList, registers: Registers, now: int) -> None:
    """Let all transfers go on to `now`."""
    for_us = now - registers.last_io_us
    registers.last_io_us = now
    if for_us == 0 or registers.readers + registers.writers == 0:
        return
    for k in range(running.size.jobs):
        row = running.rows[k]
        if job[row].phase in (Phase.READING, Phase.WRITING, Phase.LEAVING):
            job[row].owed -= rate_for(job, registers, row) * for_us


@compiled
def io_end(job: Jobs, registers: Registers, row: int) -> int:
    """When a job's transfer is over if nobody else begins or ends one."""
    end: int = registers.last_io_us + max(0, time_for(job[row].owed, rate_for(job, registers, row)))
    return end


@inner
def next_end(job: Jobs, running: JobList, registers: Registers) -> int:
    """The next end of a stretch of work or of a transfer."""
    least = NEVER
    for k in range(running.size.jobs):
        row = running.rows[k]
        phase = job[row].phase
        if phase == Phase.WORKING:
            least = min(least, job[row].ready_us)
        elif phase in (Phase.READING, Phase.WRITING, Phase.LEAVING):
            least = min(least, io_end(job, registers, row))
    return least


@inner
def begin_phase(job: Jobs, registers: Registers, row: int, phase: int, now: int) -> None:
    """Leave the present phase's transfer, if any, and begin this one's."""
    nodes = job[row].nodes * registers.unit_nodes
    before = job[row].phase
    if before == Phase.READING:
        registers.readers -= nodes
    elif before in (Phase.WRITING, Phase.LEAVING):
        registers.writers -= nodes
    if phase == Phase.READING:
        registers.readers += nodes
        job[row].owed = registers.data_owed
    elif phase in (Phase.WRITING, Phase.LEAVING):
        registers.writers += nodes
        job[row].owed = registers.data_owed
    job[row].phase = phase
    job[row].since_us = now


# Segments.


@inner
def segment_us(job: Jobs, registers: Registers, row: int) -> int:
    """How long the scheduler expects the next segment to be: what is left of the walltime, the read and the writes."""
    left: int = max(job[row].estimate_us - job[row].saved_us, 1)
    if job[row].saved_us > 0:
        left += alone_us(registers, job[row].nodes, registers.read_cap)
    interval = job[row].interval_us
    if interval > 0:
        writes = job[row].estimate_us // interval - job[row].saved_us // interval
        left += max(writes, 0) * alone_us(registers, job[row].nodes, registers.write_cap)
    return left


@inner
def begin_segment(state: State, row: int, now: int) -> None:
    """The job's units are logged by the caller; from now on they are its own."""
    job, running, runs, registers = state.job, state.running, state.runs, state.registers
    begin_run(job, runs, registers, row, now)
    runs[job[row].run_row].place = job[row].place
    job[row].planned_us = now + segment_us(job, registers, row)
    running_insert(job, running, row)
    job[row].base_us = job[row].saved_us
    if job[row].saved_us > 0:
        begin_phase(job, registers, row, Phase.READING, now)
    else:
        begin_work(job, registers, row, now)


@inner
def begin_work(job: Jobs, registers: Registers, row: int, now: int) -> None:
    """A stretch of work up to the next checkpoint or the end."""
    begin_phase(job, registers, row, Phase.WORKING, now)
    until = job[row].run_us
    interval = job[row].interval_us
    if interval > 0:
        until = min(until, (job[row].base_us // interval + 1) * interval)
    job[row].ready_us = now + until - job[row].base_us


@inner
def work_done(job: Jobs, runs: Runs, row: int, now: int) -> None:
    """Book the work since the phase began."""
    done = now - job[row].since_us
    job[row].base_us += done
    runs[job[row].run_row].work_us += done


@inner
def count_job(state: State, row: int, by: int) -> None:
    """A job has its place (1) or leaves it (-1): count it among those of its kind, and where it overlaps."""
    job, parts, conflicts, first = state.job, state.parts, state.conflicts, state.conflict_first
    hard = by if job[row].realtime else 0
    state.registers.hard_n += hard * job[row].nodes
    place = job[row].place
    if place >= 0:
        for k in range(first[place], first[place + 1]):
            parts[conflicts[k]].hard += hard
            parts[conflicts[k]].soft += by - hard


@inner
def leave_units(state: State, row: int) -> None:
    job, unit, runs, log, registers = state.job, state.unit, state.runs, state.log, state.registers
    running_remove(state.running, row)
    first = runs[job[row].run_row].first
    for k in range(first, first + job[row].nodes):
        unit[log[k]].owner = -1
        if unit[log[k]].claim < 0:
            registers.free_n += 1
    count_job(state, row, -1)
    begin_phase(job, registers, row, Phase.OUT, 0)
    registers.dirty = 1


@inner
def end_segment(state: State, row: int, now: int, outcome: int) -> None:
    leave_units(state, row)
    job, runs = state.job, state.runs
    runs[job[row].run_row].end_us = now
    runs[job[row].run_row].outcome = outcome


@inner
def finish(state: State, row: int, now: int) -> None:
    end_segment(state, row, now, RunOutcome.FINISHED)
    job = state.job
    job[row].state = JobState.ENDED
    job[row].end_us = now
    state.registers.ended_n += 1


@inner
def back_to_queue(state: State, row: int, now: int) -> None:
    """A preempted job has left its units and is resubmitted (section 5.2)."""
    end_segment(state, row, now, RunOutcome.PREEMPTED)
    job, queue, registers = state.job, state.queue, state.registers
    job[row].state = JobState.QUEUED
    job[row].start_us = -1
    if registers.to_the_back:
        job[row].queued_us = now
    queue_insert(job, queue, row)


@inner
def at_risk(job: Jobs, registers: Registers, row: int, now: int) -> int:
    """Work of a batch job that would be lost if it were preempted now."""
    if registers.scheme == Scheme.CKPT:
        return 0
    done: int = job[row].base_us
    if job[row].phase == Phase.WORKING:
        done += now - job[row].since_us
    return done if registers.scheme == Scheme.RESTART else done - job[row].saved_us


@inner
def preempt(state: State, row: int, now: int) -> None:
    """Send a batch job off: at once, or (PRE-CKPT) when it has written what it did."""
    job, runs, registers = state.job, state.runs, state.registers
    run_row = job[row].run_row
    phase = job[row].phase
    if phase == Phase.WORKING:
        work_done(job, runs, row, now)
        if registers.scheme == Scheme.CKPT and job[row].base_us > job[row].saved_us:
            begin_phase(job, registers, row, Phase.LEAVING, now)
            return
    else:  # a read or a write that is cut short was in vain
        runs[run_row].redo_us += now - job[row].since_us
        if phase == Phase.READING:
            runs[run_row].reads_us += now - job[row].since_us
    lost = job[row].base_us - job[row].saved_us
    runs[run_row].lost_us += lost
    runs[run_row].redo_us += lost
    back_to_queue(state, row, now)


@inner
def go_on(state: State, row: int, now: int) -> None:
    """A stretch of work or a transfer of this job is over."""
    job, runs, registers = state.job, state.runs, state.registers
    run_row = job[row].run_row
    phase = job[row].phase
    if phase == Phase.WORKING:
        work_done(job, runs, row, now)
        interval = job[row].interval_us
        if interval > 0 and job[row].base_us % interval == 0 and job[row].base_us > 0:
            begin_phase(job, registers, row, Phase.WRITING, now)
        else:
            finish(state, row, now)
        return
    if phase == Phase.READING:
        runs[run_row].redo_us += now - job[row].since_us
        runs[run_row].reads_us += now - job[row].since_us
        begin_work(job, registers, row, now)
        return
    runs[run_row].writes_us += now - job[row].since_us
    runs[run_row].checkpoints += 1
    job[row].saved_us = job[row].base_us
    if phase == Phase.LEAVING:
        back_to_queue(state, row, now)
    elif job[row].base_us == job[row].run_us:
        finish(state, row, now)
    else:
        begin_work(job, registers, row, now)
