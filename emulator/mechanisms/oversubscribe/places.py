"""Where jobs are, who fits where, and what changes for the neighbours; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inlined
from emulator.kernel.tables import NEVER
from emulator.mechanisms.oversubscribe.speeds import change_active, heap_drop, mark_node, refresh, touch
from emulator.mechanisms.oversubscribe.tables import BLOCK

if TYPE_CHECKING:
    from emulator.mechanisms.oversubscribe.tables import State


# Places.


@compiled
def count_open(state: State, node_: int) -> None:
    """After a change on a node: how many of its cores can take one more job."""
    node, unit, open_nodes, core_registers = state.node, state.unit, state.open_nodes, state.core_registers
    open_ = 0
    for u in range(core_registers.node_cores):
        open_ += unit.taken[node_, u] < unit.cap[node_, u]
    before = node.open[node_]
    open_nodes[before] -= 1
    open_nodes[open_] += 1
    node.open[node_] = open_
    block = node_ // BLOCK
    if open_ > node.most_open[block]:
        node.most_open[block] = open_
    elif before == node.most_open[block]:
        most = 0
        for n in range(block * BLOCK, min((block + 1) * BLOCK, node.open.shape[0])):
            most = max(most, node.open[n])
        node.most_open[block] = most
    mark_node(state, node_)


@compiled
def take_units(state: State, row: int, node_: int, first: int, last: int, wanted: int) -> None:
    """Put the job on the `wanted` least taken units of `first..last - 1`, the lower number first."""
    job, node, slot_job, slot_next, unit = state.job, state.node, state.slot_job, state.slot_next, state.unit
    count, rate, scratch = state.shared_by, state.rate, state.scratch
    slots = slot_job.shape[2]
    base = rate.shape[1] if first > 0 else 0
    limit = job[row].limit
    before = scratch.of_units  # how many were there; NEVER: it is not open to the job
    level = NEVER
    for u in range(first, last):
        is_open = unit.taken[node_, u] < min(unit.cap[node_, u], limit)
        before[u] = unit.taken[node_, u] if is_open else NEVER
        level = min(level, before[u])
    node.occupied[node_] += wanted
    while wanted > 0:
        for u in range(first, last):
            if before[u] == level and wanted > 0:
                k = 0
                while slot_job[node_, u, k] >= 0:
                    k += 1
                place = (node_ * slot_job.shape[1] + u) * slots + k
                slot_job[node_, u, k] = row
                slot_next[place] = job[row].first_slot
                job[row].first_slot = place
                unit.taken[node_, u] += 1
                unit.cap[node_, u] = min(unit.cap[node_, u], limit)
                if slots > 1:  # otherwise nobody is there whose speed could change
                    count[row, base + unit.active[node_, u]] += 1
                    change_active(state, node_, u, 1)
                wanted -= 1
        level += 1


@compiled
def occupy(state: State, row: int, now: int) -> None:
    """Put the job onto the nodes that were chosen for it, at the speed that it has there."""
    job, node, phases, chosen = state.job, state.node, state.phases, state.chosen
    core_registers = state.core_registers
    cores = core_registers.node_cores
    touch(state, row)
    job[row].first_slot = -1
    job[row].is_idle = 0
    job[row].rate = 0
    job[row].settled_us = now
    job[row].phase_left = phases[job[row].phase] * core_registers.full
    job[row].estimate_left = job[row].estimate_us * core_registers.full
    for k in range(core_registers.chosen_n):
        n = chosen[k]
        take_units(state, row, n, 0, cores, job[row].cores)
        if job[row].gpus > 0:
            take_units(state, row, n, cores, state.slot_job.shape[1], job[row].gpus)
        node.free_memory_kib[n] -= job[row].memory_kib
        count_open(state, n)
    refresh(state, now)


@compiled
def vacate(state: State, row: int, now: int) -> None:
    """Take the job off its nodes and give the neighbours the speed that follows."""
    job, node, slot_job, slot_next, heap = state.job, state.node, state.slot_job, state.slot_next, state.heap
    registers = state.registers
    slots = slot_job.shape[2]
    on_node = slot_job.shape[1] * slots
    heap_drop(job, heap, registers, row)
    place = job[row].first_slot
    job[row].first_slot = -1
    while place >= 0:
        n = place // on_node
        end = (n + 1) * on_node
        u = slot_job.shape[1] - 1
        while place >= end - on_node and place < end:  # its slots on a node follow one another
            while place < (n * slot_job.shape[1] + u) * slots:
                u -= 1
            while place >= (n * slot_job.shape[1] + u + 1) * slots:
                u += 1
            leave_unit(state, row, n, u, place - (n * slot_job.shape[1] + u) * slots)
            place = slot_next[place]
        node.occupied[n] -= job[row].cores + job[row].gpus
        node.free_memory_kib[n] += job[row].memory_kib
        count_open(state, n)
    refresh(state, now)


@inlined
def leave_unit(state: State, row: int, node_: int, unit_: int, slot: int) -> None:
    """Take the job out of a slot."""
    job, slot_job, unit, count, rate = state.job, state.slot_job, state.unit, state.shared_by, state.rate
    core_registers = state.core_registers
    is_gpu = unit_ >= core_registers.node_cores
    if slot_job.shape[2] > 1:
        if job[row].is_idle == 0:
            change_active(state, node_, unit_, -1)
        count[row, (rate.shape[1] if is_gpu else 0) + unit.active[node_, unit_]] -= 1
    slot_job[node_, unit_, slot] = -1
    unit.taken[node_, unit_] -= 1
    cap = core_registers.gpu_slots if is_gpu else core_registers.core_slots
    if job[row].limit < cap:  # otherwise it was not the one that bore the least
        for k in range(slot_job.shape[2]):
            other = slot_job[node_, unit_, k]
            if other >= 0:
                cap = min(cap, job[other].limit)
        unit.cap[node_, unit_] = cap


# Who fits where.


@compiled
def has_units(state: State, node_: int, row: int, first: int, last: int, wanted: int) -> bool:
    unit = state.unit
    limit = state.job[row].limit
    for u in range(first, last):
        wanted -= unit.taken[node_, u] < min(unit.cap[node_, u], limit)
    return bool(wanted <= 0)


@inlined
def suits(state: State, node_: int, row: int) -> bool:
    """Whether the node can take the job now."""
    job = state.job
    node = state.node
    core_registers = state.core_registers
    good = node.open[node_] >= job[row].cores
    if good and core_registers.has_memory:
        good = node.free_memory_kib[node_] >= job[row].memory_kib
    if good and job[row].limit < core_registers.core_slots:
        good = has_units(state, node_, row, 0, core_registers.node_cores, job[row].cores)
    if good and job[row].gpus > 0:
        good = has_units(state, node_, row, core_registers.node_cores, state.slot_job.shape[1], job[row].gpus)
    return bool(good)


@compiled
def enough_open(state: State, row: int) -> bool:
    """Whether so many nodes have so many open cores, whatever else the job wants."""
    job = state.job
    open_nodes = state.open_nodes
    wanted = job[row].nodes
    for k in range(job[row].cores, open_nodes.shape[0]):
        wanted -= open_nodes[k]
    return bool(wanted <= 0)


@compiled
def choose_nodes(state: State, row: int) -> bool:
    """The least occupied nodes that can take the job, the lower number first; False if there are too few."""
    job, node, chosen, scratch, core_registers = (
        state.job,
        state.node,
        state.chosen,
        state.scratch,
        state.core_registers,
    )
    if not enough_open(state, row):
        return False
    wanted = job[row].nodes
    by_occupied = scratch.by_occupied
    good = scratch.of_nodes
    suiting = 0
    block = 0
    while block * BLOCK < node.open.shape[0] and by_occupied[0] < wanted:
        if node.most_open[block] >= job[row].cores:
            for n in range(block * BLOCK, min((block + 1) * BLOCK, node.open.shape[0])):
                if suits(state, n, row):
                    by_occupied[node.occupied[n]] += 1
                    good[suiting] = n
                    suiting += 1
        block += 1
    edge = 0
    below = 0
    while suiting >= wanted and below + by_occupied[edge] < wanted:
        below += by_occupied[edge]
        edge += 1
    at_edge = wanted - below
    found = 0
    for k in range(suiting):
        n = good[k]
        by_occupied[node.occupied[n]] = 0
        if node.occupied[n] < edge or (node.occupied[n] == edge and at_edge > 0):
            at_edge -= node.occupied[n] == edge
            chosen[found] = n
            found += 1
    core_registers.chosen_n = found
    return bool(suiting >= wanted)
