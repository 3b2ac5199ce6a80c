"""Where jobs are, who fits where, and what changes for the neighbours; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled, inlined
from emulator.harness.tables import (
    ESTIMATE,
    NODES,
)
from emulator.mechanisms.oversubscribe.speeds import change_active, heap_drop, refresh
from emulator.mechanisms.oversubscribe.tables import (
    ACTIVE,
    CAP,
    CHOSEN_N,
    CORE_SLOTS,
    CORES,
    DIRTY,
    ESTIMATE_LEFT,
    FIRST_SLOT,
    FREE_MEMORY,
    FULL,
    GPU_SLOTS,
    GPUS,
    HAS_MEMORY,
    IS_IDLE,
    LIMIT,
    MEMORY,
    NODE_CORES,
    OCCUPIED,
    OPEN,
    PHASE,
    PHASE_LEFT,
    RATE,
    SETTLED,
    TAKEN,
)

if TYPE_CHECKING:
    from emulator.harness.tables import Ints32
    from emulator.mechanisms.oversubscribe.tables import State


# Places.


@compiled
def count_open(state: State, node_: int) -> None:
    """After a change on a node: how many of its cores can take one more job."""
    _, node, _, _, unit, _, _, _, _, _, _, _, _, _, _, open_nodes, _, reg = state
    open_ = 0
    for u in range(reg[NODE_CORES]):
        open_ += unit[TAKEN, node_, u] < unit[CAP, node_, u]
    open_nodes[node[node_, OPEN]] -= 1
    open_nodes[open_] += 1
    node[node_, OPEN] = open_
    node[node_, DIRTY] = 1


@compiled
def take_units(state: State, who: int, node_: int, first: int, last: int, wanted: int) -> None:
    """Put the job on the `wanted` least taken units of `first..last - 1`, the lower number first."""
    job, node, slot_job, slot_next, unit, count, rate, _, _, _, _, _, _, _, _, _, _, _ = state
    slots = slot_job.shape[2]
    base = rate.shape[1] if first > 0 else 0
    limit = job[who, LIMIT]
    level = 0
    while wanted > 0:
        for u in range(first, last):
            if unit[TAKEN, node_, u] == level and wanted > 0 and level < min(unit[CAP, node_, u], limit):
                if slot_holds(slot_job, node_, u, who):
                    continue
                k = 0
                while slot_job[node_, u, k] >= 0:
                    k += 1
                place = (node_ * slot_job.shape[1] + u) * slots + k
                slot_job[node_, u, k] = who
                slot_next[place] = job[who, FIRST_SLOT]
                job[who, FIRST_SLOT] = place
                unit[TAKEN, node_, u] += 1
                unit[CAP, node_, u] = min(unit[CAP, node_, u], limit)
                count[who, base + unit[ACTIVE, node_, u]] += 1
                node[node_, OCCUPIED] += 1
                change_active(state, node_, u, 1)
                wanted -= 1
        level += 1


@inlined
def slot_holds(slot_job: Ints32, node_: int, unit_: int, who: int) -> bool:
    holds = False
    for k in range(slot_job.shape[2]):
        holds |= slot_job[node_, unit_, k] == who
    return holds


@compiled
def occupy(state: State, who: int, now: int) -> None:
    """Put the job onto the nodes that were chosen for it, at the speed that it has there."""
    job, node, _, _, _, _, _, phases, _, _, _, chosen, _, _, _, _, _, reg = state
    cores = reg[NODE_CORES]
    job[who, FIRST_SLOT] = -1
    job[who, IS_IDLE] = 0
    job[who, RATE] = 0
    job[who, SETTLED] = now
    job[who, PHASE_LEFT] = phases[job[who, PHASE]] * reg[FULL]
    job[who, ESTIMATE_LEFT] = job[who, ESTIMATE] * reg[FULL]
    for k in range(reg[CHOSEN_N]):
        n = chosen[k]
        take_units(state, who, n, 0, cores, job[who, CORES])
        if job[who, GPUS] > 0:
            take_units(state, who, n, cores, state[2].shape[1], job[who, GPUS])
        node[n, FREE_MEMORY] -= job[who, MEMORY]
        count_open(state, n)
    refresh(state, now)


@compiled
def vacate(state: State, who: int, now: int) -> None:
    """Take the job off its nodes and give the neighbours the speed that follows."""
    job, node, slot_job, slot_next, unit, count, rate, _, heap, _, _, _, _, _, _, _, _, reg = state
    units = slot_job.shape[1]
    slots = slot_job.shape[2]
    heap_drop(job, heap, reg, who)
    place = job[who, FIRST_SLOT]
    job[who, FIRST_SLOT] = -1
    last = -1
    while place >= 0:
        n = place // (units * slots)
        u = (place // slots) % units
        if job[who, IS_IDLE] == 0:
            change_active(state, n, u, -1)
        count[who, (rate.shape[1] if u >= reg[NODE_CORES] else 0) + unit[ACTIVE, n, u]] -= 1
        slot_job[n, u, place % slots] = -1
        unit[TAKEN, n, u] -= 1
        cap = reg[GPU_SLOTS] if u >= reg[NODE_CORES] else reg[CORE_SLOTS]
        for k in range(slots):
            other = slot_job[n, u, k]
            if other >= 0:
                cap = min(cap, job[other, LIMIT])
        unit[CAP, n, u] = cap
        node[n, OCCUPIED] -= 1
        if n != last:
            if last >= 0:
                count_open(state, last)
            node[n, FREE_MEMORY] += job[who, MEMORY]
            last = n
        place = slot_next[place]
    count_open(state, last)
    refresh(state, now)


# Who fits where.


@compiled
def has_units(state: State, node_: int, who: int, first: int, last: int, wanted: int) -> bool:
    unit = state[4]
    limit = state[0][who, LIMIT]
    for u in range(first, last):
        wanted -= unit[TAKEN, node_, u] < min(unit[CAP, node_, u], limit)
    return bool(wanted <= 0)


@inlined
def suits(state: State, node_: int, who: int) -> bool:
    """Whether the node can take the job now."""
    job = state[0]
    node = state[1]
    reg = state[17]
    good = node[node_, OPEN] >= job[who, CORES]
    if good and reg[HAS_MEMORY]:
        good = node[node_, FREE_MEMORY] >= job[who, MEMORY]
    if good and job[who, LIMIT] < reg[CORE_SLOTS]:
        good = has_units(state, node_, who, 0, reg[NODE_CORES], job[who, CORES])
    if good and job[who, GPUS] > 0:
        good = has_units(state, node_, who, reg[NODE_CORES], state[2].shape[1], job[who, GPUS])
    return bool(good)


@compiled
def enough_open(state: State, who: int) -> bool:
    """Whether so many nodes have so many open cores, whatever else the job wants."""
    job = state[0]
    open_nodes = state[15]
    wanted = job[who, NODES]
    for k in range(job[who, CORES], open_nodes.shape[0]):
        wanted -= open_nodes[k]
    return bool(wanted <= 0)


@compiled
def choose_nodes(state: State, who: int) -> bool:
    """The least occupied nodes that can take the job, the lower number first; False if there are too few."""
    job, node, _, _, _, _, _, _, _, _, _, chosen, _, _, _, _, scratch, reg = state
    if not enough_open(state, who):
        return False
    wanted = job[who, NODES]
    by_occupied = scratch[1]
    most = state[2].shape[1] * state[2].shape[2]
    for k in range(most + 1):
        by_occupied[k] = 0
    good = scratch[0]
    suiting = 0
    for n in range(node.shape[0]):
        good[n] = suits(state, n, who)
        if good[n]:
            by_occupied[node[n, OCCUPIED]] += 1
            suiting += 1
    if suiting < wanted:
        return False
    edge = 0
    below = 0
    while below + by_occupied[edge] < wanted:
        below += by_occupied[edge]
        edge += 1
    at_edge = wanted - below
    found = 0
    for n in range(node.shape[0]):
        if good[n] and node[n, OCCUPIED] <= edge:
            if node[n, OCCUPIED] == edge:
                if at_edge == 0:
                    continue
                at_edge -= 1
            chosen[found] = n
            found += 1
    reg[CHOSEN_N] = found
    return True
