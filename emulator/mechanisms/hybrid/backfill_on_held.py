"""Guests: batch jobs on idle nodes that are held for on-demand jobs. Compiled.

Who should end before the on-demand job is due, or can shrink away, starts there in queue order (hybrid-fan-2021,
section III-B.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inlined
from emulator.kernel.reshape import occupy
from emulator.kernel.structures import queue_remove_at
from emulator.kernel.tables import (
    BATCH,
    NEVER,
)
from emulator.machine import work as w
from emulator.mechanisms.hybrid.claims import MALLEABLE, pop_idle
from emulator.mechanisms.hybrid.deep_queue import (
    CLASSES,
    OF_MALLEABLE,
    class_of,
    first_indexed,
    next_within,
    place_of,
)
from emulator.mechanisms.hybrid.easy import first_new

if TYPE_CHECKING:
    from emulator.kernel.tables import Jobs, State
    from emulator.machine.work import Work
    from emulator.mechanisms.hybrid.claims import Claims


@inlined
def ends_of(work: Work, row: int, done: int, begin: int, nodes: int, num: int, den: int) -> tuple[int, int]:
    """When a job that computes from `begin` on ends, and when its user would think so."""
    width = work[row].width
    end = begin + w.length_us(work, row, work[row].run_us * width - done, nodes, num, den)
    guess = begin + w.length_us(work, row, work[row].estimate_us * width - done, nodes, num, den)
    return end, guess


@inlined
def ends_of_start(work: Work, row: int, nodes: int, now: int) -> tuple[int, int]:
    """When a job that starts now on so many nodes ends, and when its user would think so."""
    end, guess = ends_of(work, row, work[row].saved, now + work[row].setup_us, nodes, 1, 1)
    return end, max(guess, now + 1)


@compiled
def start_guest(state: State, work: Work, claims: Claims, row: int, slot: int, width: int, now: int) -> None:
    """Start a job, which is out of the queue, on idle nodes of the claim."""
    job, registers = state.job, state.registers
    attr, scratch, counters = claims.attr, claims.chosen, claims.counters
    for k in range(width):
        scratch[k] = pop_idle(claims, slot, now)
    end = now + job[row].run_us
    expected = now + job[row].estimate_us
    if width != job[row].nodes:
        end, expected = ends_of_start(work, row, width, now)
    if registers.kept_head == row:
        registers.kept_head = -1
    occupy(state, row, scratch[:width], now, end, expected)
    attr[row].guest = slot
    claims.claim[slot].hosts += 1
    counters.guests_n += 1


@inlined
def best_hosts(claims: Claims) -> tuple[int, int]:
    """Of claims that take guests: the most idle nodes of one, and the latest time at which one with any is due."""
    claim, order, counters = claims.claim, claims.order, claims.counters
    if counters.known_held:
        return counters.most_held, counters.latest_held
    most = 0
    latest = -1
    for k in range(counters.claims_n):
        slot = order[k]
        if claim[slot].idle > 0 and claim[slot].deadline_us >= 0:
            most = max(most, claim[slot].idle)
            latest = max(latest, claim[slot].deadline_us)
    counters.most_held = most
    counters.latest_held = latest
    counters.known_held = 1
    return most, latest


@inlined
def host_of(claims: Claims, nodes: int, expected: int) -> int:
    """The first claim with so many idle nodes whose on-demand job is not due before `expected`; -1 for none."""
    claim, order, counters = claims.claim, claims.order, claims.counters
    for k in range(counters.claims_n):
        slot = order[k]
        if claim[slot].idle >= nodes and claim[slot].deadline_us >= expected:
            return int(slot)
    return -1


@inlined
def host_in_time(job: Jobs, claims: Claims, row: int, most: int, latest: int, now: int) -> int:
    """The claim on whose idle nodes the job runs and should end in time, -1 for none: then what it lacks is kept."""
    counters = claims.counters
    slot = -1
    if now + job[row].estimate_us > latest:
        counters.guest_long = min(counters.guest_long, job[row].estimate_us)
    elif job[row].nodes > most:
        counters.guest_wide = min(counters.guest_wide, job[row].nodes)
    else:
        slot = host_of(claims, job[row].nodes, now + job[row].estimate_us)
        if slot < 0:
            counters.guest_wide = 0
    return slot


@inlined
def host_of_malleable(claims: Claims, row: int, most: int) -> int:
    """The claim on whose idle nodes the job runs if it is malleable, -1 for none: then what it lacks is kept."""
    attr, counters = claims.attr, claims.counters
    slot = -1
    if attr[row].job_class == MALLEABLE:
        if attr[row].least <= most:
            slot = host_of(claims, attr[row].least, 0)
        else:
            counters.guest_least = min(counters.guest_least, attr[row].least)
    return slot


@inlined
def host_for(
    job: Jobs, claims: Claims, row: int, stage: int, most: int, latest: int, now: int
) -> tuple[int, int]:
    """The claim that hosts a job, -1 for none, and on how many nodes: in time (stage 0), or malleable (stage 1)."""
    slot = -1
    width = job[row].nodes
    if job[row].kind == BATCH:
        if stage == 0:
            slot = host_in_time(job, claims, row, most, latest, now)
        else:
            slot = host_of_malleable(claims, row, most)
            width = min(width, claims.claim[slot].idle)
    return slot, width


@compiled
def start_guests_from(
    state: State, work: Work, claims: Claims, first: int, most: int, latest: int, now: int
) -> None:
    """Look through the queue from place `first`: jobs that end in time, then malleable ones, in queue order."""
    job, queue, registers = state.job, state.queue, state.registers
    counters = claims.counters
    for stage in range(2):
        place = first
        while most > 0 and place < registers.queue_hi:
            row = queue[place]
            slot, width = host_for(job, claims, row, stage, most, latest, now)
            if slot < 0:
                place += 1
                continue
            before = registers.queue_lo
            place = queue_remove_at(queue, registers, place)
            first += registers.queue_lo - before
            start_guest(state, work, claims, row, slot, width, now)
            most, latest = best_hosts(claims)
        if place < registers.queue_hi:  # not looked at, for there was no node
            counters.guest_wide = 0


@inlined
def set_limits_of_hosts(claims: Claims, now: int) -> None:
    """Who may run as a guest and end in time, by classes of width."""
    claim, order, counters, index = claims.claim, claims.order, claims.counters, claims.queue_index
    limits = index.shape[0] - 1
    index[limits, :] = -1
    for k in range(counters.claims_n):
        slot = order[k]
        if claim[slot].idle > 0 and claim[slot].deadline_us >= 0:
            which = class_of(claim[slot].idle)
            index[limits, which] = max(index[limits, which], claim[slot].deadline_us - now)
    for which in range(CLASSES - 2, -1, -1):
        index[limits, which] = max(index[limits, which], index[limits, which + 1])


@compiled
def start_guests_by_index(
    state: State, work: Work, claims: Claims, first: int, most: int, latest: int, now: int
) -> None:
    """As `start_guests_from`, of the jobs from row `first` on, where many wait."""
    job, queue, registers = state.job, state.queue, state.registers
    attr, counters, index = claims.attr, claims.counters, claims.queue_index
    limits = index.shape[0] - 1
    for stage in range(2):
        row = first
        while most > 0:
            if stage == 0:
                set_limits_of_hosts(claims, now)
            else:
                index[limits, :CLASSES] = -1
                index[limits, OF_MALLEABLE] = most
            row = next_within(job, attr, index, row, registers.next_submit)
            if row < 0:
                break
            slot, width = host_for(job, claims, row, stage, most, latest, now)
            if slot >= 0:
                queue_remove_at(queue, registers, place_of(job, queue, registers, row))
                start_guest(state, work, claims, row, slot, width, now)
                most, latest = best_hosts(claims)
            row += 1
    counters.guests_rescan = 1  # for whoever looks without the index again


@compiled
def start_guests(state: State, work: Work, claims: Claims, now: int) -> None:
    """After a pass: who can run on idle held nodes. Only those who were not seen, where no other one may."""
    registers, counters = state.registers, claims.counters
    if counters.idle_n == 0 or registers.queue_lo == registers.queue_hi:
        return
    most, latest = best_hosts(claims)
    if counters.deep:
        first = first_indexed(state.job, state.queue, registers)
        if counters.changed == 0:
            first = max(first, counters.guests_seen)
        start_guests_by_index(state, work, claims, first, most, latest, now)
        counters.guests_seen = registers.next_submit
        counters.changed = 0
        return
    may = (
        counters.guests_rescan
        or most >= counters.guest_wide
        or latest >= now + counters.guest_long
        or most >= counters.guest_least
    )
    if most > 0:
        first = registers.queue_lo
        if counters.in_order and (counters.changed == 0 or not may):
            first = first_new(state, counters.guests_seen)
        else:
            counters.guests_rescan = 0
            counters.guest_wide = NEVER
            counters.guest_long = NEVER >> 1
            counters.guest_least = NEVER
        start_guests_from(state, work, claims, first, most, latest, now)
        counters.guests_seen = registers.next_submit
    counters.changed = 0
