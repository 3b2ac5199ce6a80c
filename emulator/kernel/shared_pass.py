"""A scheduling pass over nodes that jobs share, compiled: who starts, and where. The rules: `docs/shared-nodes.md`.

To the kernel a core is what a node is elsewhere. This pass counts what is left of each node (cores, memory, GPUs) and
puts the cores of the chosen jobs on top of the free stack, where `start_chosen` finds them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from emulator.kernel.compiled import compiled, inner
from emulator.kernel.job_states import JobState
from emulator.kernel.structures import free_move, leave_queue
from emulator.kernel.tables import (
    NEVER,
    BackfillRule,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    from emulator.kernel.rows import Rows, RowTable
    from emulator.kernel.tables import Ints, Ints32, State

    Allowed: TypeAlias = "NDArray[np.bool_] | None"


class Wants:
    """What a job wants, one row a job, and where it is."""

    nodes: int
    cores: int
    """Of each of its nodes, as `memory_kib` and `gpus`."""
    memory_kib: int
    gpus: int
    until_us: int
    """When it should end by its estimate, while it runs."""
    spot: int
    """Where its nodes are in `spots` if it was chosen in this pass, else -1."""
    goes: int
    """Whether it was."""
    node_set: int
    """The row of `allowed` that is its own."""


class Left:
    """What is left of a node."""

    cores: int
    memory_kib: int
    gpus: int


class Counts:
    """Registers of such a pass."""

    most_cores: int
    """Of any node."""
    best_fit: int
    """A job has the nodes with the fewest free cores, not those with the lowest numbers."""
    running_n: int
    spots_n: int
    """Nodes of those chosen so far."""
    idle: int
    """Cores that these leave."""


class Sharing(NamedTuple):
    """What such a pass knows beside the cluster's state."""

    counts: Counts
    wants: Rows[Wants]
    room: Rows[Left]
    """What each node has left now."""
    then: Rows[Left]
    """At the planned start of the head."""
    running: Ints32
    """Rows of the running jobs in order of expected end."""
    spots: Ints32
    """Nodes of the jobs that are chosen in this pass, one job after the other."""
    mark: Ints
    """`Mark` of each node."""
    checked: Ints
    """How far a plan has been looked at, of each node."""
    failed: Ints
    """The first step of a plan from which a node may do."""
    hist: Ints
    """Room for a count by free cores."""
    at: Ints
    """Times (us) of the steps of a plan."""
    level: RowTable[Left]
    """`level[k, n]`: what is left of node n from time `at[k]` on."""
    narrowest: Ints
    """Room for one value a waiting job and one more."""
    first_core: Ints
    """Of each node."""
    node_of_core: Ints32
    allowed: Allowed
    """`allowed[s, n]`: whether jobs of set s may have node n. None, if all may have all: then no loop asks."""


class Mark(IntEnum):
    """Whether a node is open to the job that is looked at."""

    CLOSED = 0
    OPEN = 1
    SPOILS = 2
    """Open, and beside this job the head could not have it."""


@inner
def has(left: Rows[Left], allowed: Allowed, which: int, wants: Rows[Wants], row: int) -> bool:
    """Whether a node that a job may have has enough left for it."""
    if allowed is not None and not allowed[wants[row].node_set, which]:
        return False
    return bool(
        left[which].cores >= wants[row].cores
        and left[which].memory_kib >= wants[row].memory_kib
        and left[which].gpus >= wants[row].gpus
    )


@inner
def give(left: Rows[Left], which: int, wants: Rows[Wants], row: int, sign: int) -> None:
    """A node has more (1) or less (-1) left by what a job has of it."""
    left[which].cores += sign * wants[row].cores
    left[which].memory_kib += sign * wants[row].memory_kib
    left[which].gpus += sign * wants[row].gpus


@inner
def node_of(state: State, sharing: Sharing, row: int, k: int) -> int:
    """The k-th node of a job that runs, ran last, or is chosen in this pass."""
    job, runs, log = state.job, state.runs, state.log
    wants, spots, node_of_core = sharing.wants, sharing.spots, sharing.node_of_core
    which: int
    if wants[row].spot >= 0:
        which = spots[wants[row].spot + k]
    else:
        which = node_of_core[log[runs[job[row].run_row].first + k * wants[row].cores]]
    return which


