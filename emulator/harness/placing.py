"""A scheduling pass over classes of nodes, compiled: who starts, and on which nodes. The rules: `docs/placement.md`.

Nodes of one class are alike to every job, so they are counted. `level[k, c]` nodes of class c are free from `at[k]` to
`at[k + 1]`, the last ones for ever; a job takes so many of each class that it may use. With one class and no
reservation this is the pass of `passes.py`, which is many times faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled, inner
from emulator.harness.tables import (
    BLOCKS_N,
    FREE,
    NEVER,
    NODES_KEPT,
    QUEUE_HI,
    QUEUE_LO,
    STARTED_N,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    from emulator.harness.tables import Ints, Ints32, State

    Placing: TypeAlias = (
        "tuple[Ints32, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints32, Ints, Ints32]"
    )
    """(node_class, asked, allowed, times, held, tiers, rank, at, level, work, picks, closed, spare)

    `asked`: one row a job; `allowed[k, c]`: whether jobs of kind k may use class c; `times[r]`, `held[r, c]`: the
    reservations; `rank`: classes that come last are taken last; `picks[i, c]`: what the i-th chosen job gets;
    `closed[l]`: whether a job of line l waits that nobody behind may delay; `spare`: room to sort nodes in, three for
    each and one.
    """

# Columns of `asked`. KIND_: which classes it may use; LINE: whom it waits behind; OWN: the reservation that it asks
# for, -1 for none; GOES: whether it is chosen.
KIND_, LINE, TIER, OWN, GOES = range(5)
ASKED_COLUMNS = 5
BEGIN, END_ = range(2)
# Rows of `work`, one value a class. LEAST: what a job could have for all of a time; TAKEN: what it takes;
# SHUT: whether a job that nothing may pass waits for this class.
LEAST, TAKEN, SHUT = range(3)
WORK_ROWS = 3
NONE, EASY, CONSERVATIVE = range(3)


@inner
def step_at(at: Ints, steps: int, time: int) -> int:
    """The first step that is not before a time; `steps` if there is none."""
    left = 0
    right = steps
    while left < right:
        middle = (left + right) >> 1
        if at[middle] < time:
            left = middle + 1
        else:
            right = middle
    return left


@inner
def make_steps(state: State, placing: Placing, now: int) -> int:
    """The times from now on at which a job leaves or a reservation ends. Returns how many."""
    plan, blocks, reg = state.plan, state.blocks, state.reg
    times, at = placing[3], placing[7]
    at[0] = now
    steps = 1
    for which in range(reg[BLOCKS_N]):
        slot = blocks[which].slot
        for k in range(blocks[which].entries):
            expected = max(plan[slot, k].at_us, now + 1)  # past its estimate: soon
            if expected != at[steps - 1]:
                at[steps] = expected
                steps += 1
    for which in range(times.shape[0]):
        end = times[which, END_]
        if end > now:
            place = step_at(at, steps, end)
            if place == steps or at[place] != end:
                for k in range(steps, place, -1):
                    at[k] = at[k - 1]
                at[place] = end
                steps += 1
    return steps


@inner
def make_levels(state: State, placing: Placing, now: int, steps: int) -> None:
    """How many nodes of each class are free at each step, if nobody else starts."""
    job, node, free, reg = state.job, state.node, state.free, state.reg
    node_class, at, level = placing[0], placing[7], placing[8]
    classes = level.shape[1]
    for k in range(steps):
        for c in range(classes):
            level[k, c] = 0
    for place in range(reg[FREE]):
        level[0, node_class[free[place]]] += 1
    for which in range(node.shape[0]):
        who = node[which].job
        if who >= 0 and node[which].offline == 0 and job[who].expected_end_us:
            k = step_at(at, steps, max(job[who].expected_end_us, now + 1))
            level[k, node_class[which]] += 1
    for k in range(1, steps):
        for c in range(classes):
            level[k, c] += level[k - 1, c]


@inner
def may_use(  # noqa: PLR0917 - compiled code has no keywords
    placing: Placing, kind: int, own: int, c: int, begin: int, end: int
) -> bool:
    """Whether a job may have nodes of a class for all of a time, whoever has them."""
    allowed, times, held, work = placing[2], placing[3], placing[4], placing[9]
    if not allowed[kind, c] or work[SHUT, c]:
        return False
    if own >= 0:
        return bool(held[own, c])
    for which in range(times.shape[0]):
        if held[which, c] and times[which, BEGIN] < end and begin < times[which, END_]:
            return False
    return True


@inner
def room(  # noqa: PLR0917
    placing: Placing, who: int, own: int, needed: int, length: int, first: int, steps: int
) -> bool:
    """Whether a job could have all its nodes from a step on; then LEAST tells how many of each class there are."""
    at, level, work, times = placing[7], placing[8], placing[9], placing[3]
    begin = at[first]
    end = begin + length if begin < NEVER - length else NEVER
    if own >= 0 and end > times[own, END_]:
        return False
    kind = placing[1][who, KIND_]
    total = 0
    for c in range(level.shape[1]):
        work[LEAST, c] = level[first, c] if may_use(placing, kind, own, c, begin, end) else 0
        total += work[LEAST, c]
    k = first + 1
    while total >= needed and k < steps and at[k] < end:
        for c in range(level.shape[1]):
            if level[k, c] < work[LEAST, c]:
                total -= work[LEAST, c] - level[k, c]
                work[LEAST, c] = level[k, c]
        k += 1
    return bool(total >= needed)


@inner
def next_hold(placing: Placing, c: int, begin: int) -> int:
    """When the next reservation of a class begins."""
    times, held = placing[3], placing[4]
    soonest: int = NEVER
    for which in range(times.shape[0]):
        if held[which, c] and begin < times[which, BEGIN] < soonest:
            soonest = times[which, BEGIN]
    return soonest


@inner
def take_round(placing: Placing, needed: int, begin: int, steps: int, tight: int) -> int:
    """Take nodes class by class; `tight`: only those that are not free from now on for ever. What is still needed."""
    level, work, rank = placing[8], placing[9], placing[6]
    while needed > 0:
        best = -1
        best_hold = best_many = 0
        for c in range(level.shape[1]):
            many = work[LEAST, c] - work[TAKEN, c]
            if tight:
                longest = work[LEAST, c]
                for k in range(steps):
                    longest = min(longest, level[k, c])
                many -= longest
            if many <= 0:
                continue
            hold = next_hold(placing, c, begin)
            if best < 0 or hold < best_hold or (hold == best_hold and rank[c] < rank[best]):
                best = c
                best_hold = hold
                best_many = many
        if best < 0:
            break
        many = min(best_many, needed)
        work[TAKEN, best] += many
        needed -= many
    return needed


@inner
def take(placing: Placing, needed: int, length: int, first: int, steps: int) -> int:
    """Take a job's nodes from a step on; TAKEN tells of which classes. Returns the number of steps."""
    at, level, work = placing[7], placing[8], placing[9]
    classes = level.shape[1]
    for c in range(classes):
        work[TAKEN, c] = 0
    left = take_round(placing, needed, at[first], steps, 1)
    take_round(placing, left, at[first], steps, 0)
    end = at[first] + length if at[first] < NEVER - length else NEVER
    last = step_at(at, steps, end)
    if last == steps or at[last] != end:
        for k in range(steps, last, -1):
            at[k] = at[k - 1]
            for c in range(classes):
                level[k, c] = level[k - 1, c]
        at[last] = end
        for c in range(classes):
            level[last, c] = level[last - 1, c]
        steps += 1
    for k in range(first, last):
        for c in range(classes):
            level[k, c] -= work[TAKEN, c]
    return steps


