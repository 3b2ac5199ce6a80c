"""How fast jobs are that share units, and the heap of what happens to them next; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inlined

if TYPE_CHECKING:
    from emulator.kernel.tables import Ints32, Registers
    from emulator.mechanisms.oversubscribe.tables import Jobs, State


# The heap of events: jobs by (EVENT, job), each knowing its place.


@inlined
def comes_before(job: Jobs, one: int, other: int) -> bool:
    return bool(
        job[one].event_us < job[other].event_us or (job[one].event_us == job[other].event_us and one < other)
    )


@compiled
def heap_settle(job: Jobs, heap: Ints32, registers: Registers, place: int) -> None:
    """Move the entry at `place`, whose event has changed, to where it belongs."""
    row = heap[place]
    while place > 0:
        parent = (place - 1) >> 1
        if comes_before(job, heap[parent], row):
            break
        heap[place] = heap[parent]
        job[heap[place]].heap_at = place
        place = parent
    while True:
        child = 2 * place + 1
        if child >= registers.heap_n:
            break
        if child + 1 < registers.heap_n and comes_before(job, heap[child + 1], heap[child]):
            child += 1
        if comes_before(job, row, heap[child]):
            break
        heap[place] = heap[child]
        job[heap[place]].heap_at = place
        place = child
    heap[place] = row
    job[row].heap_at = place


@compiled
def heap_set(job: Jobs, heap: Ints32, registers: Registers, row: int) -> None:
    """The job has a new event: put it in, or to its new place."""
    place = job[row].heap_at
    if place < 0:
        place = registers.heap_n
        registers.heap_n = place + 1
        heap[place] = row
    heap_settle(job, heap, registers, place)


@compiled
def heap_drop(job: Jobs, heap: Ints32, registers: Registers, row: int) -> None:
    place = job[row].heap_at
    job[row].heap_at = -1
    registers.heap_n -= 1
    if place < registers.heap_n:
        heap[place] = heap[registers.heap_n]
        heap_settle(job, heap, registers, place)


# Speeds.


@inlined
def whole_us(work: int, rate: int) -> int:
    """The whole microseconds after which so much work is done at this speed."""
    return 0 if work <= 0 else (work + rate - 1) // rate


@inlined
def settle(job: Jobs, row: int, now: int) -> None:
    """Book the work done since the last change of speed."""
    done = (now - job[row].settled_us) * job[row].rate
    job[row].phase_left -= done
    job[row].estimate_left -= done
    job[row].settled_us = now


@inlined
def speed_of(state: State, row: int) -> int:
    """Speed of a running job: that of its most shared unit; full while it is idle."""
    count, rate = state.shared_by, state.rate
    speed = state.core_registers.full
    if state.job[row].is_idle == 0:
        half = rate.shape[1]
        for gpu in range(2):
            for m in range(half - 1, 1, -1):
                if count[row, gpu * half + m] > 0:
                    speed = min(speed, rate[gpu, m])
                    break
    return int(speed)


@inlined
def touch(state: State, row: int) -> None:
    """The speed of the job may be another one."""
    job, core_registers = state.job, state.core_registers
    if job[row].mark == 0:
        job[row].mark = 1
        state.touched[core_registers.touched_n] = row
        core_registers.touched_n += 1


@compiled
def change_active(state: State, node_: int, unit_: int, by: int) -> None:
    """One job more or fewer computes on a unit: note it with everybody there."""
    slot_job, unit, count, rate = state.slot_job, state.unit, state.shared_by, state.rate
    core_registers = state.core_registers
    before = unit.active[node_, unit_]
    unit.active[node_, unit_] = before + by
    base = rate.shape[1] if unit_ >= core_registers.node_cores else 0
    there = unit.taken[node_, unit_]
    k = 0
    while there > 0:
        row = slot_job[node_, unit_, k]
        if row >= 0:
            there -= 1
            count[row, base + before] -= 1
            count[row, base + before + by] += 1
            touch(state, row)
        k += 1


@inlined
def mark_node(state: State, node_: int) -> None:
    """What the node has to offer, or when, may have changed."""
    node, core_registers = state.node, state.core_registers
    if node.dirty[node_] == 0:
        node.dirty[node_] = 1
        node.changed[core_registers.changed_n] = node_
        core_registers.changed_n += 1


@compiled
def mark_nodes(state: State, row: int) -> None:
    """The expected end of a job has changed: so may what its nodes have to offer, and when.

    It has as many slots on each of its nodes. Those of a job that is only tried are marked as it takes them.
    """
    job, slot_job, runs, log = state.job, state.slot_job, state.runs, state.log
    if job[row].run_row < 0:
        return
    on_node = slot_job.shape[1] * slot_job.shape[2]
    first = runs[job[row].run_row].first
    apart = job[row].cores + job[row].gpus
    for k in range(job[row].nodes):
        mark_node(state, log[first + k * apart] // on_node)


@compiled
def refresh(state: State, now: int) -> None:
    """Give everybody who was touched the speed that follows from who computes where."""
    job, heap, touched = state.job, state.heap, state.touched
    registers = state.registers
    core_registers = state.core_registers
    for k in range(core_registers.touched_n):
        row = touched[k]
        job[row].mark = 0
        if job[row].first_slot < 0:
            continue
        speed = speed_of(state, row)
        if speed != job[row].rate:
            settle(job, row, now)
            job[row].rate = speed
            job[row].event_us = now + whole_us(job[row].phase_left, speed)
            job[row].expected_end_us = now + whole_us(job[row].estimate_left, speed)
            heap_set(job, heap, registers, row)
            if core_registers.head >= 0:
                mark_nodes(state, row)
    core_registers.touched_n = 0
