"""Jobs on nodes, compiled: starts, ends, and nodes that leave the batch pool and come back.

The nodes of a run are a slice of the node log, so that a start or an end costs O(nodes of the job). It is a plain
copy as long as nobody asks for single nodes: the node table is kept only after that (NODES_KEPT). Where nobody is
expected to ask, nodes are only counted (COUNTS_ONLY) and laid out afterwards (`layout.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.kernel.compiled import compiled, inlined
from emulator.kernel.job_states import JobState
from emulator.kernel.plan import plan_change, plan_insert, plan_remove
from emulator.kernel.structures import (
    copy,
    free_push,
    free_remove,
    heap_push,
)

if TYPE_CHECKING:
    from emulator.kernel.tables import Blocks, Heap, Ints, Ints32, Jobs, Nodes, Plan, Registers, Runs, State


@inlined
def begin_run(job: Any, runs: Any, registers: Any, who: int, now: int) -> None:
    """The part of a start that is the same for every job, on any machine: its state and its row in the run table."""
    row = registers.runs_n
    registers.runs_n = row + 1
    runs[row].job = who
    runs[row].start_us = now
    runs[row].end_us = -1
    runs[row].first = registers.log_n
    job[who].run_row = row
    job[who].state = JobState.RUNNING
    job[who].start_us = now


@inlined
def start_chosen(
    job: Jobs, node: Nodes, free: Ints32, plan: Plan, blocks: Blocks, heap: Heap, runs: Runs, log: Ints32,
    started: Ints32, registers: Registers, first: int, last: int, now: int,
) -> None:  # fmt: skip
    """Give the jobs `started[first:last]`, which are out of the queue, the nodes on top of the free stack."""
    for chosen in range(first, last):
        who = started[chosen]
        begin_run(job, runs, registers, who, now)
        needed = job[who].nodes
        left = registers.idle_nodes - needed
        logged = registers.log_n
        if registers.counts_only == 0:
            copy(free, left, log, logged, needed)
            if registers.nodes_kept:
                for k in range(logged, logged + needed):
                    node[log[k]].job = who
        registers.log_n = logged + needed
        registers.idle_nodes = left
        job[who].returns = needed
        job[who].expected_end_us = now + job[who].estimate_us
        plan_insert(plan, blocks, registers, job[who].expected_end_us, needed)
        if registers.simulated:
            heap_push(heap, registers, now + job[who].run_us, who)


@inlined
def start_on(state: State, who: int, nodes: Ints, now: int) -> None:
    """Start a job on these nodes, which are out of the pool and idle (a lease)."""
    job, node, runs, log, registers = state.job, state.node, state.runs, state.log, state.registers
    begin_run(job, runs, registers, who, now)
    for k in range(nodes.shape[0]):
        node[nodes[k]].job = who
        log[registers.log_n] = nodes[k]
        registers.log_n += 1
    job[who].returns = 0
    job[who].expected_end_us = 0


@inlined
def end_job(
    job: Jobs, node: Nodes, free: Ints32, plan: Plan, blocks: Blocks, runs: Runs, log: Ints32,
    registers: Registers, who: int, now: int, outcome: int,
) -> None:  # fmt: skip
    """Take a running job off its nodes; those that are not offline return to the pool.

    In a simulated run the caller has taken its entry from the heap.
    """
    row = job[who].run_row
    runs[row].end_us = now
    runs[row].outcome = outcome
    if job[who].expected_end_us:
        plan_remove(plan, blocks, registers, job[who].expected_end_us, job[who].returns)
    first = runs[row].first
    count = job[who].nodes
    if registers.nodes_kept:
        for k in range(first, first + count):
            which = log[k]
            node[which].job = -1
            node[which].since_us = now
            if node[which].offline == 0:
                free_push(node, free, registers, which)
    else:  # all nodes are in the pool
        if registers.counts_only == 0:
            copy(log, first, free, registers.idle_nodes, count)
        registers.idle_nodes += count
    job[who].end_us = now
    job[who].state = JobState.ENDED
    job[who].ended_before = registers.last_ended
    registers.last_ended = who
    registers.ended_n += 1


@inlined
def set_offline(state: State, which: int) -> None:
    """Take a node out of the pool: an idle one now, a busy one when its job ends."""
    job, node, free = state.job, state.node, state.free
    plan, blocks, registers = state.plan, state.blocks, state.registers
    if node[which].offline:
        return
    node[which].offline = 1
    who = node[which].job
    if who < 0:
        free_remove(node, free, registers, which)
    elif job[who].expected_end_us:
        plan_change(plan, blocks, registers, job[who].expected_end_us, job[who].returns, -1)
        job[who].returns -= 1


@inlined
def set_online(state: State, which: int, now: int) -> None:
    """Put a node back into the pool."""
    job, node, free = state.job, state.node, state.free
    plan, blocks, registers = state.plan, state.blocks, state.registers
    if not node[which].offline:
        return
    node[which].offline = 0
    who = node[which].job
    if who < 0:
        node[which].since_us = now
        free_push(node, free, registers, which)
    elif job[who].expected_end_us:
        plan_change(plan, blocks, registers, job[who].expected_end_us, job[who].returns, +1)
        job[who].returns += 1


@compiled
def take_offline(state: State, nodes: Ints) -> None:
    """`set_offline` of many nodes."""
    for k in range(nodes.shape[0]):
        set_offline(state, nodes[k])


@compiled
def bring_online(state: State, nodes: Ints, now: int) -> None:
    """`set_online` of many nodes."""
    for k in range(nodes.shape[0]):
        set_online(state, nodes[k], now)