@inner
def expected(wants: Rows[Wants], row: int, now: int) -> int:
    """When a running job should end; one past its estimate soon."""
    at: int = max(wants[row].until_us, now + 1)
    return at


@inner
def see_ends(state: State, sharing: Sharing) -> None:
    """Jobs that have ended since the last pass leave room."""
    job = state.job
    counts, wants, room, running = sharing.counts, sharing.wants, sharing.room, sharing.running
    count = 0
    for k in range(counts.running_n):
        row = running[k]
        if job[row].state == JobState.RUNNING:
            running[count] = row
            count += 1
        else:
            for each in range(wants[row].nodes):
                give(room, node_of(state, sharing, row, each), wants, row, 1)
    counts.running_n = count


@inner
def keep_first(sharing: Sharing, left: Rows[Left], value: int, most: int) -> None:
    """Of the nodes with this mark keep the first `most`, and close the others.

    First: by number, or with best fit by the cores that are left, then by number.
    """
    counts, mark, hist = sharing.counts, sharing.mark, sharing.hist
    last = counts.most_cores + 1  # more cores than there are
    if counts.best_fit:
        for cores in range(last):
            hist[cores] = 0
        for which in range(mark.shape[0]):
            if mark[which] == value:
                hist[left[which].cores] += 1
        last = 0
        while last < counts.most_cores and most >= hist[last]:
            most -= hist[last]
            last += 1
    for which in range(mark.shape[0]):
        if mark[which] != value:
            continue
        cores = left[which].cores
        if counts.best_fit and cores < last:
            continue
        if most > 0 and (cores == last or not counts.best_fit):
            most -= 1
        else:
            mark[which] = Mark.CLOSED


@inner
def open_now(sharing: Sharing, left: Rows[Left], row: int) -> int:
    """Mark the nodes that have room for a job. Returns how many."""
    wants, mark = sharing.wants, sharing.mark
    count = 0
    for which in range(mark.shape[0]):
        if has(left, sharing.allowed, which, wants, row):
            mark[which] = Mark.OPEN
            count += 1
        else:
            mark[which] = Mark.CLOSED
    return count


@inner
def choose(state: State, sharing: Sharing, row: int, now: int) -> None:
    """A job starts on its first marked nodes."""
    job, started, registers = state.job, state.started, state.registers
    counts, wants, room = sharing.counts, sharing.wants, sharing.room
    running, spots, mark = sharing.running, sharing.spots, sharing.mark
    keep_first(sharing, room, Mark.OPEN, wants[row].nodes)
    wants[row].spot = counts.spots_n
    for which in range(mark.shape[0]):
        if mark[which]:
            spots[counts.spots_n] = which
            counts.spots_n += 1
            give(room, which, wants, row, -1)
    wants[row].goes = 1
    wants[row].until_us = now + job[row].estimate_us if now < NEVER - job[row].estimate_us else NEVER
    counts.idle -= job[row].nodes
    started[registers.started_n] = row
    registers.started_n += 1
    place = counts.running_n
    while place > 0 and wants[running[place - 1]].until_us > wants[row].until_us:
        running[place] = running[place - 1]
        place -= 1
    running[place] = row
    counts.running_n += 1


@inner
def choose_heads(state: State, sharing: Sharing, now: int) -> int:
    """In queue order, until the first that does not fit. Returns its place."""
    job, queue, registers = state.job, state.queue, state.registers
    counts, wants, room = sharing.counts, sharing.wants, sharing.room
    place: int = registers.queue_lo
    while place < registers.queue_hi:
        row = queue[place]
        if job[row].nodes > counts.idle or open_now(sharing, room, row) < wants[row].nodes:
            break
        choose(state, sharing, row, now)
        place += 1
    return place


