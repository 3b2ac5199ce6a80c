"""Which nodes a job gets together, compiled: contiguous, or on few switches or groups. The rules: `docs/placement.md`.

Where that is only preferred the pass is the usual one (`passes.py`) and nodes are chosen as jobs start. Where it is
required a job without such a place waits, and the pass is one over single nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled, inner
from emulator.harness.occupancy import start_chosen
from emulator.harness.passes import choose_backfill, choose_heads, choose_planned
from emulator.harness.tables import (
    FREE,
    NEVER,
    QUEUE_HI,
    QUEUE_LO,
    STARTED_N,
    BackfillRule,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    from emulator.harness.tables import Ints, Ints32, State

    Wires: TypeAlias = (
        "tuple[Ints32, Ints32, Ints32, Ints32, Ints32, Ints32, Ints32, Ints32, Ints, Ints32, Ints, Ints32, "
        "Ints, Ints, Ints, Ints32, Ints32, Ints]"
    )
    """(order, rank, unit_free, open, may, picked, given, spare, release, held, at, level, base, full, how, unit,
    unit_begin, fewest)

    `order`, `rank`: of positions. By position: `open`: free now; `may`: what is chosen from; `picked`: what was chosen;
    `release`: when it is free; `held`: of the head's reservation; `level[k, p]`: free from `at[k]` to `at[k + 1]`.
    `unit_free`: what may be chosen of each unit; `given`: the nodes of the chosen jobs, one behind the other. A row a
    job: `base`, its run time, and `full`, with the penalty. `spare`: room. `how`: see the registers below. `unit`: of
    each position; `unit_begin`: the first position of each; `fewest[w]`: parts that a job of w nodes has at least.
    """

BASIC, CONTIGUOUS, LOCAL = range(3)
# Registers `how`. GIVEN_N: nodes in `given`.
GOAL, REQUIRED, HAS_UNITS, KILLS, GIVEN_N = range(5)
HOW = 5


@inner
def pick_basic(wires: Wires, needed: int) -> None:
    """The nodes with the lowest numbers."""
    rank, may, picked = wires[1], wires[4], wires[5]
    for which in range(rank.shape[0]):
        if needed == 0:
            return
        if may[rank[which]]:
            picked[rank[which]] = 1
            needed -= 1


@inner
def pick_run(wires: Wires, needed: int) -> bool:
    """The shortest run of consecutive positions that is long enough, the lowest of equal ones, from its low end."""
    may, picked = wires[4], wires[5]
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
    may, picked, spare = wires[4], wires[5], wires[7]
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
    unit_free, may, picked = wires[2], wires[4], wires[5]
    unit_of, unit_begin = wires[15], wires[16]
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
    picked, how = wires[5], wires[14]
    for place in range(picked.shape[0]):
        picked[place] = 0
    if how[GOAL] == LOCAL:
        units = pick_units(wires, needed)
        return bool(how[REQUIRED] == 0 or units <= wires[17][needed])
    if how[GOAL] == BASIC:
        pick_basic(wires, needed)
    elif not pick_run(wires, needed):
        if how[REQUIRED]:
            return False
        pick_span(wires, needed)
    return True


@inner
def extra_parts(wires: Wires, needed: int) -> int:
    """Parts of the chosen nodes beyond the fewest that the job can have."""
    picked, how, unit_of = wires[5], wires[14], wires[15]
    parts = 0
    last = -1
    for place in range(picked.shape[0]):
        if not picked[place]:
            continue
        if how[HAS_UNITS]:
            unit = unit_of[place]
            parts += unit != last
            last = unit
        else:
            parts += place != last + 1 or parts == 0
            last = place
    fewest: int = wires[17][needed]
    return parts - fewest


@inner
def give(state: State, wires: Wires, who: int, penalty: float) -> None:
    """A job gets the chosen nodes, and its run takes as long as it does on them."""
    job = state.job
    order, open_, picked, given = wires[0], wires[3], wires[5], wires[6]
    base, full, how = wires[12], wires[13], wires[14]
    for place in range(picked.shape[0]):
        if picked[place]:
            open_[place] = 0
            given[how[GIVEN_N]] = order[place]
            how[GIVEN_N] += 1
    if penalty > 0:
        extra = extra_parts(wires, job[who].nodes)
        full[who] = base[who] + int(float(base[who]) * penalty * float(extra))
        job[who].run_us = min(full[who], job[who].estimate_us) if how[KILLS] else full[who]


@inner
def see_free(state: State, wires: Wires) -> None:
    """Which nodes are free now."""
    free, reg = state.free, state.reg
    rank, open_, how = wires[1], wires[3], wires[14]
    for place in range(open_.shape[0]):
        open_[place] = 0
    for place in range(reg[FREE]):
        open_[rank[free[place]]] = 1
    how[GIVEN_N] = 0


@inner
def start_given(state: State, wires: Wires, now: int) -> None:
    """Put the nodes of the chosen jobs on top of the free stack, those of the first at the top, and start them."""
    job, node, free, plan, blocks, heap, runs, log, started, reg = (
        state.job,
        state.node,
        state.free,
        state.plan,
        state.blocks,
        state.heap,
        state.runs,
        state.log,
        state.started,
        state.reg,
    )
    rank, open_, given, spare, how = wires[1], wires[3], wires[6], wires[7], wires[14]
    kept = 0
    for place in range(reg[FREE]):
        if open_[rank[free[place]]]:
            spare[kept] = free[place]
            kept += 1
    behind = how[GIVEN_N]
    for k in range(reg[STARTED_N] - 1, -1, -1):
        needed = job[started[k]].nodes
        behind -= needed
        for place in range(behind, behind + needed):
            spare[kept] = given[place]
            kept += 1
    for place in range(kept):
        free[place] = spare[place]
        node[free[place]].place = place
    start_chosen(job, node, free, plan, blocks, heap, runs, log, started, reg, 0, reg[STARTED_N], now)
    reg[STARTED_N] = 0
    how[GIVEN_N] = 0


@inner
def place_chosen(state: State, wires: Wires, now: int, penalty: float) -> None:
    """The usual pass has chosen jobs: each gets nodes, in order, and starts."""
    job, started, reg = state.job, state.started, state.reg
    open_, may = wires[3], wires[4]
    if reg[STARTED_N] == 0:
        return
    see_free(state, wires)
    for k in range(reg[STARTED_N]):
        for place in range(open_.shape[0]):
            may[place] = open_[place]
        pick(wires, job[started[k]].nodes)
        give(state, wires, started[k], penalty)
    start_given(state, wires, now)


@compiled
def prefer(state: State, wires: Wires, now: int, backfill: int, penalty: float) -> None:
    """The usual pass, whose jobs get nodes that go together as far as there are any."""
    job, queue, started, reg = state.job, state.queue, state.started, state.reg
    reg[STARTED_N] = 0
    if backfill == BackfillRule.CONSERVATIVE:
        if reg[FREE] > 0:
            choose_planned(state, now)
    else:
        choose_heads(job, queue, started, reg, now)
        place_chosen(state, wires, now, penalty)
        if backfill == BackfillRule.EASY:
            choose_backfill(state, now)
    place_chosen(state, wires, now, penalty)


# Where it is required.


@inner
def see_releases(state: State, wires: Wires, now: int) -> None:
    """When each node is free by the estimates of those that run; NEVER for one that is out of the pool."""
    job, node = state.job, state.node
    order, open_, release = wires[0], wires[3], wires[8]
    for place in range(order.shape[0]):
        which = order[place]
        who = node[which].job
        if open_[place]:
            release[place] = now
        elif who >= 0 and node[which].offline == 0 and job[who].expected_end_us:
            release[place] = max(job[who].expected_end_us, now + 1)
        else:
            release[place] = NEVER


@inner
def next_release(wires: Wires, after: int) -> int:
    """The first time after this at which a node comes free."""
    release = wires[8]
    soonest: int = NEVER
    for place in range(release.shape[0]):
        if after < release[place] < soonest:
            soonest = release[place]
    return soonest


@inner
def choose_now(state: State, wires: Wires, who: int, now: int, penalty: float) -> None:
    """A job starts in this pass on the chosen nodes."""
    job, started, reg = state.job, state.started, state.reg
    picked, release = wires[5], wires[8]
    give(state, wires, who, penalty)
    end = now + job[who].estimate_us if now < NEVER - job[who].estimate_us else NEVER
    for place in range(picked.shape[0]):
        if picked[place]:
            release[place] = end
    started[reg[STARTED_N]] = who
    reg[STARTED_N] += 1


@inner
def has_place(wires: Wires, needed: int, beside_held: int) -> bool:
    """Whether a job has a place on nodes that are free now, `beside_held`: and not reserved."""
    open_, may, held = wires[3], wires[4], wires[9]
    count = 0
    for place in range(may.shape[0]):
        may[place] = 1 if open_[place] and not (beside_held and held[place]) else 0
        count += may[place]
    return count >= needed and pick(wires, needed)


@inner
def hold_for_head(wires: Wires, needed: int, now: int) -> int:
    """Reserve nodes from the earliest time at which the head has a place. Returns the time, NEVER if there is none."""
    may, picked, release, held = wires[4], wires[5], wires[8], wires[9]
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
    job, queue, reg = state.job, state.queue, state.reg
    while reg[QUEUE_LO] < reg[QUEUE_HI]:
        head = queue[reg[QUEUE_LO]]
        if not has_place(wires, job[head].nodes, 0):
            break
        reg[QUEUE_LO] += 1
        choose_now(state, wires, head, now, penalty)
    if backfill != BackfillRule.EASY or reg[QUEUE_HI] - reg[QUEUE_LO] < 2:  # noqa: PLR2004 - a head and another
        return
    shadow = hold_for_head(wires, job[queue[reg[QUEUE_LO]]].nodes, now)
    to = reg[QUEUE_LO] + 1
    for place in range(reg[QUEUE_LO] + 1, reg[QUEUE_HI]):
        who = queue[place]
        crosses = 1 if job[who].estimate_us > shadow - now else 0
        if has_place(wires, job[who].nodes, crosses):
            choose_now(state, wires, who, now, penalty)
        else:
            queue[to] = who
            to += 1
    reg[QUEUE_HI] = to


@inner
def plan_at(wires: Wires, first: int, steps: int, needed: int, length: int) -> bool:
    """Whether a job has a place from a step on, for all of its time."""
    may, at, level = wires[4], wires[10], wires[11]
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
    picked, at, level = wires[5], wires[10], wires[11]
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
    job, queue, reg = state.job, state.queue, state.reg
    release, at, level = wires[8], wires[10], wires[11]
    steps = 0
    time = now
    while time < NEVER:
        at[steps] = time
        for place in range(release.shape[0]):
            level[steps, place] = 1 if release[place] <= time else 0
        steps += 1
        time = next_release(wires, time)
    left = reg[FREE]
    to = reg[QUEUE_LO]
    for queued in range(reg[QUEUE_LO], reg[QUEUE_HI]):
        who = queue[queued]
        first = 0
        while left > 0 and first < steps:  # with none left nobody starts now, and plans are not kept
            if plan_at(wires, first, steps, job[who].nodes, job[who].estimate_us):
                break
            first += 1
        if left > 0 and first < steps:
            steps = plan_there(wires, first, steps, job[who].estimate_us)
        if left > 0 and first == 0:
            left -= job[who].nodes
            choose_now(state, wires, who, now, penalty)
        else:
            queue[to] = who
            to += 1
    reg[QUEUE_HI] = to


@compiled
def require(state: State, wires: Wires, now: int, backfill: int, penalty: float) -> None:
    """A pass in which a job starts only on nodes that go together."""
    reg = state.reg
    reg[STARTED_N] = 0
    if reg[FREE] == 0:
        return
    see_free(state, wires)
    see_releases(state, wires, now)
    if backfill == BackfillRule.CONSERVATIVE:
        require_planned(state, wires, now, penalty)
    else:
        require_easy(state, wires, now, backfill, penalty)
    if reg[STARTED_N]:
        start_given(state, wires, now)
