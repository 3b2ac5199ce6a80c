"""Who gets which units, compiled: free partitions, victims, claims.

Three relations between partitions matter (parent, child, conflict), and to give units away they are one: overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner
from emulator.mechanisms.realtime.segments import (
    at_risk,
    begin_segment,
    count_job,
    preempt,
    running_insert,
    running_remove,
)
from emulator.mechanisms.realtime.tables import ANYWHERE, NEVER, NOWHERE, Phase

if TYPE_CHECKING:
    from emulator.mechanisms.realtime.tables import State


@inner
def blocked_by(state: State, place: int) -> int:
    """How many partitions that are free now would not be any more."""
    parts, conflicts, conflict_first = state.parts, state.conflicts, state.conflict_first
    count = 0
    for k in range(conflict_first[place], conflict_first[place + 1]):
        other = conflicts[k]
        if parts[other].hard + parts[other].soft == 0:
            count += 1
    return count


@inner
def free_place(state: State, row: int, in_time: bool, reserved: int, spare: int) -> int:
    """Where the job can start now without a preemption: the free partition that blocks the fewest others.

    `reserved`, `spare`: what is kept for the head of the queue and binds those that are not done `in_time`.
    """
    job, parts, overlap, class_first = state.job, state.parts, state.overlap, state.class_first
    registers = state.registers
    if registers.classes == 0:
        fits = job[row].nodes <= registers.free_n and (in_time or job[row].nodes <= spare)
        return ANYWHERE if fits else NOWHERE
    best = NOWHERE
    least = NEVER
    size = job[row].size_class
    for place in range(class_first[size], class_first[size + 1]):
        if parts[place].hard + parts[place].soft > 0:
            continue
        if not in_time and reserved >= 0 and overlap[place, reserved]:
            continue
        blocked = blocked_by(state, place)
        if blocked < least:
            least = blocked
            best = place
    return best


@inner
def urgent_place(state: State, row: int, now: int, in_time: bool, reserved: int, spare: int) -> int:
    """Where a real-time job goes if batch jobs give way: the partition that keeps utilisation highest (section 5.2).

    That is the one whose victims have the fewest units. Of equals: one that is free already, the one with the
    least work (times units) lost, the one that blocks the fewest others, the first.
    """
    job, parts, overlap, running = state.job, state.parts, state.overlap, state.running
    class_first, registers = state.class_first, state.registers
    if registers.classes == 0:
        wanted = job[row].nodes
        room = state.unit.shape[0] - registers.hard_n
        return ANYWHERE if wanted <= room and (in_time or wanted <= spare) else NOWHERE
    best = NOWHERE
    best_units = best_waits = best_lost = best_blocked = NEVER
    size = job[row].size_class
    for place in range(class_first[size], class_first[size + 1]):
        if parts[place].hard > 0 or (not in_time and reserved >= 0 and overlap[place, reserved]):
            continue
        units = 0
        lost = 0
        waits = 1 if parts[place].soft > 0 else 0
        if waits:
            for k in range(running.size.jobs):
                other = running.rows[k]
                if (
                    not job[other].realtime
                    and job[other].phase != Phase.LEAVING
                    and overlap[place, job[other].place]
                ):
                    units += job[other].nodes
                    lost += job[other].nodes * at_risk(job, registers, other, now)
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
    """Flat: the batch jobs with the fewest units in all that make up the shortage; take[k] of running.rows[k].

    Of equals those with the least work (times units) lost; of equals again, those expected to end soonest. By
    dynamic programming over the sum of units: values[s] is the least loss with exactly s units.
    """
    job, unit, running, values, take = state.job, state.unit, state.running, state.values, state.take
    registers = state.registers
    units = unit.shape[0]
    count = running.size.jobs
    for s in range(units + 1):
        values[s] = NEVER
    values[0] = 0
    width = units + 1
    for k in range(count - 1, -1, -1):
        row = running.rows[k]
        can = not job[row].realtime and job[row].phase != Phase.LEAVING
        wide = job[row].nodes
        lost = wide * at_risk(job, registers, row, now) if can else 0
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
            total -= job[running.rows[k]].nodes


@inner
def take_unit(state: State, row: int, which: int) -> None:
    """Keep a unit for a real-time job."""
    unit, registers = state.unit, state.registers
    unit[which].claim = row
    if unit[which].owner < 0:
        registers.free_n -= 1


@inner
def take_from(state: State, row: int, other: int, wanted: int) -> int:
    """Keep up to `wanted` units of another job, those that nobody has claimed. Returns how many."""
    job, unit, runs, log = state.job, state.unit, state.runs, state.log
    first = runs[job[other].run_row].first
    got = 0
    for k in range(first, first + job[other].nodes):
        if got < wanted and unit[log[k]].claim < 0:
            take_unit(state, row, log[k])
            got += 1
    return got


@inner
def claim(state: State, row: int, place: int, now: int) -> None:
    """Keep units for a real-time job, preempt who is on them, and start it if they are free."""
    job, unit, parts, overlap = state.job, state.unit, state.parts, state.overlap
    running, take = state.running, state.take
    job[row].place = place
    count_job(state, row, 1)
    wanted = job[row].nodes
    victims = 0
    if place >= 0:
        for k in range(parts[place].first, parts[place].first + parts[place].units):
            take_unit(state, row, state.part_units[k])
        for k in range(running.size.jobs):
            other = running.rows[k]
            take[k] = 0
            if (
                not job[other].realtime
                and job[other].phase != Phase.LEAVING
                and overlap[place, job[other].place]
            ):
                take[k] = 1
                victims += 1
    else:
        for which in range(unit.shape[0]):
            if wanted > 0 and unit[which].owner < 0 and unit[which].claim < 0:
                take_unit(state, row, which)
                wanted -= 1
        for k in range(running.size.jobs):
            if wanted > 0 and job[running.rows[k]].phase == Phase.LEAVING:
                wanted -= take_from(state, row, running.rows[k], wanted)
        if wanted > 0:
            choose_victims(state, wanted, now)
            for k in range(running.size.jobs):
                if take[k]:
                    victims += 1
                    wanted -= take_from(state, row, running.rows[k], wanted)
    job[row].phase = Phase.CLAIMED
    job[row].planned_us = now + max(job[row].estimate_us, 1)
    # Victims leave `running` while it is walked: from the end, so that the places of the others stay.
    place_of = running.size.jobs - 1
    while victims > 0:
        if take[place_of]:
            preempt(state, running.rows[place_of], now)
            victims -= 1
        place_of -= 1
    running_insert(job, running, row)
    start_claimed(state, row, now)


@inner
def put_on(state: State, row: int, which: int) -> None:
    """A unit is the job's, and nobody has a claim on it any more."""
    state.unit[which].claim = -1
    state.unit[which].owner = row
    state.log[state.registers.log_n] = which
    state.registers.log_n += 1