@inner
def own_now(placing: Placing, who: int, now: int, length: int) -> int:
    """The reservation that a job asks for, if it can still run in it."""
    own: int = placing[1][who, OWN]
    if own >= 0 and max(now, placing[3][own, BEGIN]) + length > placing[3][own, END_]:
        return -1
    return own


@inner
def shut(placing: Placing, who: int, own: int, now: int) -> None:
    """Without backfilling nobody passes a job that waits: all classes that it could have now are its own."""
    work, kind = placing[9], placing[1][who, KIND_]
    for c in range(work.shape[1]):
        if may_use(placing, kind, own, c, now, now + 1):
            work[SHUT, c] = 1


@inner
def one_job(  # noqa: PLR0917
    state: State, placing: Placing, who: int, now: int, steps: int, rule: int
) -> int:
    """Choose a job, plan it for later, or leave it. Returns the number of steps."""
    job, started, reg = state.job, state.started, state.reg
    asked, work, picks, closed = placing[1], placing[9], placing[10], placing[11]
    needed = job[who].nodes
    length = job[who].estimate_us
    own = own_now(placing, who, now, length)
    if own >= 0 and now < placing[3][own, BEGIN]:
        return steps
    line = asked[who, LINE] if own < 0 else closed.shape[0] - 1 - own
    if rule == NONE and closed[line]:
        return steps
    if room(placing, who, own, needed, length, 0, steps):
        steps = take(placing, needed, length, 0, steps)
        for c in range(work.shape[1]):
            picks[reg[STARTED_N], c] = work[TAKEN, c]
        started[reg[STARTED_N]] = who
        reg[STARTED_N] += 1
        asked[who, GOES] = 1
    elif rule == NONE:
        closed[line] = 1
        shut(placing, who, own, now)
    elif rule == CONSERVATIVE or not closed[line]:
        closed[line] = 1
        for first in range(1, steps):
            if room(placing, who, own, needed, length, first, steps):
                return take(placing, needed, length, first, steps)
    return steps


