"""Running batch jobs that may give nodes, in compiled runs: what a choice among them looks at, side by side.

Hundreds of thousands of times a thousand running jobs are gone through. Their rows in the tables of jobs are far apart
in memory; here each figure of all of them is one row of a table, so that the compiler looks at many jobs at a time.

What preempting one costs at some time is min(max(time - BASE, LEAST_COST), MOST_COST), as long as that time is before
CHANGES: then a checkpoint is written, and the cost falls to LEAST_COST.

Whoever has come to run since the last choice is taken in before the next one (`catch_up`): many have ended by then.
Whoever leaves is taken out at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness import work as w
from emulator.harness.compiled import inlined, inner
from emulator.harness.tables import (
    BATCH,
    NEVER,
    RUNNING,
    RUNS_N,
)
from emulator.mechanisms.hybrid.claims import (
    GIVERS_N,
    MALLEABLE,
    RUNS_SEEN,
)

if TYPE_CHECKING:
    from emulator.harness.tables import Ints, Jobs, State
    from emulator.harness.work import Work
    from emulator.mechanisms.hybrid.claims import HybridJobs

# Rows of the table, a column for each job. WIDTH: its nodes; ENDS: when it should end by its estimate; PROMISED_TO: the
# claim that gets its nodes then, -1 for none; SPARE: nodes that it can give and go on.
GIVER, WIDTH, BASE, LEAST_COST, MOST_COST, CHANGES, ENDS, PROMISED_TO, SPARE = range(9)
GIVER_ROWS = 9
_BLOCK_SHIFT = 5


@inner
def set_cost(job: Jobs, work: Work, attr: HybridJobs, givers: Ints, place: int, now: int) -> None:  # noqa: PLR0917
    """What preempting the job costs from now on until that changes (`view.overhead_at`)."""
    who = givers[GIVER, place]
    setup = work[who, w.SETUP]
    interval = work[who, w.INTERVAL]
    base = 0
    least = setup
    most = setup
    changes = NEVER
    if attr[who].job_class != MALLEABLE:
        if interval == 0:
            base = job[who].start_us
            least = 0
            most = NEVER
        else:
            _, done, since, _, _ = w.phase_of(job, work, who)
            cycle = interval + work[who, w.COST]
            whole = max(now - since, 0) // cycle
            written = since + whole * cycle
            owed = work[who, w.RUN_US] - done // work[who, w.WIDTH] - whole * interval
            base = written - setup
            most = setup + max(min(interval, owed), 0)
            changes = written + cycle
    givers[BASE, place] = base
    givers[LEAST_COST, place] = least
    givers[MOST_COST, place] = most
    givers[CHANGES, place] = changes


@inner
def enter(job: Jobs, work: Work, attr: HybridJobs, count: Ints, givers: Ints, who: int, now: int) -> None:  # noqa: PLR0917
    """A running job may give nodes from now on, or has others than it had."""
    place = attr[who].place
    if place < 0:
        place = count[GIVERS_N]
        count[GIVERS_N] += 1
        attr[who].place = place
    givers[GIVER, place] = who
    givers[WIDTH, place] = job[who].nodes
    givers[ENDS, place] = job[who].expected_end_us
    givers[PROMISED_TO, place] = attr[who].promised
    is_malleable = attr[who].job_class == MALLEABLE
    givers[SPARE, place] = max(job[who].nodes - attr[who].least, 0) if is_malleable else 0
    set_cost(job, work, attr, givers, place, now)


@inlined
def leave(attr: HybridJobs, count: Ints, givers: Ints, who: int) -> None:
    """The job gives no nodes any more, if it did; the last of the table has its place."""
    place = attr[who].place
    if place >= 0:
        attr[who].place = -1
        last = count[GIVERS_N] - 1
        count[GIVERS_N] = last
        if place < last:
            for row in range(GIVER_ROWS):
                givers[row, place] = givers[row, last]
            attr[givers[GIVER, place]].place = place


@inner
def catch_up(state: State, work: Work, attr: HybridJobs, count: Ints, givers: Ints, now: int) -> int:  # noqa: PLR0917
    """Before a choice: whoever has come to run since the last one, and what preempting costs. How many there are.

    They are batch jobs on nodes of the pool that are not about to leave them.
    """
    job, runs, reg = state[0], state[7], state[11]
    for row in range(count[RUNS_SEEN], reg[RUNS_N]):
        who = runs[row].job
        runs_here = job[who].run_row == row and job[who].state == RUNNING and job[who].kind == BATCH
        if runs_here and attr[who].guest < 0 and attr[who].leaving < 0:
            enter(job, work, attr, count, givers, who, now)
    count[RUNS_SEEN] = reg[RUNS_N]
    many: int = count[GIVERS_N]
    changes = givers[CHANGES, :many]
    for place in range(many):
        if changes[place] <= now:
            set_cost(job, work, attr, givers, place, now)
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
def costs_now(givers: Ints, many: int, now: int, key: Ints) -> None:
    """What preempting each costs."""
    cost = key[:many]
    base = givers[BASE, :many]
    least = givers[LEAST_COST, :many]
    most = givers[MOST_COST, :many]
    for k in range(many):
        cost[k] = min(max(now - base[k], least[k]), most[k])


@inner
def ends_of_unpromised(givers: Ints, many: int, key: Ints) -> None:
    """When those whose nodes nobody is to get should end; NEVER for the others."""
    end = key[:many]
    ends = givers[ENDS, :many]
    promised = givers[PROMISED_TO, :many]
    for k in range(many):
        end[k] = ends[k] if promised[k] < 0 else NEVER


@inner
def nodes_until(givers: Ints, many: int, end: Ints, by: int) -> int:
    """Nodes of those that end (`end`) until a time."""
    total = 0
    ends = end[:many]
    width = givers[WIDTH, :many]
    for k in range(many):
        total += width[k] if ends[k] <= by else 0
    return total


@inner
def costs_before(givers: Ints, many: int, at: int, by: int, key: Ints) -> None:
    """Of those that end (KEY) after `by`, what stopping each costs: at `at`, or after its last checkpoint before it.

    NEVER for the others.
    """
    cost = key[:many]
    base = givers[BASE, :many]
    least = givers[LEAST_COST, :many]
    most = givers[MOST_COST, :many]
    changes = givers[CHANGES, :many]
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
def pick_least(givers: Ints, many: int, needed: int, key: Ints, blocks: Ints, picked: Ints) -> int:  # noqa: PLR0917
    """Jobs in ascending (key, job) until their nodes are enough, which those whose key is not NEVER have. How many.

    Few are picked of many: the least keys of blocks are kept (`blocks`). Keys of the picked are NEVER afterwards.
    """
    who = givers[GIVER]
    width = givers[WIDTH]
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
                    if key[k] == least and (best < 0 or who[k] < who[best]):
                        best = k
        picked[taken] = who[best]
        taken += 1
        needed -= width[best]
        key[best] = NEVER
        blocks[best >> _BLOCK_SHIFT] = least_of_block(key, best >> _BLOCK_SHIFT, many)
    return taken
