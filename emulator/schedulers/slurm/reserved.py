"""Whether an advance reservation lets a job have a node, compiled. The rules: `docs/slurm-twin.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import inner
from emulator.harness.tables import NEVER
from emulator.schedulers.slurm.tables import CHOSEN, END_, PARTITION, PER_NODE, RESERVATION, START_, WIDTH

if TYPE_CHECKING:
    from emulator.harness.tables import State
    from emulator.schedulers.slurm.tables import Twin


@inner
def may_run(twin: Twin, who: int, begin: int, end: int) -> bool:
    """Whether the job's own reservation has begun and is not over, if it has one."""
    times = twin[15][2]
    own = twin[1][who, RESERVATION]
    return bool(own < 0 or (times[own, START_] <= begin and end <= times[own, END_]))


@inner
def close_reserved(twin: Twin, who: int, begin: int, end: int, row: int) -> None:
    """Take from a row of masks the nodes that are kept for others in a time, and those that its own does not have."""
    times, held = twin[15][2], twin[15][3]
    masks = twin[7]
    own = twin[1][who, RESERVATION]
    for which in range(times.shape[0]):
        if which == own:
            for node in range(held.shape[1]):
                masks[row, node] &= held[which, node]
        elif times[which, START_] < end and begin < times[which, END_]:
            for node in range(held.shape[1]):
                if held[which, node]:
                    masks[row, node] = 0


@inner
def is_kept(twin: Twin, who: int, needed: int, begin: int, end: int) -> bool:
    """Whether one of the picked nodes is kept for others in a time."""
    times, held = twin[15][2], twin[15][3]
    nodes = twin[4]
    for which in range(times.shape[0]):
        if which != twin[1][who, RESERVATION] and times[which, START_] < end and begin < times[which, END_]:
            for k in range(needed):
                if held[which, nodes[k, CHOSEN]]:
                    return True
    return False


@inner
def is_kept_out(state: State, twin: Twin, who: int, now: int) -> bool:
    """Whether a job has too few nodes because of reservations alone: nobody runs on those that they leave to it.

    Nor because too few are up at all. The first mask has the nodes that the main loop keeps for others.
    """
    if twin[15][2].shape[0] == 0:
        return False
    job, node = state.job, state.node
    own, parts, masks = twin[0], twin[3], twin[7]
    partition = twin[1][who, PARTITION]
    for which in range(parts.shape[1]):
        masks[1, which] = parts[partition, which]
    close_reserved(twin, who, now, now + job[who].estimate_us, 1)
    fewer = 0
    up = 0
    for which in range(parts.shape[1]):
        fewer += parts[partition, which] - masks[1, which]
        up += parts[partition, which] and node[which * own[PER_NODE]].offline == 0
        if masks[1, which]:
            is_taken = masks[0, which] != 0
            for place in range(which * own[PER_NODE], (which + 1) * own[PER_NODE]):
                is_taken = is_taken or node[place].job >= 0
            if is_taken:
                return False
    return bool(fewer > 0 and up >= twin[1][who, WIDTH])


@inner
def next_boundary(twin: Twin, now: int) -> int:
    """When a reservation next begins or ends, NEVER if none does."""
    times = twin[15][2]
    at: int = NEVER
    for which in range(times.shape[0]):
        for column in (START_, END_):
            if now < times[which, column] < at:
                at = times[which, column]
    return at


@inner
def is_boundary(twin: Twin, now: int) -> bool:
    """Whether a reservation begins or ends now."""
    return next_boundary(twin, now - 1) == now
