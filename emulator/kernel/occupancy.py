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
    from emulator.kernel.tables import Blocks, Ints, Ints32, Jobs, Nodes, Plan, Registers, Runs, State


@inlined
def begin_run(job: Any, runs: Any, registers: Any, row: int, now: int) -> None:
    """The part of a start that is the same for every job, on any machine: its state and its row in the run table."""
    begin_run_row(job, runs, registers, row, now)
    job[row].state = JobState.RUNNING
    job[row].start_us = now


@inlined
def begin_run_row(job: Any, runs: Any, registers: Any, row: int, now: int) -> None:
    """A row of the run table from now on: of a job that starts, or goes on with other nodes."""
    run_row = registers.runs_n
    registers.runs_n = run_row + 1
    runs[run_row].job = row
    runs[run_row].start_us = now
    runs[run_row].end_us = -1
    runs[run_row].first = registers.log_n
    job[row].run_row = run_row


@inlined
def start_chosen(state: State, first: int, last: int, now: int) -> None:
    """Give the jobs `started[first:last]`, which are out of the queue, the nodes on top of the free stack."""
    job, node, free, plan, blocks = state.job, state.node, state.free, state.plan, state.blocks
    heap, runs, log, started, registers = state.heap, state.runs, state.log, state.started, state.registers
    for chosen in range(first, last):
        row = started[chosen]
        begin_run(job, runs, registers, row, now)
        needed = job[row].nodes
        left = registers.idle_nodes - needed
        logged = registers.log_n
        if registers.counts_only == 0:
            copy(free, left, log, logged, needed)
            if registers.nodes_kept:
                for k in range(logged, logged + needed):
                    node[log[k]].job = row
        registers.log_n = logged + needed
        registers.idle_nodes = left
        job[row].returns = needed
        job[row].expected_end_us = now + job[row].estimate_us
        plan_insert(plan, blocks, registers, job[row].expected_end_us, needed)
        if registers.simulated:
            heap_push(heap, registers, now + job[row].run_us, row)


@inlined
def start_on(state: State, row: int, nodes: Ints, now: int) -> None:
    """Start a job on these nodes, which are out of the pool and idle (a lease)."""
    job, node, runs, log, registers = state.job, state.node, state.runs, state.log, state.registers
    begin_run(job, runs, registers, row, now)
    for k in range(nodes.shape[0]):
        node[nodes[k]].job = row
        log[registers.log_n] = nodes[k]
        registers.log_n += 1
    job[row].returns = 0
    job[row].expected_end_us = 0


@inlined
def end_job(
    job: Jobs, node: Nodes, free: Ints32, plan: Plan, blocks: Blocks, runs: Runs, log: Ints32,
    registers: Registers, row: int, now: int, outcome: int,
) -> None:  # fmt: skip
    """Take a running job off its nodes; those that are not offline return to the pool.

    In a simulated run the caller has taken its entry from the heap.
    """
    run_row = job[row].run_row
    runs[run_row].end_us = now
    runs[run_row].outcome = outcome
    if job[row].expected_end_us:
        plan_remove(plan, blocks, registers, job[row].expected_end_us, job[row].returns)
    first = runs[run_row].first
    count = job[row].nodes
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
    job[row].end_us = now
    job[row].state = JobState.ENDED
    job[row].ended_before = registers.last_ended
    registers.last_ended = row
    registers.ended_n += 1


@inlined
def set_offline(state: State, which: int) -> None:
    """Take a node out of the pool: an idle one now, a busy one when its job ends."""
    job, node, free = state.job, state.node, state.free
    plan, blocks, registers = state.plan, state.blocks, state.registers
    if node[which].offline:
        return
    node[which].offline = 1
    row = node[which].job
    if row < 0:
        free_remove(node, free, registers, which)
    elif job[row].expected_end_us:
        plan_change(plan, blocks, registers, job[row].expected_end_us, job[row].returns, -1)
        job[row].returns -= 1


@inlined
def set_online(state: State, which: int, now: int) -> None:
    """Put a node back into the pool."""
    job, node, free = state.job, state.node, state.free
    plan, blocks, registers = state.plan, state.blocks, state.registers
    if not node[which].offline:
        return
    node[which].offline = 0
    row = node[which].job
    if row < 0:
        node[which].since_us = now
        free_push(node, free, registers, which)
    elif job[row].expected_end_us:
        plan_change(plan, blocks, registers, job[row].expected_end_us, job[row].returns, +1)
        job[row].returns += 1


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
