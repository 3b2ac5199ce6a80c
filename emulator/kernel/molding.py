"""A scheduling pass in which jobs get one of several sizes, compiled. The rules: `docs/moldable.md`.

`level[k]` nodes are free from `at[k]` to `at[k + 1]`, the last ones for ever, as in `profile.py`. A pass chooses jobs
and writes the size that each has into the job table; the loop starts them. With one size a job, the same jobs start as
in the pass of `passes.py`, which is faster.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from emulator.kernel.compiled import compiled, inner
from emulator.kernel.profile import earliest_start, take_until
from emulator.kernel.structures import queue_remove_at
from emulator.kernel.tables import (
    NEVER,
    BackfillRule,
)

if TYPE_CHECKING:
    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Ints, State


class SizeRule(IntEnum):
    """Which of its sizes a job gets."""

    EARLIEST_END = 0
    WIDEST_NOW = 1
    AT_SUBMIT = 2


class Size:
    """A number of nodes that a job can have, and how long it runs and may run on them."""

    nodes: int
    run_us: int
    estimate_us: int


class Molding(NamedTuple):
    """What such a pass knows beside the cluster's state."""

    first: Ints
    """`size[first[j]:first[j + 1]]` are the sizes of job j, the narrowest first."""
    size: Rows[Size]
    fixed: Ints
    """The row of the only one that a job may still have, -1 for any."""
    at: Ints
    """Times (us) of the steps of a plan."""
    level: Ints
    narrowest: Ints
    """Room for one value a waiting job and one more."""


@inner
def make_profile(state: State, molding: Molding, now: int) -> int:
    """The free nodes from now on, if nobody else starts. Returns the number of steps."""
    plan, blocks, registers = state.plan, state.blocks, state.registers
    at, level = molding.at, molding.level
    at[0] = now
    level[0] = registers.idle_nodes
    steps = 1
    for which in range(registers.blocks_n):
        slot = blocks[which].slot
        for k in range(blocks[which].entries):
            expected = max(plan[slot, k].at_us, now + 1)  # past its estimate: soon
            if expected != at[steps - 1]:
                at[steps] = expected
                level[steps] = level[steps - 1]
                steps += 1
            level[steps - 1] += plan[slot, k].nodes
    return steps


@inner
def place_job(molding: Molding, row: int, steps: int, rule: int) -> tuple[int, int]:
    """Which size a job gets, and from which step on. The size is -1 if the pool is too small for all of them."""
    first, size, fixed, at, level = molding.first, molding.size, molding.fixed, molding.at, molding.level
    begin = first[row]
    behind = first[row + 1]
    if fixed[row] >= 0:
        begin = fixed[row]
        behind = begin + 1
    if rule == SizeRule.WIDEST_NOW:
        for k in range(behind - 1, begin - 1, -1):
            if size[k].nodes <= level[0] and (
                earliest_start(at, level, steps, 0, size[k].nodes, size[k].estimate_us) == 0
            ):
                return k, 0
    best = -1
    best_step = steps
    best_end = 0
    for k in range(begin, behind):
        limit = size[k].estimate_us
        step = earliest_start(at, level, steps, 0, size[k].nodes, limit)
        if step == steps:
            continue
        end = at[step] + limit if at[step] < NEVER - limit else NEVER
        if best < 0 or end < best_end or (end == best_end and step < best_step):
            best = k
            best_step = step
            best_end = end
    return best, best_step


@inner
def hold(molding: Molding, k: int, step: int, steps: int) -> int:
    """Keep the nodes of a size from a step on, for its estimate. Returns the number of steps."""
    size, at, level = molding.size, molding.at, molding.level
    limit = size[k].estimate_us
    end = at[step] + limit if at[step] < NEVER - limit else NEVER
    _, steps = take_until(at, level, steps, step, end, size[k].nodes)
    return steps


