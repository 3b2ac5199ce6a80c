"""A scheduling pass over nodes that jobs share, compiled: who starts, and where. The rules: `docs/shared-nodes.md`.

To the kernel a core is what a node is elsewhere. This pass counts what is left of each node (cores, memory, GPUs) and
puts the cores of the chosen jobs on top of the free stack, where `start_chosen` finds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled, inner
from emulator.harness.tables import (
    FREE,
    NEVER,
    QUEUE_HI,
    QUEUE_LO,
    RUNNING,
    STARTED_N,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    from emulator.harness.tables import Ints, Ints32, State

    Allowed: TypeAlias = "NDArray[np.bool_] | None"

    Sharing: TypeAlias = (
        "tuple[Ints, Ints, Ints, Ints, Ints32, Ints32, Ints, Ints, Ints, Ints, Ints, Ints, Ints32, Allowed]"
    )
    """(own, wants, room, then, running, spots, marks, hist, at, level, narrowest, first_core, node_of_core, allowed)

    `wants`: one row a job; `room[n]`, `then[n]`: what node n has left now, and at the head's planned start; `running`:
    rows of the running jobs in order of expected end; `spots`: nodes of the jobs that are chosen in this pass, one
    after the other; `marks`: one column a node; `hist`: room for a count by free cores; `at[k]`, `level[k, n]`: of a
    plan, what is left of node n from time `at[k]` on; `narrowest`: one longer than the queue; `allowed[s, n]`: whether
    jobs of set s may have node n. Where all may have all it is None, and Numba makes loops that do not ask.
    """

# Columns of `wants`. WIDTH: nodes; CORES, MEMORY, GPUS: of each of them; UNTIL: expected end of a run;
# SPOT: where its nodes are in `spots` if it was chosen in this pass, else -1; GOES: whether it was. SET: the row of
# `allowed` that is its own.
WIDTH, CORES, MEMORY, GPUS, UNTIL, SPOT, GOES, SET = range(8)
WANTS_COLUMNS = 8
# What is left of a node.
LEFT_CORES, LEFT_MEMORY, LEFT_GPUS = range(3)
LEFT_COLUMNS = 3
# Registers. MOST_CORES: of any node; SPOTS_N: nodes of those chosen so far; IDLE: cores that these leave.
MOST_CORES, BEST_FIT, RUNNING_N, SPOTS_N, IDLE = range(5)
REGISTERS = 5
# Rows of `marks`. MARK: whether a node is open to the job that is looked at; CHECKED, FAILED: how far a plan has been
# looked at, and the first step from which a node may do.
MARK, CHECKED, FAILED = range(3)
MARK_ROWS = 3
CLOSED, OPEN, SPOILS = range(3)
"""Values of MARK. SPOILS: open, and beside this job the head could not have it."""
NONE, EASY, CONSERVATIVE = range(3)


@inner
def has(left: Ints, allowed: Allowed, which: int, wants: Ints, who: int) -> bool:
    """Whether a node that a job may have has enough left for it."""
    if allowed is not None and not allowed[wants[who, SET], which]:
        return False
    return bool(
        left[which, LEFT_CORES] >= wants[who, CORES]
        and left[which, LEFT_MEMORY] >= wants[who, MEMORY]
        and left[which, LEFT_GPUS] >= wants[who, GPUS]
    )


@inner
def give(left: Ints, which: int, wants: Ints, who: int, sign: int) -> None:
    """A node has more (1) or less (-1) left by what a job has of it."""
    left[which, LEFT_CORES] += sign * wants[who, CORES]
    left[which, LEFT_MEMORY] += sign * wants[who, MEMORY]
    left[which, LEFT_GPUS] += sign * wants[who, GPUS]


@inner
def node_of(state: State, sharing: Sharing, who: int, k: int) -> int:
    """The k-th node of a job that runs, ran last, or is chosen in this pass."""
    job, runs, log = state.job, state.runs, state.log
    wants, spots, node_of_core = sharing[1], sharing[5], sharing[12]
    which: int
    if wants[who, SPOT] >= 0:
        which = spots[wants[who, SPOT] + k]
    else:
        which = node_of_core[log[runs[job[who].run_row].first + k * wants[who, CORES]]]
    return which


@inner
def expected(wants: Ints, who: int, now: int) -> int:
    """When a running job should end; one past its estimate soon."""
    at: int = max(wants[who, UNTIL], now + 1)
    return at


@inner
def see_ends(state: State, sharing: Sharing) -> None:
    """Jobs that have ended since the last pass leave room."""
    job = state.job
    own, wants, room, running = sharing[0], sharing[1], sharing[2], sharing[4]
    count = 0
    for k in range(own[RUNNING_N]):
        who = running[k]
        if job[who].state == RUNNING:
            running[count] = who
            count += 1
        else:
            for each in range(wants[who, WIDTH]):
                give(room, node_of(state, sharing, who, each), wants, who, 1)
    own[RUNNING_N] = count


@inner
def keep_first(sharing: Sharing, left: Ints, value: int, most: int) -> None:
    """Of the nodes with this mark keep the first `most`, and close the others.

    First: by number, or with best fit by the cores that are left, then by number.
    """
    own, mark, hist = sharing[0], sharing[6][MARK], sharing[7]
    last = own[MOST_CORES] + 1  # more cores than there are
    if own[BEST_FIT]:
        for cores in range(last):
            hist[cores] = 0
        for which in range(mark.shape[0]):
            if mark[which] == value:
                hist[left[which, LEFT_CORES]] += 1
        last = 0
        while last < own[MOST_CORES] and most >= hist[last]:
            most -= hist[last]
            last += 1
    for which in range(mark.shape[0]):
        if mark[which] != value:
            continue
        cores = left[which, LEFT_CORES]
        if own[BEST_FIT] and cores < last:
            continue
        if most > 0 and (cores == last or not own[BEST_FIT]):
            most -= 1
        else:
            mark[which] = CLOSED


@inner
def open_now(sharing: Sharing, left: Ints, who: int) -> int:
    """Mark the nodes that have room for a job. Returns how many."""
    wants, mark = sharing[1], sharing[6][MARK]
    count = 0
    for which in range(mark.shape[0]):
        if has(left, sharing[13], which, wants, who):
            mark[which] = OPEN
            count += 1
        else:
            mark[which] = CLOSED
    return count


@inner
def choose(state: State, sharing: Sharing, who: int, now: int) -> None:
    """A job starts on its first marked nodes."""
    job, started, reg = state.job, state.started, state.reg
    own, wants, room, running, spots, mark = (
        sharing[0], sharing[1], sharing[2], sharing[4], sharing[5], sharing[6][MARK],
    )  # fmt: skip
    keep_first(sharing, room, OPEN, wants[who, WIDTH])
    wants[who, SPOT] = own[SPOTS_N]
    for which in range(mark.shape[0]):
        if mark[which]:
            spots[own[SPOTS_N]] = which
            own[SPOTS_N] += 1
            give(room, which, wants, who, -1)
    wants[who, GOES] = 1
    wants[who, UNTIL] = now + job[who].estimate_us if now < NEVER - job[who].estimate_us else NEVER
    own[IDLE] -= job[who].nodes
    started[reg[STARTED_N]] = who
    reg[STARTED_N] += 1
    place = own[RUNNING_N]
    while place > 0 and wants[running[place - 1], UNTIL] > wants[who, UNTIL]:
        running[place] = running[place - 1]
        place -= 1
    running[place] = who
    own[RUNNING_N] += 1


@inner
def choose_heads(state: State, sharing: Sharing, now: int) -> int:
    """In queue order, until the first that does not fit. Returns its place."""
    job, queue, reg = state.job, state.queue, state.reg
    own, wants, room = sharing[0], sharing[1], sharing[2]
    place: int = reg[QUEUE_LO]
    while place < reg[QUEUE_HI]:
        who = queue[place]
        if job[who].nodes > own[IDLE] or open_now(sharing, room, who) < wants[who, WIDTH]:
            break
        choose(state, sharing, who, now)
        place += 1
    return place


@inner
def reserve(state: State, sharing: Sharing, head: int, now: int) -> tuple[int, int]:
    """When the head could start as running jobs leave, and how many nodes more than it wants could have it then.

    What each node has left then is in `then`. The head fits an empty machine.
    """
    own, wants, room, then, running = sharing[0], sharing[1], sharing[2], sharing[3], sharing[4]
    count = 0
    for which in range(room.shape[0]):
        for column in range(LEFT_COLUMNS):
            then[which, column] = room[which, column]
        count += has(then, sharing[13], which, wants, head)
    shadow: int = now
    k = 0
    while k < own[RUNNING_N] and count < wants[head, WIDTH]:
        shadow = expected(wants, running[k], now)
        while k < own[RUNNING_N] and expected(wants, running[k], now) == shadow:
            who = running[k]
            for each in range(wants[who, WIDTH]):
                which = node_of(state, sharing, who, each)
                count -= has(then, sharing[13], which, wants, head)
                give(then, which, wants, who, 1)
                count += has(then, sharing[13], which, wants, head)
            k += 1
    return shadow, count - wants[head, WIDTH]


@inner
def beside_head(sharing: Sharing, who: int, head: int, spare: int) -> int:
    """Close the open nodes of a job that runs past the head's start, but those that the head can do without.

    Returns how many are open.
    """
    wants, then, mark = sharing[1], sharing[3], sharing[6][MARK]
    count = 0
    spoils = 0
    for which in range(mark.shape[0]):
        if mark[which]:
            before = has(then, sharing[13], which, wants, head)
            give(then, which, wants, who, -1)
            if before and not has(then, sharing[13], which, wants, head):
                mark[which] = SPOILS
                spoils += 1
            give(then, which, wants, who, 1)
            count += 1
    keep_first(sharing, sharing[2], SPOILS, spare)
    for which in range(mark.shape[0]):
        if mark[which]:
            mark[which] = OPEN
    return count - max(0, spoils - spare)


@inner
def backfill(state: State, sharing: Sharing, place: int, now: int) -> None:
    """EASY: behind the head, who does not delay it."""
    job, queue, reg = state.job, state.queue, state.reg
    own, wants, room, then, spots = sharing[0], sharing[1], sharing[2], sharing[3], sharing[5]
    head = queue[place]
    shadow, spare = reserve(state, sharing, head, now)
    place += 1
    while place < reg[QUEUE_HI] and own[IDLE] > 0:
        who = queue[place]
        place += 1
        if job[who].nodes > own[IDLE]:
            continue
        count = open_now(sharing, room, who)
        is_late = job[who].estimate_us > shadow - now
        if count >= wants[who, WIDTH] and is_late:
            count = beside_head(sharing, who, head, spare)
        if count < wants[who, WIDTH]:
            continue
        choose(state, sharing, who, now)
        if is_late:
            for k in range(wants[who, SPOT], wants[who, SPOT] + wants[who, WIDTH]):
                spare -= has(then, sharing[13], spots[k], wants, head)
                give(then, spots[k], wants, who, -1)
                spare += has(then, sharing[13], spots[k], wants, head)


@inner
def copy_level(level: Ints, source: int, to: int) -> None:
    for which in range(level.shape[1]):
        for column in range(LEFT_COLUMNS):
            level[to, which, column] = level[source, which, column]


@inner
def make_plan(state: State, sharing: Sharing, now: int) -> int:
    """What each node has left from now on, if nobody else starts. Returns the number of steps."""
    own, wants, room, running = sharing[0], sharing[1], sharing[2], sharing[4]
    at, level = sharing[8], sharing[9]
    at[0] = now
    steps = 1
    for which in range(room.shape[0]):
        for column in range(LEFT_COLUMNS):
            level[0, which, column] = room[which, column]
    for k in range(own[RUNNING_N]):
        who = running[k]
        end = expected(wants, who, now)
        if end != at[steps - 1]:
            copy_level(level, steps - 1, steps)
            at[steps] = end
            steps += 1
        for each in range(wants[who, WIDTH]):
            give(level[steps - 1], node_of(state, sharing, who, each), wants, who, 1)
    return steps


@inner
def open_from(sharing: Sharing, who: int, length: int, first: int, steps: int) -> int:
    """Mark the nodes that have room for a job from a step on for so long. Returns how many.

    Asked of one step after the other; what was found out at those before is in the other rows of `marks`.
    """
    wants, at, level = sharing[1], sharing[8], sharing[9]
    mark, checked, failed = sharing[6][MARK], sharing[6][CHECKED], sharing[6][FAILED]
    count = 0
    for which in range(mark.shape[0]):
        mark[which] = CLOSED
        if failed[which] > first:
            continue
        k = max(checked[which], first)
        while (
            k < steps
            and (k == first or at[k] - at[first] < length)
            and has(level[k], sharing[13], which, wants, who)
        ):
            k += 1
        checked[which] = k
        if k < steps and (k == first or at[k] - at[first] < length):
            failed[which] = k + 1
        else:
            mark[which] = OPEN
            count += 1
    return count


@inner
def take_planned(sharing: Sharing, who: int, length: int, first: int, steps: int) -> int:
    """Take the marked nodes from a step on. Returns the number of steps."""
    wants, at, level, mark = sharing[1], sharing[8], sharing[9], sharing[6][MARK]
    end = at[first] + length if at[first] < NEVER - length else NEVER
    last = first
    while last < steps and at[last] < end:
        last += 1
    if last == steps or at[last] != end:
        for k in range(steps, last, -1):
            at[k] = at[k - 1]
            copy_level(level, k - 1, k)
        at[last] = end
        copy_level(level, last - 1, last)
        steps += 1
    for which in range(mark.shape[0]):
        if mark[which]:
            for k in range(first, last):
                give(level[k], which, wants, who, -1)
    return steps


@inner
def choose_planned(state: State, sharing: Sharing, now: int) -> None:
    """Conservative: plan every waiting job anew in queue order; those whose planned start is now start."""
    job, queue, reg = state.job, state.queue, state.reg
    own, wants, marks, level, narrowest = sharing[0], sharing[1], sharing[6], sharing[9], sharing[10]
    steps = make_plan(state, sharing, now)
    low = reg[QUEUE_LO]
    waiting = reg[QUEUE_HI] - low
    narrowest[waiting] = NEVER
    for k in range(waiting - 1, -1, -1):
        narrowest[k] = min(narrowest[k + 1], job[queue[low + k]].nodes)
    for k in range(waiting):
        if narrowest[k] > own[IDLE]:
            return  # nobody further back can start now, and plans are not kept
        who = queue[low + k]
        length = job[who].estimate_us
        for which in range(marks.shape[1]):
            marks[CHECKED, which] = 0
            marks[FAILED, which] = 0
        for first in range(steps):
            if open_from(sharing, who, length, first, steps) >= wants[who, WIDTH]:
                keep_first(sharing, level[first], OPEN, wants[who, WIDTH])
                steps = take_planned(sharing, who, length, first, steps)
                if first == 0:
                    choose(state, sharing, who, now)
                break


@inner
def leave_queue(state: State, sharing: Sharing) -> None:
    """Take the chosen jobs out of the queue; the others keep their order."""
    queue, reg = state.queue, state.reg
    wants = sharing[1]
    to = reg[QUEUE_HI]
    for place in range(reg[QUEUE_HI] - 1, reg[QUEUE_LO] - 1, -1):
        who = queue[place]
        if wants[who, GOES]:
            wants[who, GOES] = 0
        else:
            to -= 1
            queue[to] = who
    reg[QUEUE_LO] = to


@inner
def put_on_top(state: State, sharing: Sharing) -> None:
    """Put the cores of the chosen jobs on top of the free stack, each job's below those of the one before it.

    Of a node the first free cores.
    """
    job, node, free, started, reg = state.job, state.node, state.free, state.started, state.reg
    wants, spots, first_core = sharing[1], sharing[5], sharing[11]
    top = reg[FREE]
    for chosen in range(reg[STARTED_N]):
        who = started[chosen]
        to = top - job[who].nodes
        below = to
        for k in range(wants[who, SPOT], wants[who, SPOT] + wants[who, WIDTH]):
            core = first_core[spots[k]]
            left = wants[who, CORES]
            while left > 0:
                if node[core].job < 0 and node[core].place < top:
                    place = node[core].place
                    other = free[to]
                    free[place] = other
                    node[other].place = place
                    free[to] = core
                    node[core].place = to
                    to += 1
                    left -= 1
                core += 1
        top = below
        wants[who, SPOT] = -1


@compiled
def share_nodes(state: State, sharing: Sharing, now: int, rule: int) -> None:
    """Choose whoever starts now, in queue order, and put their cores on top of the free stack."""
    reg, own = state.reg, sharing[0]
    reg[STARTED_N] = 0
    see_ends(state, sharing)
    own[SPOTS_N] = 0
    own[IDLE] = reg[FREE]
    if rule == CONSERVATIVE:
        choose_planned(state, sharing, now)
    else:
        place = choose_heads(state, sharing, now)
        if rule == EASY and place < reg[QUEUE_HI] - 1 and own[IDLE] > 0:
            backfill(state, sharing, place, now)
    if reg[STARTED_N]:
        leave_queue(state, sharing)
        put_on_top(state, sharing)