@inner
def start_claimed(state: State, row: int, now: int) -> bool:
    """Start a real-time job on the units kept for it, if nobody is on them any more."""
    unit, parts = state.unit, state.parts
    place = state.job[row].place
    if place >= 0:
        if parts[place].soft > 0:
            return False
    else:
        for which in range(unit.shape[0]):
            if unit[which].claim == row and unit[which].owner >= 0:
                return False
    running_remove(state.running, row)
    begin_segment(state, row, now)
    if place >= 0:
        for k in range(parts[place].first, parts[place].first + parts[place].units):
            put_on(state, row, state.part_units[k])
    else:
        for which in range(unit.shape[0]):
            if unit[which].claim == row:
                put_on(state, row, which)
    return True


@inner
def occupy(state: State, row: int, place: int, now: int) -> None:
    """Start a job on free units."""
    job, unit, parts = state.job, state.unit, state.parts
    job[row].place = place
    begin_segment(state, row, now)
    wanted = job[row].nodes
    state.registers.free_n -= wanted
    count_job(state, row, 1)
    if place >= 0:
        for k in range(parts[place].first, parts[place].first + parts[place].units):
            put_on(state, row, state.part_units[k])
        return
    which = 0
    while wanted > 0:
        if unit[which].owner < 0 and unit[which].claim < 0:
            put_on(state, row, which)
            wanted -= 1
        which += 1
