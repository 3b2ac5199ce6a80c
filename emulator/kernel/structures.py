"""The kernel's sorted structures, compiled. Nothing is checked here: that is `cluster.py`'s business.

* free nodes: a stack with each node's place in it, so that any node leaves in O(1);
* ends: a heap of (actual end, job); only a simulated run has one;
* queue: waiting jobs sorted by (key, job), moved at the shorter side. It lives in the middle of an array twice as
  long and is centred again when it reaches an edge.
The running jobs by expected end: `plan.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from emulator.kernel.compiled import compiled, inlined, inner

if TYPE_CHECKING:
    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Heap, Ints32, Jobs, Nodes, Registers

_AT_ONCE = 16


class MayGo(Protocol):
    """A row of a job that a pass marks when the job starts."""

    goes: int


@inner
def leave_queue(queue: Ints32, registers: Registers, jobs: Rows[MayGo]) -> None:
    """Take the jobs out of the queue that a pass has marked; the others keep their order."""
    to = registers.queue_hi
    for place in range(registers.queue_hi - 1, registers.queue_lo - 1, -1):
        row = queue[place]
        if jobs[row].goes:
            jobs[row].goes = 0
        else:
            to -= 1
            queue[to] = row
    registers.queue_lo = to


@inlined
def move(array: Ints32, lo: int, hi: int, to: int) -> None:
    """Move `array[lo:hi]` to `to`; the two may overlap.

    An index without a sign cannot count from the end, so that the compiler moves many words at a time.
    """
    one = np.uint64(1)
    count = np.uint64(hi - lo)
    source = np.uint64(lo)
    target = np.uint64(to)
    if to < lo:
        for k in range(count):
            array[target + k] = array[source + k]
    else:
        source += count
        target += count
        for k in range(count):
            array[target - k - one] = array[source - k - one]


@inlined
def copy(source: Ints32, lo: int, target: Ints32, to: int, count: int) -> None:
    """Copy `source[lo:lo + count]` to `target[to:]`. Slices let the compiler move eight words at a time."""
    words = source[lo : lo + count]
    room = target[to : to + count]
    for k in range(count):
        room[k] = words[k]


@inlined
def climb(heap: Heap, place: int, at: int, row: int) -> None:
    """Put an entry at `place`, or above it, where nothing smaller stands below."""
    while place > 0:
        parent = (place - 1) >> 1
        if heap[parent].at_us < at or (heap[parent].at_us == at and heap[parent].key < row):
            break
        heap[place].at_us = heap[parent].at_us
        heap[place].key = heap[parent].key
        place = parent
    heap[place].at_us = at
    heap[place].key = row


@inlined
def sink(heap: Heap, count: int, place: int, at: int, row: int) -> None:
    """Put an entry at `place`, or below it, where nothing greater stands above."""
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        right = child + 1
        if right < count and (
            heap[right].at_us < heap[child].at_us
            or (heap[right].at_us == heap[child].at_us and heap[right].key < heap[child].key)
        ):
            child = right
        if at < heap[child].at_us or (at == heap[child].at_us and row < heap[child].key):
            break
        heap[place].at_us = heap[child].at_us
        heap[place].key = heap[child].key
        place = child
    heap[place].at_us = at
    heap[place].key = row


@inlined
def heap_push(heap: Heap, registers: Registers, at: int, row: int) -> None:
    place = registers.heap_n
    registers.heap_n = place + 1
    climb(heap, place, at, row)


@inlined
def heap_pop(heap: Heap, registers: Registers) -> int:
    """Remove the first entry; its job is returned."""
    first: int = heap[0].key
    count = registers.heap_n - 1
    registers.heap_n = count
    sink(heap, count, 0, heap[count].at_us, heap[count].key)
    return first


@inlined
def place_in_heap(heap: Heap, count: int, row: int) -> int:
    """Where a job stands in the heap; `count` if it does not. Sixteen entries at a time, then one by one."""
    place = 0
    while place + _AT_ONCE <= count:
        some = heap[place : place + _AT_ONCE]
        found = False
        for k in range(_AT_ONCE):
            found |= some[k].key == row
        if found:
            break
        place += _AT_ONCE
    while place < count and heap[place].key != row:
        place += 1
    return place


@compiled
def heap_remove(heap: Heap, registers: Registers, row: int) -> None:
    """Take one job out of the heap, if it is there: a search, then the last entry fills the gap."""
    count = registers.heap_n
    place = place_in_heap(heap, count, row)
    if place == count:
        return
    last = count - 1
    registers.heap_n = last
    if place < last:
        at = heap[last].at_us
        other = heap[last].key
        sink(heap, last, place, at, other)
        if heap[place].key == other:  # it did not sink, so perhaps it must climb
            climb(heap, place, at, other)


@inlined
def queue_remove_at(queue: Ints32, registers: Registers, place: int) -> int:
    """Take out the entry at `place`. Returns the place at which the entry behind it now stands."""
    lo = registers.queue_lo
    hi = registers.queue_hi
    if place - lo <= hi - 1 - place:
        move(queue, lo, place, lo + 1)
        registers.queue_lo = lo + 1
        return place + 1
    move(queue, place + 1, hi, place)
    registers.queue_hi = hi - 1
    return place


@inlined
def queue_insert(job: Jobs, queue: Ints32, registers: Registers, row: int) -> None:
    """Keep the queue sorted by (key, job)."""
    lo = registers.queue_lo
    hi = registers.queue_hi
    if lo == 0 or hi == queue.shape[0]:
        count = hi - lo
        new_lo = (queue.shape[0] - count) >> 1
        move(queue, lo, hi, new_lo)
        lo = new_lo
        hi = new_lo + count
    key = job[row].key
    left = lo
    right = hi
    if hi > lo:
        last = queue[hi - 1]
        if job[last].key < key or (job[last].key == key and last < row):
            left = hi  # the usual case: first come, first served
    while left < right:
        middle = (left + right) >> 1
        other = queue[middle]
        if job[other].key < key or (job[other].key == key and other < row):
            left = middle + 1
        else:
            right = middle
    if left - lo < hi - left:
        move(queue, lo, left, lo - 1)
        lo -= 1
        left -= 1
    else:
        move(queue, left, hi, left + 1)
        hi += 1
    queue[left] = row
    registers.queue_lo = lo
    registers.queue_hi = hi


@inlined
def queue_remove(queue: Ints32, registers: Registers, row: int) -> None:
    """Take a job out, wherever it stands (cancelled, held: rare)."""
    for place in range(registers.queue_lo, registers.queue_hi):
        if queue[place] == row:
            queue_remove_at(queue, registers, place)
            return


@inlined
def free_push(node: Nodes, free: Ints32, registers: Registers, which: int) -> None:
    place = registers.idle_nodes
    free[place] = which
    node[which].place = place
    registers.idle_nodes = place + 1


@inlined
def free_remove(node: Nodes, free: Ints32, registers: Registers, which: int) -> None:
    """Take one idle node out of the pool, wherever it is in the stack."""
    place = node[which].place
    top = registers.idle_nodes - 1
    last = free[top]
    free[place] = last
    node[last].place = place
    registers.idle_nodes = top


@inlined
def free_move(node: Nodes, free: Ints32, which: int, to: int) -> None:
    """Put an idle node at another place of the free stack, and the one from there at its place."""
    place = node[which].place
    other = free[to]
    free[place] = other
    node[other].place = place
    free[to] = which
    node[which].place = to
