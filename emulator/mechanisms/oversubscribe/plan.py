"""When the head of the queue could start, by the expected ends of those that run; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inlined
from emulator.kernel.tables import NEVER
from emulator.mechanisms.oversubscribe.tables import ONLY_SLOT

if TYPE_CHECKING:
    from emulator.kernel.tables import Ints
    from emulator.mechanisms.oversubscribe.tables import Jobs, State


@compiled
def unit_ready(state: State, node_: int, unit_: int, row: int) -> int:
    """When one more job fits onto a unit, as jobs leave it at their expected ends; 0: now."""
    job, slot_job, unit, core_registers = state.job, state.slot_job, state.unit, state.core_registers
    limit = job[row].limit
    if unit.taken[node_, unit_] < min(unit.cap[node_, unit_], limit):
        return 0
    if slot_job.shape[2] == 1:
        return int(job[slot_job[node_, unit_, ONLY_SLOT]].expected_end_us)
    limit = min(
        limit, core_registers.gpu_slots if unit_ >= core_registers.node_cores else core_registers.core_slots
    )
    at = -1
    while True:
        # One more has left: the next one by expected end.
        after = NEVER
        for k in range(slot_job.shape[2]):
            other = slot_job[node_, unit_, k]
            if other >= 0 and job[other].expected_end_us > at:
                after = min(after, job[other].expected_end_us)
        at = after
        cap = limit
        staying = 0
        for k in range(slot_job.shape[2]):
            other = slot_job[node_, unit_, k]
            if other >= 0 and job[other].expected_end_us > at:
                staying += 1
                cap = min(cap, job[other].limit)
        if staying < cap:
            return int(at)


@compiled
def units_ready(state: State, node_: int, row: int, first: int, last: int, wanted: int) -> int:
    """When so many of these units can take the job."""
    times = state.scratch.of_units
    for u in range(first, last):
        at = unit_ready(state, node_, u, row)
        place = u - first
        while place > 0 and times[place - 1] > at:
            times[place] = times[place - 1]
            place -= 1
        times[place] = at
    return int(times[wanted - 1])


@compiled
def memory_ready(state: State, node_: int, row: int) -> int:
    """When the node has the memory that the job wants."""
    job, node, slot_job, core_registers = state.job, state.node, state.slot_job, state.core_registers
    free = node.free_memory_kib[node_]
    at = 0
    while free < job[row].memory_kib:
        after = NEVER
        for u in range(slot_job.shape[1]):
            for k in range(slot_job.shape[2]):
                other = slot_job[node_, u, k]
                if other >= 0 and job[other].expected_end_us > at:
                    after = min(after, job[other].expected_end_us)
        at = after
        core_registers.stamp += 1
        for u in range(slot_job.shape[1]):
            for k in range(slot_job.shape[2]):
                other = slot_job[node_, u, k]
                if (
                    other >= 0
                    and job[other].expected_end_us == at
                    and job[other].seen != core_registers.stamp
                ):
                    job[other].seen = core_registers.stamp
                    free += job[other].memory_kib
    return at


@compiled
def update_ready(state: State, head: int) -> None:
    """READY of the nodes on which something has changed."""
    job, node, slot_job, core_registers = state.job, state.node, state.slot_job, state.core_registers
    everything = not is_alike(job, core_registers.head, head)
    core_registers.head = head
    for k in range(node.open.shape[0] if everything else core_registers.changed_n):
        n = k if everything else node.changed[k]
        node.dirty[n] = 0
        ready = units_ready(state, n, head, 0, core_registers.node_cores, job[head].cores)
        if job[head].gpus > 0:
            gpus = units_ready(state, n, head, core_registers.node_cores, slot_job.shape[1], job[head].gpus)
            ready = max(ready, gpus)
        if core_registers.has_memory:
            ready = max(ready, memory_ready(state, n, head))
        if ready != node.ready_us[n]:
            node.ready_us[n] = ready
            core_registers.enough_at = -1
    core_registers.changed_n = 0


@inlined
def is_alike(job: Jobs, one: int, other: int) -> bool:
    """Whether two jobs want the same of a node."""
    return bool(
        one >= 0
        and job[one].cores == job[other].cores
        and job[one].gpus == job[other].gpus
        and job[one].memory_kib == job[other].memory_kib
        and job[one].limit == job[other].limit
    )


@compiled
def smallest(values: Ints, count: int, which: int) -> int:
    """The `which`-th smallest (from 0) of the first `count` values, which are moved about (quickselect)."""
    low = 0
    high = count - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        left = low
        right = high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if which <= right:
            high = right
        elif which >= left:
            low = left
        else:
            break
    return int(values[which])


@compiled
def planned_start(state: State, head: int, now: int) -> int:
    """When the head could start if nobody else began: by expected ends at the present speeds."""
    node, core_registers = state.node, state.core_registers
    values = state.scratch.of_nodes
    wanted = state.job[head].nodes
    if core_registers.head < 0 or state.job[core_registers.head].nodes != wanted:
        core_registers.enough_at = -1
    update_ready(state, head)
    if core_registers.enough_at < 0:
        for n in range(node.open.shape[0]):
            values[n] = node.ready_us[n]
        core_registers.enough_at = smallest(values, node.open.shape[0], wanted - 1)
    return max(now, int(core_registers.enough_at))


@compiled
def ready_by(state: State, head: int, at: int) -> int:
    """How many nodes the head could use at this time as things are now."""
    node = state.node
    update_ready(state, head)
    ready = 0
    for n in range(node.open.shape[0]):
        ready += node.ready_us[n] <= at
    return ready


@inlined
def loses_node(state: State, node_: int, row: int, head: int, at: int) -> bool:
    """Whether a node that the head could use at a time is none any more with a candidate that stays longer.

    At the least: its cores are those that cost the head nothing as far as there are such, and nobody is slowed down.
    Where each core has one job that is all there is to it.
    """
    job, slot_job, unit, core_registers = state.job, state.slot_job, state.unit, state.core_registers
    ready = 0
    harmless = 0
    for u in range(core_registers.node_cores):
        stay = 0
        cap = min(core_registers.core_slots, job[head].limit)
        for k in range(slot_job.shape[2]):
            other = slot_job[node_, u, k]
            if other >= 0 and job[other].expected_end_us > at:
                stay += 1
                cap = min(cap, job[other].limit)
        is_open = unit.taken[node_, u] < min(unit.cap[node_, u], job[row].limit)
        ready += stay < cap
        harmless += is_open and (stay >= cap or stay + 1 < min(cap, job[row].limit))
    return bool(ready - max(0, job[row].cores - harmless) < job[head].cores)


@compiled
def leaves_enough(state: State, row: int, head: int, at: int, ready: int, now: int) -> bool:
    """Whether the head may still start at a time with a candidate on its chosen nodes; `ready` could be used so far.

    False is certain; True is where each core has one job, and nothing else is wanted of a node.
    """
    job, node, chosen, core_registers = state.job, state.node, state.chosen, state.core_registers
    if now + job[row].estimate_us <= at:
        return True
    for k in range(core_registers.chosen_n):
        if ready < job[head].nodes:
            break
        n = chosen[k]
        ready -= node.ready_us[n] <= at and loses_node(state, n, row, head, at)
    return bool(ready >= job[head].nodes)
