"""Backfilling beside a head that is pinned to named nodes, as in the authors' program; one job a core. Compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled
from emulator.kernel.structures import queue_remove_at
from emulator.mechanisms.oversubscribe.places import enough_open, occupy
from emulator.mechanisms.oversubscribe.plan import planned_start
from emulator.mechanisms.oversubscribe.starts import book
from emulator.mechanisms.oversubscribe.tables import ONLY_SLOT

if TYPE_CHECKING:
    from emulator.mechanisms.oversubscribe.tables import State


@compiled
def pin_head(state: State, head: int, at: int) -> None:
    """Choose the head's nodes for its start: those with the most free cores then, the lower number first."""
    job, node, slot_job, core_registers = state.job, state.node, state.slot_job, state.core_registers
    for n in range(node.open.shape[0]):
        then = 0
        for u in range(core_registers.node_cores):
            other = slot_job[n, u, ONLY_SLOT]
            then += other < 0 or job[other].expected_end_us <= at
        node.then[n] = then
        node.is_pinned[n] = 0
    wanted = job[head].nodes
    for level in range(core_registers.node_cores, job[head].cores - 1, -1):
        for n in range(node.open.shape[0]):
            if wanted > 0 and node.then[n] == level:
                node.is_pinned[n] = 1
                wanted -= 1


@compiled
def choose_beside(state: State, row: int, head_cores: int, crosses: bool) -> bool:
    """Nodes with the most free cores over the job's whole span, the lower number first; False if there are too few."""
    job, node, chosen, scratch, core_registers = (
        state.job,
        state.node,
        state.chosen,
        state.scratch,
        state.core_registers,
    )
    if not enough_open(state, row):
        return False
    wanted = job[row].nodes
    free = scratch.of_nodes
    good = 0
    for n in range(node.open.shape[0]):
        free[n] = node.open[n]
        if crosses and node.is_pinned[n]:
            free[n] = min(free[n], node.then[n] - head_cores)
        good += free[n] >= job[row].cores
    if good < wanted:
        return False
    found = 0
    for level in range(core_registers.node_cores, job[row].cores - 1, -1):
        for n in range(node.open.shape[0]):
            if found < wanted and free[n] == level:
                chosen[found] = n
                found += 1
    core_registers.chosen_n = found
    return True


@compiled
def backfill_beside(state: State, now: int) -> None:
    """Start, in queue order, whoever fits beside the head on its nodes, or is over before it starts there."""
    job, node, queue, chosen, open_nodes = state.job, state.node, state.queue, state.chosen, state.open_nodes
    registers = state.registers
    core_registers = state.core_registers
    head = queue[registers.queue_lo]
    at = planned_start(state, head, now)
    pin_head(state, head, at)
    place = registers.queue_lo + 1
    while place < registers.queue_hi and open_nodes[0] < node.open.shape[0]:
        row = queue[place]
        crosses = now + job[row].estimate_us > at
        if choose_beside(state, row, job[head].cores, crosses):
            occupy(state, row, now)
            book(state, row, now)
            if crosses:
                for k in range(core_registers.chosen_n):
                    node.then[chosen[k]] -= job[row].cores
            place = queue_remove_at(queue, registers, place)
        else:
            place += 1
