"""Which nodes a job may have now, and its start on the chosen ones, compiled. The rules: `docs/slurm-twin.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inlined, inner
from emulator.kernel.occupancy import start_chosen
from emulator.kernel.structures import free_move, heap_push, heap_remove
from emulator.schedulers.slurm.cycles import note_change
from emulator.schedulers.slurm.node_choice import keep_first_sets, pick, pick_shared
from emulator.schedulers.slurm.node_sharing import choose_cores, shared_room
from emulator.schedulers.slurm.reservation_masks import close_reserved
from emulator.schedulers.slurm.tables import CHECK_EVERY

if TYPE_CHECKING:
    from emulator.kernel.tables import State
    from emulator.schedulers.slurm.tables import Twin


@inlined
def is_open(state: State, twin: Twin, row: int, which: int) -> bool:
    """Whether a node of a job's partition is up and not kept from it, whoever runs there.

    The first mask has those that the main loop keeps for others but not from who asks for an advance reservation.
    """
    asks = twin.job_ext[row].reservation >= 0
    is_its = twin.parts[twin.job_ext[row].parts_row, which] and (asks or not twin.first_mask[which])
    return bool(is_its and state.node[twin.room[which].first_core].offline == 0)


@inner
def idle_for(state: State, twin: Twin, row: int, now: int) -> int:
    """Mark the idle nodes among those that are open to a job in the second mask. Returns how many."""
    node, nodes = state.node, twin.nodes
    count = 0
    for which in range(node.shape[0]):
        is_idle = node[which].job < 0 and is_open(state, twin, row, which) and nodes[which].cleaned_us <= now
        twin.second_mask[which] = is_idle
        count += is_idle
    if twin.times.shape[0]:
        close_reserved(twin, row, now, now + state.job[row].estimate_us, twin.second_mask)
        count = 0
        for which in range(node.shape[0]):
            count += twin.second_mask[which]
    return count


@inner
def open_for(state: State, twin: Twin, row: int, now: int) -> None:
    """Mark the nodes that are open to a job in the open mask."""
    for which in range(twin.room.shape[0]):
        twin.open_mask[which] = is_open(state, twin, row, which)
    if twin.times.shape[0]:
        close_reserved(twin, row, now, now + state.job[row].estimate_us, twin.open_mask)


@inner
def place_now(state: State, twin: Twin, row: int, now: int) -> bool:
    """Pick a job's nodes among those that it may have now. Returns whether there are enough."""
    job, registers = state.job, state.registers
    needed = job[row].nodes
    if needed > registers.idle_nodes:
        return False
    if twin.registers.shares:
        if not shared_room(state, twin, row, now):
            return False
        pick_shared(twin, row)
        return True
    if idle_for(state, twin, row, now) < needed:
        return False
    keep_first_sets(twin, needed)
    pick(twin.second_mask, twin.nodes, 0, needed)
    return True


@inlined
def next_check(at: int) -> int:
    """When limits are looked at next, or then."""
    return (at + CHECK_EVERY - 1) // CHECK_EVERY * CHECK_EVERY


@inner
def start_picked(state: State, twin: Twin, row: int, now: int) -> None:
    """Start a job, which is out of the queue, on the nodes that were picked: they go to the top of the free stack."""
    job, node, free, heap = state.job, state.node, state.free, state.heap
    started, registers = state.started, state.registers
    twin_registers, nodes = twin.registers, twin.nodes
    needed = job[row].nodes
    base = registers.idle_nodes - needed
    shares = twin_registers.shares != 0
    if shares:
        choose_cores(state, twin, row)
    for k in range(needed):
        which = twin.cores[k] if shares else nodes[k].chosen
        free_move(node, free, which, base + k)
    first = registers.started_n
    started[first] = row
    registers.started_n = first + 1
    start_chosen(state, first, first + 1, now)
    killed_at = next_check(now + job[row].estimate_us + twin_registers.over_us)
    if registers.simulated and killed_at < now + job[row].run_us:
        heap_remove(heap, registers, row)
        heap_push(heap, registers, killed_at, row)
    note_change(twin_registers, now)
