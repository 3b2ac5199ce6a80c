"""Which nodes a job gets together, compiled: contiguous, or on few switches or groups. The rules: `docs/placement.md`.

Where that is only preferred the pass is the usual one (`passes.py`) and nodes are chosen as jobs start. Where it is
required a job without such a place waits, and the pass is one over single nodes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from emulator.kernel.compiled import compiled, inner
from emulator.kernel.occupancy import start_chosen
from emulator.kernel.passes import choose_backfill, choose_heads, choose_planned
from emulator.kernel.tables import (
    NEVER,
    BackfillRule,
)

if TYPE_CHECKING:
    from emulator.kernel.tables import Ints, Ints32, State


class Goal(IntEnum):
    """What nodes of a job should be: any, consecutive positions, or on few units."""

    BASIC = 0
    CONTIGUOUS = 1
    LOCAL = 2


class How:
    """Registers of such a pass."""

    goal: int
    """`Goal`."""
    required: int
    """A job without such a place waits."""
    has_units: int
    """There are switches or groups."""
    kills: int
    """A run that its nodes make longer ends at its estimate."""
    given_n: int
    """Nodes in `given`."""


class Wires(NamedTuple):
    """What such a pass knows beside the cluster's state. By position, unless it says otherwise."""

    order: Ints32
    """The node at each position."""
    rank: Ints32
    """The position of each node."""
    unit_free: Ints32
    """What may be chosen of each unit."""
    open_now: Ints32
    """What is free now."""
    may: Ints32
    """What is chosen from."""
    picked: Ints32
    """What was chosen."""
    given: Ints32
    """The nodes of the chosen jobs, one job after the other."""
    spare: Ints32
    """Room."""
    release: Ints
    """When it is free (us)."""
    held: Ints32
    """Whether it is of the head's reservation."""
    at: Ints
    """Times (us) of the steps of a plan."""
    level: Ints32
    """`level[k, p]`: whether it is free from `at[k]` to `at[k + 1]`."""
    base: Ints
    """Run time (us) of each job."""
    full: Ints
    """The same with the penalty."""
    how: How
    unit: Ints32
    unit_begin: Ints32
    """The first position of each unit."""
    fewest: Ints
    """`fewest[w]`: parts that a job of w nodes has at least."""


@inner
def pick_basic(wires: Wires, needed: int) -> None:
    """The nodes with the lowest numbers."""
    rank, may, picked = wires.rank, wires.may, wires.picked
    for which in range(rank.shape[0]):
        if needed == 0:
            return
        if may[rank[which]]:
            picked[rank[which]] = 1
            needed -= 1


@inner
def pick_run(wires: Wires, needed: int) -> bool:
    """The shortest run of consecutive positions that is long enough, the lowest of equal ones, from its low end."""
    may, picked = wires.may, wires.picked
    count = may.shape[0]
    best = -1
    best_length = count + 1
    begin = 0
    while begin < count:
        if not may[begin]:
            begin += 1
            continue
        end = begin
        while end < count and may[end]:
            end += 1
        if needed <= end - begin < best_length:
            best = begin
            best_length = end - begin
        begin = end
    if best < 0:
        return False
    for place in range(best, best + needed):
        picked[place] = 1
    return True


@inner
def pick_span(wires: Wires, needed: int) -> None:
    """The positions whose last and first lie closest, the lowest of equal ones. There must be enough."""
    may, picked, spare = wires.may, wires.picked, wires.spare
    found = 0
    best = 0
    best_span = may.shape[0] + 1
    for place in range(may.shape[0]):
        if may[place]:
            spare[found] = place
            found += 1
            if found >= needed and place - spare[found - needed] < best_span:
                best = found - needed
                best_span = place - spare[best]
    for which in range(best, best + needed):
        picked[spare[which]] = 1


