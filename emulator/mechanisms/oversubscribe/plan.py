"""When the head of the queue could start, by the expected ends of those that run; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled, inlined
from emulator.harness.tables import NEVER
from emulator.mechanisms.oversubscribe.tables import (
    CAP,
    CHANGED,
    CHANGED_N,
    CHOSEN_N,
    CORE_SLOTS,
    DIRTY,
    ENOUGH_AT,
    FREE_MEMORY,
    GPU_SLOTS,
    HAS_MEMORY,
    HEAD,
    NODE_CORES,
    READY,
    STAMP,
    TAKEN,
)

if TYPE_CHECKING:
    from emulator.harness.tables import Ints
    from emulator.mechanisms.oversubscribe.tables import Jobs, State


@compiled
def unit_ready(state: State, node_: int, unit_: int, who: int) -> int:
    """When one more job fits onto a unit, as jobs leave it at their expected ends; 0: now."""
    job, _, slot_job, _, unit, _, _, _, _, _, _, _, _, _, _, _, _, reg = state
    limit = job[who].limit
    if unit[TAKEN, node_, unit_] < min(unit[CAP, node_, unit_], limit):
        return 0
    if slot_job.shape[2] == 1:
        return int(job[slot_job[node_, unit_, 0]].expected_end_us)
    limit = min(limit, reg[GPU_SLOTS] if unit_ >= reg[NODE_CORES] else reg[CORE_SLOTS])
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
def units_ready(state: State, node_: int, who: int, first: int, last: int, wanted: int) -> int:
    """When so many of these units can take the job."""
    times = state[16][2]
    for u in range(first, last):
        at = unit_ready(state, node_, u, who)
        place = u - first
        while place > 0 and times[place - 1] > at:
            times[place] = times[place - 1]
            place -= 1
        times[place] = at
    return int(times[wanted - 1])


@compiled
def memory_ready(state: State, node_: int, who: int) -> int:
    """When the node has the memory that the job wants."""
    job, node, slot_job, _, _, _, _, _, _, _, _, _, _, _, _, _, _, reg = state
    free = node[FREE_MEMORY, node_]
    at = 0
    while free < job[who].memory_kib:
        after = NEVER
        for u in range(slot_job.shape[1]):
            for k in range(slot_job.shape[2]):
                other = slot_job[node_, u, k]
                if other >= 0 and job[other].expected_end_us > at:
                    after = min(after, job[other].expected_end_us)
        at = after
        reg[STAMP] += 1
        for u in range(slot_job.shape[1]):
            for k in range(slot_job.shape[2]):
                other = slot_job[node_, u, k]
                if other >= 0 and job[other].expected_end_us == at and job[other].seen != reg[STAMP]:
                    job[other].seen = reg[STAMP]
                    free += job[other].memory_kib
    return at


@compiled
def update_ready(state: State, head: int) -> None:
    """READY of the nodes on which something has changed."""
    job, node, slot_job, _, _, _, _, _, _, _, _, _, _, _, _, _, _, reg = state
    everything = not is_alike(job, reg[HEAD], head)
    reg[HEAD] = head
    for k in range(node.shape[1] if everything else reg[CHANGED_N]):
        n = k if everything else node[CHANGED, k]
        node[DIRTY, n] = 0
        ready = units_ready(state, n, head, 0, reg[NODE_CORES], job[head].cores)
        if job[head].gpus > 0:
            gpus = units_ready(state, n, head, reg[NODE_CORES], slot_job.shape[1], job[head].gpus)
            ready = max(ready, gpus)
        if reg[HAS_MEMORY]:
            ready = max(ready, memory_ready(state, n, head))
        if ready != node[READY, n]:
            node[READY, n] = ready
            reg[ENOUGH_AT] = -1
    reg[CHANGED_N] = 0


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
    node, reg = state[1], state[17]
    values = state[16][0]
    wanted = state[0][head].nodes
    if reg[HEAD] < 0 or state[0][reg[HEAD]].nodes != wanted:
        reg[ENOUGH_AT] = -1
    update_ready(state, head)
    if reg[ENOUGH_AT] < 0:
        for n in range(node.shape[1]):
            values[n] = node[READY, n]
        reg[ENOUGH_AT] = smallest(values, node.shape[1], wanted - 1)
    return max(now, int(reg[ENOUGH_AT]))


@compiled
def ready_by(state: State, head: int, at: int) -> int:
    """How many nodes the head could use at this time as things are now."""
    node = state[1]
    update_ready(state, head)
    ready = 0
    for n in range(node.shape[1]):
        ready += node[READY, n] <= at
    return ready


@inlined
def loses_node(state: State, node_: int, who: int, head: int, at: int) -> bool:
    """Whether a node that the head could use at a time is none any more with a candidate that stays longer.

    At the least: its cores are those that cost the head nothing as far as there are such, and nobody is slowed down.
    Where each core has one job that is all there is to it.
    """
    job, _, slot_job, _, unit, _, _, _, _, _, _, _, _, _, _, _, _, reg = state
    ready = 0
    harmless = 0
    for u in range(reg[NODE_CORES]):
        stay = 0
        cap = min(reg[CORE_SLOTS], job[head].limit)
        for k in range(slot_job.shape[2]):
            other = slot_job[node_, u, k]
            if other >= 0 and job[other].expected_end_us > at:
                stay += 1
                cap = min(cap, job[other].limit)
        is_open = unit[TAKEN, node_, u] < min(unit[CAP, node_, u], job[who].limit)
        ready += stay < cap
        harmless += is_open and (stay >= cap or stay + 1 < min(cap, job[who].limit))
    return bool(ready - max(0, job[who].cores - harmless) < job[head].cores)


@compiled
def leaves_enough(state: State, who: int, head: int, at: int, ready: int, now: int) -> bool:
    """Whether the head may still start at a time with a candidate on its chosen nodes; `ready` could be used so far.

    False is certain; True is where each core has one job, and nothing else is wanted of a node.
    """
    job, node, _, _, _, _, _, _, _, _, _, chosen, _, _, _, _, _, reg = state
    if now + job[who].estimate_us <= at:
        return True
    for k in range(reg[CHOSEN_N]):
        if ready < job[head].nodes:
            break
        n = chosen[k]
        ready -= node[READY, n] <= at and loses_node(state, n, who, head, at)
    return bool(ready >= job[head].nodes)
