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
from emulator.kernel.start_delay import keep_picked, start_picked
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
def choose(started: Ints32, registers: Registers, row: int) -> None:
    started[registers.started_n] = row
    registers.started_n += 1


@inlined
def choose_heads(job: Jobs, queue: Ints32, started: Ints32, registers: Registers, now: int) -> None:
    """In queue order, until the first that does not fit, or that waits for its reservation.

    With COMMIT that one comes before all others until it starts (the scheduler option `commit`).
    """
    left = registers.idle_nodes
    while registers.queue_lo < registers.queue_hi:
        head = queue[registers.queue_lo]
        if registers.head_waits and head == registers.kept_head and now < registers.kept_shadow < NEVER:
            return
        left -= job[head].nodes
        if left < 0:
            if registers.commit:
                job[head].key = FRONT
            return
        registers.queue_lo += 1
        choose(started, registers, head)
        if registers.start_delay:
            return
        if head == registers.kept_head:
            registers.kept_head = -1  # should it be requeued, its reservation is made anew


@inlined
def length_of(job: Jobs, row: int, by_run: bool) -> int:
    """How long a waiting job is thought to run: as long as it will, or as its user says."""
    return job[row].run_us if by_run else job[row].estimate_us


@inlined
def choose_first_fit(
    job: Jobs, queue: Ints32, started: Ints32, registers: Registers, now: int, shadow: int, spare: int
) -> int:
    """In queue order, every job behind the head that does not delay it (EASY rule 3). Returns spare nodes."""
    by_run = registers.queued_estimates != 0
    latest = shadow - now - registers.before_shadow
    left = registers.idle_nodes
    place = registers.queue_lo + 1
    while left > 0 and place < registers.queue_hi:
        row = queue[place]
        needed = job[row].nodes
        if needed <= left:
            in_time = length_of(job, row, by_run) <= latest
            if in_time or needed <= spare:
                if not in_time:
                    spare -= needed
                left = 0 if registers.start_delay else left - needed
                choose(started, registers, row)
                place = queue_remove_at(queue, registers, place)
                continue
        place += 1
    return spare


@compiled
def choose_best(state: State, now: int, shadow: int, spare: int) -> int:
    """As first fit, but always the widest, the shortest or the first submitted that may start (`BackfillChoice`).

    Of jobs of one submit time that had come when the head's reservation was made, the queue order says who is first.
    """
    job, queue, started, registers = state.job, state.queue, state.started, state.registers
    by_run = registers.queued_estimates != 0
    widest = registers.choice == BackfillChoice.BEST_FIT
    shortest = registers.choice == BackfillChoice.SHORTEST_FIRST
    by_submit = registers.choice == BackfillChoice.FIRST_SUBMITTED
    latest = shadow - now - registers.before_shadow
    left = registers.idle_nodes
    while left > 0:
        best = -1
        best_row = -1
        best_score = -NEVER
        for place in range(registers.queue_lo + 1, registers.queue_hi):
            row = queue[place]
            needed = job[row].nodes
            if needed <= left and (length_of(job, row, by_run) <= latest or needed <= spare):
                score = needed if widest else -(job[row].estimate_us if shortest else job[row].submit_us)
                by_number = by_submit and row < best_row and best_row >= registers.kept_submits
                if score > best_score or (score == best_score and by_number):
                    best = place
                    best_row = row
                    best_score = score
        if best < 0:
            break
        if length_of(job, best_row, by_run) > latest:
            spare -= job[best_row].nodes
        left = 0 if registers.start_delay else left - job[best_row].nodes
        choose(started, registers, best_row)
        queue_remove_at(queue, registers, best)
    return spare


