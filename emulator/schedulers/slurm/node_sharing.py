"""Jobs that share nodes by cores, memory and GPUs (`select/cons_tres`), compiled. The rules: `docs/slurm-twin.md`.

To the harness a core is what a node is elsewhere: a job has cores to itself, those of a node are neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inlined, inner
from emulator.kernel.job_states import JobState
from emulator.kernel.tables import NEVER
from emulator.schedulers.slurm.reservation_masks import close_reserved
from emulator.schedulers.slurm.tables import SECOND

if TYPE_CHECKING:
    from emulator.kernel.tables import Jobs, State
    from emulator.schedulers.slurm.tables import Bytes, Twin

FIRST_LOOK = 30 * SECOND
"""Ends so long after the first, which is rounded up to a multiple of it, are looked at together, then twice as long
each time (slurm.conf, `bf_window_linear`)."""


@inner
def count_room(state: State, twin: Twin) -> None:
    """What each node has left now."""
    job, node, runs, log = state.job, state.node, state.runs, state.log
    job_ext, room = twin.job_ext, twin.room
    for which in range(room.shape[0]):
        room[which].cores_now = room[which].cores
        room[which].memory_now_mib = room[which].memory_mib
        room[which].gpus_now = room[which].gpus
    for core in range(node.shape[0]):
        row = node[core].job
        if row >= 0:
            which = twin.node_of_core[core]
            room[which].cores_now -= 1
            if core == room[which].first_core or node[core - 1].job != row:
                first = runs[job[row].run_row].first
                for k in range(first, first + job[row].nodes, job_ext[row].cores):
                    if log[k] == core:  # its first core of this node
                        room[which].memory_now_mib -= job_ext[row].memory_mib
                        room[which].gpus_now -= job_ext[row].gpus


@inner
def ends_at(job: Jobs, row: int, now: int) -> int:
    """When a running job should end; one past its limit soon."""
    at: int = max(job[row].expected_end_us, now + SECOND)
    return at


@inner
def list_running(state: State, twin: Twin, now: int) -> None:
    """What runs, in order of ends by the limits, then of submits: little changes between two cycles."""
    job, node = state.job, state.node
    twin_registers, job_ext = twin.registers, twin.job_ext
    running = twin.running
    count = 0
    for k in range(twin_registers.running_n):
        row = running[k]
        if job[row].state == JobState.RUNNING:
            running[count] = row
            count += 1
        else:
            job_ext[row].is_listed = 0
    for core in range(node.shape[0]):
        row = node[core].job
        if row >= 0 and not job_ext[row].is_listed:
            job_ext[row].is_listed = 1
            running[count] = row
            count += 1
    for k in range(1, count):
        row = running[k]
        at = ends_at(job, row, now)
        place = k
        while place > 0:
            other = running[place - 1]
            if (ends_at(job, other, now), other) < (at, row):
                break
            running[place] = other
            place -= 1
        running[place] = row
    twin_registers.running_n = count


@inlined
def has_room_now(twin: Twin, row: int, which: int) -> bool:
    """Whether a node has enough left for a job now."""
    job_ext, room = twin.job_ext, twin.room
    return bool(
        room[which].cores_now >= job_ext[row].cores
        and room[which].memory_now_mib >= job_ext[row].memory_mib
        and room[which].gpus_now >= job_ext[row].gpus
    )


@inner
def shared_room(state: State, twin: Twin, row: int, now: int) -> bool:
    """Mark the nodes that have room for a job now in the second mask. Returns whether they are enough.

    The first mask has those that the main loop keeps for others but not from who asks for an advance reservation.
    """
    job = state.job
    job_ext, parts = twin.job_ext, twin.parts
    room = twin.room
    parts_row = job_ext[row].parts_row
    for which in range(room.shape[0]):
        twin.second_mask[which] = (
            parts[parts_row, which]
            and twin.nodes[which].cleaned_us <= now
            and (job_ext[row].reservation >= 0 or not twin.first_mask[which])
            and has_room_now(twin, row, which)
        )
        room[which].cores_then = room[which].cores_now
    close_reserved(twin, row, now, now + job[row].estimate_us, twin.second_mask)
    count = 0
    for which in range(room.shape[0]):
        count += twin.second_mask[which]
    return bool(count >= job_ext[row].nodes)


@inner
def begin_then(twin: Twin) -> None:
    """At the time that is looked at each node has left what it has now."""
    room = twin.room
    for which in range(room.shape[0]):
        room[which].cores_then = room[which].cores_now
        room[which].memory_then_mib = room[which].memory_now_mib
        room[which].gpus_then = room[which].gpus_now


@inner
def has_then(twin: Twin, row: int, allowed: Bytes) -> bool:
    """Mark those of a mask's nodes that have room for a job then in the second mask. Whether they are enough."""
    job_ext = twin.job_ext
    room = twin.room
    count = 0
    for which in range(room.shape[0]):
        twin.second_mask[which] = (
            allowed[which]
            and room[which].cores_then >= job_ext[row].cores
            and room[which].memory_then_mib >= job_ext[row].memory_mib
            and room[which].gpus_then >= job_ext[row].gpus
        )
        count += twin.second_mask[which]
    return bool(count >= job_ext[row].nodes)