@inner
def leave_queue(state: State, placing: Placing) -> None:
    """Take the chosen jobs out of the queue; the others keep their order."""
    queue, reg = state.queue, state.reg
    asked = placing[1]
    to = reg[QUEUE_HI]
    for place in range(reg[QUEUE_HI] - 1, reg[QUEUE_LO] - 1, -1):
        who = queue[place]
        if asked[who, GOES]:
            asked[who, GOES] = 0
        else:
            to -= 1
            queue[to] = who
    reg[QUEUE_LO] = to


@inner
def put_on_top(state: State, placing: Placing) -> None:
    """Sort the free stack so that the chosen jobs, in order, find their nodes on top of it."""
    job, node, free, started, reg = state.job, state.node, state.free, state.started, state.reg
    node_class, picks, spare = placing[0], placing[10], placing[12]
    top = reg[FREE]
    chosen = reg[STARTED_N]
    for place in range(top):
        spare[place] = -1
    for c in range(picks.shape[1]):
        place = top
        for k in range(chosen):
            left = picks[k, c]
            while left > 0:
                place -= 1
                if node_class[free[place]] == c:
                    spare[place] = k
                    left -= 1
    # From the bottom: nodes that nobody gets, those of the last chosen job, ..., those of the first.
    count = node.shape[0]
    above = top
    for k in range(chosen):
        above -= job[started[k]].nodes
        spare[2 * count + 1 + k] = above
    spare[2 * count] = 0
    for place in range(top):
        k = spare[place] + 1
        spare[count + spare[2 * count + k]] = free[place]
        spare[2 * count + k] += 1
    for place in range(top):
        free[place] = spare[count + place]
        if reg[NODES_KEPT]:
            node[free[place]].place = place


@compiled
def place_jobs(state: State, placing: Placing, now: int, rule: int) -> None:
    """Choose whoever starts now, tier by tier, each in queue order, and put their nodes on top of the free stack."""
    queue, reg = state.queue, state.reg
    asked, tiers, work, closed = placing[1], placing[5], placing[9], placing[11]
    reg[STARTED_N] = 0
    for line in range(closed.shape[0]):
        closed[line] = 0
    for c in range(work.shape[1]):
        work[SHUT, c] = 0
    steps = make_steps(state, placing, now)
    make_levels(state, placing, now, steps)
    left = reg[FREE]
    for tier in tiers:
        for place in range(reg[QUEUE_LO], reg[QUEUE_HI]):
            who = queue[place]
            if asked[who, TIER] != tier:
                continue
            seen = reg[STARTED_N]
            steps = one_job(state, placing, who, now, steps, rule)
            if reg[STARTED_N] > seen:
                left -= state.job[who].nodes
                if left == 0:
                    break
        if left == 0:
            break  # nobody further back can start now, and plans are not kept
    if reg[STARTED_N]:
        leave_queue(state, placing)
        put_on_top(state, placing)