@inner
def pick_units(wires: Wires, needed: int) -> int:
    """The fewest units: always the fullest that holds all that is left, else the emptiest. Returns how many."""
    unit_free, may, picked = wires.unit_free, wires.may, wires.picked
    unit_of, unit_begin = wires.unit, wires.unit_begin
    for unit in range(unit_free.shape[0]):
        unit_free[unit] = 0
    for place in range(may.shape[0]):
        unit_free[unit_of[place]] += may[place]
    units = 0
    while needed > 0:
        best = -1
        for unit in range(unit_free.shape[0]):
            many = unit_free[unit]
            if best < 0:
                best = unit
            elif many >= needed:
                if unit_free[best] < needed or many < unit_free[best]:
                    best = unit
            elif many > unit_free[best]:
                best = unit
        units += 1
        take = min(needed, unit_free[best])
        needed -= take
        unit_free[best] = 0
        place = unit_begin[best]
        while take > 0:
            if may[place]:
                picked[place] = 1
                take -= 1
            place += 1
    return units


@inner
def pick(wires: Wires, needed: int) -> bool:
    """Choose nodes of those that may be chosen, which are enough; False: not as is required."""
    picked, how = wires.picked, wires.how
    for place in range(picked.shape[0]):
        picked[place] = 0
    if how.goal == Goal.LOCAL:
        units = pick_units(wires, needed)
        return bool(how.required == 0 or units <= wires.fewest[needed])
    if how.goal == Goal.BASIC:
        pick_basic(wires, needed)
    elif not pick_run(wires, needed):
        if how.required:
            return False
        pick_span(wires, needed)
    return True


@inner
def extra_parts(wires: Wires, needed: int) -> int:
    """Parts of the chosen nodes beyond the fewest that the job can have."""
    picked, how, unit_of = wires.picked, wires.how, wires.unit
    parts = 0
    last = -1
    for place in range(picked.shape[0]):
        if not picked[place]:
            continue
        if how.has_units:
            unit = unit_of[place]
            parts += unit != last
            last = unit
        else:
            parts += place != last + 1 or parts == 0
            last = place
    fewest: int = wires.fewest[needed]
    return parts - fewest


@inner
def give(state: State, wires: Wires, row: int, penalty: float) -> None:
    """A job gets the chosen nodes, and its run takes as long as it does on them."""
    job = state.job
    order, open_now, picked, given = wires.order, wires.open_now, wires.picked, wires.given
    base, full, how = wires.base, wires.full, wires.how
    for place in range(picked.shape[0]):
        if picked[place]:
            open_now[place] = 0
            given[how.given_n] = order[place]
            how.given_n += 1
    if penalty > 0:
        extra = extra_parts(wires, job[row].nodes)
        full[row] = base[row] + int(float(base[row]) * penalty * float(extra))
        job[row].run_us = min(full[row], job[row].estimate_us) if how.kills else full[row]


@inner
def see_free(state: State, wires: Wires) -> None:
    """Which nodes are free now."""
    free, registers = state.free, state.registers
    rank, open_now, how = wires.rank, wires.open_now, wires.how
    for place in range(open_now.shape[0]):
        open_now[place] = 0
    for place in range(registers.idle_nodes):
        open_now[rank[free[place]]] = 1
    how.given_n = 0


@inner
def start_given(state: State, wires: Wires, now: int) -> None:
    """Put the nodes of the chosen jobs on top of the free stack, those of the first at the top, and start them."""
    job, node, free, started, registers = state.job, state.node, state.free, state.started, state.registers
    rank, open_now, given, spare, how = wires.rank, wires.open_now, wires.given, wires.spare, wires.how
    kept = 0
    for place in range(registers.idle_nodes):
        if open_now[rank[free[place]]]:
            spare[kept] = free[place]
            kept += 1
    behind = how.given_n
    for k in range(registers.started_n - 1, -1, -1):
        needed = job[started[k]].nodes
        behind -= needed
        for place in range(behind, behind + needed):
            spare[kept] = given[place]
            kept += 1
    for place in range(kept):
        free[place] = spare[place]
        node[free[place]].place = place
    start_chosen(state, 0, registers.started_n, now)
    registers.started_n = 0
    how.given_n = 0


