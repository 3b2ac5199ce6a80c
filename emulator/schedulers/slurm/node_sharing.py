"""Jobs that share nodes by cores and memory (`select/cons_tres`), compiled. The rules: `docs/slurm-twin.md`.

To the harness a core is what a node is elsewhere: a job has cores to itself, those of a node are neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import inner
from emulator.harness.tables import NEVER, RUNNING
from emulator.schedulers.slurm.reserved import close_reserved
from emulator.schedulers.slurm.tables import (
    CHOSEN,
    CORES,
    CORES_NOW,
    CORES_THEN,
    IS_LISTED,
    MEMORY,
    MEMORY_NOW,
    MEMORY_THEN,
    NODE_MEMORY,
    PARTITION,
    PER_NODE,
    RESERVATION,
    RUNNING_N,
    SECOND,
    WIDTH,
)

if TYPE_CHECKING:
    from emulator.harness.tables import Jobs, State
    from emulator.schedulers.slurm.tables import Twin

FIRST_LOOK = 30 * SECOND
"""Ends so close are looked at together, then twice as close each time (slurm.conf, `bf_window_linear`)."""


@inner
def count_room(state: State, twin: Twin) -> None:
    """What each node has left now."""
    job, node, _, _, _, _, _, runs, log, _, _, _ = state
    own, mine = twin[0], twin[1]
    room = twin[15][4]
    for which in range(room.shape[0]):
        room[which, CORES_NOW] = own[PER_NODE]
        room[which, MEMORY_NOW] = own[NODE_MEMORY]
    for core in range(node.shape[0]):
        who = node[core].job
        if who >= 0:
            which = core // own[PER_NODE]
            room[which, CORES_NOW] -= 1
            if core == which * own[PER_NODE] or node[core - 1].job != who:
                first = runs[job[who].run_row].first
                for k in range(first, first + job[who].nodes, mine[who, CORES]):
                    if log[k] == core:  # its first core of this node
                        room[which, MEMORY_NOW] -= mine[who, MEMORY]


@inner
def ends_at(job: Jobs, who: int, now: int) -> int:
    """When a running job should end; one past its limit soon."""
    at: int = max(job[who].expected_end_us, now + SECOND)
    return at


@inner
def list_running(state: State, twin: Twin, now: int) -> None:
    """What runs, in order of ends by the limits, then of submits: little changes between two cycles."""
    job, node, _, _, _, _, _, _, _, _, _, _ = state
    own, mine = twin[0], twin[1]
    running = twin[15][5]
    count = 0
    for k in range(own[RUNNING_N]):
        who = running[k]
        if job[who].state == RUNNING:
            running[count] = who
            count += 1
        else:
            mine[who, IS_LISTED] = 0
    for core in range(node.shape[0]):
        who = node[core].job
        if who >= 0 and not mine[who, IS_LISTED]:
            mine[who, IS_LISTED] = 1
            running[count] = who
            count += 1
    for k in range(1, count):
        who = running[k]
        at = ends_at(job, who, now)
        place = k
        while place > 0:
            other = running[place - 1]
            if (ends_at(job, other, now), other) < (at, who):
                break
            running[place] = other
            place -= 1
        running[place] = who
    own[RUNNING_N] = count


@inner
def shared_room(state: State, twin: Twin, who: int, now: int) -> bool:
    """Mark the nodes that have room for a job now in the second mask. Returns whether they are enough.

    The first mask has those that the main loop keeps for others but not from who asks for an advance reservation.
    """
    job = state[0]
    mine, parts, masks = twin[1], twin[3], twin[7]
    room = twin[15][4]
    partition = mine[who, PARTITION]
    for which in range(room.shape[0]):
        masks[1, which] = (
            parts[partition, which]
            and (mine[who, RESERVATION] >= 0 or not masks[0, which])
            and room[which, CORES_NOW] >= mine[who, CORES]
            and room[which, MEMORY_NOW] >= mine[who, MEMORY]
        )
        room[which, CORES_THEN] = room[which, CORES_NOW]
    close_reserved(twin, who, now, now + job[who].estimate_us, 1)
    count = 0
    for which in range(room.shape[0]):
        count += masks[1, which]
    return bool(count >= mine[who, WIDTH])


@inner
def has_then(twin: Twin, who: int) -> bool:
    """Mark those of the first mask's nodes that have room for a job then in the second. Whether they are enough."""
    mine, masks = twin[1], twin[7]
    room = twin[15][4]
    count = 0
    for which in range(room.shape[0]):
        masks[1, which] = (
            masks[0, which]
            and room[which, CORES_THEN] >= mine[who, CORES]
            and room[which, MEMORY_THEN] >= mine[who, MEMORY]
        )
        count += masks[1, which]
    return bool(count >= mine[who, WIDTH])


