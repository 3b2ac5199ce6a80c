"""The queue in the order of priorities that are asked for at each pass, compiled. Rules: `docs/schedulers.md`.

The view has one row a job (`WAITING` in `schedulers/dynamic.py`);
what changes is written for the waiting ones. Priorities become keys (`order_keys` there), the queue is sorted by them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from emulator.kernel.compiled import compiled
from emulator.kernel.tables import (
    FRONT,
    OrderFailure,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Ints, Ints32, Jobs, Registers, Runs

    Floats = NDArray[np.float64]
    View = Any
    """Rows of `WAITING`."""


class Account:
    """Whose usage counts."""

    usage: float
    """Node-seconds, decayed to the last time it was counted."""
    shares: float
    """Its own."""
    seen: int
    """1 from the first job of it that waited."""


class Counted:
    """What an order knows beside."""

    at_us: int
    """The time up to which usage is counted."""
    runs_seen: int
    """Rows of the run table that are counted or open."""
    open_n: int
    """Open ones."""
    accounts_n: int
    """0 for an order without fair share."""


class Given:
    """What the hook is given: addresses of tables, and how long these are."""

    job: int
    queue: int
    registers: int
    runs: int
    score: int
    """Of the compiled function."""
    parameters: int
    waiting: int
    accounts: int
    open_runs: int
    counted: int
    scores: int
    spare: int
    half_life_us: float
    """A number of its own."""
    jobs_room: int
    runs_room: int
    accounts_room: int
    open_room: int


_LN2 = 0.6931471805599453


@compiled
def decayed(nodes: int, begin: int, end: int, now: int, half_life: float) -> float:
    """Node-seconds of `nodes` from `begin` to `end`, as they count at `now`: each second halves with its age."""
    rate = _LN2 / half_life
    seconds = -math.expm1(-rate * (end - begin)) / (rate * 1e6)
    left: float = 0.5 ** ((now - end) / half_life)
    return nodes * left * seconds


@compiled
def count_usage(
    runs: Runs,
    waiting: View,
    accounts: Rows[Account],
    open_runs: Ints,
    counted: Counted,
    registers: Registers,
    now: int,
    half_life: float,
) -> None:
    """Bring the usage of all accounts to `now`: what was, decayed, and what runs have used since."""
    before = counted.at_us
    left = 0.5 ** ((now - before) / half_life)
    for which in range(counted.accounts_n):
        accounts[which].usage *= left
    still_open = 0
    for k in range(counted.open_n + registers.runs_n - counted.runs_seen):
        row = open_runs[k] if k < counted.open_n else counted.runs_seen + k - counted.open_n
        behind = runs[row + 1].first if row + 1 < registers.runs_n else registers.log_n
        nodes = behind - runs[row].first
        begin = max(runs[row].start_us, before)
        end = runs[row].end_us
        if end < 0:
            end = now
            open_runs[still_open] = row
            still_open += 1
        if end > begin:
            which = waiting[runs[row].job].account
            accounts[which].usage += decayed(nodes, begin, end, now, half_life)
    counted.open_n = still_open
    counted.runs_seen = registers.runs_n
    counted.at_us = now


@compiled
def look(job: Jobs, queue: Ints32, registers: Registers, waiting: View, now: int) -> None:
    """What an order sees of the waiting jobs, but for usage."""
    for place in range(registers.queue_lo, registers.queue_hi):
        row = queue[place]
        waiting[row].submit_us = job[row].submit_us
        waiting[row].wait_us = now - job[row].submit_us
        waiting[row].estimate_us = job[row].estimate_us
        waiting[row].nodes = job[row].nodes


@compiled
def look_at_usage(
    queue: Ints32, registers: Registers, waiting: View, accounts: Rows[Account], counted: Counted
) -> None:
    """Each waiting job's part of all usage and of all shares."""
    for place in range(registers.queue_lo, registers.queue_hi):
        accounts[waiting[queue[place]].account].seen = 1
    usage = 0.0
    shares = 0.0
    for which in range(counted.accounts_n):
        usage += accounts[which].usage
        if accounts[which].seen:
            shares += accounts[which].shares
    for place in range(registers.queue_lo, registers.queue_hi):
        row = queue[place]
        which = waiting[row].account
        waiting[row].usage = accounts[which].usage / usage if usage > 0.0 else 0.0
        waiting[row].share = accounts[which].shares / shares


@compiled
def set_keys(job: Jobs, queue: Ints32, registers: Registers, scores: Floats, bits: Ints) -> None:
    """Keys of the waiting jobs from their priorities `scores`, by row; `bits` is the same memory."""
    for place in range(registers.queue_lo, registers.queue_hi):
        row = queue[place]
        if scores[row] != scores[row]:
            registers.order_failed = OrderFailure.NOT_A_NUMBER
            registers.instants_left = 0
        if job[row].key != FRONT:
            size = bits[row] & 0x7FFFFFFFFFFFFFFF  # as in `order_keys`
            job[row].key = size if bits[row] < 0 else -size


@compiled
def first_behind(job: Jobs, queue: Ints32, place: int, hi: int) -> int:
    """Where the part of the queue that begins at `place` and is in order ends."""
    place += 1
    while place < hi:
        one = queue[place - 1]
        other = queue[place]
        if job[one].key > job[other].key or (job[one].key == job[other].key and one > other):
            break
        place += 1
    return place


@compiled
def merge(job: Jobs, queue: Ints32, lo: int, middle: int, hi: int, spare: Ints32) -> None:
    """Make one sorted part of two that are neighbours."""
    count = middle - lo
    for k in range(count):
        spare[k] = queue[lo + k]
    left = 0
    right = middle
    place = lo
    while left < count and right < hi:
        one = spare[left]
        other = queue[right]
        if job[other].key < job[one].key or (job[other].key == job[one].key and other < one):
            queue[place] = other
            right += 1
        else:
            queue[place] = one
            left += 1
        place += 1
    while left < count:
        queue[place] = spare[left]
        left += 1
        place += 1


@compiled
def sort_queue(job: Jobs, queue: Ints32, registers: Registers, spare: Ints32) -> None:
    """Sort the queue by (key, job): parts that are in order already are merged in pairs, until there is one."""
    lo = registers.queue_lo
    hi = registers.queue_hi
    parts = 2
    while parts > 1:
        parts = 0
        place = lo
        while place < hi:
            middle = first_behind(job, queue, place, hi)
            end = middle
            if middle < hi:
                end = first_behind(job, queue, middle, hi)
                merge(job, queue, place, middle, end, spare)
            place = end
            parts += 1
