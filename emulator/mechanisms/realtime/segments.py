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
def queue_insert(job: Jobs, queue: JobList, who: int) -> None:
    """By (key, queued_us, row)."""
    place = queue.size.jobs
    while place > 0:
        other = queue.rows[place - 1]
        if job[other].key < job[who].key or (
            job[other].key == job[who].key
            and (
                job[other].queued_us < job[who].queued_us
                or (job[other].queued_us == job[who].queued_us and other < who)
            )
        ):
            break
        queue.rows[place] = other
        place -= 1
    queue.rows[place] = who
    queue.size.jobs += 1


@inner
def queue_remove_at(queue: JobList, place: int) -> None:
    queue.size.jobs -= 1
    for k in range(place, queue.size.jobs):
        queue.rows[k] = queue.rows[k + 1]


@inner
def running_insert(job: Jobs, running: JobList, who: int) -> None:
    """By (planned_us, row)."""
    place = running.size.jobs
    while place > 0:
        other = running.rows[place - 1]
        if job[other].planned_us < job[who].planned_us or (
            job[other].planned_us == job[who].planned_us and other < who
        ):
            break
        running.rows[place] = other
        place -= 1
    running.rows[place] = who
    running.size.jobs += 1


@inner
def running_remove(running: JobList, who: int) -> None:
    place = 0
    while running.rows[place] != who:
        place += 1
    queue_remove_at(running, place)


# Transfers.


@inner
def alone_us(registers: Registers, units: int, cap: int) -> int:
    """A checkpoint of so many units when nobody else is at it."""
    return time_for(registers.data_owed, rate_of(registers.node_rate, cap, units * registers.unit_nodes))


@inner
def rate_for(job: Jobs, registers: Registers, who: int) -> int:
    """Bytes a second for each node of a job that reads or writes."""
    nodes = job[who].nodes * registers.unit_nodes
    if job[who].phase == Phase.READING:
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
        who = running.rows[k]
        if job[who].phase in (Phase.READING, Phase.WRITING, Phase.LEAVING):
            job[who].owed -= rate_for(job, registers, who) * for_us


@compiled
def io_end(job: Jobs, registers: Registers, who: int) -> int:
    """When a job's transfer is over if nobody else begins or ends one."""
    end: int = registers.last_io_us + max(0, time_for(job[who].owed, rate_for(job, registers, who)))
    return end


@inner
def next_end(job: Jobs, running: JobList, registers: Registers) -> int:
    """The next end of a stretch of work or of a transfer."""
    least = NEVER
    for k in range(running.size.jobs):
        who = running.rows[k]
        phase = job[who].phase
        if phase == Phase.WORKING:
            least = min(least, job[who].ready_us)
        elif phase in (Phase.READING, Phase.WRITING, Phase.LEAVING):
            least = min(least, io_end(job, registers, who))
    return least


@inner
def begin_phase(job: Jobs, registers: Registers, who: int, phase: int, now: int) -> None:
    """Leave the present phase's transfer, if any, and begin this one's."""
    nodes = job[who].nodes * registers.unit_nodes
    before = job[who].phase
    if before == Phase.READING:
        registers.readers -= nodes
    elif before in (Phase.WRITING, Phase.LEAVING):
        registers.writers -= nodes
    if phase == Phase.READING:
        registers.readers += nodes
        job[who].owed = registers.data_owed
    elif phase in (Phase.WRITING, Phase.LEAVING):
        registers.writers += nodes
        job[who].owed = registers.data_owed
    job[who].phase = phase
    job[who].since_us = now


# Segments.


@inner
def segment_us(job: Jobs, registers: Registers, who: int) -> int:
    """How long the scheduler expects the next segment to be: what is left of the walltime, the read and the writes."""
    left: int = max(job[who].estimate_us - job[who].saved_us, 1)
    if job[who].saved_us > 0:
        left += alone_us(registers, job[who].nodes, registers.read_cap)
    interval = job[who].interval_us
    if interval > 0:
        writes = job[who].estimate_us // interval - job[who].saved_us // interval
        left += max(writes, 0) * alone_us(registers, job[who].nodes, registers.write_cap)
    return left


@inner
def begin_segment(state: State, who: int, now: int) -> None:
    """The job's units are logged by the caller; from now on they are its own."""
    job, running, runs, registers = state.job, state.running, state.runs, state.registers
    begin_run(job, runs, registers, who, now)
    runs[job[who].run_row].place = job[who].place
    job[who].planned_us = now + segment_us(job, registers, who)
    running_insert(job, running, who)
    job[who].base_us = job[who].saved_us
    if job[who].saved_us > 0:
        begin_phase(job, registers, who, Phase.READING, now)
    else:
        begin_work(job, registers, who, now)