@inner
def free_then(state: State, twin: Twin, who: int, now: int) -> int:
    """When enough nodes of the first mask have room for a job, NEVER if they never have; they are in the second.

    What runs is taken away in order of ends, some at a time: those that end within a while of the next one.
    """
    job, _, _, _, _, _, _, runs, log, _, _, _ = state
    own, mine = twin[0], twin[1]
    room, running = twin[15][4], twin[15][5]
    for which in range(room.shape[0]):
        room[which, CORES_THEN] = room[which, CORES_NOW]
        room[which, MEMORY_THEN] = room[which, MEMORY_NOW]
    if has_then(twin, who):
        return now
    at: int = now
    close = FIRST_LOOK
    k = 0
    while k < own[RUNNING_N]:
        last = ends_at(job, running[k], now) + close
        while k < own[RUNNING_N] and ends_at(job, running[k], now) <= last:
            other = running[k]
            at = ends_at(job, other, now)
            first = runs[job[other].run_row].first
            for core in range(first, first + job[other].nodes, mine[other, CORES]):
                which = log[core] // own[PER_NODE]
                room[which, CORES_THEN] += mine[other, CORES]
                room[which, MEMORY_THEN] += mine[other, MEMORY]
            k += 1
        close *= 2
        if has_then(twin, who):
            return at
    return NEVER


@inner
def pick_shared(twin: Twin, who: int) -> bool:
    """Choose among the second mask's nodes, which are enough, and use it up.

    Of the sets of neighbours that hold the job the one with the fewest free cores, its first nodes; if none does, all
    of the one with the most, and again for the rest. The one node that is left to choose has the fewest free cores.
    """
    nodes, allowed = twin[4], twin[7][1]
    room = twin[15][4]
    last = allowed.shape[0]
    needed = twin[1][who, WIDTH]
    chosen = 0
    while chosen < needed:
        rest = needed - chosen
        best_at, best, best_cores = 0, 0, 0
        at = 0
        while at < last:
            if not allowed[at]:
                at += 1
                continue
            begin, cores = at, 0
            while at < last and allowed[at]:
                cores += room[at, CORES_THEN]
                at += 1
            length = at - begin
            is_better = cores > best_cores if best < rest else cores < best_cores
            if (length >= rest and best < rest) or ((length >= rest or best < rest) and is_better):
                best_at, best, best_cores = begin, length, cores
        if rest == 1:
            for which in range(best_at + 1, best_at + best):
                if room[which, CORES_THEN] < room[best_at, CORES_THEN]:
                    best_at = which
        for which in range(best_at, best_at + min(best, rest)):
            allowed[which] = 0
            nodes[chosen, CHOSEN] = which
            chosen += 1
    return True


@inner
def choose_cores(state: State, twin: Twin, who: int) -> None:
    """Pick the first free cores of the chosen nodes, which have less room from now on."""
    node = state[1]
    per_node, mine, nodes = twin[0][PER_NODE], twin[1], twin[4]
    room, cores = twin[15][4], twin[15][6]
    count = 0
    for k in range(mine[who, WIDTH]):
        which = nodes[k, CHOSEN]
        room[which, CORES_NOW] -= mine[who, CORES]
        room[which, MEMORY_NOW] -= mine[who, MEMORY]
        left = mine[who, CORES]
        for core in range(which * per_node, (which + 1) * per_node):
            if left and node[core].job < 0:
                cores[count] = core
                count += 1
                left -= 1
