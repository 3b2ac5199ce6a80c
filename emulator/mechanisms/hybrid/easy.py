"""A pass of first come, first served with EASY, first fit, that looks only at jobs of the queue that may start now.

It starts what `passes.schedule_pass` starts, in the same order. Where thousands wait for a wide head, nearly all that a
pass sees was seen before and cannot start now either: a pass keeps the least of what those lack that it left waiting,
and until there is so much only jobs that came since are looked at. Where many wait there is an index of them
(`deep_queue.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner
from emulator.kernel.occupancy import start_chosen
from emulator.kernel.passes import choose, choose_heads
from emulator.kernel.plan import shadow_of
from emulator.kernel.structures import queue_remove_at
from emulator.kernel.tables import (
    FRONT,
    NEVER,
)
from emulator.mechanisms.hybrid.deep_queue import (
    CLASSES,
    OF_MALLEABLE,
    first_indexed,
    keep_index,
    next_within,
    place_of,
)

if TYPE_CHECKING:
    from emulator.kernel.tables import Ints, State
    from emulator.mechanisms.hybrid.claims import ClaimCounters, Claims


@inner
def first_new(state: State, seen: int) -> int:
    """The place in the queue of the first job at its end that was not seen, which the first one of all never is."""
    queue, registers = state.queue, state.registers
    first = registers.queue_hi
    while first > registers.queue_lo and queue[first - 1] >= seen:
        first -= 1
    return int(first)


@inner
def choose_behind(state: State, counters: ClaimCounters, now: int) -> None:
    """Whoever may start behind a head that does not fit."""
    job, queue, plan, blocks, started = state.job, state.queue, state.plan, state.blocks, state.started
    registers = state.registers
    left = registers.idle_nodes
    place = max(first_new(state, counters.pass_seen), registers.queue_lo + 1)
    counters.pass_seen = registers.next_submit
    if left == 0 or registers.queue_hi - registers.queue_lo <= 1:
        for k in range(place, registers.queue_hi):
            counters.pass_wide = min(counters.pass_wide, job[queue[k]].nodes)
        return
    shadow, spare = shadow_of(plan, blocks, registers, job[queue[registers.queue_lo]].nodes, now)
    if registers.spare_nodes == 0:
        spare = 0
    latest = shadow - now - registers.before_shadow
    if (
        counters.pass_rescan
        or left >= counters.pass_wide
        or latest >= counters.pass_long
        or spare >= counters.pass_spare
    ):
        place = registers.queue_lo + 1
        counters.pass_rescan = 0
        counters.pass_wide = NEVER
        counters.pass_long = NEVER
        counters.pass_spare = NEVER
    while left > 0 and place < registers.queue_hi:
        row = queue[place]
        needed = job[row].nodes
        in_time = job[row].estimate_us <= latest
        if in_time or needed <= spare:
            if needed <= left:
                if not in_time:
                    spare -= needed
                left -= needed
                choose(started, registers, row)
                place = queue_remove_at(queue, registers, place)
                continue
            counters.pass_wide = min(counters.pass_wide, needed)
        else:
            counters.pass_long = min(counters.pass_long, job[row].estimate_us)
            counters.pass_spare = min(counters.pass_spare, needed)
        place += 1
    if place < registers.queue_hi:  # not looked at, for there was no node
        counters.pass_wide = 1


@inner
def set_limits(index: Ints, left: int, latest: int, spare: int) -> None:
    """Who may start behind the head, by classes of width: whoever should end in time, and whoever is spare."""
    limits = index.shape[0] - 1
    for which in range(CLASSES):
        least = 1 << which
        index[limits, which] = NEVER - 1 if least <= spare else latest if least <= left else -1
    index[limits, OF_MALLEABLE] = -1


@inner
def take(state: State, row: int, left: int, latest: int, spare: int) -> tuple[int, int]:
    """Choose a job if it fits and does not delay the head. What is left then, of nodes and of the head's."""
    job, queue, started, registers = state.job, state.queue, state.started, state.registers
    needed = job[row].nodes
    in_time = job[row].estimate_us <= latest
    if needed <= left and (in_time or needed <= spare):
        choose(started, registers, row)
        queue_remove_at(queue, registers, place_of(job, queue, registers, row))
        return left - needed, spare if in_time else spare - needed
    return left, spare


@inner
def choose_by_index(state: State, claims: Claims, now: int) -> None:
    """As `choose_behind`, where many wait."""
    attr, index = claims.attr, claims.queue_index
    job, queue, plan, blocks, registers = state.job, state.queue, state.plan, state.blocks, state.registers
    claims.counters.pass_rescan = 1  # for whoever looks without the index again
    left = registers.idle_nodes
    if left == 0:
        return
    head = queue[registers.queue_lo]
    shadow, spare = shadow_of(plan, blocks, registers, job[head].nodes, now)
    if registers.spare_nodes == 0:
        spare = 0
    latest = shadow - now - registers.before_shadow
    behind = 1
    while left > 0 and job[head].key == FRONT and registers.queue_lo + behind < registers.queue_hi:
        row = queue[registers.queue_lo + behind]  # on-demand jobs before all others are not in the index
        if job[row].key != FRONT:
            break
        waiting = registers.queue_hi - registers.queue_lo
        left, spare = take(state, row, left, latest, spare)
        behind += waiting == registers.queue_hi - registers.queue_lo
    row = first_indexed(job, queue, registers) if job[head].key == FRONT else head + 1
    while left > 0:
        set_limits(index, left, latest, min(left, spare))
        row = next_within(job, attr, index, row, registers.next_submit)
        if row < 0:
            break
        left, spare = take(state, row, left, latest, spare)
        row += 1


@inner
def easy_pass(state: State, claims: Claims, now: int) -> None:
    """Start what the scheduler starts now; the jobs are `started[:registers.started_n]`, in order."""
    job, queue, started, registers = state.job, state.queue, state.started, state.registers
    registers.started_n = 0
    keep_index(state, claims)
    begun = 0
    for stage in range(2):  # heads first, because a reservation counts the nodes that they will give back
        if stage == 0:
            choose_heads(job, queue, started, registers, now)
        elif registers.queue_lo < registers.queue_hi:
            if claims.counters.deep:
                choose_by_index(state, claims, now)
            else:
                choose_behind(state, claims.counters, now)
        start_chosen(state, begun, registers.started_n, now)
        begun = registers.started_n