@inner
def place_chosen(state: State, wires: Wires, now: int, penalty: float) -> None:
    """The usual pass has chosen jobs: each gets nodes, in order, and starts."""
    job, started, registers = state.job, state.started, state.registers
    open_now, may = wires.open_now, wires.may
    if registers.started_n == 0:
        return
    see_free(state, wires)
    for k in range(registers.started_n):
        for place in range(open_now.shape[0]):
            may[place] = open_now[place]
        pick(wires, job[started[k]].nodes)
        give(state, wires, started[k], penalty)
    start_given(state, wires, now)


@compiled
def prefer(state: State, wires: Wires, now: int, backfill: int, penalty: float) -> None:
    """The usual pass, whose jobs get nodes that go together as far as there are any."""
    job, queue, started, registers = state.job, state.queue, state.started, state.registers
    registers.started_n = 0
    if backfill == BackfillRule.CONSERVATIVE:
        if registers.idle_nodes > 0:
            choose_planned(state, now)
    else:
        choose_heads(job, queue, started, registers, now)
        place_chosen(state, wires, now, penalty)
        if backfill == BackfillRule.EASY:
            choose_backfill(state, now)
    place_chosen(state, wires, now, penalty)


# Where it is required.


@inner
def see_releases(state: State, wires: Wires, now: int) -> None:
    """When each node is free by the estimates of those that run; NEVER for one that is out of the pool."""
    job, node = state.job, state.node
    order, open_now, release = wires.order, wires.open_now, wires.release
    for place in range(order.shape[0]):
        which = order[place]
        row = node[which].job
        if open_now[place]:
            release[place] = now
        elif row >= 0 and node[which].offline == 0 and job[row].expected_end_us:
            release[place] = max(job[row].expected_end_us, now + 1)
        else:
            release[place] = NEVER


@inner
def next_release(wires: Wires, after: int) -> int:
    """The first time after this at which a node comes free."""
    release = wires.release
    soonest: int = NEVER
    for place in range(release.shape[0]):
        if after < release[place] < soonest:
            soonest = release[place]
    return soonest


@inner
def choose_now(state: State, wires: Wires, row: int, now: int, penalty: float) -> None:
    """A job starts in this pass on the chosen nodes."""
    job, started, registers = state.job, state.started, state.registers
    picked, release = wires.picked, wires.release
    give(state, wires, row, penalty)
    end = now + job[row].estimate_us if now < NEVER - job[row].estimate_us else NEVER
    for place in range(picked.shape[0]):
        if picked[place]:
            release[place] = end
    started[registers.started_n] = row
    registers.started_n += 1


@inner
def has_place(wires: Wires, needed: int, beside_held: int) -> bool:
    """Whether a job has a place on nodes that are free now, `beside_held`: and not reserved."""
    open_now, may, held = wires.open_now, wires.may, wires.held
    count = 0
    for place in range(may.shape[0]):
        may[place] = 1 if open_now[place] and not (beside_held and held[place]) else 0
        count += may[place]
    return count >= needed and pick(wires, needed)


@inner
def hold_for_head(wires: Wires, needed: int, now: int) -> int:
    """Reserve nodes from the earliest time at which the head has a place. Returns the time, NEVER if there is none."""
    may, picked, release, held = wires.may, wires.picked, wires.release, wires.held
    for place in range(held.shape[0]):
        held[place] = 0
    time = next_release(wires, now)
    while time < NEVER:
        count = 0
        for place in range(may.shape[0]):
            may[place] = 1 if release[place] <= time else 0
            count += may[place]
        if count >= needed and pick(wires, needed):
            for place in range(held.shape[0]):
                held[place] = picked[place]
            return time
        time = next_release(wires, time)
    return time


