"""When the head of the queue could start, by the expected ends of those that run; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled
from emulator.harness.tables import (
    NEVER,
    NODES,
)
from emulator.mechanisms.oversubscribe.tables import (
    CAP,
    CORE_SLOTS,
    CORES,
    DIRTY,
    EXPECTED,
    FREE_MEMORY,
    GPU_SLOTS,
    GPUS,
    HAS_MEMORY,
    HEAD,
    LIMIT,
    MEMORY,
    NODE_CORES,
    READY,
    SEEN,
    STAMP,
    TAKEN,
)

if TYPE_CHECKING:
    from emulator.harness.tables import Ints
    from emulator.mechanisms.oversubscribe.tables import State


@compiled
def unit_ready(state: State, node_: int, unit_: int, who: int) -> int:
    """When one more job fits onto a unit, as jobs leave it at their expected ends; 0: now."""
    job, _, slot_job, _, unit, _, _, _, _, _, _, _, _, _, _, _, _, reg = state
    limit = job[who, LIMIT]
    if unit[TAKEN, node_, unit_] < min(unit[CAP, node_, unit_], limit):
        return 0
    limit = min(limit, reg[GPU_SLOTS] if unit_ >= reg[NODE_CORES] else reg[CORE_SLOTS])
    at = -1
    while True:
        # One more has left: the next one by expected end.
        after = NEVER
        for k in range(slot_job.shape[2]):
            other = slot_job[node_, unit_, k]
            if other >= 0 and job[other, EXPECTED] > at:
                after = min(after, job[other, EXPECTED])
        at = after
        cap = limit
        staying = 0
        for k in range(slot_job.shape[2]):
            other = slot_job[node_, unit_, k]
            if other >= 0 and job[other, EXPECTED] > at:
                staying += 1
                cap = min(cap, job[other, LIMIT])
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
    free = node[node_, FREE_MEMORY]
    at = 0
    while free < job[who, MEMORY]:
        after = NEVER
        for u in range(slot_job.shape[1]):
            for k in range(slot_job.shape[2]):
                other = slot_job[node_, u, k]
                if other >= 0 and job[other, EXPECTED] > at:
                    after = min(after, job[other, EXPECTED])
        at = after
        reg[STAMP] += 1
        for u in range(slot_job.shape[1]):
            for k in range(slot_job.shape[2]):
                other = slot_job[node_, u, k]
                if other >= 0 and job[other, EXPECTED] == at and job[other, SEEN] != reg[STAMP]:
                    job[other, SEEN] = reg[STAMP]
                    free += job[other, MEMORY]
    return at


@compiled
def update_ready(state: State, head: int) -> None:
    """READY of the nodes on which something has changed."""
    job, node, slot_job, _, _, _, _, _, _, _, _, _, _, _, _, _, _, reg = state
    everything = reg[HEAD] != head
    reg[HEAD] = head
    for n in range(node.shape[0]):
        if everything or node[n, DIRTY]:
            node[n, DIRTY] = 0
            ready = units_ready(state, n, head, 0, reg[NODE_CORES], job[head, CORES])
            if job[head, GPUS] > 0:
                gpus = units_ready(state, n, head, reg[NODE_CORES], slot_job.shape[1], job[head, GPUS])
                ready = max(ready, gpus)
            if reg[HAS_MEMORY]:
                ready = max(ready, memory_ready(state, n, head))
            node[n, READY] = ready


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
    node = state[1]
    values = state[16][0]
    update_ready(state, head)
    for n in range(node.shape[0]):
        values[n] = node[n, READY]
    return max(now, smallest(values, node.shape[0], state[0][head, NODES] - 1))


@compiled
def still_starts(state: State, head: int, at: int) -> bool:
    """Whether the head could start at this time as things are now."""
    node = state[1]
    update_ready(state, head)
    wanted = state[0][head, NODES]
    for n in range(node.shape[0]):
        wanted -= node[n, READY] <= at
    return bool(wanted <= 0)
