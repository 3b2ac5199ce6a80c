"""A pass of first come, first served with EASY, first fit, that looks only at jobs of the queue that may start now.

It starts what `passes.schedule_pass` starts, in the same order. Where thousands wait for a wide head, nearly all that a
pass sees was seen before and cannot start now either: a pass keeps the least of what those lack that it left waiting,
and until there is so much only jobs that came since are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import inner
from emulator.harness.occupancy import start_chosen
from emulator.harness.passes import choose, choose_heads
from emulator.harness.plan import shadow_of
from emulator.harness.structures import queue_remove_at
from emulator.harness.tables import (
    BEFORE_SHADOW,
    ESTIMATE,
    FREE,
    NEVER,
    NEXT_SUBMIT,
    NODES,
    QUEUE_HI,
    QUEUE_LO,
    SPARE_NODES,
    STARTED_N,
)

if TYPE_CHECKING:
    from emulator.harness.tables import Ints, State

# Counters (of `reserved.Claims`). SEEN: jobs from this row on, which stand at the end, were not looked at; RESCAN:
# somebody stands elsewhere who was not. Of the others one would have to have this: WIDE, so many free nodes; LONG, so
# much time before the head starts; SPARE, so many nodes that the head leaves over.
SEEN, RESCAN, WIDE, LONG, SPARE = range(7, 12)


@inner
def first_new(state: State, seen: int) -> int:
    """The place in the queue of the first job at its end that was not seen, which the first one of all never is."""
    queue, reg = state[3], state[11]
    first = reg[QUEUE_HI]
    while first > reg[QUEUE_LO] and queue[first - 1] >= seen:
        first -= 1
    return int(first)


@inner
def choose_behind(state: State, count: Ints, now: int) -> None:
    """Whoever may start behind a head that does not fit."""
    job, _, _, queue, plan, blocks, _, _, _, started, _, reg = state
    left = reg[FREE]
    place = max(first_new(state, count[SEEN]), reg[QUEUE_LO] + 1)
    count[SEEN] = reg[NEXT_SUBMIT]
    if left == 0 or reg[QUEUE_HI] - reg[QUEUE_LO] <= 1:
        for k in range(place, reg[QUEUE_HI]):
            count[WIDE] = min(count[WIDE], job[queue[k], NODES])
        return
    shadow, spare = shadow_of(plan, blocks, reg, job[queue[reg[QUEUE_LO]], NODES], now)
    if reg[SPARE_NODES] == 0:
        spare = 0
    latest = shadow - now - reg[BEFORE_SHADOW]
    if count[RESCAN] or left >= count[WIDE] or latest >= count[LONG] or spare >= count[SPARE]:
        place = reg[QUEUE_LO] + 1
        count[RESCAN] = 0
        count[WIDE] = NEVER
        count[LONG] = NEVER
        count[SPARE] = NEVER
    while left > 0 and place < reg[QUEUE_HI]:
        who = queue[place]
        needed = job[who, NODES]
        in_time = job[who, ESTIMATE] <= latest
        if in_time or needed <= spare:
            if needed <= left:
                if not in_time:
                    spare -= needed
                left -= needed
                choose(started, reg, who)
                place = queue_remove_at(queue, reg, place)
                continue
            count[WIDE] = min(count[WIDE], needed)
        else:
            count[LONG] = min(count[LONG], job[who, ESTIMATE])
            count[SPARE] = min(count[SPARE], needed)
        place += 1
    if place < reg[QUEUE_HI]:  # not looked at, for there was no node
        count[WIDE] = 1


@inner
def easy_pass(state: State, count: Ints, now: int) -> None:
    """Start what the scheduler starts now; the jobs are `started[:reg[STARTED_N]]`, in order."""
    job, node, free, queue, plan, blocks, heap, runs, log, started, _, reg = state
    reg[STARTED_N] = 0
    begun = 0
    for stage in range(2):  # heads first, because a reservation counts the nodes that they will give back
        if stage == 0:
            choose_heads(job, queue, started, reg, now)
        elif reg[QUEUE_LO] < reg[QUEUE_HI]:
            choose_behind(state, count, now)
        start_chosen(job, node, free, plan, blocks, heap, runs, log, started, reg, begun, reg[STARTED_N], now)
        begun = reg[STARTED_N]
