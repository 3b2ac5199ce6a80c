"""One scheduling pass, compiled. The rules: `docs/schedulers.md`; the slow truth: `tests/oracle`.

A pass chooses jobs (takes them from the queue into `started`) and then starts them. `left` is the number of
free nodes that the chosen ones leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.callbacks import call_hook
from emulator.kernel.compiled import compiled, inlined
from emulator.kernel.occupancy import start_chosen
from emulator.kernel.plan import shadow_of
from emulator.kernel.profile import earliest_start, take_until
from emulator.kernel.stepping import next_submit
from emulator.kernel.structures import queue_remove_at
from emulator.kernel.tables import (
    FRONT,
    NEVER,
    BackfillChoice,
    BackfillRule,
)

if TYPE_CHECKING:
    from emulator.kernel.tables import Ints32, Jobs, Registers, State


@inlined
def choose(started: Ints32, reg: Registers, who: int) -> None:
    started[reg.started_n] = who
    reg.started_n += 1


@inlined
def choose_heads(job: Jobs, queue: Ints32, started: Ints32, reg: Registers, now: int) -> None:
    """In queue order, until the first that does not fit, or that waits for its reservation.

    With COMMIT that one comes before all others until it starts (the scheduler option `commit`).
    """
    left = reg.free
    while reg.queue_lo < reg.queue_hi:
        head = queue[reg.queue_lo]
        if reg.head_waits and head == reg.kept_head and now < reg.kept_shadow < NEVER:
            return
        left -= job[head].nodes
        if left < 0:
            if reg.commit:
                job[head].key = FRONT
            return
        reg.queue_lo += 1
        choose(started, reg, head)
        if head == reg.kept_head:
            reg.kept_head = -1  # should it be requeued, its reservation is made anew


@inlined
def length_of(job: Jobs, who: int, by_run: bool) -> int:
    """How long a waiting job is thought to run: as long as it will, or as its user says."""
    return job[who].run_us if by_run else job[who].estimate_us


@inlined
def choose_first_fit(
    job: Jobs, queue: Ints32, started: Ints32, reg: Registers, now: int, shadow: int, spare: int
) -> int:
    """In queue order, every job behind the head that does not delay it (EASY rule 3). Returns spare nodes."""
    by_run = reg.queued_estimates != 0
    latest = shadow - now - reg.before_shadow
    left = reg.free
    place = reg.queue_lo + 1
    while left > 0 and place < reg.queue_hi:
        who = queue[place]
        needed = job[who].nodes
        if needed <= left:
            in_time = length_of(job, who, by_run) <= latest
            if in_time or needed <= spare:
                if not in_time:
                    spare -= needed
                left -= needed
                choose(started, reg, who)
                place = queue_remove_at(queue, reg, place)
                continue
        place += 1
    return spare


@compiled
def choose_best(state: State, now: int, shadow: int, spare: int) -> int:
    """As first fit, but always the widest, the shortest or the first submitted that may start (`BackfillChoice`)."""
    job, queue, started, reg = state.job, state.queue, state.started, state.reg
    by_run = reg.queued_estimates != 0
    widest = reg.choice == BackfillChoice.BEST_FIT
    shortest = reg.choice == BackfillChoice.SHORTEST_FIRST
    latest = shadow - now - reg.before_shadow
    left = reg.free
    while left > 0:
        best = -1
        best_score = -NEVER
        for place in range(reg.queue_lo + 1, reg.queue_hi):
            who = queue[place]
            needed = job[who].nodes
            if needed <= left and (length_of(job, who, by_run) <= latest or needed <= spare):
                score = needed if widest else -(job[who].estimate_us if shortest else who)
                if score > best_score:
                    best = place
                    best_score = score
        if best < 0:
            break
        who = queue[best]
        if length_of(job, who, by_run) > latest:
            spare -= job[who].nodes
        left -= job[who].nodes
        choose(started, reg, who)
        queue_remove_at(queue, reg, best)
    return spare


@inlined
def choose_backfill(state: State, now: int) -> None:
    """All of EASY but the head: what may start behind one that does not fit."""
    job, queue, plan = state.job, state.queue, state.plan
    blocks, started, reg = state.blocks, state.started, state.reg
    waiting = reg.queue_hi - reg.queue_lo
    if waiting == 0 or (reg.keep_reservation == 0 and (reg.free == 0 or waiting == 1)):
        return
    head = queue[reg.queue_lo]
    shadow = NEVER
    spare = NEVER
    if reg.protect_head or reg.head_waits:
        if reg.keep_reservation and reg.kept_head == head:
            shadow = reg.kept_shadow
            spare = reg.kept_spare
        else:
            shadow, spare = shadow_of(plan, blocks, reg, job[head].nodes, now)
        if reg.spare_nodes == 0:
            spare = 0
    reserved = shadow
    if reg.protect_head == 0:
        shadow = NEVER
        spare = NEVER
    if reg.choice == BackfillChoice.FIRST_FIT:
        spare = choose_first_fit(job, queue, started, reg, now, shadow, spare)
    else:
        spare = choose_best(state, now, shadow, spare)
    reg.kept_head = head
    reg.kept_shadow = reserved
    reg.kept_spare = spare


@compiled
def choose_planned(state: State, now: int) -> None:
    """Plan every waiting job anew in queue order and choose those whose planned start is now.

    (malleable-hungershoefer-2004, section 2: a planning scheduler; design section 9.)
    """
    job, queue, plan, blocks = state.job, state.queue, state.plan, state.blocks
    started, scratch, reg = state.started, state.scratch, state.reg
    at = scratch[0]
    level = scratch[1]
    narrowest = scratch[2]  # from here to the end of the queue
    waiting = reg.queue_hi - reg.queue_lo
    at[0] = now
    level[0] = reg.free
    steps = 1
    for which in range(reg.blocks_n):
        slot = blocks[which].slot
        for k in range(blocks[which].entries):
            # Past its estimate: soon, but its nodes are not free yet.
            expected = max(plan[slot, k].at_us, now + 1)
            if expected != at[steps - 1]:
                at[steps] = expected
                level[steps] = level[steps - 1]
                steps += 1
            level[steps - 1] += plan[slot, k].nodes
    narrowest[waiting] = NEVER
    for k in range(waiting - 1, -1, -1):
        narrowest[k] = min(narrowest[k + 1], job[queue[reg.queue_lo + k]].nodes)
    place = reg.queue_lo
    for k in range(waiting):
        if narrowest[k] > level[0]:
            return  # nobody further back can start now, and plans are not kept
        who = queue[place]
        needed = job[who].nodes
        length = job[who].estimate_us
        first = earliest_start(at, level, steps, 0, needed, length)
        if first >= steps:
            place += 1  # wider than what is in the pool: waits until nodes come back
            continue
        end = at[first] + length if at[first] < NEVER - length else NEVER
        _, steps = take_until(at, level, steps, first, end, needed)
        if first == 0:
            choose(started, reg, who)
            place = queue_remove_at(queue, reg, place)
        else:
            place += 1


@inlined
def schedule_pass_inline(state: State, now: int) -> None:
    """Start what the scheduler starts now. The jobs are `started[:reg.started_n]`, in order."""
    job, node, free = state.job, state.node, state.free
    queue, plan, blocks = state.queue, state.plan, state.blocks
    heap, runs, log, started, reg = state.heap, state.runs, state.log, state.started, state.reg
    reg.started_n = 0
    if reg.head_waits:
        reg.next_cycle = NEVER
    if reg.queue_lo == reg.queue_hi:
        return
    if reg.cycle:
        if now % reg.cycle:
            reg.next_cycle = now - now % reg.cycle + reg.cycle
            return
        reg.next_cycle = NEVER
    if reg.ask and (reg.free > 0 or reg.ask_always):
        call_hook(reg.ask, reg.ask_context, now)
        if reg.order_failed:
            return  # the run ends here, whatever could still be started
    begun = 0
    for stage in range(2):  # heads first, because a reservation counts the nodes that they will give back
        if reg.backfill == BackfillRule.CONSERVATIVE:
            if stage == 0 and reg.free > 0:
                choose_planned(state, now)
        elif stage == 0:
            if reg.backfill != BackfillRule.CHOSEN:
                choose_heads(job, queue, started, reg, now)
        elif reg.backfill == BackfillRule.EASY:
            choose_backfill(state, now)
        start_chosen(job, node, free, plan, blocks, heap, runs, log, started, reg, begun, reg.started_n, now)
        begun = reg.started_n
    if reg.head_waits and reg.heap_n == 0 and next_submit(job, reg) == NEVER and now < reg.kept_shadow:
        reg.next_cycle = reg.kept_shadow  # nothing else would wake a head that waits on an empty machine


@compiled
def schedule_pass(state: State, now: int) -> None:
    """As `schedule_pass_inline`, as a call of its own."""
    schedule_pass_inline(state, now)