@inlined
def choose_backfill(state: State, now: int) -> None:
    """All of EASY but the head: what may start behind one that does not fit."""
    job, queue, plan = state.job, state.queue, state.plan
    blocks, started, registers = state.blocks, state.started, state.registers
    waiting = registers.queue_hi - registers.queue_lo
    if waiting == 0 or (registers.keep_reservation == 0 and (registers.idle_nodes == 0 or waiting == 1)):
        return
    head = queue[registers.queue_lo]
    shadow = NEVER
    spare = NEVER
    if registers.protect_head or registers.head_waits:
        if registers.keep_reservation and registers.kept_head == head:
            shadow = registers.kept_shadow
            spare = registers.kept_spare
        else:
            shadow, spare = shadow_of(plan, blocks, registers, job[head].nodes, now)
            if registers.keep_reservation:
                registers.kept_runs = registers.runs_n
                registers.kept_submits = registers.next_submit
        if registers.spare_nodes == 0:
            spare = 0
    reserved = shadow
    if registers.protect_head == 0:
        shadow = NEVER
        spare = NEVER
    if registers.choice == BackfillChoice.FIRST_FIT:
        spare = choose_first_fit(job, queue, started, registers, now, shadow, spare)
    else:
        spare = choose_best(state, now, shadow, spare)
    registers.kept_head = head
    registers.kept_shadow = reserved
    registers.kept_spare = spare


@compiled
def choose_planned(state: State, now: int) -> None:
    """Plan every waiting job anew in queue order and choose those whose planned start is now.

    (malleable-hungershoefer-2004, section 2: a planning scheduler; design section 9.)
    """
    job, queue, plan, blocks = state.job, state.queue, state.plan, state.blocks
    started, scratch, registers = state.started, state.scratch, state.registers
    at = scratch[0]
    level = scratch[1]
    narrowest = scratch[2]  # from here to the end of the queue
    waiting = registers.queue_hi - registers.queue_lo
    at[0] = now
    level[0] = registers.idle_nodes
    steps = 1
    for which in range(registers.blocks_n):
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
        narrowest[k] = min(narrowest[k + 1], job[queue[registers.queue_lo + k]].nodes)
    place = registers.queue_lo
    for k in range(waiting):
        if narrowest[k] > level[0]:
            return  # nobody further back can start now, and plans are not kept
        row = queue[place]
        needed = job[row].nodes
        length = job[row].estimate_us
        first = earliest_start(at, level, steps, 0, needed, length)
        if first >= steps:
            place += 1  # wider than what is in the pool: waits until nodes come back
            continue
        end = at[first] + length if at[first] < NEVER - length else NEVER
        _, steps = take_until(at, level, steps, first, end, needed)
        if first == 0:
            choose(started, registers, row)
            place = queue_remove_at(queue, registers, place)
        else:
            place += 1


@inlined
def schedule_pass_inline(state: State, now: int) -> None:
    """Start what the scheduler starts now. The jobs are `started[:registers.started_n]`, in order."""
    job, queue, started, registers = state.job, state.queue, state.started, state.registers
    registers.started_n = 0
    if registers.start_delay:
        if now < registers.next_cycle < NEVER:
            return
        start_picked(state, now)
    begun = registers.started_n  # whatever the hook chooses comes after it
    if registers.head_waits:
        registers.next_cycle = NEVER
    if registers.queue_lo == registers.queue_hi:
        return
    if registers.cycle:
        if now % registers.cycle:
            registers.next_cycle = now - now % registers.cycle + registers.cycle
            return
        registers.next_cycle = NEVER
    if registers.ask and (registers.idle_nodes > 0 or registers.ask_always):
        call_hook(registers.ask, registers.ask_context, now)
        if registers.order_failed:
            return  # the run ends here, whatever could still be started
    for stage in range(2):  # heads first, because a reservation counts the nodes that they will give back
        if registers.backfill == BackfillRule.CONSERVATIVE:
            if stage == 0 and registers.idle_nodes > 0:
                choose_planned(state, now)
        elif stage == 0:
            if registers.backfill != BackfillRule.CHOSEN:
                choose_heads(job, queue, started, registers, now)
        elif registers.backfill == BackfillRule.EASY:
            choose_backfill(state, now)
        if registers.start_delay and registers.started_n > begun:
            keep_picked(state, now)
            return
        start_chosen(state, begun, registers.started_n, now)
        begun = registers.started_n
    if (
        registers.head_waits
        and registers.heap_n == 0
        and next_submit(job, registers) == NEVER
        and now < registers.kept_shadow
    ):
        # Nothing else would wake a head that waits on an empty machine.
        registers.next_cycle = registers.kept_shadow


@compiled
def schedule_pass(state: State, now: int) -> None:
    """As `schedule_pass_inline`, as a call of its own."""
    schedule_pass_inline(state, now)
