"""One backfill cycle, compiled. The rules: `docs/slurm-twin.md`; the slow truth: `tests/oracle/slurm.py`.

The plan of a cycle is a list of slots in order of time, each with the nodes that nobody has reserved. It is made anew
by each cycle and thrown away: who starts now is all that stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import inner
from emulator.harness.structures import queue_remove_at
from emulator.harness.tables import (
    FREE,
    NEVER,
    QUEUE_HI,
    QUEUE_LO,
)
from emulator.schedulers.slurm.limits import count_job, count_running, is_over_limit
from emulator.schedulers.slurm.node_sharing import count_room, free_then, list_running, pick_shared
from emulator.schedulers.slurm.nodes import pick, start_picked
from emulator.schedulers.slurm.reserved import close_reserved, is_kept, may_run
from emulator.schedulers.slurm.tables import (
    AT_,
    CHOSEN,
    ELIGIBLE,
    END_,
    FILL_AT,
    HOLDER,
    LAST_FILL,
    MAX_TEST,
    MAX_USER,
    MIN_AGE,
    ORDER,
    PARTITION,
    PER_NODE,
    RESOLUTION,
    ROW,
    SECOND,
    SLOTS_N,
    START_,
    WHEN,
    WHOSE,
    WIDTH,
    WINDOW,
)

if TYPE_CHECKING:
    from emulator.harness.tables import Ints, Jobs, Nodes, State
    from emulator.schedulers.slurm.tables import Bytes, Twin


@inner
def look_at_nodes(job: Jobs, node: Nodes, nodes: Ints, now: int) -> None:
    """When each node is free again by the limits of what runs; one past its limit soon, one out of the pool never."""
    for which in range(node.shape[0]):
        who = node[which].job
        nodes[which, HOLDER] = who
        if node[which].offline:
            nodes[which, WHEN] = NEVER
        elif who < 0:
            nodes[which, WHEN] = now
        else:
            nodes[which, WHEN] = max(job[who].expected_end_us, now + SECOND)


@inner
def sort_nodes(nodes: Ints) -> None:
    """Put `ORDER` in order of (when, job, node): little changes between two cycles."""
    for k in range(1, nodes.shape[0]):
        which = nodes[k, ORDER]
        when = nodes[which, WHEN]
        place = k
        while place > 0:
            other = nodes[place - 1, ORDER]
            if nodes[other, WHEN] < when or (
                nodes[other, WHEN] == when and (nodes[other, HOLDER], other) < (nodes[which, HOLDER], which)
            ):
                break
            nodes[place, ORDER] = other
            place -= 1
        nodes[place, ORDER] = which


@inner
def slot_from(own: Ints, slots: Ints, kept: Bytes, at: int) -> int:
    """The slot that begins at `at`, made if there is none. `at` is not before the first."""
    place: int = own[SLOTS_N]
    while slots[place - 1, AT_] > at:
        place -= 1
    if slots[place - 1, AT_] == at:
        return place - 1
    count = own[SLOTS_N]
    for k in range(count, place, -1):
        slots[k, AT_] = slots[k - 1, AT_]
        slots[k, ROW] = slots[k - 1, ROW]
    slots[place, AT_] = at
    slots[place, ROW] = count
    before = slots[place - 1, ROW]
    for which in range(kept.shape[1]):
        kept[count, which] = kept[before, which]
    own[SLOTS_N] = count + 1
    return place


@inner
def begin_plan(twin: Twin, now: int) -> None:
    """Slots in which nothing is reserved for a waiting job: from now on, from each time advance reservations change."""
    own, _, _, _, _, slots, kept, _, _, _, _, _, _, _, _, bounds = twin
    times = bounds[2]
    slots[0, AT_] = now
    slots[0, ROW] = 0
    own[SLOTS_N] = 1
    for which in range(kept.shape[1]):
        kept[0, which] = 1
    for which in range(times.shape[0]):
        for column in (START_, END_):
            if times[which, column] > now:
                slot_from(own, slots, kept, times[which, column])


@inner
def free_by_ends(nodes: Ints, masks: Bytes, needed: int, now: int) -> int:
    """When enough nodes of the first mask are free, NEVER if they never are; those are marked in the second.

    What runs is taken away one job after the other, in order of their ends, until enough is free: what ends at the same
    time as the last of them counts as running still.
    """
    for which in range(nodes.shape[0]):
        masks[1, which] = 0
    found = 0
    at: int = now
    holder: int = -1
    for k in range(nodes.shape[0]):
        which = nodes[k, ORDER]
        when = nodes[which, WHEN]
        if when > now and (when > at or nodes[which, HOLDER] != holder):
            if found >= needed:
                return at
            if when == NEVER:
                return NEVER
        at = max(at, when)
        holder = nodes[which, HOLDER]
        found += masks[0, which]
        masks[1, which] = masks[0, which]
    return at if found >= needed else NEVER


@inner
def is_reserved(twin: Twin, needed: int, begin: int, end: int, now: int) -> bool:
    """Whether one of the picked nodes is reserved in the blocks of a time."""
    own, _, _, _, nodes, slots, kept, _, _, _, _, _, _, _, _, _ = twin
    first = max(begin // own[RESOLUTION] * own[RESOLUTION], now)
    last = end // own[RESOLUTION] * own[RESOLUTION]
    for slot in range(own[SLOTS_N] if last > first else 0):
        if slots[slot, AT_] < last and (slot + 1 == own[SLOTS_N] or slots[slot + 1, AT_] > first):
            for k in range(needed):
                if not kept[slots[slot, ROW], nodes[k, CHOSEN]]:
                    return True
    return False


@inner
def earliest(state: State, twin: Twin, who: int, now: int) -> int:
    """When a job can start by the plan, with its nodes picked; NEVER if not in the window.

    It is tried now and at each time at which a reservation begins or ends, on nodes that nobody has reserved from then
    until its limit has passed. What it gets may begin later than that: then these nodes must be free for it, too.
    """
    needed, limit, partition = twin[1][who, WIDTH], state[0][who].estimate_us, twin[1][who, PARTITION]
    own, _, _, parts, nodes, slots, kept, masks, _, _, _, _, _, _, _, _ = twin
    count = parts.shape[1]
    for slot in range(own[SLOTS_N]):
        tried: int = slots[slot, AT_]
        if tried - now > own[WINDOW]:
            break
        for which in range(count):
            masks[0, which] = parts[partition, which]
        later = slot
        while later < own[SLOTS_N] and slots[later, AT_] - tried <= limit:
            row = slots[later, ROW]
            for which in range(count):
                masks[0, which] &= kept[row, which]
            later += 1
        close_reserved(twin, who, tried, tried + limit, 0)
        shares = own[PER_NODE] > 1
        free_at = free_then(state, twin, who, now) if shares else free_by_ends(nodes, masks, needed, now)
        if free_at == NEVER:
            continue
        begin = max(free_at, tried)
        if begin - now > own[WINDOW] or not may_run(twin, who, begin, begin + limit):
            continue
        if shares:
            pick_shared(twin, who)
        else:
            pick(masks[1], nodes, needed)
        if begin == now or not (
            is_reserved(twin, needed, begin, begin + limit, now)
            or is_kept(twin, who, needed, begin, begin + limit)
        ):
            return begin
    return NEVER


@inner
def reserve(twin: Twin, needed: int, begin: int, end: int, now: int) -> None:
    """Take the picked nodes out of the plan, for whole blocks of time."""
    own, _, _, _, nodes, slots, kept, _, _, _, _, _, _, _, _, _ = twin
    block = own[RESOLUTION]
    first = slot_from(own, slots, kept, max(begin // block * block, now))
    last = slot_from(own, slots, kept, max(end // block * block, now))
    for slot in range(first, last):
        row = slots[slot, ROW]
        for k in range(needed):
            kept[row, nodes[k, CHOSEN]] = 0


@inner
def look_at_running(state: State, twin: Twin, now: int) -> None:
    """What is free now, and what runs, in order of ends."""
    job, node, _, _, _, _, _, _, _, _, _, _ = state
    nodes = twin[4]
    if twin[0][PER_NODE] > 1:
        count_room(state, twin)
        list_running(state, twin, now)
        return
    look_at_nodes(job, node, nodes, now)
    sort_nodes(nodes)


@inner
def note_start(state: State, twin: Twin, who: int, now: int) -> None:
    """A job has just been started on the picked nodes."""
    nodes = twin[4]
    if twin[0][PER_NODE] > 1:
        list_running(state, twin, now)
        return
    for taken in range(twin[1][who, WIDTH]):
        nodes[nodes[taken, CHOSEN], WHEN] = now + state[0][who].estimate_us
        nodes[nodes[taken, CHOSEN], HOLDER] = who
    sort_nodes(nodes)


@inner
def fill(state: State, twin: Twin, now: int) -> None:
    """Plan the waiting jobs in queue order and start those whose plan says now."""
    job, node, _, queue, _, _, _, _, _, _, _, reg = state
    own, mine, _, _, _, _, _, _, tests, _, _, _, _, _, spare, _ = twin
    own[FILL_AT] = NEVER
    own[LAST_FILL] = now
    if reg[FREE] == 0:
        return
    waiting = reg[QUEUE_HI] - reg[QUEUE_LO]
    count_running(state, twin)
    narrowest = spare
    narrowest[waiting] = node.shape[0] + 1
    for k in range(waiting - 1, -1, -1):
        narrowest[k] = min(narrowest[k + 1], job[queue[reg[QUEUE_LO] + k]].nodes)
    look_at_running(state, twin, now)
    begin_plan(twin, now)
    for whose in range(tests.shape[0] if own[MAX_USER] else 0):
        tests[whose] = 0
    tested = 0
    place = reg[QUEUE_LO]
    for k in range(waiting):
        if tested == own[MAX_TEST] or reg[FREE] < narrowest[k]:
            break  # nobody further back can start now, and plans are not kept
        who = queue[place]
        if own[MAX_USER]:
            if tests[mine[who, WHOSE]] == own[MAX_USER]:
                place += 1
                continue
            tests[mine[who, WHOSE]] += 1
        tested += 1
        if is_over_limit(job, twin, who):
            place += 1
            continue
        needed = mine[who, WIDTH]
        limit = job[who].estimate_us
        begin = earliest(state, twin, who, now)
        if begin == now:
            place = queue_remove_at(queue, reg, place)
            start_picked(state, twin, who, now)
            count_job(job, twin, who)
            note_start(state, twin, who, now)
            continue
        if begin != NEVER and now - mine[who, ELIGIBLE] >= own[MIN_AGE]:
            reserve(twin, needed, begin, begin + limit, now)
        place += 1
