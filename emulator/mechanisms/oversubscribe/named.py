"""Backfilling beside a head that is pinned to named nodes, as in the authors' program; one job a core. Compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled
from emulator.harness.structures import queue_remove_at
from emulator.harness.tables import QUEUE_HI, QUEUE_LO
from emulator.mechanisms.oversubscribe.places import enough_open, occupy
from emulator.mechanisms.oversubscribe.plan import planned_start
from emulator.mechanisms.oversubscribe.starts import book
from emulator.mechanisms.oversubscribe.tables import (
    CHOSEN_N,
    IS_PINNED,
    NODE_CORES,
    OPEN,
    THEN,
)

if TYPE_CHECKING:
    from emulator.mechanisms.oversubscribe.tables import State


@compiled
def pin_head(state: State, head: int, at: int) -> None:
    """Choose the head's nodes for its start: those with the most free cores then, the lower number first."""
    job, node, slot_job, _, _, _, _, _, _, _, _, _, _, _, _, _, _, reg = state
    for n in range(node.shape[1]):
        then = 0
        for u in range(reg[NODE_CORES]):
            other = slot_job[n, u, 0]
            then += other < 0 or job[other].expected_end_us <= at
        node[THEN, n] = then
        node[IS_PINNED, n] = 0
    wanted = job[head].nodes
    for level in range(reg[NODE_CORES], job[head].cores - 1, -1):
        for n in range(node.shape[1]):
            if wanted > 0 and node[THEN, n] == level:
                node[IS_PINNED, n] = 1
                wanted -= 1


@compiled
def choose_beside(state: State, who: int, head_cores: int, crosses: bool) -> bool:
    """Nodes with the most free cores over the job's whole span, the lower number first; False if there are too few."""
    job, node, _, _, _, _, _, _, _, _, _, chosen, _, _, _, _, scratch, reg = state
    if not enough_open(state, who):
        return False
    wanted = job[who].nodes
    free = scratch[0]
    good = 0
    for n in range(node.shape[1]):
        free[n] = node[OPEN, n]
        if crosses and node[IS_PINNED, n]:
            free[n] = min(free[n], node[THEN, n] - head_cores)
        good += free[n] >= job[who].cores
    if good < wanted:
        return False
    found = 0
    for level in range(reg[NODE_CORES], job[who].cores - 1, -1):
        for n in range(node.shape[1]):
            if found < wanted and free[n] == level:
                chosen[found] = n
                found += 1
    reg[CHOSEN_N] = found
    return True


@compiled
def backfill_beside(state: State, now: int) -> None:
    """Start, in queue order, whoever fits beside the head on its nodes, or is over before it starts there."""
    job, node, _, _, _, _, _, _, _, queue, _, chosen, _, _, _, open_nodes, _, reg = state
    head = queue[reg[QUEUE_LO]]
    at = planned_start(state, head, now)
    pin_head(state, head, at)
    place = reg[QUEUE_LO] + 1
    while place < reg[QUEUE_HI] and open_nodes[0] < node.shape[1]:
        who = queue[place]
        crosses = now + job[who].estimate_us > at
        if choose_beside(state, who, job[head].cores, crosses):
            occupy(state, who, now)
            book(state, who, now)
            if crosses:
                for k in range(reg[CHOSEN_N]):
                    node[THEN, chosen[k]] -= job[who].cores
            place = queue_remove_at(queue, reg, place)
        else:
            place += 1