@inner
def require_easy(state: State, wires: Wires, now: int, backfill: int, penalty: float) -> None:
    """Heads until one has no place; behind it, under EASY, whoever leaves its reserved nodes or its time alone."""
    job, queue, registers = state.job, state.queue, state.registers
    while registers.queue_lo < registers.queue_hi:
        head = queue[registers.queue_lo]
        if not has_place(wires, job[head].nodes, 0):
            break
        registers.queue_lo += 1
        choose_now(state, wires, head, now, penalty)
    waiting = registers.queue_hi - registers.queue_lo
    if backfill != BackfillRule.EASY or waiting < 2:  # noqa: PLR2004 - a head and another
        return
    shadow = hold_for_head(wires, job[queue[registers.queue_lo]].nodes, now)
    to = registers.queue_lo + 1
    for place in range(registers.queue_lo + 1, registers.queue_hi):
        row = queue[place]
        crosses = 1 if job[row].estimate_us > shadow - now else 0
        if has_place(wires, job[row].nodes, crosses):
            choose_now(state, wires, row, now, penalty)
        else:
            queue[to] = row
            to += 1
    registers.queue_hi = to


@inner
def plan_at(wires: Wires, first: int, steps: int, needed: int, length: int) -> bool:
    """Whether a job has a place from a step on, for all of its time."""
    may, at, level = wires.may, wires.at, wires.level
    count = 0
    for place in range(may.shape[0]):
        may[place] = level[first, place]
        count += may[place]
    k = first + 1
    while count >= needed and k < steps and at[k] - at[first] < length:
        for place in range(may.shape[0]):
            if may[place] and not level[k, place]:
                may[place] = 0
                count -= 1
        k += 1
    return count >= needed and pick(wires, needed)


@inner
def plan_there(wires: Wires, first: int, steps: int, length: int) -> int:
    """Keep the chosen nodes from a step on. Returns the number of steps."""
    picked, at, level = wires.picked, wires.at, wires.level
    end = at[first] + length if at[first] < NEVER - length else NEVER
    last = first + 1
    while last < steps and at[last] < end:
        last += 1
    if last == steps or at[last] != end:
        for k in range(steps, last, -1):
            at[k] = at[k - 1]
            for place in range(picked.shape[0]):
                level[k, place] = level[k - 1, place]
        at[last] = end
        for place in range(picked.shape[0]):
            level[last, place] = level[last - 1, place]
        steps += 1
    for k in range(first, last):
        for place in range(picked.shape[0]):
            if picked[place]:
                level[k, place] = 0
    return steps


@inner
def require_planned(state: State, wires: Wires, now: int, penalty: float) -> None:
    """Plan every job in queue order, on single nodes; those whose planned start is now start."""
    job, queue, registers = state.job, state.queue, state.registers
    release, at, level = wires.release, wires.at, wires.level
    steps = 0
    time = now
    while time < NEVER:
        at[steps] = time
        for place in range(release.shape[0]):
            level[steps, place] = 1 if release[place] <= time else 0
        steps += 1
        time = next_release(wires, time)
    left = registers.idle_nodes
    to = registers.queue_lo
    for queued in range(registers.queue_lo, registers.queue_hi):
        row = queue[queued]
        first = 0
        while left > 0 and first < steps:  # with none left nobody starts now, and plans are not kept
            if plan_at(wires, first, steps, job[row].nodes, job[row].estimate_us):
                break
            first += 1
        if left > 0 and first < steps:
            steps = plan_there(wires, first, steps, job[row].estimate_us)
        if left > 0 and first == 0:
            left -= job[row].nodes
            choose_now(state, wires, row, now, penalty)
        else:
            queue[to] = row
            to += 1
    registers.queue_hi = to


@compiled
def require(state: State, wires: Wires, now: int, backfill: int, penalty: float) -> None:
    """A pass in which a job starts only on nodes that go together."""
    registers = state.registers
    registers.started_n = 0
    if registers.idle_nodes == 0:
        return
    see_free(state, wires)
    see_releases(state, wires, now)
    if backfill == BackfillRule.CONSERVATIVE:
        require_planned(state, wires, now, penalty)
    else:
        require_easy(state, wires, now, backfill, penalty)
    if registers.started_n:
        start_given(state, wires, now)
