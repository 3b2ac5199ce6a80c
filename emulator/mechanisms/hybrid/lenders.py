"""Running batch jobs that may give nodes: what a choice among them looks at, side by side.

Hundreds of thousands of times a thousand running jobs are gone through. Their rows in the tables of jobs are far apart
in memory; here each figure of all of them is an array, so that the compiler looks at many jobs at a time.

What preempting one costs at some time is min(max(time - base, least_cost), most_cost), as long as that time is before
`changes`: then a checkpoint is written, and the cost falls to LEAST_COST.

Whoever has come to run since the last choice is taken in before the next one (`catch_up`): many have ended by then.
Whoever leaves is taken out at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inlined, inner
from emulator.kernel.job_states import JobState
from emulator.kernel.tables import BATCH, NEVER
from emulator.machine import work as w
from emulator.mechanisms.hybrid.claims import (
    MALLEABLE,
)

if TYPE_CHECKING:
    from emulator.kernel.tables import Ints, Jobs, State
    from emulator.machine.work import Work
    from emulator.mechanisms.hybrid.claims import Claims, Lenders

_BLOCK_SHIFT = 5


@inner
def set_cost(job: Jobs, work: Work, claims: Claims, place: int, now: int) -> None:
    """What preempting the job costs from now on until that changes (`view.overhead_at`)."""
    lenders = claims.lenders
    row = lenders.job[place]
    setup = work[row].setup_us
    interval = work[row].interval_us
    base = 0
    least = setup
    most = setup
    changes = NEVER
    if claims.attr[row].job_class != MALLEABLE:
        if interval == 0:
            base = job[row].start_us
            least = 0
            most = NEVER
        else:
            _, done, since, _, _ = w.phase_of(job, work, row)
            cycle = interval + work[row].cost_us
            whole = max(now - since, 0) // cycle
            written = since + whole * cycle
            owed = work[row].run_us - done // work[row].width - whole * interval
            base = written - setup
            most = setup + max(min(interval, owed), 0)
            changes = written + cycle
    lenders.base[place] = base
    lenders.least_cost[place] = least
    lenders.most_cost[place] = most
    lenders.changes[place] = changes


@inner
def enter(job: Jobs, work: Work, claims: Claims, row: int, now: int) -> None:
    """A running job may give nodes from now on, or has others than it had."""
    attr, counters, lenders = claims.attr, claims.counters, claims.lenders
    place = attr[row].place
    if place < 0:
        place = counters.lenders_n
        counters.lenders_n += 1
        attr[row].place = place
    lenders.job[place] = row
    lenders.nodes[place] = job[row].nodes
    lenders.ends[place] = job[row].expected_end_us
    lenders.promised_to[place] = attr[row].promised
    is_malleable = attr[row].job_class == MALLEABLE
    lenders.spare[place] = max(job[row].nodes - attr[row].least, 0) if is_malleable else 0
    set_cost(job, work, claims, place, now)


@inlined
def leave(claims: Claims, row: int) -> None:
    """The job gives no nodes any more, if it did; the last of the table has its place."""
    attr, counters, lenders = claims.attr, claims.counters, claims.lenders
    place = attr[row].place
    if place >= 0:
        attr[row].place = -1
        last = counters.lenders_n - 1
        counters.lenders_n = last
        if place < last:
            lenders.job[place] = lenders.job[last]
            lenders.nodes[place] = lenders.nodes[last]
            lenders.base[place] = lenders.base[last]
            lenders.least_cost[place] = lenders.least_cost[last]
            lenders.most_cost[place] = lenders.most_cost[last]
            lenders.changes[place] = lenders.changes[last]
            lenders.ends[place] = lenders.ends[last]
            lenders.promised_to[place] = lenders.promised_to[last]
            lenders.spare[place] = lenders.spare[last]
            attr[lenders.job[place]].place = place


@inner
def catch_up(state: State, work: Work, claims: Claims, now: int) -> int:
    """Before a choice: whoever has come to run since the last one, and what preempting costs. How many there are.

    They are batch jobs on nodes of the pool that are not about to leave them.
    """
    job, runs, registers = state.job, state.runs, state.registers
    attr, counters = claims.attr, claims.counters
    for run_row in range(counters.runs_seen, registers.runs_n):
        row = runs[run_row].job
        runs_here = (
            job[row].run_row == run_row and job[row].state == JobState.RUNNING and job[row].kind == BATCH
        )
        if runs_here and attr[row].guest < 0 and attr[row].leaving < 0:
            enter(job, work, claims, row, now)
    counters.runs_seen = registers.runs_n
    many: int = counters.lenders_n
    changes = claims.lenders.changes[:many]
    for place in range(many):
        if changes[place] <= now:
            set_cost(job, work, claims, place, now)
    return many


# Figures of the first `many` jobs of the table, so simple that the compiler goes through many at a time.


@inner
def total_of(row: Ints, many: int) -> int:
    total = 0
    values = row[:many]
    for k in range(many):
        total += values[k]
    return total


@inner
def costs_now(lenders: Lenders, many: int, now: int, key: Ints) -> None:
    """What preempting each costs."""
    cost = key[:many]
    base = lenders.base[:many]
    least = lenders.least_cost[:many]
    most = lenders.most_cost[:many]
    for k in range(many):
        cost[k] = min(max(now - base[k], least[k]), most[k])


@inner
def ends_of_unpromised(lenders: Lenders, many: int, key: Ints) -> None:
    """When those whose nodes nobody is to get should end; NEVER for the others."""
    end = key[:many]
    ends = lenders.ends[:many]
    promised = lenders.promised_to[:many]
    for k in range(many):
        end[k] = ends[k] if promised[k] < 0 else NEVER


@inner
def nodes_until(lenders: Lenders, many: int, end: Ints, by: int) -> int:
    """Nodes of those that end (`end`) until a time."""
    total = 0
    ends = end[:many]
    width = lenders.nodes[:many]
    for k in range(many):
        total += width[k] if ends[k] <= by else 0
    return total


@inner
def costs_before(lenders: Lenders, many: int, at: int, by: int, key: Ints) -> None:
    """Of those that end (KEY) after `by`, what stopping each costs: at `at`, or after its last checkpoint before it.

    NEVER for the others.
    """
    cost = key[:many]
    base = lenders.base[:many]
    least = lenders.least_cost[:many]
    most = lenders.most_cost[:many]
    changes = lenders.changes[:many]
    for k in range(many):
        then = least[k] if changes[k] <= at else min(max(at - base[k], least[k]), most[k])
        cost[k] = then if by < cost[k] < NEVER else NEVER


@inner
def least_of_block(key: Ints, block: int, many: int) -> int:
    least = NEVER
    values = key[block << _BLOCK_SHIFT : min((block + 1) << _BLOCK_SHIFT, many)]
    for k in range(values.shape[0]):
        least = min(least, values[k])
    return least


@inner
def pick_least(lenders: Lenders, many: int, needed: int, key: Ints, blocks: Ints, picked: Ints) -> int:
    """Jobs in ascending (key, job) until their nodes are enough, which those whose key is not NEVER have. How many.

    Few are picked of many: the least keys of blocks are kept (`blocks`). Keys of the picked are NEVER afterwards.
    """
    row = lenders.job
    width = lenders.nodes
    ahead = (many + (1 << _BLOCK_SHIFT) - 1) >> _BLOCK_SHIFT
    for block in range(ahead):
        blocks[block] = least_of_block(key, block, many)
    taken = 0
    while needed > 0:
        least = NEVER
        for block in range(ahead):
            least = min(least, blocks[block])
        best = -1
        for block in range(ahead):
            if blocks[block] == least:
                for k in range(block << _BLOCK_SHIFT, min((block + 1) << _BLOCK_SHIFT, many)):
                    if key[k] == least and (best < 0 or row[k] < row[best]):
                        best = k
        picked[taken] = row[best]
        taken += 1
        needed -= width[best]
        key[best] = NEVER
        blocks[best >> _BLOCK_SHIFT] = least_of_block(key, best >> _BLOCK_SHIFT, many)
    return taken
