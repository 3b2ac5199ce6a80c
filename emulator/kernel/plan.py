"""The plan, compiled: when the nodes of running jobs come back, by their expected ends.

A sorted list in blocks. `plan[slot]` holds the entries of one block, in order of time; rows of `blocks` are the blocks
in order of time. A start or an end searches the blocks, whose number is small, and moves entries within
one of them; the walk to the shadow time adds up whole blocks. So neither costs much more where thousands of jobs run
than where dozens do. Entries have no names: ones that are equal are as good as one another.

There is always at least one block, and only that one may be empty. The slots of `blocks` are a permutation: rows behind
the last block name the slots that are not in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inlined
from emulator.kernel.tables import (
    NEVER,
)

if TYPE_CHECKING:
    from emulator.kernel.tables import Blocks, Plan, Registers


@inlined
def block_at(blocks: Blocks, registers: Registers, at: int) -> int:
    """The first block that does not end before `at`, else the last one."""
    left = 0
    right = registers.blocks_n - 1
    while left < right:
        middle = (left + right) >> 1
        if blocks[middle].last_us < at:
            left = middle + 1
        else:
            right = middle
    return left


@compiled
def split(plan: Plan, blocks: Blocks, registers: Registers, which: int) -> None:
    """Make room in a full block: its later half becomes the block behind it."""
    slot = blocks[which].slot
    new_slot = blocks[registers.blocks_n].slot
    for row in range(registers.blocks_n, which + 1, -1):
        blocks[row] = blocks[row - 1]
    registers.blocks_n += 1
    kept = plan.shape[1] >> 1
    moved = blocks[which].entries - kept
    total = 0
    for k in range(moved):
        plan[new_slot, k].at_us = plan[slot, kept + k].at_us
        plan[new_slot, k].nodes = plan[slot, kept + k].nodes
        total += plan[slot, kept + k].nodes
    blocks[which + 1].slot = new_slot
    blocks[which + 1].entries = moved
    blocks[which + 1].last_us = blocks[which].last_us
    blocks[which + 1].nodes = total
    blocks[which].entries = kept
    blocks[which].last_us = plan[slot, kept - 1].at_us
    blocks[which].nodes -= total


@inlined
def plan_insert(plan: Plan, blocks: Blocks, registers: Registers, at: int, how_many: int) -> None:
    which = block_at(blocks, registers, at)
    if blocks[which].entries == plan.shape[1]:
        split(plan, blocks, registers, which)
        if blocks[which].last_us < at:
            which += 1
    slot = blocks[which].slot
    place = blocks[which].entries
    while place > 0 and plan[slot, place - 1].at_us > at:
        plan[slot, place].at_us = plan[slot, place - 1].at_us
        plan[slot, place].nodes = plan[slot, place - 1].nodes
        place -= 1
    plan[slot, place].at_us = at
    plan[slot, place].nodes = how_many
    blocks[which].entries += 1
    blocks[which].nodes += how_many
    blocks[which].last_us = max(blocks[which].last_us, at)


@inlined
def plan_find(plan: Plan, blocks: Blocks, registers: Registers, at: int, how_many: int) -> tuple[int, int]:
    """Block and place of an entry that is there."""
    which = block_at(blocks, registers, at)
    place = 0
    while True:
        slot = blocks[which].slot
        while place < blocks[which].entries:
            if plan[slot, place].at_us == at and plan[slot, place].nodes == how_many:
                return which, place
            place += 1
        which += 1  # others with the same expected end fill the end of the block
        place = 0


@compiled
def drop_block(blocks: Blocks, registers: Registers, which: int) -> None:
    slot = blocks[which].slot
    registers.blocks_n -= 1
    for row in range(which, registers.blocks_n):
        blocks[row] = blocks[row + 1]
    blocks[registers.blocks_n].slot = slot


@inlined
def plan_remove(plan: Plan, blocks: Blocks, registers: Registers, at: int, how_many: int) -> None:
    which, place = plan_find(plan, blocks, registers, at, how_many)
    slot = blocks[which].slot
    count = blocks[which].entries - 1
    for k in range(place, count):
        plan[slot, k].at_us = plan[slot, k + 1].at_us
        plan[slot, k].nodes = plan[slot, k + 1].nodes
    blocks[which].entries = count
    blocks[which].nodes -= how_many
    if count == 0 and registers.blocks_n > 1:
        drop_block(blocks, registers, which)


@inlined
def plan_change(plan: Plan, blocks: Blocks, registers: Registers, at: int, how_many: int, by: int) -> None:
    """More or fewer nodes come back at an expected end."""
    which, place = plan_find(plan, blocks, registers, at, how_many)
    plan[blocks[which].slot, place].nodes += by
    blocks[which].nodes += by


@inlined
def shadow_of(plan: Plan, blocks: Blocks, registers: Registers, needed: int, now: int) -> tuple[int, int]:
    """When the head can start by the estimates of those that run, and the nodes it leaves over then.

    (EASY rules 1 and 2: a job past its estimate is expected to end now; all jobs that end at the shadow time
    count.) NEVER when even the end of all running jobs is not enough, because nodes are out of the pool.
    """
    free = registers.idle_nodes
    which = 0
    while which < registers.blocks_n and free + blocks[which].nodes < needed:
        free += blocks[which].nodes
        which += 1
    if which == registers.blocks_n:
        return NEVER, 0
    slot = blocks[which].slot
    place = 0
    while free < needed:
        free += plan[slot, place].nodes
        place += 1
    shadow = max(plan[slot, place - 1].at_us, now)
    while True:
        while place < blocks[which].entries and plan[slot, place].at_us <= shadow:
            free += plan[slot, place].nodes
            place += 1
        if place < blocks[which].entries or which == registers.blocks_n - 1:
            return shadow, free - needed
        which += 1
        slot = blocks[which].slot
        place = 0
