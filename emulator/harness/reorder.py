"""The queue in the order of priorities that are asked for at each pass, compiled. Rules: `docs/schedulers.md`.

The view has one row a job, as whole numbers and as floats over the same memory (`WAITING` in `schedulers/dynamic.py`);
what changes is written for the waiting ones. Priorities become keys (`order_keys` there), the queue is sorted by them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled
from emulator.harness.tables import (
    FRONT,
    INSTANTS_LEFT,
    LOG_N,
    NOT_A_NUMBER,
    ORDER_FAILED,
    QUEUE_HI,
    QUEUE_LO,
    RUNS_N,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from emulator.harness.tables import Ints, Ints32, Jobs, Runs

    Floats = NDArray[np.float64]

# Columns of the view, in the order of `WAITING`.
(
    V_ROW,
    V_SUBMIT,
    V_WAIT,
    V_ESTIMATE,
    V_NODES,
    V_QUEUE,
    V_USER,
    V_GROUP,
    V_ACCOUNT,
    V_USAGE,
    V_SHARE,
    V_FIXED,
) = range(12)
VIEW_COLUMNS = 12
# Columns of the accounts. USAGE: node-seconds, decayed to the last time it was counted; SHARES: its own; SEEN: 1 from
# the first job of it that waited.
USAGE, SHARES, SEEN = range(3)
ACCOUNT_COLUMNS = 3
# What an order knows beside: AT: the time up to which usage is counted; RUNS_SEEN: rows of the run table that are
# counted or open; OPEN_N: open ones; ACCOUNTS_N: 0 for an order without fair share.
AT, RUNS_SEEN, OPEN_N, ACCOUNTS_N = range(4)
COUNTERS = 4
# The addresses and sizes that the hook is given.
(
    A_JOB, A_QUEUE, A_REG, A_RUNS, A_SCORE, A_ORDER, A_VIEW, A_ACCOUNTS, A_OPEN, A_COUNT, A_SCORES, A_SPARE,
    A_HALF_LIFE, JOBS_ROOM, RUNS_ROOM, ACCOUNTS_ROOM, OPEN_ROOM,
) = range(17)  # fmt: skip
ADDRESSES = 17

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
    view: Ints,
    accounts: Floats,
    open_runs: Ints,
    count: Ints,
    reg: Ints,
    now: int,
    half_life: float,
) -> None:
    """Bring the usage of all accounts to `now`: what was, decayed, and what runs have used since."""
    before = count[AT]
    left = 0.5 ** ((now - before) / half_life)
    for which in range(count[ACCOUNTS_N]):
        accounts[which, USAGE] *= left
    still_open = 0
    for k in range(count[OPEN_N] + reg[RUNS_N] - count[RUNS_SEEN]):
        row = open_runs[k] if k < count[OPEN_N] else count[RUNS_SEEN] + k - count[OPEN_N]
        behind = runs[row + 1].first if row + 1 < reg[RUNS_N] else reg[LOG_N]
        nodes = behind - runs[row].first
        begin = max(runs[row].start_us, before)
        end = runs[row].end_us
        if end < 0:
            end = now
            open_runs[still_open] = row
            still_open += 1
        if end > begin:
            which = view[runs[row].job, V_ACCOUNT]
            accounts[which, USAGE] += decayed(nodes, begin, end, now, half_life)
    count[OPEN_N] = still_open
    count[RUNS_SEEN] = reg[RUNS_N]
    count[AT] = now


@compiled
def look(job: Jobs, queue: Ints32, reg: Ints, view: Ints, now: int) -> None:
    """What an order sees of the waiting jobs, but for usage."""
    for place in range(reg[QUEUE_LO], reg[QUEUE_HI]):
        who = queue[place]
        view[who, V_SUBMIT] = job[who].submit_us
        view[who, V_WAIT] = now - job[who].submit_us
        view[who, V_ESTIMATE] = job[who].estimate_us
        view[who, V_NODES] = job[who].nodes


@compiled
def look_at_usage(
    queue: Ints32, reg: Ints, view: Ints, numbers: Floats, accounts: Floats, count: Ints
) -> None:
    """Each waiting job's part of all usage and of all shares."""
    for place in range(reg[QUEUE_LO], reg[QUEUE_HI]):
        accounts[view[queue[place], V_ACCOUNT], SEEN] = 1.0
    usage = 0.0
    shares = 0.0
    for which in range(count[ACCOUNTS_N]):
        usage += accounts[which, USAGE]
        if accounts[which, SEEN] > 0.0:
            shares += accounts[which, SHARES]
    for place in range(reg[QUEUE_LO], reg[QUEUE_HI]):
        who = queue[place]
        which = view[who, V_ACCOUNT]
        numbers[who, V_USAGE] = accounts[which, USAGE] / usage if usage > 0.0 else 0.0
        numbers[who, V_SHARE] = accounts[which, SHARES] / shares


@compiled
def set_keys(job: Jobs, queue: Ints32, reg: Ints, scores: Floats, bits: Ints) -> None:
    """Keys of the waiting jobs from their priorities `scores`, by row; `bits` is the same memory."""
    for place in range(reg[QUEUE_LO], reg[QUEUE_HI]):
        who = queue[place]
        if scores[who] != scores[who]:
            reg[ORDER_FAILED] = NOT_A_NUMBER
            reg[INSTANTS_LEFT] = 0
        if job[who].key != FRONT:
            size = ((bits[who] & 0x7FFFFFFFFFFFFFFF) + (1 << 19)) >> 20  # as in `order_keys`
            job[who].key = size if bits[who] < 0 else -size


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
def sort_queue(job: Jobs, queue: Ints32, reg: Ints, spare: Ints32) -> None:
    """Sort the queue by (key, job): parts that are in order already are merged in pairs, until there is one."""
    lo = reg[QUEUE_LO]
    hi = reg[QUEUE_HI]
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