@inner
def reserve(state: State, sharing: Sharing, head: int, now: int) -> tuple[int, int]:
    """When the head could start as running jobs leave, and how many nodes more than it wants could have it then.

    What each node has left then is in `then`. The head fits an empty machine.
    """
    counts, wants, room, then, running = (
        sharing.counts,
        sharing.wants,
        sharing.room,
        sharing.then,
        sharing.running,
    )
    count = 0
    for which in range(room.shape[0]):
        then[which] = room[which]
        count += has(then, sharing.allowed, which, wants, head)
    shadow: int = now
    k = 0
    while k < counts.running_n and count < wants[head].nodes:
        shadow = expected(wants, running[k], now)
        while k < counts.running_n and expected(wants, running[k], now) == shadow:
            row = running[k]
            for each in range(wants[row].nodes):
                which = node_of(state, sharing, row, each)
                count -= has(then, sharing.allowed, which, wants, head)
                give(then, which, wants, row, 1)
                count += has(then, sharing.allowed, which, wants, head)
            k += 1
    return shadow, count - wants[head].nodes


@inner
def beside_head(sharing: Sharing, row: int, head: int, spare: int) -> int:
    """Close the open nodes of a job that runs past the head's start, but those that the head can do without.

    Returns how many are open.
    """
    wants, then, mark = sharing.wants, sharing.then, sharing.mark
    count = 0
    spoils = 0
    for which in range(mark.shape[0]):
        if mark[which]:
            before = has(then, sharing.allowed, which, wants, head)
            give(then, which, wants, row, -1)
            if before and not has(then, sharing.allowed, which, wants, head):
                mark[which] = Mark.SPOILS
                spoils += 1
            give(then, which, wants, row, 1)
            count += 1
    keep_first(sharing, sharing.room, Mark.SPOILS, spare)
    for which in range(mark.shape[0]):
        if mark[which]:
            mark[which] = Mark.OPEN
    return count - max(0, spoils - spare)


@inner
def backfill(state: State, sharing: Sharing, place: int, now: int) -> None:
    """EASY: behind the head, who does not delay it."""
    job, queue, registers = state.job, state.queue, state.registers
    counts, wants, room, then, spots = (
        sharing.counts,
        sharing.wants,
        sharing.room,
        sharing.then,
        sharing.spots,
    )
    head = queue[place]
    shadow, spare = reserve(state, sharing, head, now)
    place += 1
    while place < registers.queue_hi and counts.idle > 0:
        row = queue[place]
        place += 1
        if job[row].nodes > counts.idle:
            continue
        count = open_now(sharing, room, row)
        is_late = job[row].estimate_us > shadow - now
        if count >= wants[row].nodes and is_late:
            count = beside_head(sharing, row, head, spare)
        if count < wants[row].nodes:
            continue
        choose(state, sharing, row, now)
        if is_late:
            for k in range(wants[row].spot, wants[row].spot + wants[row].nodes):
                spare -= has(then, sharing.allowed, spots[k], wants, head)
                give(then, spots[k], wants, row, -1)
                spare += has(then, sharing.allowed, spots[k], wants, head)


@inner
def copy_level(level: RowTable[Left], source: int, to: int) -> None:
    for which in range(level.shape[1]):
        level[to, which] = level[source, which]


@inner
def make_plan(state: State, sharing: Sharing, now: int) -> int:
    """What each node has left from now on, if nobody else starts. Returns the number of steps."""
    counts, wants, room, running = sharing.counts, sharing.wants, sharing.room, sharing.running
    at, level = sharing.at, sharing.level
    at[0] = now
    steps = 1
    for which in range(room.shape[0]):
        level[0, which] = room[which]
    for k in range(counts.running_n):
        row = running[k]
        end = expected(wants, row, now)
        if end != at[steps - 1]:
            copy_level(level, steps - 1, steps)
            at[steps] = end
            steps += 1
        for each in range(wants[row].nodes):
            give(level[steps - 1], node_of(state, sharing, row, each), wants, row, 1)
    return steps


