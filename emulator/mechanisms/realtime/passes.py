"""The scheduling pass, compiled: real-time jobs, then batch jobs, each queue FCFS with EASY backfilling.

An urgent pass (preemptive schemes) sees only what real-time jobs hold; all else can be had. The head of a queue
that does not fit has a reservation: in a partitioned machine the partition that comes free first, in a flat one
the textbook's shadow time and spare units. Who would run past the shadow must leave that alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner
from emulator.kernel.tables import BackfillChoice
from emulator.mechanisms.realtime.allocation import claim, free_place, occupy, start_claimed, urgent_place
from emulator.mechanisms.realtime.segments import queue_remove_at, segment_us
from emulator.mechanisms.realtime.tables import NEVER, NOWHERE, Phase, Scheme

if TYPE_CHECKING:
    from emulator.mechanisms.realtime.tables import State

_ANY = 1 << 60


@inner
def find_place(
    state: State, row: int, now: int, urgent: bool, in_time: bool, reserved: int, spare: int
) -> int:
    if urgent:
        return urgent_place(state, row, now, in_time=in_time, reserved=reserved, spare=spare)
    return free_place(state, row, in_time=in_time, reserved=reserved, spare=spare)


@inner
def launch(state: State, row: int, place: int, now: int, urgent: bool) -> None:
    if urgent:
        claim(state, row, place, now)
    else:
        occupy(state, row, place, now)


@inner
def reservation_flat(state: State, head: int, now: int, urgent: bool) -> tuple[int, int]:
    """Shadow time, and the units that are spare then (EASY rule 2). Units of leaving jobs count as free now."""
    job, unit, running = state.job, state.unit, state.running
    wanted = job[head].nodes
    free = unit.shape[0]
    for k in range(running.size.jobs):
        row = running.rows[k]
        if (job[row].realtime or not urgent) and job[row].phase != Phase.LEAVING:
            free -= job[row].nodes
    shadow = now if free >= wanted else NEVER
    for k in range(running.size.jobs):
        row = running.rows[k]
        if not (job[row].realtime or not urgent) or job[row].phase == Phase.LEAVING:
            continue
        planned = max(job[row].planned_us, now)
        if shadow != NEVER and planned > shadow:
            break
        free += job[row].nodes
        if shadow == NEVER and free >= wanted:
            shadow = planned
    return shadow, free - wanted


@inner
def reservation_partition(state: State, head: int, now: int, urgent: bool) -> tuple[int, int]:
    """Shadow time and the partition that comes free then: the first to do so, of equals the first."""
    job, overlap, running, class_first = state.job, state.overlap, state.running, state.class_first
    best = NOWHERE
    shadow = NEVER
    size = job[head].size_class
    for place in range(class_first[size], class_first[size + 1]):
        free_at = now
        k = running.size.jobs - 1
        while k >= 0:
            row = running.rows[k]
            if (
                (job[row].realtime or not urgent)
                and job[row].phase != Phase.LEAVING
                and overlap[place, job[row].place]
            ):
                free_at = max(now, job[row].planned_us)
                break  # they are in order of PLANNED: this is the last one
            k -= 1
        if free_at < shadow:
            shadow = free_at
            best = place
    return shadow, best


@inner
def tried_before(state: State, row: int, in_time: bool) -> bool:
    """Whether a job of this size has found no place in this pass; places only get fewer."""
    job, tried, registers = state.job, state.tried, state.registers
    if registers.classes == 0:
        return False
    place = 2 * job[row].size_class
    return tried[place] != 0 or (not in_time and tried[place + 1] != 0)


@inner
def backfill_place(
    state: State, row: int, now: int, shadow: int, reserved: int, spare: int, urgent: bool
) -> int:
    """Where a job behind the head may start (EASY rule 3), or NOWHERE."""
    job, tried, registers = state.job, state.tried, state.registers
    in_time = now + segment_us(job, registers, row) <= shadow
    if tried_before(state, row, in_time=in_time):
        return NOWHERE
    place = find_place(state, row, now, urgent=urgent, in_time=in_time, reserved=reserved, spare=spare)
    if place == NOWHERE and registers.classes > 0:
        tried[2 * job[row].size_class + (0 if in_time else 1)] = 1
    return place


@inner
def pass_over(state: State, now: int, urgent: bool, realtime: bool) -> None:
    """One pass over one queue."""
    batch_queue, urgent_queue, registers = state.queue, state.urgent, state.registers
    queue = urgent_queue if realtime else batch_queue
    while queue.size.jobs > 0:
        head = queue.rows[0]
        place = find_place(state, head, now, urgent=urgent, in_time=True, reserved=-1, spare=0)
        if place == NOWHERE:
            break
        queue_remove_at(queue, 0)
        launch(state, head, place, now, urgent=urgent)
    if registers.backfill != 0 and queue.size.jobs > 1:
        backfill(state, now, urgent=urgent, realtime=realtime)


@inner
def backfill(state: State, now: int, urgent: bool, realtime: bool) -> None:
    """Start what may start behind the head: the first that fits, the widest, or the shortest, again and again."""
    job, batch_queue, urgent_queue, tried = state.job, state.queue, state.urgent, state.tried
    registers = state.registers
    queue = urgent_queue if realtime else batch_queue
    spare = 0
    reserved = -1
    if registers.classes == 0:
        shadow, spare = reservation_flat(state, queue.rows[0], now, urgent=urgent)
    else:
        shadow, reserved = reservation_partition(state, queue.rows[0], now, urgent=urgent)
    for k in range(2 * registers.classes):
        tried[k] = 0
    first = 1
    while True:
        best_at = -1
        best_place = NOWHERE
        best_score = -_ANY
        for at in range(first, queue.size.jobs):
            row = queue.rows[at]
            if registers.choice == BackfillChoice.BEST_FIT:
                score = job[row].nodes
            elif registers.choice == BackfillChoice.SHORTEST_FIRST:
                score = -job[row].estimate_us
            else:
                score = -row
            if score <= best_score and registers.choice != BackfillChoice.FIRST_FIT:
                continue
            place = backfill_place(state, row, now, shadow, reserved, spare, urgent=urgent)
            if place != NOWHERE:
                best_at = at
                best_place = place
                best_score = score
                if registers.choice == BackfillChoice.FIRST_FIT:
                    first = at  # who did not fit before will not fit now
                    break
        if best_at < 0:
            return
        row = queue.rows[best_at]
        if now + segment_us(job, registers, row) > shadow:
            spare -= job[row].nodes
        queue_remove_at(queue, best_at)
        launch(state, row, best_place, now, urgent=urgent)


@inner
def schedule(state: State, now: int) -> None:
    """Everything that starts at an instant at which a job was submitted or left its units."""
    job, running, registers = state.job, state.running, state.registers
    registers.dirty = 0
    at = 0
    while at < running.size.jobs:
        row = running.rows[at]
        if job[row].phase == Phase.CLAIMED and start_claimed(state, row, now):
            at = 0  # its place in the list has changed
        else:
            at += 1
    if state.urgent.size.jobs > 0:
        pass_over(state, now, urgent=registers.scheme >= Scheme.RESTART, realtime=True)
    if not (registers.scheme == Scheme.HIGH_PRIORITY and state.urgent.size.jobs > 0):
        pass_over(state, now, urgent=False, realtime=False)
