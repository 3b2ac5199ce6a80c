"""Who gets which units, compiled: free partitions, victims, claims.

Three relations between partitions matter (parent, child, conflict), and to give units away they are one: overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import inner
from emulator.mechanisms.realtime.segments import (
    at_risk,
    begin_segment,
    preempt,
    running_insert,
    running_remove,
)
from emulator.mechanisms.realtime.tables import (
    ANYWHERE,
    CLAIM,
    CLAIMED,
    CLASSES,
    FIRST,
    FREE_N,
    HARD,
    HARD_N,
    LEAVING,
    LOG_N,
    NEVER,
    NOWHERE,
    OWNER,
    RUNNING_N,
    SIZE,
    SOFT,
)

if TYPE_CHECKING:
    from emulator.mechanisms.realtime.tables import State


@inner
def blocked_by(state: State, place: int) -> int:
    """How many partitions that are free now would not be any more."""
    _, _, parts, _, conflicts, conflict_first, _, _, _, _, _, _, _, _, _, _, _ = state
    count = 0
    for k in range(conflict_first[place], conflict_first[place + 1]):
        other = conflicts[k]
        if parts[other, HARD] + parts[other, SOFT] == 0:
            count += 1
    return count


@inner
def free_place(state: State, who: int, in_time: bool, reserved: int, spare: int) -> int:
    """Where the job can start now without a preemption: the free partition that blocks the fewest others.

    `reserved`, `spare`: what is kept for the head of the queue and binds those that are not done `in_time`.
    """
    job, _, parts, _, _, _, overlap, _, _, _, _, _, class_first, _, _, _, reg = state
    if reg[CLASSES] == 0:
        fits = job[who].nodes <= reg[FREE_N] and (in_time or job[who].nodes <= spare)
        return ANYWHERE if fits else NOWHERE
    best = NOWHERE
    least = NEVER
    size = job[who].size_class
    for place in range(class_first[size], class_first[size + 1]):
        if parts[place, HARD] + parts[place, SOFT] > 0:
            continue
        if not in_time and reserved >= 0 and overlap[place, reserved]:
            continue
        blocked = blocked_by(state, place)
        if blocked < least:
            least = blocked
            best = place
    return best


@inner
def urgent_place(state: State, who: int, now: int, in_time: bool, reserved: int, spare: int) -> int:
    """Where a real-time job goes if batch jobs give way: the partition that keeps utilisation highest (section 5.2).

    That is the one whose victims have the fewest units. Of equals: one that is free already, the one with the
    least work (times units) lost, the one that blocks the fewest others, the first.
    """
    job, _, parts, _, _, _, overlap, _, _, running, _, _, class_first, _, _, _, reg = state
    if reg[CLASSES] == 0:
        wanted = job[who].nodes
        room = state[1].shape[0] - reg[HARD_N]
        return ANYWHERE if wanted <= room and (in_time or wanted <= spare) else NOWHERE
    best = NOWHERE
    best_units = best_waits = best_lost = best_blocked = NEVER
    size = job[who].size_class
    for place in range(class_first[size], class_first[size + 1]):
        if parts[place, HARD] > 0 or (not in_time and reserved >= 0 and overlap[place, reserved]):
            continue
        units = 0
        lost = 0
        waits = 1 if parts[place, SOFT] > 0 else 0
        if waits:
            for k in range(reg[RUNNING_N]):
                other = running[k]
                if (
                    not job[other].realtime
                    and job[other].phase != LEAVING
                    and overlap[place, job[other].place]
                ):
                    units += job[other].nodes
                    lost += job[other].nodes * at_risk(job, reg, other, now)
                    if units > best_units:
                        break
        if units > best_units or (
            units == best_units and (waits > best_waits or (waits == best_waits and lost > best_lost))
        ):
            continue
        blocked = blocked_by(state, place)
        if units == best_units and waits == best_waits and lost == best_lost and blocked >= best_blocked:
            continue
        best = place
        best_units = units
        best_waits = waits
        best_lost = lost
        best_blocked = blocked
    return best


@inner
def choose_victims(state: State, shortage: int, now: int) -> None:
    """Flat: the batch jobs with the fewest units in all that make up the shortage; take[k] of running[k].

    Of equals those with the least work (times units) lost; of equals again, those expected to end soonest. By
    dynamic programming over the sum of units: values[s] is the least loss with exactly s units.
    """
    job, unit, _, _, _, _, _, _, _, running, _, _, _, values, take, _, reg = state
    units = unit.shape[0]
    count = reg[RUNNING_N]
    for s in range(units + 1):
        values[s] = NEVER
    values[0] = 0
    width = units + 1
    for k in range(count - 1, -1, -1):
        who = running[k]
        can = not job[who].realtime and job[who].phase != LEAVING
        wide = job[who].nodes
        lost = wide * at_risk(job, reg, who, now) if can else 0
        for s in range(units, -1, -1):
            take[k * width + s] = 0
            if can and s >= wide and values[s - wide] != NEVER and values[s - wide] + lost <= values[s]:
                values[s] = values[s - wide] + lost
                take[k * width + s] = 1
    total = shortage
    while values[total] == NEVER:
        total += 1
    for k in range(count):
        chosen = take[k * width + total]
        take[k] = chosen  # the row of k is not needed any more, and starts at or behind k
        if chosen:
            total -= job[running[k]].nodes


@inner
def take_unit(state: State, who: int, which: int) -> None:
    """Keep a unit for a real-time job."""
    _, unit, _, _, _, _, _, _, _, _, _, _, _, _, _, _, reg = state
    unit[which, CLAIM] = who
    if unit[which, OWNER] < 0:
        reg[FREE_N] -= 1


@inner
def take_from(state: State, who: int, other: int, wanted: int) -> int:
    """Keep up to `wanted` units of another job, those that nobody has claimed. Returns how many."""
    job, unit, _, _, _, _, _, _, _, _, runs, log, _, _, _, _, _ = state
    first = runs[job[other].run_row].first
    got = 0
    for k in range(first, first + job[other].nodes):
        if got < wanted and unit[log[k], CLAIM] < 0:
            take_unit(state, who, log[k])
            got += 1
    return got


@inner
def claim(state: State, who: int, place: int, now: int) -> None:
    """Keep units for a real-time job, preempt who is on them, and start it if they are free."""
    (
        job,
        unit,
        parts,
        part_units,
        conflicts,
        conflict_first,
        overlap,
        _,
        _,
        running,
        _,
        _,
        _,
        _,
        take,
        _,
        reg,
    ) = state
    job[who].place = place
    wanted = job[who].nodes
    reg[HARD_N] += wanted
    victims = 0
    if place >= 0:
        for k in range(parts[place, FIRST], parts[place, FIRST] + parts[place, SIZE]):
            take_unit(state, who, part_units[k])
        for k in range(conflict_first[place], conflict_first[place + 1]):
            parts[conflicts[k], HARD] += 1
        for k in range(reg[RUNNING_N]):
            other = running[k]
            take[k] = 0
            if not job[other].realtime and job[other].phase != LEAVING and overlap[place, job[other].place]:
                take[k] = 1
                victims += 1
    else:
        for which in range(unit.shape[0]):
            if wanted > 0 and unit[which, OWNER] < 0 and unit[which, CLAIM] < 0:
                take_unit(state, who, which)
                wanted -= 1
        for k in range(reg[RUNNING_N]):
            if wanted > 0 and job[running[k]].phase == LEAVING:
                wanted -= take_from(state, who, running[k], wanted)
        if wanted > 0:
            choose_victims(state, wanted, now)
            for k in range(reg[RUNNING_N]):
                if take[k]:
                    victims += 1
                    wanted -= take_from(state, who, running[k], wanted)
    job[who].phase = CLAIMED
    job[who].planned_us = now + max(job[who].estimate_us, 1)
    # Victims leave `running` while it is walked: from the end, so that the places of the others stay.
    place_of = reg[RUNNING_N] - 1
    while victims > 0:
        if take[place_of]:
            preempt(state, running[place_of], now)
            victims -= 1
        place_of -= 1
    running_insert(job, running, reg, who)
    start_claimed(state, who, now)


@inner
def start_claimed(state: State, who: int, now: int) -> bool:
    """Start a real-time job on the units kept for it, if nobody is on them any more."""
    job, unit, parts, part_units, _, _, _, _, _, running, _, log, _, _, _, _, reg = state
    place = job[who].place
    if place >= 0:
        if parts[place, SOFT] > 0:
            return False
    else:
        for which in range(unit.shape[0]):
            if unit[which, CLAIM] == who and unit[which, OWNER] >= 0:
                return False
    running_remove(running, reg, who)
    begin_segment(state, who, now)
    if place >= 0:
        for k in range(parts[place, FIRST], parts[place, FIRST] + parts[place, SIZE]):
            which = part_units[k]
            unit[which, CLAIM] = -1
            unit[which, OWNER] = who
            log[reg[LOG_N]] = which
            reg[LOG_N] += 1
    else:
        for which in range(unit.shape[0]):
            if unit[which, CLAIM] == who:
                unit[which, CLAIM] = -1
                unit[which, OWNER] = who
                log[reg[LOG_N]] = which
                reg[LOG_N] += 1
    return True


@inner
def occupy(state: State, who: int, place: int, now: int) -> None:
    """Start a job on free units."""
    job, unit, parts, part_units, conflicts, conflict_first, _, _, _, _, _, log, _, _, _, _, reg = state
    job[who].place = place
    begin_segment(state, who, now)
    wanted = job[who].nodes
    reg[FREE_N] -= wanted
    column = HARD if job[who].realtime else SOFT
    if job[who].realtime:
        reg[HARD_N] += wanted
    if place >= 0:
        for k in range(parts[place, FIRST], parts[place, FIRST] + parts[place, SIZE]):
            unit[part_units[k], OWNER] = who
            log[reg[LOG_N]] = part_units[k]
            reg[LOG_N] += 1
        for k in range(conflict_first[place], conflict_first[place + 1]):
            parts[conflicts[k], column] += 1
        return
    which = 0
    while wanted > 0:
        if unit[which, OWNER] < 0 and unit[which, CLAIM] < 0:
            unit[which, OWNER] = who
            log[reg[LOG_N]] = which
            reg[LOG_N] += 1
            wanted -= 1
        which += 1
