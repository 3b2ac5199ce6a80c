"""A scheduling pass over classes of nodes, compiled: who starts, and on which nodes. The rules: `docs/placement.md`.

Nodes of one class are alike to every job, so they are counted. `level[k, c]` nodes of class c are free from `at[k]` to
`at[k + 1]`, the last ones for ever; a job takes so many of each class that it may use. With one class and no
reservation this is the pass of `passes.py`, which is many times faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from emulator.kernel.compiled import compiled, inner
from emulator.kernel.structures import leave_queue
from emulator.kernel.tables import (
    NEVER,
    BackfillRule,
)

if TYPE_CHECKING:
    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Ints, Ints32, State


class JobRequest:
    """What a job asks for, one row a job."""

    kind: int
    """Which classes it may use."""
    line: int
    """Whom it waits behind."""
    tier: int
    reservation: int
    """The reservation that it asks for, -1 for none."""
    goes: int
    """Whether it is chosen."""


class Span:
    """When a reservation begins and ends."""

    begin_us: int
    end_us: int


class Placing(NamedTuple):
    """What such a pass knows beside the cluster's state."""

    node_class: Ints32
    """Of each node."""
    requests: Rows[JobRequest]
    allowed: Ints
    """`allowed[k, c]`: whether jobs of kind k may use class c."""
    times: Rows[Span]
    """Of the reservations."""
    held: Ints
    """`held[r, c]`: whether reservation r has the nodes of class c."""
    tiers: Ints
    rank: Ints
    """Classes that come last are taken last."""
    at: Ints
    """Times (us) of the steps."""
    level: Ints
    least: Ints
    """Of each class what a job could have for all of a time."""
    taken: Ints
    """Of each class what it takes."""
    is_shut: Ints
    """Whether a job that nothing may pass waits for this class."""
    picks: Ints32
    """`picks[i, c]`: what the i-th chosen job gets."""
    closed: Ints
    """Whether a job of this line waits that nobody behind may delay."""
    spare: Ints32
    """Room to sort nodes in, three for each and one."""


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
    plan, blocks, registers = state.plan, state.blocks, state.registers
    times, at = placing.times, placing.at
    at[0] = now
    steps = 1
    for which in range(registers.blocks_n):
        slot = blocks[which].slot
        for k in range(blocks[which].entries):
            expected = max(plan[slot, k].at_us, now + 1)  # past its estimate: soon
            if expected != at[steps - 1]:
                at[steps] = expected
                steps += 1
    for which in range(times.shape[0]):
        end = times[which].end_us
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
    job, node, free, registers = state.job, state.node, state.free, state.registers
    node_class, at, level = placing.node_class, placing.at, placing.level
    classes = level.shape[1]
    for k in range(steps):
        for c in range(classes):
            level[k, c] = 0
    for place in range(registers.idle_nodes):
        level[0, node_class[free[place]]] += 1
    for which in range(node.shape[0]):
        row = node[which].job
        if row >= 0 and node[which].offline == 0 and job[row].expected_end_us:
            k = step_at(at, steps, max(job[row].expected_end_us, now + 1))
            level[k, node_class[which]] += 1
    for k in range(1, steps):
        for c in range(classes):
            level[k, c] += level[k - 1, c]


@inner
def may_use(  # noqa: PLR0917 - compiled code has no keywords
    placing: Placing, kind: int, reservation: int, c: int, begin: int, end: int
) -> bool:
    """Whether a job may have nodes of a class for all of a time, whoever has them."""
    allowed, times, held, is_shut = placing.allowed, placing.times, placing.held, placing.is_shut
    if not allowed[kind, c] or is_shut[c]:
        return False
    if reservation >= 0:
        return bool(held[reservation, c])
    for which in range(times.shape[0]):
        if held[which, c] and times[which].begin_us < end and begin < times[which].end_us:
            return False
    return True


@inner
def room(  # noqa: PLR0917
    placing: Placing, row: int, reservation: int, needed: int, length: int, first: int, steps: int
) -> bool:
    """Whether a job could have all its nodes from a step on; then `least` tells how many of each class there are."""
    at, level, least, times = placing.at, placing.level, placing.least, placing.times
    begin = at[first]
    end = begin + length if begin < NEVER - length else NEVER
    if reservation >= 0 and end > times[reservation].end_us:
        return False
    kind = placing.requests[row].kind
    total = 0
    for c in range(level.shape[1]):
        least[c] = level[first, c] if may_use(placing, kind, reservation, c, begin, end) else 0
        total += least[c]
    k = first + 1
    while total >= needed and k < steps and at[k] < end:
        for c in range(level.shape[1]):
            if level[k, c] < least[c]:
                total -= least[c] - level[k, c]
                least[c] = level[k, c]
        k += 1
    return bool(total >= needed)


