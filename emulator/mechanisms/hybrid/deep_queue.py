"""Who waits, by width and estimate: so that a pass over tens of thousands of waiting jobs looks at few of them.

First come, first served puts jobs that wait in the order of their rows. Rows stand in blocks of 32, these in blocks of
32, and these again. A line of the index tells of a block the shortest estimate of the jobs in it that wait, for each
class of width (1, 2 to 3, 4 to 7 nodes, ...), and the least width of its malleable ones. Where nothing in it is within
the limits of a search, the block is passed over. A line of a block of rows tells also which of these wait.

A line is never above the truth, and may be below it: a job that leaves the queue changes no line. A search that looks
through a whole block for nothing makes its lines true again.

The index is kept while many jobs wait (DEEP); otherwise looking at each of them is cheaper. On-demand jobs that wait
before all others are not in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner
from emulator.kernel.job_states import JobState
from emulator.kernel.tables import FRONT, NEVER
from emulator.mechanisms.hybrid.claims import MALLEABLE

if TYPE_CHECKING:
    from emulator.kernel.tables import Ints, Ints32, Jobs, Registers, State
    from emulator.mechanisms.hybrid.claims import ClaimCounters, Claims, HybridJobs

# Columns of a line: a class of width each, the last one open to the top, then the least width of a malleable job.
CLASSES = 16
OF_MALLEABLE = CLASSES
COLUMNS = CLASSES + 1
# Behind them: a bit for each row of a block of rows, set if its job waits.
WHO_WAITS = COLUMNS
LINE_COLUMNS = COLUMNS + 1
SHIFT = 5
SIZE = 1 << SHIFT
IN_BLOCK = SIZE - 1
LEVELS = 3


def lines_for(jobs: int) -> int:
    """Lines of the index for so many rows, with one for the limits of a search."""
    count = 1
    for _ in range(LEVELS):
        jobs = (jobs >> SHIFT) + 1
        count += jobs
    return count


@inner
def class_of(nodes: int) -> int:
    """The class of a width."""
    which = 0
    while nodes > 1 and which < CLASSES - 1:
        nodes >>= 1
        which += 1
    return which


@inner
def lowest_bit(bits: int) -> int:
    """The place of the lowest bit that is set, of 32."""
    place = 0
    if bits & 0xFFFF == 0:
        bits >>= 16
        place = 16
    if bits & 0xFF == 0:
        bits >>= 8
        place += 8
    if bits & 0xF == 0:
        bits >>= 4
        place += 4
    if bits & 3 == 0:
        bits >>= 2
        place += 2
    return place + 1 - (bits & 1)


@inner
def clear(index: Ints) -> None:
    """Nobody waits."""
    index[:] = NEVER
    index[:, WHO_WAITS] = 0


@inner
def lower(index: Ints, line: int, other: int) -> None:
    """A line of the index tells also of what another one does."""
    for which in range(COLUMNS):
        index[line, which] = min(index[line, which], index[other, which])


@inner
def second_level(job: Jobs, block: int) -> int:
    """The line of the block of blocks that a block of rows is in."""
    line: int = (job.shape[0] >> SHIFT) + 1 + (block >> SHIFT)
    return line


@inner
def third_level(job: Jobs, block: int) -> int:
    """The line above that one."""
    blocks = (job.shape[0] >> SHIFT) + 1
    line: int = blocks + (blocks >> SHIFT) + 1 + (block >> 2 * SHIFT)
    return line


@inner
def tell_of(job: Jobs, attr: HybridJobs, index: Ints, line: int, row: int) -> None:
    """A line tells also of a job that waits."""
    which = class_of(job[row].nodes)
    index[line, which] = min(index[line, which], job[row].estimate_us)
    if attr[row].job_class == MALLEABLE:
        index[line, OF_MALLEABLE] = min(index[line, OF_MALLEABLE], attr[row].least)


@inner
def waits_here(job: Jobs, attr: HybridJobs, counters: ClaimCounters, index: Ints, row: int) -> None:
    """A job, which has its place in the queue, is in the index from now on, if one is kept."""
    if counters.deep and job[row].key != FRONT:
        tell_of(job, attr, index, row >> SHIFT, row)
        index[row >> SHIFT, WHO_WAITS] |= 1 << (row & IN_BLOCK)
        tell_of(job, attr, index, second_level(job, row >> SHIFT), row)
        tell_of(job, attr, index, third_level(job, row >> SHIFT), row)


@inner
def keep_index(state: State, claims: Claims) -> None:
    """Before a pass: begin with an index or give it up, and take in whoever came."""
    job, queue, registers = state.job, state.queue, state.registers
    attr, counters, index = claims.attr, claims.counters, claims.queue_index
    waiting = registers.queue_hi - registers.queue_lo
    if counters.deep:
        if waiting < counters.deep_from >> 2:
            counters.deep = 0
            return
        for row in range(counters.indexed, registers.next_submit):
            if job[row].state == JobState.QUEUED:
                waits_here(job, attr, counters, index, row)
    elif waiting >= counters.deep_from:
        clear(index)
        counters.deep = 1
        for place in range(registers.queue_lo, registers.queue_hi):
            waits_here(job, attr, counters, index, queue[place])
    counters.indexed = registers.next_submit


@inner
def may_be(index: Ints, line: int) -> bool:
    """Whether somebody within the limits, which are the last line, may be in the block of a line."""
    limits = index.shape[0] - 1
    found = False
    for which in range(COLUMNS):
        found |= index[line, which] <= index[limits, which]
    return found


@inner
def make_true(job: Jobs, attr: HybridJobs, index: Ints, block: int) -> None:
    """The line of a block of rows tells of who waits in it, and of nobody else."""
    for which in range(COLUMNS):
        index[block, which] = NEVER
    bits = index[block, WHO_WAITS]
    waiting = bits
    while bits:
        row = (block << SHIFT) + lowest_bit(bits)
        bits &= bits - 1
        if job[row].state == JobState.QUEUED and job[row].key != FRONT:
            tell_of(job, attr, index, block, row)
        else:
            waiting &= ~(1 << (row & IN_BLOCK))
    index[block, WHO_WAITS] = waiting


@inner
def make_true_above(index: Ints, line: int, first: int, after: int) -> None:
    """The line of a block of blocks tells of what the lines of these do."""
    for which in range(COLUMNS):
        index[line, which] = NEVER
    for below in range(first, after):
        lower(index, line, below)


@inner
def is_within(job: Jobs, attr: HybridJobs, index: Ints, row: int) -> bool:
    """Whether a job waits, in the index, and is within the limits as far as these go by classes."""
    limits = index.shape[0] - 1
    return bool(
        job[row].state == JobState.QUEUED
        and job[row].key != FRONT
        and (
            job[row].estimate_us <= index[limits, class_of(job[row].nodes)]
            or (attr[row].job_class == MALLEABLE and attr[row].least <= index[limits, OF_MALLEABLE])
        )
    )


@inner
def next_in_block(job: Jobs, attr: HybridJobs, index: Ints, row: int) -> int:
    """The first job from `row` on, in its block, that waits and is within the limits; -1 for none."""
    block = row >> SHIFT
    bits = index[block, WHO_WAITS] & (-1 << (row & IN_BLOCK))
    while bits:
        found = (block << SHIFT) + lowest_bit(bits)
        if is_within(job, attr, index, found):
            return found
        bits &= bits - 1
    return -1


@inner
def next_within(job: Jobs, attr: HybridJobs, index: Ints, row: int, after: int) -> int:
    """The first job from `row` on, before row `after`, that waits and is within the limits; -1 for none."""
    in_second = (
        False  # whether the search looked through the block of blocks that ends here, from its begin on
    )
    in_third = False
    is_first = True
    while row < after:
        block = row >> SHIFT
        begins_second = row & ((1 << 2 * SHIFT) - 1) == 0
        if begins_second or is_first:
            if in_second:
                make_true_above(index, second_level(job, block - 1), block - SIZE, block)
                in_second = False
            begins_third = row & ((1 << 3 * SHIFT) - 1) == 0
            if begins_third or is_first:
                if in_third:
                    end = second_level(job, block)
                    make_true_above(index, third_level(job, block - 1), end - SIZE, end)
                    in_third = False
                is_first = False
                if not may_be(index, third_level(job, block)):
                    row = ((row >> 3 * SHIFT) + 1) << 3 * SHIFT
                    continue
                in_third = begins_third
            if not may_be(index, second_level(job, block)):
                row = ((row >> 2 * SHIFT) + 1) << 2 * SHIFT
                continue
            in_second = begins_second
        if may_be(index, block):
            found = next_in_block(job, attr, index, row)
            if found >= 0:
                return found if found < after else -1
            if row & IN_BLOCK == 0:
                make_true(job, attr, index, block)
        row = (block + 1) << SHIFT
    return -1


@inner
def place_of(job: Jobs, queue: Ints32, registers: Registers, row: int) -> int:
    """Where a job stands in a queue that is in order."""
    left = registers.queue_lo
    right = registers.queue_hi
    while left < right:
        middle = (left + right) >> 1
        other = queue[middle]
        if job[other].key < job[row].key or (job[other].key == job[row].key and other < row):
            left = middle + 1
        else:
            right = middle
    return int(left)


@inner
def first_indexed(job: Jobs, queue: Ints32, registers: Registers) -> int:
    """The first job of the queue behind the on-demand jobs before all others; NEVER for none."""
    place = registers.queue_lo
    while place < registers.queue_hi and job[queue[place]].key == FRONT:
        place += 1
    return int(queue[place]) if place < registers.queue_hi else NEVER