@inner
def is_on(state: State, twin: Twin, row: int, mask: Bytes) -> bool:
    """Whether a running job has a node of a mask."""
    runs, log = state.runs, state.log
    first = runs[state.job[row].run_row].first
    for core in range(first, first + state.job[row].nodes, twin.job_ext[row].cores):
        if mask[twin.node_of_core[log[core]]]:
            return True
    return False


@inner
def leave_then(state: State, twin: Twin, row: int) -> None:
    """A running job has left its nodes at the time that is looked at."""
    runs, log, job_ext, room = state.runs, state.log, twin.job_ext, twin.room
    first = runs[state.job[row].run_row].first
    for core in range(first, first + state.job[row].nodes, job_ext[row].cores):
        which = twin.node_of_core[log[core]]
        room[which].cores_then += job_ext[row].cores
        room[which].memory_then_mib += job_ext[row].memory_mib
        room[which].gpus_then += job_ext[row].gpus


@inner
def has_at_once(state: State, twin: Twin, row: int, now: int, tried: int) -> bool:
    """Whether enough nodes of the first mask have room for a job before others come to their ends.

    Since 24.11 those that end before `tried` are away. Where that is not enough, all leave whom the job may preempt.
    """
    running, twin_registers, allowed = twin.running, twin.registers, twin.first_mask
    begin_then(twin)
    is_new = twin_registers.since_24_11 != 0
    k = 0
    while is_new and k < twin_registers.running_n and ends_at(state.job, running[k], now) < tried:
        leave_then(state, twin, running[k])
        k += 1
    twin_registers.away_n = k
    if not twin_registers.preempts:
        return has_then(twin, row, allowed)
    if (tried == now or not is_new) and has_then(twin, row, allowed):
        return True
    for other in running[k : twin_registers.running_n]:
        if twin.job_ext[other].may_leave:
            leave_then(state, twin, other)
    return has_then(twin, row, allowed)


@inner
def free_then(  # noqa: PLR0917 - three times
    state: State, twin: Twin, row: int, now: int, tried: int, until: int
) -> int:
    """When enough nodes of the first mask have room for a job, NEVER if not by then; they are in the second.

    What runs on them and stays until its end is taken away in order of ends, some at a time: those that end within a
    while of the first, which becomes twice as long each time. Since 24.11 none that ends after `until` is looked at.
    """
    running, twin_registers, allowed = twin.running, twin.registers, twin.first_mask
    if has_at_once(state, twin, row, now, tried):
        return now
    first_end, close = NEVER, FIRST_LOOK
    at: int = NEVER
    k, count = twin_registers.away_n, twin_registers.running_n
    while twin_registers.since_24_11 and count > k and ends_at(state.job, running[count - 1], now) > until:
        count -= 1
    k = next_that_stays(twin, k, count)
    while k < count:
        other = running[k]
        k = next_that_stays(twin, k + 1, count)
        if not is_on(state, twin, other, allowed):
            continue
        at = ends_at(state.job, other, now)
        if first_end == NEVER:
            first_end = at // FIRST_LOOK * FIRST_LOOK + FIRST_LOOK
        leave_then(state, twin, other)
        twin_registers.looked_n = k
        if k < count and ends_at(state.job, running[k], now) // SECOND * SECOND <= first_end + close:
            continue
        if has_then(twin, row, allowed):
            return at
        close *= 2
        while k < count and ends_at(state.job, running[k], now) // SECOND * SECOND > first_end + close:
            close *= 2
    return at if at != NEVER and has_then(twin, row, allowed) else NEVER


@inner
def next_that_stays(twin: Twin, k: int, count: int) -> int:
    """The first place in `running` from this one on, of so many, whose job is not preempted for the one looked at."""
    while k < count and twin.job_ext[twin.running[k]].may_leave:
        k += 1
    return k


@inner
def mark_chosen(twin: Twin, row: int) -> None:
    """Mark the nodes that were picked for a job, and no others, in the second mask."""
    for which in range(twin.second_mask.shape[0]):
        twin.second_mask[which] = 0
    for k in range(twin.job_ext[row].nodes):
        twin.second_mask[twin.nodes[k].chosen] = 1


@inner
def last_end(state: State, twin: Twin, row: int, now: int) -> int:
    """When the last of those that were taken away leaves the nodes that were picked for a job."""
    mark_chosen(twin, row)
    k = twin.registers.looked_n - 1
    while k > twin.registers.away_n and (
        twin.job_ext[twin.running[k]].may_leave or not is_on(state, twin, twin.running[k], twin.second_mask)
    ):
        k -= 1
    return ends_at(state.job, twin.running[k], now)


@inner
def choose_cores(state: State, twin: Twin, row: int) -> None:
    """Pick the first free cores of the chosen nodes, which have less room from now on."""
    node = state.node
    job_ext, nodes = twin.job_ext, twin.nodes
    room, cores = twin.room, twin.cores
    count = 0
    for k in range(job_ext[row].nodes):
        which = nodes[k].chosen
        room[which].cores_now -= job_ext[row].cores
        room[which].memory_now_mib -= job_ext[row].memory_mib
        room[which].gpus_now -= job_ext[row].gpus
        left = job_ext[row].cores
        first = room[which].first_core
        for core in range(first, first + room[which].cores):
            if left and node[core].job < 0:
                cores[count] = core
                count += 1
                left -= 1