@inner
def next_hold(placing: Placing, c: int, begin: int) -> int:
    """When the next reservation of a class begins."""
    times, held = placing.times, placing.held
    soonest: int = NEVER
    for which in range(times.shape[0]):
        if held[which, c] and begin < times[which].begin_us < soonest:
            soonest = times[which].begin_us
    return soonest


@inner
def take_round(placing: Placing, needed: int, begin: int, steps: int, tight: int) -> int:
    """Take nodes class by class; `tight`: only those that are not free from now on for ever. What is still needed."""
    level, least, taken, rank = placing.level, placing.least, placing.taken, placing.rank
    while needed > 0:
        best = -1
        best_hold = best_many = 0
        for c in range(level.shape[1]):
            many = least[c] - taken[c]
            if tight:
                longest = least[c]
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
        taken[best] += many
        needed -= many
    return needed


@inner
def take(placing: Placing, needed: int, length: int, first: int, steps: int) -> int:
    """Take a job's nodes from a step on; `taken` tells of which classes. Returns the number of steps."""
    at, level, taken = placing.at, placing.level, placing.taken
    classes = level.shape[1]
    for c in range(classes):
        taken[c] = 0
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
            level[k, c] -= taken[c]
    return steps


@inner
def reservation_now(placing: Placing, row: int, now: int, length: int) -> int:
    """The reservation that a job asks for, if it can still run in it."""
    reservation: int = placing.requests[row].reservation
    if (
        reservation >= 0
        and max(now, placing.times[reservation].begin_us) + length > placing.times[reservation].end_us
    ):
        return -1
    return reservation


@inner
def shut(placing: Placing, row: int, reservation: int, now: int) -> None:
    """Without backfilling nobody passes a job that waits: all classes that it could have now are its own."""
    is_shut, kind = placing.is_shut, placing.requests[row].kind
    for c in range(is_shut.shape[0]):
        if may_use(placing, kind, reservation, c, now, now + 1):
            is_shut[c] = 1


@inner
def one_job(  # noqa: PLR0917
    state: State, placing: Placing, row: int, now: int, steps: int, rule: int
) -> int:
    """Choose a job, plan it for later, or leave it. Returns the number of steps."""
    job, started, registers = state.job, state.started, state.registers
    requests, taken, picks, closed = placing.requests, placing.taken, placing.picks, placing.closed
    needed = job[row].nodes
    length = job[row].estimate_us
    reservation = reservation_now(placing, row, now, length)
    if reservation >= 0 and now < placing.times[reservation].begin_us:
        return steps
    line = requests[row].line if reservation < 0 else closed.shape[0] - 1 - reservation
    if rule == BackfillRule.NONE and closed[line]:
        return steps
    if room(placing, row, reservation, needed, length, 0, steps):
        steps = take(placing, needed, length, 0, steps)
        for c in range(taken.shape[0]):
            picks[registers.started_n, c] = taken[c]
        started[registers.started_n] = row
        registers.started_n += 1
        requests[row].goes = 1
    elif rule == BackfillRule.NONE:
        closed[line] = 1
        shut(placing, row, reservation, now)
    elif rule == BackfillRule.CONSERVATIVE or not closed[line]:
        closed[line] = 1
        for first in range(1, steps):
            if room(placing, row, reservation, needed, length, first, steps):
                return take(placing, needed, length, first, steps)
    return steps


@inner
def put_on_top(state: State, placing: Placing) -> None:
    """Sort the free stack so that the chosen jobs, in order, find their nodes on top of it."""
    job, node, free, started, registers = state.job, state.node, state.free, state.started, state.registers
    node_class, picks, spare = placing.node_class, placing.picks, placing.spare
    top = registers.idle_nodes
    chosen = registers.started_n
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
        if registers.nodes_kept:
            node[free[place]].place = place


@compiled
def place_jobs(state: State, placing: Placing, now: int, rule: int) -> None:
    """Choose whoever starts now, tier by tier, each in queue order, and put their nodes on top of the free stack."""
    queue, registers = state.queue, state.registers
    requests, tiers, is_shut, closed = placing.requests, placing.tiers, placing.is_shut, placing.closed
    registers.started_n = 0
    for line in range(closed.shape[0]):
        closed[line] = 0
    for c in range(is_shut.shape[0]):
        is_shut[c] = 0
    steps = make_steps(state, placing, now)
    make_levels(state, placing, now, steps)
    left = registers.idle_nodes
    for tier in tiers:
        for place in range(registers.queue_lo, registers.queue_hi):
            row = queue[place]
            if requests[row].tier != tier:
                continue
            seen = registers.started_n
            steps = one_job(state, placing, row, now, steps, rule)
            if registers.started_n > seen:
                left -= state.job[row].nodes
                if left == 0:
                    break
        if left == 0:
            break  # nobody further back can start now, and plans are not kept
    if registers.started_n:
        leave_queue(state.queue, state.registers, placing.requests)
        put_on_top(state, placing)
