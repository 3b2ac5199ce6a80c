"""Guests: batch jobs on idle nodes that are held for on-demand jobs. Compiled.

Who should end before the on-demand job is due, or can shrink away, starts there in queue order (hybrid-fan-2021,
section III-B.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness import work as w
from emulator.harness.compiled import compiled, inlined
from emulator.harness.reshape import occupy
from emulator.harness.structures import queue_remove_at
from emulator.harness.tables import (
    BATCH,
    KEPT_HEAD,
    NEVER,
    NEXT_SUBMIT,
    QUEUE_HI,
    QUEUE_LO,
)
from emulator.mechanisms.hybrid.claims import (
    CHANGED,
    CLAIMS_N,
    DEEP,
    GUEST_LEAST,
    GUEST_LONG,
    GUEST_WIDE,
    GUESTS_N,
    GUESTS_RESCAN,
    GUESTS_SEEN,
    IDLE_N,
    IN_ORDER,
    KNOWN_HELD,
    LATEST_HELD,
    MALLEABLE,
    MOST_HELD,
    pop_idle,
)
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
    from emulator.harness.tables import Ints, Jobs, State
    from emulator.harness.work import Work
    from emulator.mechanisms.hybrid.claims import Claims


@compiled
def start_guest(state: State, work: Work, claims: Claims, who: int, slot: int, width: int, now: int) -> None:
    """Start a job, which is out of the queue, on idle nodes of the claim."""
    job, reg = state[0], state[11]
    attr, scratch, count = claims[3], claims[4], claims[5]
    for k in range(width):
        scratch[k] = pop_idle(claims, slot, now)
    end = now + job[who].run_us
    expected = now + job[who].estimate_us
    if width != job[who].nodes:
        saved = work[who, w.SAVED]
        begin = now + work[who, w.SETUP]
        owed = work[who, w.RUN_US] * work[who, w.WIDTH] - saved
        guess = work[who, w.ESTIMATE_US] * work[who, w.WIDTH] - saved
        end = begin + w.length_us(work, who, owed, width, 1, 1)
        expected = max(begin + w.length_us(work, who, guess, width, 1, 1), now + 1)
    if reg[KEPT_HEAD] == who:
        reg[KEPT_HEAD] = -1
    occupy(state, who, scratch[:width], now, end, expected)
    attr[who].guest = slot
    claims[0][slot].hosts += 1
    count[GUESTS_N] += 1


@inlined
def best_hosts(claims: Claims) -> tuple[int, int]:
    """Of claims that take guests: the most idle nodes of one, and the latest time at which one with any is due."""
    claim, order, _, _, _, count, _, _ = claims
    if count[KNOWN_HELD]:
        return count[MOST_HELD], count[LATEST_HELD]
    most = 0
    latest = -1
    for k in range(count[CLAIMS_N]):
        slot = order[k]
        if claim[slot].idle > 0 and claim[slot].deadline_us >= 0:
            most = max(most, claim[slot].idle)
            latest = max(latest, claim[slot].deadline_us)
    count[MOST_HELD] = most
    count[LATEST_HELD] = latest
    count[KNOWN_HELD] = 1
    return most, latest


@inlined
def host_of(claims: Claims, nodes: int, expected: int) -> int:
    """The first claim with so many idle nodes whose on-demand job is not due before `expected`; -1 for none."""
    claim, order, _, _, _, count, _, _ = claims
    for k in range(count[CLAIMS_N]):
        slot = order[k]
        if claim[slot].idle >= nodes and claim[slot].deadline_us >= expected:
            return int(slot)
    return -1


@inlined
def host_in_time(job: Jobs, claims: Claims, who: int, most: int, latest: int, now: int) -> int:
    """The claim on whose idle nodes the job runs and should end in time, -1 for none: then what it lacks is kept."""
    count = claims[5]
    slot = -1
    if now + job[who].estimate_us > latest:
        count[GUEST_LONG] = min(count[GUEST_LONG], job[who].estimate_us)
    elif job[who].nodes > most:
        count[GUEST_WIDE] = min(count[GUEST_WIDE], job[who].nodes)
    else:
        slot = host_of(claims, job[who].nodes, now + job[who].estimate_us)
        if slot < 0:
            count[GUEST_WIDE] = 0
    return slot


@inlined
def host_of_malleable(claims: Claims, who: int, most: int) -> int:
    """The claim on whose idle nodes the job runs if it is malleable, -1 for none: then what it lacks is kept."""
    attr, count = claims[3], claims[5]
    slot = -1
    if attr[who].job_class == MALLEABLE:
        if attr[who].least <= most:
            slot = host_of(claims, attr[who].least, 0)
        else:
            count[GUEST_LEAST] = min(count[GUEST_LEAST], attr[who].least)
    return slot


@inlined
def host_for(
    job: Jobs, claims: Claims, who: int, stage: int, most: int, latest: int, now: int
) -> tuple[int, int]:
    """The claim that hosts a job, -1 for none, and on how many nodes: in time (stage 0), or malleable (stage 1)."""
    slot = -1
    width = job[who].nodes
    if job[who].kind == BATCH:
        if stage == 0:
            slot = host_in_time(job, claims, who, most, latest, now)
        else:
            slot = host_of_malleable(claims, who, most)
            width = min(width, claims[0][slot].idle)
    return slot, width


@compiled
def start_guests_from(
    state: State, work: Work, claims: Claims, first: int, most: int, latest: int, now: int
) -> None:
    """Look through the queue from place `first`: jobs that end in time, then malleable ones, in queue order."""
    job, queue, reg = state[0], state[3], state[11]
    count = claims[5]
    for stage in range(2):
        place = first
        while most > 0 and place < reg[QUEUE_HI]:
            who = queue[place]
            slot, width = host_for(job, claims, who, stage, most, latest, now)
            if slot < 0:
                place += 1
                continue
            before = reg[QUEUE_LO]
            place = queue_remove_at(queue, reg, place)
            first += reg[QUEUE_LO] - before
            start_guest(state, work, claims, who, slot, width, now)
            most, latest = best_hosts(claims)
        if place < reg[QUEUE_HI]:  # not looked at, for there was no node
            count[GUEST_WIDE] = 0


@inlined
def set_limits_of_hosts(claims: Claims, now: int) -> None:
    """Who may run as a guest and end in time, by classes of width."""
    claim, order, _, _, _, count, index, _ = claims
    limits = index.shape[0] - 1
    index[limits, :] = -1
    for k in range(count[CLAIMS_N]):
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
    job, queue, reg = state[0], state[3], state[11]
    attr, count, index = claims[3], claims[5], claims[6]
    limits = index.shape[0] - 1
    for stage in range(2):
        who = first
        while most > 0:
            if stage == 0:
                set_limits_of_hosts(claims, now)
            else:
                index[limits, :CLASSES] = -1
                index[limits, OF_MALLEABLE] = most
            who = next_within(job, attr, index, who, reg[NEXT_SUBMIT])
            if who < 0:
                break
            slot, width = host_for(job, claims, who, stage, most, latest, now)
            if slot >= 0:
                queue_remove_at(queue, reg, place_of(job, queue, reg, who))
                start_guest(state, work, claims, who, slot, width, now)
                most, latest = best_hosts(claims)
            who += 1
    count[GUESTS_RESCAN] = 1  # for whoever looks without the index again


@compiled
def start_guests(state: State, work: Work, claims: Claims, now: int) -> None:
    """After a pass: who can run on idle held nodes. Only those who were not seen, where no other one may."""
    reg, count = state[11], claims[5]
    if count[IDLE_N] == 0 or reg[QUEUE_LO] == reg[QUEUE_HI]:
        return
    most, latest = best_hosts(claims)
    if count[DEEP]:
        first = first_indexed(state[0], state[3], reg)
        if count[CHANGED] == 0:
            first = max(first, count[GUESTS_SEEN])
        start_guests_by_index(state, work, claims, first, most, latest, now)
        count[GUESTS_SEEN] = reg[NEXT_SUBMIT]
        count[CHANGED] = 0
        return
    may = (
        count[GUESTS_RESCAN]
        or most >= count[GUEST_WIDE]
        or latest >= now + count[GUEST_LONG]
        or most >= count[GUEST_LEAST]
    )
    if most > 0:
        first = reg[QUEUE_LO]
        if count[IN_ORDER] and (count[CHANGED] == 0 or not may):
            first = first_new(state, count[GUESTS_SEEN])
        else:
            count[GUESTS_RESCAN] = 0
            count[GUEST_WIDE] = NEVER
            count[GUEST_LONG] = NEVER >> 1
            count[GUEST_LEAST] = NEVER
        start_guests_from(state, work, claims, first, most, latest, now)
        count[GUESTS_SEEN] = reg[NEXT_SUBMIT]
    count[CHANGED] = 0


@compiled
def guests_of(state: State, claims: Claims, slot: int, found: Ints) -> int:
    """Guests of a claim, each once."""
    held = claims[2]
    node = state[1]
    count = 0
    for which in range(node.shape[0]):
        if held[which].holder == slot and node[which].job >= 0:
            who = node[which].job
            known = False
            for k in range(count):
                known |= found[k] == who
            if not known:
                found[count] = who
                count += 1
    return count
