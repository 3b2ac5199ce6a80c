"""The kernel's sorted structures, compiled. Nothing is checked here: that is `cluster.py`'s business.

With R running jobs, Q waiting jobs and N nodes:
* free nodes: a stack with each node's place in it, so that any node leaves in O(1);
* ends: a heap of (actual end, job); only a simulated run has one;
* plan: running jobs sorted by expected end, for the shadow time; O(R) moves of adjacent words per start;
* queue: waiting jobs sorted by (key, job), moved at the shorter side.
The last two live in the middle of arrays twice as long and are centred again when they reach an edge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.harness.compiled import compiled
from emulator.harness.tables import (
    AT,
    FREE,
    HEAP_N,
    HOW_MANY,
    KEY,
    PLACE,
    PLAN_HI,
    PLAN_LO,
    QUEUE_HI,
    QUEUE_LO,
    WHO,
)

if TYPE_CHECKING:
    from emulator.harness.tables import Ints, Ints32


@compiled
def heap_push(heap: Ints, reg: Ints, at: int, who: int) -> None:
    place = reg[HEAP_N]
    reg[HEAP_N] = place + 1
    while place > 0:
        parent = (place - 1) >> 1
        if heap[AT, parent] < at or (heap[AT, parent] == at and heap[WHO, parent] < who):
            break
        heap[AT, place] = heap[AT, parent]
        heap[WHO, place] = heap[WHO, parent]
        place = parent
    heap[AT, place] = at
    heap[WHO, place] = who


@compiled
def heap_pop(heap: Ints, reg: Ints) -> int:
    """Remove the first entry; its job is returned."""
    first: int = heap[WHO, 0]
    count = reg[HEAP_N] - 1
    reg[HEAP_N] = count
    at = heap[AT, count]
    who = heap[WHO, count]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        right = child + 1
        if right < count and (
            heap[AT, right] < heap[AT, child]
            or (heap[AT, right] == heap[AT, child] and heap[WHO, right] < heap[WHO, child])
        ):
            child = right
        if at < heap[AT, child] or (at == heap[AT, child] and who < heap[WHO, child]):
            break
        heap[AT, place] = heap[AT, child]
        heap[WHO, place] = heap[WHO, child]
        place = child
    heap[AT, place] = at
    heap[WHO, place] = who
    return first


@compiled
def heap_remove(heap: Ints, reg: Ints, who: int) -> None:
    """Take one job out of the heap (preemption: rare, so a search and a rebuild of the branch will do)."""
    count = reg[HEAP_N]
    for place in range(count):
        if heap[WHO, place] == who:
            last_at = heap[AT, count - 1]
            last_who = heap[WHO, count - 1]
            reg[HEAP_N] = count - 1
            if place < count - 1:
                # Push everything behind `place` again, the last one included.
                moved_at = np.empty(count - 1 - place, np.int64)
                moved_who = np.empty(count - 1 - place, np.int64)
                kept = 0
                for other in range(place + 1, count - 1):
                    moved_at[kept] = heap[AT, other]
                    moved_who[kept] = heap[WHO, other]
                    kept += 1
                moved_at[kept] = last_at
                moved_who[kept] = last_who
                reg[HEAP_N] = place
                for other in range(kept + 1):
                    heap_push(heap, reg, moved_at[other], moved_who[other])
            return


@compiled
def plan_insert(plan: Ints, reg: Ints, at: int, who: int, how_many: int) -> None:
    """Keep the plan sorted by (expected end, order of insertion)."""
    lo = reg[PLAN_LO]
    hi = reg[PLAN_HI]
    if lo == 0 or hi == plan.shape[1]:
        count = hi - lo
        new_lo = (plan.shape[1] - count) >> 1
        if new_lo < lo:
            for k in range(count):
                for row in range(3):
                    plan[row, new_lo + k] = plan[row, lo + k]
        else:
            for k in range(count - 1, -1, -1):
                for row in range(3):
                    plan[row, new_lo + k] = plan[row, lo + k]
        lo = new_lo
        hi = new_lo + count
    left = lo
    right = hi
    while left < right:
        middle = (left + right) >> 1
        if plan[AT, middle] <= at:
            left = middle + 1
        else:
            right = middle
    if left - lo < hi - left:
        for row in range(3):
            for k in range(lo, left):
                plan[row, k - 1] = plan[row, k]
        lo -= 1
        left -= 1
    else:
        for row in range(3):
            for k in range(hi, left, -1):
                plan[row, k] = plan[row, k - 1]
        hi += 1
    plan[AT, left] = at
    plan[WHO, left] = who
    plan[HOW_MANY, left] = how_many
    reg[PLAN_LO] = lo
    reg[PLAN_HI] = hi


@compiled
def plan_find(plan: Ints, reg: Ints, at: int, who: int) -> int:
    """Place of a job that is planned to end at `at`."""
    left: int = reg[PLAN_LO]
    right = reg[PLAN_HI]
    while left < right:
        middle = (left + right) >> 1
        if plan[AT, middle] < at:
            left = middle + 1
        else:
            right = middle
    while plan[WHO, left] != who:
        left += 1
    return left


@compiled
def plan_remove(plan: Ints, reg: Ints, at: int, who: int) -> None:
    place = plan_find(plan, reg, at, who)
    lo = reg[PLAN_LO]
    hi = reg[PLAN_HI]
    if place - lo < hi - 1 - place:
        for row in range(3):
            for k in range(place, lo, -1):
                plan[row, k] = plan[row, k - 1]
        reg[PLAN_LO] = lo + 1
    else:
        for row in range(3):
            for k in range(place, hi - 1):
                plan[row, k] = plan[row, k + 1]
        reg[PLAN_HI] = hi - 1


@compiled
def queue_remove_at(queue: Ints32, reg: Ints, place: int) -> int:
    """Take out the entry at `place`. Returns the place at which the entry behind it now stands."""
    lo = reg[QUEUE_LO]
    hi = reg[QUEUE_HI]
    if place - lo <= hi - 1 - place:
        for k in range(place, lo, -1):
            queue[k] = queue[k - 1]
        reg[QUEUE_LO] = lo + 1
        return place + 1
    for k in range(place, hi - 1):
        queue[k] = queue[k + 1]
    reg[QUEUE_HI] = hi - 1
    return place


@compiled
def queue_insert(job: Ints, queue: Ints32, reg: Ints, who: int) -> None:
    """Keep the queue sorted by (key, job)."""
    lo = reg[QUEUE_LO]
    hi = reg[QUEUE_HI]
    if lo == 0 or hi == queue.shape[0]:
        count = hi - lo
        new_lo = (queue.shape[0] - count) >> 1
        if new_lo < lo:
            for k in range(count):
                queue[new_lo + k] = queue[lo + k]
        else:
            for k in range(count - 1, -1, -1):
                queue[new_lo + k] = queue[lo + k]
        lo = new_lo
        hi = new_lo + count
    key = job[KEY, who]
    left = lo
    right = hi
    if hi > lo:
        last = queue[hi - 1]
        if job[KEY, last] < key or (job[KEY, last] == key and last < who):
            left = hi  # the usual case: first come, first served
    while left < right:
        middle = (left + right) >> 1
        other = queue[middle]
        if job[KEY, other] < key or (job[KEY, other] == key and other < who):
            left = middle + 1
        else:
            right = middle
    if left - lo < hi - left:
        for k in range(lo, left):
            queue[k - 1] = queue[k]
        lo -= 1
        left -= 1
    else:
        for k in range(hi, left, -1):
            queue[k] = queue[k - 1]
        hi += 1
    queue[left] = who
    reg[QUEUE_LO] = lo
    reg[QUEUE_HI] = hi


@compiled
def queue_remove(queue: Ints32, reg: Ints, who: int) -> None:
    """Take a job out, wherever it stands (cancelled, held: rare)."""
    for place in range(reg[QUEUE_LO], reg[QUEUE_HI]):
        if queue[place] == who:
            queue_remove_at(queue, reg, place)
            return


@compiled
def free_push(node: Ints, free: Ints32, reg: Ints, which: int) -> None:
    place = reg[FREE]
    free[place] = which
    node[PLACE, which] = place
    reg[FREE] = place + 1


@compiled
def free_remove(node: Ints, free: Ints32, reg: Ints, which: int) -> None:
    """Take one idle node out of the pool, wherever it is in the stack."""
    place = node[PLACE, which]
    top = reg[FREE] - 1
    last = free[top]
    free[place] = last
    node[PLACE, last] = place
    node[PLACE, which] = -1
    reg[FREE] = top
