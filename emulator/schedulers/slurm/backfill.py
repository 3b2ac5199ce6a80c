"""One backfill cycle, compiled. The rules: `docs/slurm-twin.md`; the slow truth: `tests/oracle/slurm.py`.

The plan of a cycle is a list of slots in order of time, each with the nodes that nobody has reserved. It is made anew
by each cycle and thrown away: who starts now is all that stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner
from emulator.kernel.structures import queue_remove_at
from emulator.kernel.tables import (
    NEVER,
)
from emulator.schedulers.slurm.cycles import goes_on, note_cycle_that_finds
from emulator.schedulers.slurm.depth import begin_cycle_counts, is_beyond_tries, may_reserve
from emulator.schedulers.slurm.limits import (
    count_job,
    count_running,
    is_over_limit_of_jobs,
    is_over_limit_of_nodes,
)
from emulator.schedulers.slurm.node_choice import keep_first_sets, pick, pick_shared
from emulator.schedulers.slurm.node_sharing import (
    count_room,
    free_then,
    has_room_now,
    last_end,
    list_running,
)
from emulator.schedulers.slurm.nodes import start_picked
from emulator.schedulers.slurm.preemption import changes_with_time, is_cleaning, mark_leavers, may_preempt
from emulator.schedulers.slurm.preemption_sharing import make_others_leave
from emulator.schedulers.slurm.reservation_masks import close_reserved, is_kept, may_run
from emulator.schedulers.slurm.tables import SECOND

if TYPE_CHECKING:
    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Jobs, Nodes, State
    from emulator.schedulers.slurm.tables import Bytes, SeenNode, Slot, Twin, TwinRegisters


@inner
def look_at_nodes(job: Jobs, node: Nodes, nodes: Rows[SeenNode], now: int) -> None:
    """When each node is free again by the limits of what runs; one past its limit soon, one out of the pool never."""
    for which in range(node.shape[0]):
        row = node[which].job
        nodes[which].holder = row
        if node[which].offline:
            nodes[which].free_at_us = NEVER
        elif row < 0:
            nodes[which].free_at_us = now
        else:
            nodes[which].free_at_us = max(job[row].expected_end_us, now + SECOND)


@inner
def sort_nodes(nodes: Rows[SeenNode]) -> None:
    """Put `ORDER` in order of (when, job, node): little changes between two cycles."""
    for k in range(1, nodes.shape[0]):
        which = nodes[k].order
        when = nodes[which].free_at_us
        place = k
        while place > 0:
            other = nodes[place - 1].order
            if nodes[other].free_at_us < when or (
                nodes[other].free_at_us == when
                and (nodes[other].holder, other) < (nodes[which].holder, which)
            ):
                break
            nodes[place].order = other
            place -= 1
        nodes[place].order = which


@inner
def slot_from(twin_registers: TwinRegisters, slots: Rows[Slot], kept: Bytes, at: int) -> int:
    """The slot that begins at `at`, made if there is none. `at` is not before the first."""
    place: int = twin_registers.slots_n
    while slots[place - 1].at_us > at:
        place -= 1
    if slots[place - 1].at_us == at:
        return place - 1
    count = twin_registers.slots_n
    for k in range(count, place, -1):
        slots[k].at_us = slots[k - 1].at_us
        slots[k].row = slots[k - 1].row
    slots[place].at_us = at
    slots[place].row = count
    before = slots[place - 1].row
    for which in range(kept.shape[1]):
        kept[count, which] = kept[before, which]
    twin_registers.slots_n = count + 1
    return place


@inner
def begin_plan(twin: Twin, now: int) -> None:
    """A slot in which nothing is reserved for a waiting job: from now on."""
    twin_registers, slots, kept = twin.registers, twin.slots, twin.kept
    slots[0].at_us = now
    slots[0].row = 0
    twin_registers.slots_n = 1
    for which in range(kept.shape[1]):
        kept[0, which] = 1


@inner
def free_by_ends(state: State, twin: Twin, row: int, now: int) -> int:
    """When enough nodes of the first mask are free, NEVER if they never are; those are marked in the second.

    If the idle ones are not enough, all whom the job may preempt are taken away; then what runs, one job after the
    other, in order of their ends, until enough is free: what ends at the same time as the last one counts as running
    still.
    """
    nodes, job_ext, preempts = twin.nodes, twin.job_ext, twin.registers.preempts
    needed = job_ext[row].nodes
    for which in range(nodes.shape[0]):
        twin.second_mask[which] = 0
    found = 0
    at: int = now
    holder: int = -1
    looked = False
    for k in range(nodes.shape[0]):
        which = nodes[k].order
        when = nodes[which].free_at_us
        if when > now and (when > at or nodes[which].holder != holder):
            if found >= needed:
                break
            if preempts and not looked:
                looked = True
                found += take_preemptable(state, twin, row, now)
                if found >= needed:
                    break
            if when == NEVER:
                return NEVER
        if looked and twin.second_mask[which]:  # taken already
            continue
        at = max(at, when)
        holder = nodes[which].holder
        found += twin.first_mask[which]
        twin.second_mask[which] = twin.first_mask[which]
    if found < needed:
        return NEVER
    if at == now and not looked:  # it starts, as in the main loop
        keep_first_sets(twin, needed)
    return at


@inner
def take_preemptable(state: State, twin: Twin, row: int, now: int) -> int:
    """Mark the nodes of the first mask whose job may be preempted in the second. Returns how many."""
    nodes, count = twin.nodes, 0
    for which in range(nodes.shape[0]):
        holder = nodes[which].holder
        is_there = twin.first_mask[which] and holder >= 0 and nodes[which].free_at_us != NEVER
        if is_there and may_preempt(state, twin, row, holder, now):
            twin.second_mask[which] = 1
            count += 1
    return count


@inner
def block_end(twin_registers: TwinRegisters, end: int) -> int:
    """When the last block of a plan that ends then is over: before the block it ends in, since 24.11 with it."""
    block: int = twin_registers.resolution_us
    if twin_registers.since_24_11:
        end += block - 1
    return end // block * block


@inner
def is_reserved(twin: Twin, needed: int, begin: int, end: int, now: int) -> bool:
    """Whether one of the picked nodes is reserved in the blocks of a time."""
    twin_registers, nodes, slots, kept = twin.registers, twin.nodes, twin.slots, twin.kept
    first = max(begin // twin_registers.resolution_us * twin_registers.resolution_us, now)
    last = block_end(twin_registers, end)
    for slot in range(twin_registers.slots_n if last > first else 0):
        if slots[slot].at_us < last and (slot + 1 == twin_registers.slots_n or slots[slot + 1].at_us > first):
            for k in range(needed):
                if not kept[slots[slot].row, nodes[k].chosen]:
                    return True
    return False


@inner
def opens(twin: Twin, slot: int) -> bool:
    """Whether the slot after this one has a node of the second mask that this one, or those before it, do not."""
    slots, kept = twin.slots, twin.kept
    row, after = slots[slot].row, slots[slot + 1].row
    for which in range(kept.shape[1]):
        if (
            twin.second_mask[which]
            and kept[after, which]
            and not (twin.first_mask[which] and kept[row, which])
        ):
            return True
    return False


@inner
def look_at_plan(twin: Twin, row: int, first: int, tried: int, limit: int) -> int:
    """Mark the nodes that a job may be planned on from `tried`, in slot `first`, on. Returns when to try next.

    Nobody has reserved them from then until its limit has passed. The next try is at the first slot that has more
    nodes; since 24.11, if there is none among those that begin by the end of the job, after the next of them.
    """
    parts, slots, kept = twin.parts, twin.slots, twin.kept
    is_new = twin.registers.since_24_11 != 0
    parts_row = twin.job_ext[row].parts_row
    for which in range(kept.shape[1]):
        twin.first_mask[which] = parts[parts_row, which]
    close_reserved(twin, row, tried, tried + limit, twin.first_mask)
    for which in range(kept.shape[1]):
        twin.second_mask[which] = twin.first_mask[which]
    last = twin.registers.slots_n - 1
    later: int = NEVER
    for slot in range(first, last + 1):
        if later == NEVER and slot < last and opens(twin, slot):
            later = slots[slot + 1].at_us
        if slots[slot].at_us > tried + limit:
            if is_new and later == NEVER and slot + 1 < last:
                later = slots[slot + 2].at_us
            break
        mask_row = slots[slot].row
        for which in range(kept.shape[1]):
            twin.first_mask[which] &= kept[mask_row, which]
    return min(later, reservation_end(twin, row, tried, limit))


@inner
def reservation_end(twin: Twin, row: int, tried: int, limit: int) -> int:
    """When to try again because of advance reservations, NEVER if none touches the job's time: after the next end."""
    times, block = twin.times, twin.registers.resolution_us
    touches = False
    end: int = NEVER
    for which in range(times.shape[0]):
        is_other = which != twin.job_ext[row].reservation
        touches = touches or (
            is_other and times[which].begin_us < tried + limit and tried < times[which].end_us
        )
        if times[which].end_us >= tried:
            end = min(end, (times[which].end_us + block - 1) // block * block + SECOND)
    return end if touches else NEVER


@inner
def pick_then(state: State, twin: Twin, row: int, now: int, free_at: int) -> int:
    """Pick the nodes of a job that are free then. Returns when: since 26.05 only who leaves shared ones counts."""
    if not twin.registers.shares:
        pick(twin.second_mask, twin.nodes, 0, twin.job_ext[row].nodes)
        return free_at
    pick_shared(twin, row)
    is_by_its_own = twin.registers.since_26_05 != 0 and free_at > now
    return last_end(state, twin, row, now) if is_by_its_own else free_at


@inner
def earliest(state: State, twin: Twin, row: int, now: int) -> int:
    """When a job can start by the plan, with its nodes picked; NEVER if not in the window.

    It is tried now and at later times, on nodes that nobody has reserved from then until its limit has passed. What it
    gets may begin later than that: then the next try is where more nodes are open before that begin, and at it if they
    are not free for the job then, too. Since 24.11 the second comes first.
    """
    needed, limit = twin.job_ext[row].nodes, state.job[row].estimate_us
    twin_registers, slots = twin.registers, twin.slots
    if twin_registers.shares and twin_registers.preempts:
        mark_leavers(state, twin, row, now)
    is_new = twin_registers.since_24_11 != 0
    tried: int = now
    if twin.job_ext[row].reservation >= 0:
        tried = max(now, twin.times[twin.job_ext[row].reservation].begin_us)
    slot = 0
    while tried != NEVER and tried - now <= twin_registers.window_us:
        while slot + 1 < twin_registers.slots_n and slots[slot + 1].at_us <= tried:
            slot += 1
        later = look_at_plan(twin, row, slot, tried, limit)
        shares = twin_registers.shares != 0
        free_at = (
            free_then(state, twin, row, now, tried, later) if shares else free_by_ends(state, twin, row, now)
        )
        begin = max(free_at, tried)
        if free_at == NEVER or not may_run(twin, row, begin, begin + limit) or (begin > later and not is_new):
            tried = later
            continue
        free_at = pick_then(state, twin, row, now, free_at)
        if free_at < tried:
            twin_registers.fills_go_on = 1
        begin = max(free_at, tried)
        is_late = begin - now > twin_registers.window_us
        if begin == now:
            return begin
        if is_reserved(twin, needed, begin, begin + limit, now) or is_kept(
            twin, row, needed, begin, begin + limit
        ):
            tried = begin if begin > tried else tried + twin_registers.resolution_us
        elif is_new and begin > later:
            tried = later
        elif is_late:
            twin_registers.opens_us = min(twin_registers.opens_us, begin - twin_registers.window_us)
            return NEVER
        else:
            return begin
    if tried != NEVER:
        twin_registers.opens_us = min(twin_registers.opens_us, tried - twin_registers.window_us)
    return NEVER


@inner
def reserve(twin: Twin, needed: int, begin: int, end: int, now: int) -> None:
    """Take the picked nodes out of the plan, for whole blocks of time."""
    twin_registers, nodes, slots, kept = twin.registers, twin.nodes, twin.slots, twin.kept
    block = twin_registers.resolution_us
    first = slot_from(twin_registers, slots, kept, max(begin // block * block, now))
    last = slot_from(twin_registers, slots, kept, max(block_end(twin_registers, end), now))
    for slot in range(first, last):
        row = slots[slot].row
        for k in range(needed):
            kept[row, nodes[k].chosen] = 0
    for k in range(needed):
        twin.planned[nodes[k].chosen] = 1
    if twin_registers.since_24_11:
        twin_registers.fills_go_on = 1


@inner
def look_at_running(state: State, twin: Twin, now: int) -> None:
    """What is free now, and what runs, in order of ends."""
    job, node = state.job, state.node
    nodes = twin.nodes
    if twin.registers.shares:
        count_room(state, twin)
        list_running(state, twin, now)
        return
    look_at_nodes(job, node, nodes, now)
    sort_nodes(nodes)


@inner
def note_start(state: State, twin: Twin, row: int, now: int) -> None:
    """A job has just been started on the picked nodes."""
    nodes = twin.nodes
    if twin.registers.shares:
        list_running(state, twin, now)
        return
    for taken in range(twin.job_ext[row].nodes):
        nodes[nodes[taken].chosen].free_at_us = now + state.job[row].estimate_us
        nodes[nodes[taken].chosen].holder = row
    sort_nodes(nodes)


@inner
def after_others(state: State, twin: Twin, row: int, now: int) -> int:
    """When a job can start on the nodes that were picked for now: in a second if one of them has just been left.

    NEVER, where others run there: they are made to leave, and the nodes are reserved; the main loop starts the job.
    """
    node, nodes = state.node, twin.nodes
    needed = twin.job_ext[row].nodes
    is_busy, shares = False, twin.registers.shares != 0
    for k in range(needed):
        which = nodes[k].chosen
        is_taken = not has_room_now(twin, row, which) if shares else node[which].job >= 0
        if not is_taken and nodes[which].cleaned_us > now:
            return now + SECOND
        is_busy = is_busy or is_taken
    if not is_busy:
        return now
    for which in range(twin.room.shape[0]):
        twin.open_mask[which] = twin.first_mask[which] and node[twin.room[which].first_core].offline == 0
    if may_reserve(twin, row):
        reserve(twin, needed, now, now + state.job[row].estimate_us, now)
    make_others_leave(state, twin, row, now)
    again_us = twin.job_ext[row].preempted_us + twin.registers.preempt_again_us
    twin.registers.opens_us = min(twin.registers.opens_us, again_us)
    look_at_running(state, twin, now)
    return NEVER


@inner
def is_planned_idle(state: State, twin: Twin) -> bool:
    """Whether nobody runs on one of the nodes that the cycle has planned for jobs that wait."""
    node, room = state.node, twin.room
    for which in range(room.shape[0]):
        is_idle = twin.planned[which] != 0
        for core in range(room[which].first_core, room[which].first_core + room[which].cores):
            is_idle = is_idle and node[core].job < 0
        if is_idle:
            return True
    return False


@inner
def begin_cycle(state: State, twin: Twin, now: int) -> int:
    """An empty plan, and in `spare` the least nodes that a job from each place on wants. Returns how many wait."""
    job, node, queue, registers = state.job, state.node, state.queue, state.registers
    twin_registers, narrowest = twin.registers, twin.spare
    twin_registers.fill_at_us = NEVER
    twin_registers.last_fill_us = now
    twin_registers.fills_go_on = 0
    twin_registers.opens_us = twin_registers.again_at_us = NEVER
    for which in range(twin.planned.shape[0]):
        twin.planned[which] = 0
    begin_cycle_counts(twin)
    count_running(state, twin)
    waiting: int = registers.queue_hi - registers.queue_lo
    # Who preempts needs no idle nodes.
    narrowest[waiting] = 0 if twin_registers.preempts else node.shape[0] + 1
    for k in range(waiting - 1, -1, -1):
        narrowest[k] = min(narrowest[k + 1], job[queue[registers.queue_lo + k]].nodes)
    look_at_running(state, twin, now)
    begin_plan(twin, now)
    return waiting


@inner
def keep_nodes(state: State, twin: Twin, row: int, begin: int, now: int) -> None:
    """Reserve a job's nodes for later, if it is old enough."""
    twin_registers, job_ext = twin.registers, twin.job_ext
    old_at = job_ext[row].eligible_us + twin_registers.min_age_us
    if now >= old_at:
        if not may_reserve(twin, row):
            return
        reserve(twin, job_ext[row].nodes, begin, begin + state.job[row].estimate_us, now)
    else:
        twin_registers.opens_us = min(twin_registers.opens_us, old_at)


@inner
def end_cycle(state: State, twin: Twin, now: int) -> None:
    """Whether other cycles follow this one, and which of them finds something new though nothing happens."""
    twin_registers = twin.registers
    if is_planned_idle(state, twin):
        twin_registers.fills_go_on = 1
    others_come = goes_on(state.job, state.registers, twin_registers)
    twin_registers.fills_bring_passes = others_come and twin_registers.fills_go_on
    if twin_registers.preempts and others_come:
        finds_more = changes_with_time(state, twin, now) or is_cleaning(twin, now)
        twin_registers.opens_us = now + 1 if finds_more else twin_registers.opens_us
    note_cycle_that_finds(twin_registers, twin_registers.opens_us)


@inner
def fill(state: State, twin: Twin, now: int) -> None:
    """Plan the waiting jobs in queue order and start those whose plan says now."""
    job, queue, registers = state.job, state.queue, state.registers
    twin_registers, narrowest = twin.registers, twin.spare
    waiting = begin_cycle(state, twin, now)
    tested = started = 0
    place = registers.queue_lo
    for k in range(waiting):
        if tested == twin_registers.max_test or (started and started == twin_registers.fill_starts):
            break
        if twin_registers.fills_go_on and registers.idle_nodes < narrowest[k]:
            break  # nobody further back can start now, and plans are not kept
        row = queue[place]
        if is_over_limit_of_jobs(job, twin, row) or is_beyond_tries(twin, row):
            place += 1
            continue
        tested += 1
        if is_over_limit_of_nodes(job, twin, row):
            place += 1
            continue
        begin = earliest(state, twin, row, now)
        if begin == now and twin_registers.preempts:
            begin = after_others(state, twin, row, now)
        if begin == now:
            place = queue_remove_at(queue, registers, place)
            start_picked(state, twin, row, now)
            count_job(job, twin, row)
            note_start(state, twin, row, now)
            started += 1
            continue
        if begin != NEVER:
            keep_nodes(state, twin, row, begin, now)
        place += 1
    end_cycle(state, twin, now)
