"""Preemption where jobs share nodes, compiled. The rules: `docs/slurm-twin.md`.

The slow truth: `tests/oracle/slurm_sharing_preemption.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inner
from emulator.schedulers.slurm.limits import count_running
from emulator.schedulers.slurm.node_choice import pick_shared
from emulator.schedulers.slurm.node_sharing import (
    begin_then,
    count_room,
    has_then,
    is_on,
    leave_then,
    mark_chosen,
)
from emulator.schedulers.slurm.preemption import (
    list_candidates,
    open_nodes_of,
    preempt,
    put_last_first,
    tell_to_leave,
)

if TYPE_CHECKING:
    from emulator.kernel.tables import State
    from emulator.schedulers.slurm.tables import Twin

_MOST_ORDERS = 3
"""So many orders of the candidates are tried (slurm.conf, `preempt_reorder_count`: 1 by default)."""


@inner
def make_others_leave(state: State, twin: Twin, row: int, now: int) -> bool:
    """Make running jobs leave nodes of `open_mask` for a job, if that is enough. Returns whether it is."""
    if twin.registers.shares:
        return preempt_sharing(state, twin, row, now)
    return preempt(state, twin, row, now)


@inner
def preempt_sharing(state: State, twin: Twin, row: int, now: int) -> bool:
    """The same as `preempt` for cores, memory and GPUs: jobs leave until there is room.

    They are taken in their order, which is made anew after each of the first tries: the last one that was taken comes
    first, the others by how many of the nodes that the job would get they have.
    """
    job_ext, candidates = twin.job_ext, twin.candidates
    count_room(state, twin)
    for which in range(twin.open_mask.shape[0]):
        twin.open_mask[which] = twin.open_mask[which] and twin.nodes[which].cleaned_us <= now
    listed = list_candidates(state, twin, row, now)
    taken = take_for(state, twin, row, listed)
    if taken == 0:
        return False
    orders = 1
    while orders < _MOST_ORDERS and orders < listed:
        for k in range(taken):
            candidates[k].usable = open_nodes_of(state, twin, candidates[k].row, twin.second_mask)
        put_last_first(candidates, taken)
        taken = take_for(state, twin, row, listed)
        orders += 1
    if job_ext[row].preempted_us > now - twin.registers.preempt_again_us:
        return True
    for k in range(taken):
        if open_nodes_of(state, twin, candidates[k].row, twin.second_mask):
            tell_to_leave(state, twin, candidates[k].row, now)
    job_ext[row].preempted_us = now
    count_running(state, twin)
    count_room(state, twin)
    return True


@inner
def take_for(state: State, twin: Twin, row: int, listed: int) -> int:
    """How many of the candidates, from the first on, have to leave; 0 if all are not enough.

    The nodes that the job then gets are picked, and marked in the second mask.
    """
    begin_then(twin)
    for k in range(listed):
        other = twin.candidates[k].row
        if is_on(state, twin, other, twin.open_mask):
            leave_then(state, twin, other)
            if has_then(twin, row, twin.open_mask):
                pick_shared(twin, row)
                mark_chosen(twin, row)
                return k + 1
    return 0
