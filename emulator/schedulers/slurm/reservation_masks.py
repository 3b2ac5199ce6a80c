"""Whether an advance reservation lets a job have a node, compiled. The rules: `docs/slurm-twin.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner
from emulator.kernel.tables import NEVER

if TYPE_CHECKING:
    from emulator.kernel.tables import State
    from emulator.schedulers.slurm.tables import Bytes, Twin


@inner
def may_run(twin: Twin, row: int, begin: int, end: int) -> bool:
    """Whether the job's own reservation has begun and is not over, if it has one."""
    times = twin.times
    own = twin.job_ext[row].reservation
    return bool(own < 0 or (times[own].begin_us <= begin and end <= times[own].end_us))


@inner
def close_reserved(twin: Twin, row: int, begin: int, end: int, mask: Bytes) -> None:
    """Take from a mask the nodes that are kept for others in a time, and those that its own does not have."""
    times, held = twin.times, twin.held
    own = twin.job_ext[row].reservation
    for which in range(times.shape[0]):
        if which == own:
            for node in range(held.shape[1]):
                mask[node] &= held[which, node]
        elif times[which].begin_us < end and begin < times[which].end_us:
            for node in range(held.shape[1]):
                if held[which, node]:
                    mask[node] = 0


@inner
def is_kept(twin: Twin, row: int, needed: int, begin: int, end: int) -> bool:
    """Whether one of the picked nodes is kept for others in a time."""
    times, held = twin.times, twin.held
    nodes = twin.nodes
    for which in range(times.shape[0]):
        if (
            which != twin.job_ext[row].reservation
            and times[which].begin_us < end
            and begin < times[which].end_us
        ):
            for k in range(needed):
                if held[which, nodes[k].chosen]:
                    return True
    return False


@inner
def is_kept_out(state: State, twin: Twin, row: int, now: int) -> bool:
    """Whether a job has too few nodes because of reservations alone: nobody runs on those that they leave to it.

    Nor because too few are up at all. The first mask has the nodes that the main loop keeps for others.
    """
    if twin.times.shape[0] == 0:
        return False
    job, node = state.job, state.node
    room, parts = twin.room, twin.parts
    parts_row = twin.job_ext[row].parts_row
    for which in range(parts.shape[1]):
        twin.second_mask[which] = parts[parts_row, which]
    close_reserved(twin, row, now, now + job[row].estimate_us, twin.second_mask)
    fewer = 0
    up = 0
    for which in range(parts.shape[1]):
        fewer += parts[parts_row, which] - twin.second_mask[which]
        up += parts[parts_row, which] and node[room[which].first_core].offline == 0
        if twin.second_mask[which]:
            is_taken = twin.first_mask[which] != 0
            for core in range(room[which].first_core, room[which].first_core + room[which].cores):
                is_taken = is_taken or node[core].job >= 0
            if is_taken:
                return False
    return bool(fewer > 0 and up >= twin.job_ext[row].nodes)


@inner
def next_boundary(twin: Twin, now: int) -> int:
    """When a reservation next begins or ends, NEVER if none does."""
    times = twin.times
    at: int = NEVER
    for which in range(times.shape[0]):
        for edge in (times[which].begin_us, times[which].end_us):
            if now < edge < at:
                at = edge
    return at


@inner
def is_boundary(twin: Twin, now: int) -> bool:
    """Whether a reservation begins or ends now."""
    return next_boundary(twin, now - 1) == now
