"""The bare loop that the harness is measured against: FCFS + EASY on a *count* of nodes, nothing else.

No node identities, no run table, no options, no decision points, no requeue: the least a program can do and
still know each job's start. Sorted arrays with binary search, compiled by Numba, written to be fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEVER = (1 << 63) - 1


@numba.njit(cache=True)
def bare_easy(  # noqa: C901, PLR0912, PLR0915
    submit: NDArray[np.int64],
    run: NDArray[np.int64],
    estimate: NDArray[np.int64],
    nodes: NDArray[np.int32],
    size: int,
) -> NDArray[np.int64]:
    """Start times of jobs that are sorted by submit time."""
    count = submit.shape[0]
    start = np.empty(count, np.int64)
    queue = np.empty(2 * count + 2, np.int32)
    lo = hi = count
    # Running jobs twice: by actual end (heap) and by expected end (sorted, in the middle of a longer array).
    heap_at = np.empty(size + 1, np.int64)
    heap_job = np.empty(size + 1, np.int32)
    running = 0
    room = 2 * size + 8
    plan_at = np.empty(room, np.int64)
    plan_n = np.empty(room, np.int32)
    plan_lo = plan_hi = size
    free = size
    arrived = 0
    begun = np.empty(size + 1, np.int32)
    while arrived < count or running > 0:
        next_end = heap_at[0] if running else NEVER
        next_submit = submit[arrived] if arrived < count else NEVER
        now = min(next_end, next_submit)
        while running and heap_at[0] == now:
            job = heap_job[0]
            running -= 1
            at = heap_at[running]
            who = heap_job[running]
            place = 0
            while True:
                child = 2 * place + 1
                if child >= running:
                    break
                if child + 1 < running and heap_at[child + 1] < heap_at[child]:
                    child += 1
                if at <= heap_at[child]:
                    break
                heap_at[place] = heap_at[child]
                heap_job[place] = heap_job[child]
                place = child
            heap_at[place] = at
            heap_job[place] = who
            free += nodes[job]
            expected = start[job] + estimate[job]
            place = plan_lo + int(np.searchsorted(plan_at[plan_lo:plan_hi], expected))
            while plan_n[place] != nodes[job]:
                place += 1
            if place - plan_lo < plan_hi - place:
                for k in range(place, plan_lo, -1):
                    plan_at[k] = plan_at[k - 1]
                    plan_n[k] = plan_n[k - 1]
                plan_lo += 1
            else:
                for k in range(place, plan_hi - 1):
                    plan_at[k] = plan_at[k + 1]
                    plan_n[k] = plan_n[k + 1]
                plan_hi -= 1
        while arrived < count and submit[arrived] == now:
            queue[hi] = arrived
            hi += 1
            arrived += 1
        started = 0
        while lo < hi and nodes[queue[lo]] <= free:
            free -= int(nodes[queue[lo]])
            begun[started] = queue[lo]
            started += 1
            lo += 1
        first = 0
        while True:
            for k in range(first, started):
                job = begun[k]
                start[job] = now
                at = now + run[job]
                place = running
                running += 1
                while place > 0:
                    parent = (place - 1) >> 1
                    if heap_at[parent] <= at:
                        break
                    heap_at[place] = heap_at[parent]
                    heap_job[place] = heap_job[parent]
                    place = parent
                heap_at[place] = at
                heap_job[place] = job
                expected = now + estimate[job]
                if plan_lo == 0 or plan_hi == room:
                    length = plan_hi - plan_lo
                    new_lo = (room - length) >> 1
                    plan_at[new_lo : new_lo + length] = plan_at[plan_lo:plan_hi].copy()
                    plan_n[new_lo : new_lo + length] = plan_n[plan_lo:plan_hi].copy()
                    plan_lo = new_lo
                    plan_hi = new_lo + length
                place = plan_lo + np.searchsorted(plan_at[plan_lo:plan_hi], expected)
                if place - plan_lo < plan_hi - place:
                    for m in range(plan_lo, place):
                        plan_at[m - 1] = plan_at[m]
                        plan_n[m - 1] = plan_n[m]
                    plan_lo -= 1
                    place -= 1
                else:
                    for m in range(plan_hi, place, -1):
                        plan_at[m] = plan_at[m - 1]
                        plan_n[m] = plan_n[m - 1]
                    plan_hi += 1
                plan_at[place] = expected
                plan_n[place] = nodes[job]
            if first > 0 or lo == hi or free == 0 or hi - lo == 1:
                break
            first = started
            needed = nodes[queue[lo]]
            available = free
            place = plan_lo
            while available < needed:
                available += plan_n[place]
                place += 1
            shadow = max(now, plan_at[place - 1])
            while place < plan_hi and plan_at[place] <= shadow:
                available += plan_n[place]
                place += 1
            spare = available - needed
            k = lo + 1
            while k < hi and free > 0:
                job = queue[k]
                if nodes[job] <= free and (now + estimate[job] <= shadow or nodes[job] <= spare):
                    if now + estimate[job] > shadow:
                        spare -= nodes[job]
                    free -= nodes[job]
                    begun[started] = job
                    started += 1
                    if k - lo < hi - k:
                        for m in range(k, lo, -1):
                            queue[m] = queue[m - 1]
                        lo += 1
                        k += 1
                    else:
                        for m in range(k, hi - 1):
                            queue[m] = queue[m + 1]
                        hi -= 1
                else:
                    k += 1
            if started == first:
                break
    return start
