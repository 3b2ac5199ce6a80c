"""The plan, compiled: when the nodes of running jobs come back, by their expected ends.

A sorted list in blocks. `plan[slot]` holds the entries of one block, (AT, HOW_MANY), sorted by AT; rows of `blocks` are
the blocks in order of time. A start or an end searches the blocks, whose number is small, and moves entries within
one of them; the walk to the shadow time adds up whole blocks. So neither costs much more where thousands of jobs run
than where dozens do. Entries have no names: ones that are equal are as good as one another.

There is always at least one block, and only that one may be empty. The slots of `blocks` are a permutation: rows behind
the last block name the slots that are not in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled, inlined
from emulator.harness.tables import (
    AT,
    BLOCK_COLUMNS,
    BLOCKS_N,
    COUNT,
    FREE,
    HOW_MANY,
    LAST,
    NEVER,
    SLOT,
    SUM,
)

if TYPE_CHECKING:
    from emulator.harness.tables import Ints


@inlined
def block_at(blocks: Ints, reg: Ints, at: int) -> int:
    """The first block that does not end before `at`, else the last one."""
    left = 0
    right = reg[BLOCKS_N] - 1
    while left < right:
        middle = (left + right) >> 1
        if blocks[middle, LAST] < at:
            left = middle + 1
        else:
            right = middle
    return left


@compiled
def split(plan: Ints, blocks: Ints, reg: Ints, which: int) -> None:
    """Make room in a full block: its later half becomes the block behind it."""
    slot = blocks[which, SLOT]
    new_slot = blocks[reg[BLOCKS_N], SLOT]
    for row in range(reg[BLOCKS_N], which + 1, -1):
        for column in range(BLOCK_COLUMNS):
            blocks[row, column] = blocks[row - 1, column]
    reg[BLOCKS_N] += 1
    kept = plan.shape[1] >> 1
    moved = blocks[which, COUNT] - kept
    total = 0
    for k in range(moved):
        plan[new_slot, k, AT] = plan[slot, kept + k, AT]
        plan[new_slot, k, HOW_MANY] = plan[slot, kept + k, HOW_MANY]
        total += plan[slot, kept + k, HOW_MANY]
    blocks[which + 1, SLOT] = new_slot
    blocks[which + 1, COUNT] = moved
    blocks[which + 1, LAST] = blocks[which, LAST]
    blocks[which + 1, SUM] = total
    blocks[which, COUNT] = kept
    blocks[which, LAST] = plan[slot, kept - 1, AT]
    blocks[which, SUM] -= total


@inlined
def plan_insert(plan: Ints, blocks: Ints, reg: Ints, at: int, how_many: int) -> None:
    which = block_at(blocks, reg, at)
    if blocks[which, COUNT] == plan.shape[1]:
        split(plan, blocks, reg, which)
        if blocks[which, LAST] < at:
            which += 1
    slot = blocks[which, SLOT]
    place = blocks[which, COUNT]
    while place > 0 and plan[slot, place - 1, AT] > at:
        plan[slot, place, AT] = plan[slot, place - 1, AT]
        plan[slot, place, HOW_MANY] = plan[slot, place - 1, HOW_MANY]
        place -= 1
    plan[slot, place, AT] = at
    plan[slot, place, HOW_MANY] = how_many
    blocks[which, COUNT] += 1
    blocks[which, SUM] += how_many
    blocks[which, LAST] = max(blocks[which, LAST], at)


@inlined
def plan_find(plan: Ints, blocks: Ints, reg: Ints, at: int, how_many: int) -> tuple[int, int]:
    """Block and place of an entry that is there."""
    which = block_at(blocks, reg, at)
    place = 0
    while True:
        slot = blocks[which, SLOT]
        while place < blocks[which, COUNT]:
            if plan[slot, place, AT] == at and plan[slot, place, HOW_MANY] == how_many:
                return which, place
            place += 1
        which += 1  # others with the same expected end fill the end of the block
        place = 0


@compiled
def drop_block(blocks: Ints, reg: Ints, which: int) -> None:
    slot = blocks[which, SLOT]
    reg[BLOCKS_N] -= 1
    for row in range(which, reg[BLOCKS_N]):
        for column in range(BLOCK_COLUMNS):
            blocks[row, column] = blocks[row + 1, column]
    blocks[reg[BLOCKS_N], SLOT] = slot


@inlined
def plan_remove(plan: Ints, blocks: Ints, reg: Ints, at: int, how_many: int) -> None:
    which, place = plan_find(plan, blocks, reg, at, how_many)
    slot = blocks[which, SLOT]
    count = blocks[which, COUNT] - 1
    for k in range(place, count):
        plan[slot, k, AT] = plan[slot, k + 1, AT]
        plan[slot, k, HOW_MANY] = plan[slot, k + 1, HOW_MANY]
    blocks[which, COUNT] = count
    blocks[which, SUM] -= how_many
    if count == 0 and reg[BLOCKS_N] > 1:
        drop_block(blocks, reg, which)


@inlined
def plan_change(plan: Ints, blocks: Ints, reg: Ints, at: int, how_many: int, by: int) -> None:
    """More or fewer nodes come back at an expected end."""
    which, place = plan_find(plan, blocks, reg, at, how_many)
    plan[blocks[which, SLOT], place, HOW_MANY] += by
    blocks[which, SUM] += by


@inlined
def shadow_of(plan: Ints, blocks: Ints, reg: Ints, needed: int, now: int) -> tuple[int, int]:
    """When the head can start by the estimates of those that run, and the nodes it leaves over then.

    (EASY rules 1 and 2: a job past its estimate is expected to end now; all jobs that end at the shadow time
    count.) NEVER when even the end of all running jobs is not enough, because nodes are out of the pool.
    """
    free = reg[FREE]
    which = 0
    while which < reg[BLOCKS_N] and free + blocks[which, SUM] < needed:
        free += blocks[which, SUM]
        which += 1
    if which == reg[BLOCKS_N]:
        return NEVER, 0
    slot = blocks[which, SLOT]
    place = 0
    while free < needed:
        free += plan[slot, place, HOW_MANY]
        place += 1
    shadow = max(plan[slot, place - 1, AT], now)
    while True:
        while place < blocks[which, COUNT] and plan[slot, place, AT] <= shadow:
            free += plan[slot, place, HOW_MANY]
            place += 1
        if place < blocks[which, COUNT] or which == reg[BLOCKS_N] - 1:
            return shadow, free - needed
        which += 1
        slot = blocks[which, SLOT]
        place = 0