@inner
def begin_work(job: Jobs, registers: Registers, who: int, now: int) -> None:
    """A stretch of work up to the next checkpoint or the end."""
    begin_phase(job, registers, who, Phase.WORKING, now)
    until = job[who].run_us
    interval = job[who].interval_us
    if interval > 0:
        until = min(until, (job[who].base_us // interval + 1) * interval)
    job[who].ready_us = now + until - job[who].base_us


@inner
def work_done(job: Jobs, runs: Runs, who: int, now: int) -> None:
    """Book the work since the phase began."""
    done = now - job[who].since_us
    job[who].base_us += done
    runs[job[who].run_row].work_us += done


@inner
def count_job(state: State, who: int, by: int) -> None:
    """A job has its place (1) or leaves it (-1): count it among those of its kind, and where it overlaps."""
    job, parts, conflicts, first = state.job, state.parts, state.conflicts, state.conflict_first
    hard = by if job[who].realtime else 0
    state.registers.hard_n += hard * job[who].nodes
    place = job[who].place
    if place >= 0:
        for k in range(first[place], first[place + 1]):
            parts[conflicts[k]].hard += hard
            parts[conflicts[k]].soft += by - hard


@inner
def leave_units(state: State, who: int) -> None:
    job, unit, runs, log, registers = state.job, state.unit, state.runs, state.log, state.registers
    running_remove(state.running, who)
    first = runs[job[who].run_row].first
    for k in range(first, first + job[who].nodes):
        unit[log[k]].owner = -1
        if unit[log[k]].claim < 0:
            registers.free_n += 1
    count_job(state, who, -1)
    begin_phase(job, registers, who, Phase.OUT, 0)
    registers.dirty = 1


@inner
def end_segment(state: State, who: int, now: int, outcome: int) -> None:
    leave_units(state, who)
    job, runs = state.job, state.runs
    runs[job[who].run_row].end_us = now
    runs[job[who].run_row].outcome = outcome


@inner
def finish(state: State, who: int, now: int) -> None:
    end_segment(state, who, now, RunOutcome.FINISHED)
    job = state.job
    job[who].state = JobState.ENDED
    job[who].end_us = now
    state.registers.ended_n += 1


@inner
def back_to_queue(state: State, who: int, now: int) -> None:
    """A preempted job has left its units and is resubmitted (section 5.2)."""
    end_segment(state, who, now, RunOutcome.PREEMPTED)
    job, queue, registers = state.job, state.queue, state.registers
    job[who].state = JobState.QUEUED
    job[who].start_us = -1
    if registers.to_the_back:
        job[who].queued_us = now
    queue_insert(job, queue, who)


@inner
def at_risk(job: Jobs, registers: Registers, who: int, now: int) -> int:
    """Work of a batch job that would be lost if it were preempted now."""
    if registers.scheme == Scheme.CKPT:
        return 0
    done: int = job[who].base_us
    if job[who].phase == Phase.WORKING:
        done += now - job[who].since_us
    return done if registers.scheme == Scheme.RESTART else done - job[who].saved_us


@inner
def preempt(state: State, who: int, now: int) -> None:
    """Send a batch job off: at once, or (PRE-CKPT) when it has written what it did."""
    job, runs, registers = state.job, state.runs, state.registers
    row = job[who].run_row
    phase = job[who].phase
    if phase == Phase.WORKING:
        work_done(job, runs, who, now)
        if registers.scheme == Scheme.CKPT and job[who].base_us > job[who].saved_us:
            begin_phase(job, registers, who, Phase.LEAVING, now)
            return
    else:  # a read or a write that is cut short was in vain
        runs[row].redo_us += now - job[who].since_us
        if phase == Phase.READING:
            runs[row].reads_us += now - job[who].since_us
    lost = job[who].base_us - job[who].saved_us
    runs[row].lost_us += lost
    runs[row].redo_us += lost
    back_to_queue(state, who, now)


@inner
def go_on(state: State, who: int, now: int) -> None:
    """A stretch of work or a transfer of this job is over."""
    job, runs, registers = state.job, state.runs, state.registers
    row = job[who].run_row
    phase = job[who].phase
    if phase == Phase.WORKING:
        work_done(job, runs, who, now)
        interval = job[who].interval_us
        if interval > 0 and job[who].base_us % interval == 0 and job[who].base_us > 0:
            begin_phase(job, registers, who, Phase.WRITING, now)
        else:
            finish(state, who, now)
        return
    if phase == Phase.READING:
        runs[row].redo_us += now - job[who].since_us
        runs[row].reads_us += now - job[who].since_us
        begin_work(job, registers, who, now)
        return
    runs[row].writes_us += now - job[who].since_us
    runs[row].checkpoints += 1
    job[who].saved_us = job[who].base_us
    if phase == Phase.LEAVING:
        back_to_queue(state, who, now)
    elif job[who].base_us == job[who].run_us:
        finish(state, who, now)
    else:
        begin_work(job, registers, who, now)
