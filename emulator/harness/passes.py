"""One scheduling pass, compiled. The rules, one by one: `docs/schedulers.md`; the slow truth: `tests/oracle`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.harness.compiled import compiled
from emulator.harness.occupancy import start_job
from emulator.harness.structures import queue_remove_at
from emulator.harness.tables import (
    AT,
    BACKFILL,
    BACKFILL_CONSERVATIVE,
    BACKFILL_NONE,
    BEST_FIT,
    CHOICE,
    ESTIMATE,
    FIRST_FIT,
    FREE,
    HOW_MANY,
    KEEP_RESERVATION,
    KEPT_HEAD,
    KEPT_SHADOW,
    KEPT_SPARE,
    NEVER,
    NODES,
    PLAN_HI,
    PLAN_LO,
    PROTECT_HEAD,
    QUEUE_HI,
    QUEUE_LO,
    QUEUED_ESTIMATES,
    RUN,
    SPARE_NODES,
    STARTED_N,
)

if TYPE_CHECKING:
    from emulator.harness.tables import State


@compiled
def shadow_of(state: State, needed: int, now: int) -> tuple[int, int]:
    """When the head can start by the estimates of those that run, and the nodes it leaves over then.

    (EASY rules 1 and 2: a job past its estimate is expected to end now; all jobs that end at the shadow time
    count.) NEVER when even the end of all running jobs is not enough, because nodes are out of the pool.
    """
    _, _, _, _, plan, _, _, _, _, reg = state
    free = reg[FREE]
    place = reg[PLAN_LO]
    hi = reg[PLAN_HI]
    while place < hi:
        free += plan[HOW_MANY, place]
        if free >= needed:
            break
        place += 1
    if free < needed:
        return NEVER, 0
    shadow = max(plan[AT, place], now)
    place += 1
    while place < hi and plan[AT, place] <= shadow:
        free += plan[HOW_MANY, place]
        place += 1
    return shadow, free - needed


@compiled
def backfill_first_fit(state: State, now: int, shadow: int, spare: int) -> int:
    """Start, in queue order, every job behind the head that does not delay it (EASY rule 3)."""
    job, _, _, queue, _, _, _, _, _, reg = state
    actual = reg[QUEUED_ESTIMATES] != 0
    place = reg[QUEUE_LO] + 1
    while place < reg[QUEUE_HI] and reg[FREE] > 0:
        who = queue[place]
        needed = job[NODES, who]
        if needed <= reg[FREE]:
            length = job[RUN, who] if actual else job[ESTIMATE, who]
            in_time = now <= shadow - length
            if in_time or needed <= spare:
                if not in_time:
                    spare -= needed
                place = queue_remove_at(queue, reg, place)
                start_job(state, who, now)
                continue
        place += 1
    return spare


@compiled
def backfill_best(state: State, now: int, shadow: int, spare: int) -> int:
    """As first fit, but always the widest (best fit) or the shortest (shortest first) that may start."""
    job, _, _, queue, _, _, _, _, _, reg = state
    actual = reg[QUEUED_ESTIMATES] != 0
    widest = reg[CHOICE] == BEST_FIT
    while reg[FREE] > 0:
        best = -1
        best_score = -NEVER
        for place in range(reg[QUEUE_LO] + 1, reg[QUEUE_HI]):
            who = queue[place]
            needed = job[NODES, who]
            if needed > reg[FREE]:
                continue
            length = job[RUN, who] if actual else job[ESTIMATE, who]
            if now <= shadow - length or needed <= spare:
                score = needed if widest else -job[ESTIMATE, who]
                if score > best_score:
                    best = place
                    best_score = score
        if best < 0:
            break
        who = queue[best]
        length = job[RUN, who] if actual else job[ESTIMATE, who]
        if now > shadow - length:
            spare -= job[NODES, who]
        queue_remove_at(queue, reg, best)
        start_job(state, who, now)
    return spare


@compiled
def conservative_pass(state: State, now: int) -> None:
    """Plan every waiting job anew in queue order and start those whose planned start is now.

    (malleable-hungershoefer-2004, section 2: a planning scheduler; design section 9.) The profile is a step
    function: `level[k]` nodes are free from `at[k]` to `at[k + 1]`.
    """
    job, _, _, queue, plan, _, _, _, _, reg = state
    waiting = reg[QUEUE_HI] - reg[QUEUE_LO]
    size = 2 * waiting + (reg[PLAN_HI] - reg[PLAN_LO]) + 4
    at = np.empty(size, np.int64)
    level = np.empty(size, np.int64)
    at[0] = now
    level[0] = reg[FREE]
    steps = 1
    for k in range(reg[PLAN_LO], reg[PLAN_HI]):
        expected = max(plan[AT, k], now + 1)  # past its estimate: soon, but its nodes are not free yet
        if expected != at[steps - 1]:
            at[steps] = expected
            level[steps] = level[steps - 1]
            steps += 1
        level[steps - 1] += plan[HOW_MANY, k]
    narrowest = np.empty(waiting + 1, np.int64)  # from here to the end of the queue
    narrowest[waiting] = NEVER
    for k in range(waiting - 1, -1, -1):
        narrowest[k] = min(narrowest[k + 1], job[NODES, queue[reg[QUEUE_LO] + k]])
    place = reg[QUEUE_LO]
    for k in range(waiting):
        if narrowest[k] > level[0]:
            return  # nobody further back can start now, and plans are not kept
        who = queue[place]
        needed = job[NODES, who]
        length = job[ESTIMATE, who]
        first = 0
        step = 0
        while step < steps and (step == first or at[step] - at[first] < length):
            if level[step] < needed:
                first = step + 1
            step += 1
        if first >= steps:
            place += 1  # wider than what is in the pool: waits until nodes come back
            continue
        end = at[first] + length if at[first] < NEVER - length else NEVER
        last = first
        while last < steps and at[last] < end:
            last += 1
        if last == steps or at[last] != end:
            for k2 in range(steps, last, -1):
                at[k2] = at[k2 - 1]
                level[k2] = level[k2 - 1]
            at[last] = end
            level[last] = level[last - 1]
            steps += 1
        for k2 in range(first, last):
            level[k2] -= needed
        if first == 0:
            place = queue_remove_at(queue, reg, place)
            start_job(state, who, now)
        else:
            place += 1


@compiled
def schedule_pass(state: State, now: int) -> None:
    """Start what the scheduler starts now. The jobs are `started[:reg[STARTED_N]]`, in order."""
    job, _, _, queue, _, _, _, _, _, reg = state
    reg[STARTED_N] = 0
    if reg[BACKFILL] == BACKFILL_CONSERVATIVE:
        if reg[QUEUE_HI] > reg[QUEUE_LO] and reg[FREE] > 0:
            conservative_pass(state, now)
        return
    while reg[QUEUE_LO] < reg[QUEUE_HI]:
        head = queue[reg[QUEUE_LO]]
        if job[NODES, head] > reg[FREE]:
            break
        reg[QUEUE_LO] += 1
        start_job(state, head, now)
    if reg[BACKFILL] == BACKFILL_NONE or reg[QUEUE_HI] - reg[QUEUE_LO] == 0:
        return
    if reg[KEEP_RESERVATION] == 0 and (reg[FREE] == 0 or reg[QUEUE_HI] - reg[QUEUE_LO] == 1):
        return
    head = queue[reg[QUEUE_LO]]
    shadow = NEVER
    spare = NEVER
    if reg[PROTECT_HEAD]:
        if reg[KEEP_RESERVATION] and reg[KEPT_HEAD] == head:
            shadow = reg[KEPT_SHADOW]
            spare = reg[KEPT_SPARE]
        else:
            shadow, spare = shadow_of(state, job[NODES, head], now)
        if reg[SPARE_NODES] == 0:
            spare = 0
    if reg[CHOICE] == FIRST_FIT:
        spare = backfill_first_fit(state, now, shadow, spare)
    else:
        spare = backfill_best(state, now, shadow, spare)
    reg[KEPT_HEAD] = head
    reg[KEPT_SHADOW] = shadow
    reg[KEPT_SPARE] = spare