@inner
def choose_size(state: State, molding: Molding, row: int, k: int) -> None:
    """A job starts in this pass, at this size."""
    job, started, registers = state.job, state.started, state.registers
    size = molding.size
    job[row].nodes = size[k].nodes
    job[row].run_us = size[k].run_us
    job[row].estimate_us = size[k].estimate_us
    started[registers.started_n] = row
    registers.started_n += 1


@inner
def least_width(molding: Molding, row: int) -> int:
    """Of the sizes that a job may still have."""
    first, size, fixed = molding.first, molding.size, molding.fixed
    width: int = size[fixed[row]].nodes if fixed[row] >= 0 else size[first[row]].nodes
    return width


@inner
def choose_heads(state: State, molding: Molding, now: int, rule: int, backfill: int) -> None:
    """Heads until one waits; behind it, under EASY, whoever is placed now beside what is kept for it."""
    queue, registers = state.queue, state.registers
    level = molding.level
    steps = make_profile(state, molding, now)
    while registers.queue_lo < registers.queue_hi:
        row = queue[registers.queue_lo]
        k, step = place_job(molding, row, steps, rule)
        if k >= 0:
            steps = hold(molding, k, step, steps)
        if k < 0 or step > 0:
            break
        registers.queue_lo += 1
        choose_size(state, molding, row, k)
    if backfill != BackfillRule.EASY:
        return
    place = registers.queue_lo + 1
    while level[0] > 0 and place < registers.queue_hi:
        row = queue[place]
        if least_width(molding, row) <= level[0]:
            k, step = place_job(molding, row, steps, rule)
            if k >= 0 and step == 0:
                steps = hold(molding, k, 0, steps)
                choose_size(state, molding, row, k)
                place = queue_remove_at(queue, registers, place)
                continue
        place += 1


@inner
def choose_planned(state: State, molding: Molding, now: int, rule: int) -> None:
    """Plan every waiting job in queue order; those whose planned start is now start."""
    queue, registers = state.queue, state.registers
    level, narrowest = molding.level, molding.narrowest
    steps = make_profile(state, molding, now)
    waiting = registers.queue_hi - registers.queue_lo
    narrowest[waiting] = NEVER
    for k in range(waiting - 1, -1, -1):
        narrowest[k] = min(narrowest[k + 1], least_width(molding, queue[registers.queue_lo + k]))
    place = registers.queue_lo
    for seen in range(waiting):
        if narrowest[seen] > level[0]:
            return  # nobody further back can start now, and plans are not kept
        row = queue[place]
        k, step = place_job(molding, row, steps, rule)
        if k < 0:
            place += 1
            continue
        steps = hold(molding, k, step, steps)
        if step == 0:
            choose_size(state, molding, row, k)
            place = queue_remove_at(queue, registers, place)
        else:
            place += 1


@inner
def fix_sizes(state: State, molding: Molding, now: int) -> None:
    """Whoever has no size yet gets the one that ends first in a plan of all that wait, and keeps it."""
    queue, registers = state.queue, state.registers
    fixed = molding.fixed
    behind = registers.queue_lo
    for place in range(registers.queue_lo, registers.queue_hi):
        if fixed[queue[place]] < 0:
            behind = place + 1
    if behind == registers.queue_lo:
        return
    steps = make_profile(state, molding, now)
    for place in range(registers.queue_lo, behind):
        k, step = place_job(molding, queue[place], steps, SizeRule.EARLIEST_END)
        if k >= 0:
            fixed[queue[place]] = k
            steps = hold(molding, k, step, steps)


@compiled
def mold_jobs(state: State, molding: Molding, now: int, rule: int, backfill: int) -> None:
    """Choose whoever starts now, and at which size: `started[:registers.started_n]`, out of the queue."""
    registers = state.registers
    registers.started_n = 0
    if rule == SizeRule.AT_SUBMIT:
        fix_sizes(state, molding, now)
    if registers.idle_nodes == 0:
        return
    if backfill == BackfillRule.CONSERVATIVE:
        choose_planned(state, molding, now, rule)
    else:
        choose_heads(state, molding, now, rule, backfill)