@inner
def open_from(sharing: Sharing, row: int, length: int, first: int, steps: int) -> int:
    """Mark the nodes that have room for a job from a step on for so long. Returns how many.

    Asked of one step after the other; what was found out at those before is in `checked` and `failed`.
    """
    wants, at, level = sharing.wants, sharing.at, sharing.level
    mark, checked, failed = sharing.mark, sharing.checked, sharing.failed
    count = 0
    for which in range(mark.shape[0]):
        mark[which] = Mark.CLOSED
        if failed[which] > first:
            continue
        k = max(checked[which], first)
        while (
            k < steps
            and (k == first or at[k] - at[first] < length)
            and has(level[k], sharing.allowed, which, wants, row)
        ):
            k += 1
        checked[which] = k
        if k < steps and (k == first or at[k] - at[first] < length):
            failed[which] = k + 1
        else:
            mark[which] = Mark.OPEN
            count += 1
    return count


@inner
def take_planned(sharing: Sharing, row: int, length: int, first: int, steps: int) -> int:
    """Take the marked nodes from a step on. Returns the number of steps."""
    wants, at, level, mark = sharing.wants, sharing.at, sharing.level, sharing.mark
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
                give(level[k], which, wants, row, -1)
    return steps


@inner
def choose_planned(state: State, sharing: Sharing, now: int) -> None:
    """Conservative: plan every waiting job anew in queue order; those whose planned start is now start."""
    job, queue, registers = state.job, state.queue, state.registers
    counts, wants, level, narrowest = sharing.counts, sharing.wants, sharing.level, sharing.narrowest
    checked, failed = sharing.checked, sharing.failed
    steps = make_plan(state, sharing, now)
    low = registers.queue_lo
    waiting = registers.queue_hi - low
    narrowest[waiting] = NEVER
    for k in range(waiting - 1, -1, -1):
        narrowest[k] = min(narrowest[k + 1], job[queue[low + k]].nodes)
    for k in range(waiting):
        if narrowest[k] > counts.idle:
            return  # nobody further back can start now, and plans are not kept
        row = queue[low + k]
        length = job[row].estimate_us
        for which in range(checked.shape[0]):
            checked[which] = 0
            failed[which] = 0
        for first in range(steps):
            if open_from(sharing, row, length, first, steps) >= wants[row].nodes:
                keep_first(sharing, level[first], Mark.OPEN, wants[row].nodes)
                steps = take_planned(sharing, row, length, first, steps)
                if first == 0:
                    choose(state, sharing, row, now)
                break


@inner
def put_on_top(state: State, sharing: Sharing) -> None:
    """Put the cores of the chosen jobs on top of the free stack, each job's below those of the one before it.

    Of a node the first free cores.
    """
    job, node, free, started, registers = state.job, state.node, state.free, state.started, state.registers
    wants, spots, first_core = sharing.wants, sharing.spots, sharing.first_core
    top = registers.idle_nodes
    for chosen in range(registers.started_n):
        row = started[chosen]
        to = top - job[row].nodes
        below = to
        for k in range(wants[row].spot, wants[row].spot + wants[row].nodes):
            core = first_core[spots[k]]
            left = wants[row].cores
            while left > 0:
                if node[core].job < 0 and node[core].place < top:
                    free_move(node, free, core, to)
                    to += 1
                    left -= 1
                core += 1
        top = below
        wants[row].spot = -1


@compiled
def share_nodes(state: State, sharing: Sharing, now: int, rule: int) -> None:
    """Choose whoever starts now, in queue order, and put their cores on top of the free stack."""
    registers, counts = state.registers, sharing.counts
    registers.started_n = 0
    see_ends(state, sharing)
    counts.spots_n = 0
    counts.idle = registers.idle_nodes
    if rule == BackfillRule.CONSERVATIVE:
        choose_planned(state, sharing, now)
    else:
        place = choose_heads(state, sharing, now)
        if rule == BackfillRule.EASY and place < registers.queue_hi - 1 and counts.idle > 0:
            backfill(state, sharing, place, now)
    if registers.started_n:
        leave_queue(state.queue, state.registers, sharing.wants)
        put_on_top(state, sharing)
