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
def begin_run(job: Any, runs: Any, reg: Any, who: int, now: int) -> None:
    """The part of a start that is the same for every job, on any machine: its state and its row in the run table."""
    row = reg.runs_n
    reg.runs_n = row + 1
    runs[row].job = who
    runs[row].start_us = now
    runs[row].end_us = -1
    runs[row].first = reg.log_n
    job[who].run_row = row
    job[who].state = JobState.RUNNING
    job[who].start_us = now


@inlined
def start_chosen(
    job: Jobs, node: Nodes, free: Ints32, plan: Plan, blocks: Blocks, heap: Heap, runs: Runs, log: Ints32,
    started: Ints32, reg: Registers, first: int, last: int, now: int,
) -> None:  # fmt: skip
    """Give the jobs `started[first:last]`, which are out of the queue, the nodes on top of the free stack."""
    for chosen in range(first, last):
        who = started[chosen]
        begin_run(job, runs, reg, who, now)
        needed = job[who].nodes
        left = reg.free - needed
        logged = reg.log_n
        if reg.counts_only == 0:
            copy(free, left, log, logged, needed)
            if reg.nodes_kept:
                for k in range(logged, logged + needed):
                    node[log[k]].job = who
        reg.log_n = logged + needed
        reg.free = left
        job[who].returns = needed
        job[who].expected_end_us = now + job[who].estimate_us
        plan_insert(plan, blocks, reg, job[who].expected_end_us, needed)
        if reg.simulated:
            heap_push(heap, reg, now + job[who].run_us, who)


@inlined
def start_on(state: State, who: int, nodes: Ints, now: int) -> None:
    """Start a job on these nodes, which are out of the pool and idle (a lease)."""
    job, node, runs, log, reg = state.job, state.node, state.runs, state.log, state.reg
    begin_run(job, runs, reg, who, now)
    for k in range(nodes.shape[0]):
        node[nodes[k]].job = who
        log[reg.log_n] = nodes[k]
        reg.log_n += 1
    job[who].returns = 0
    job[who].expected_end_us = 0


@inlined
def end_job(
    job: Jobs, node: Nodes, free: Ints32, plan: Plan, blocks: Blocks, runs: Runs, log: Ints32, reg: Registers,
    who: int, now: int, outcome: int,
) -> None:  # fmt: skip
    """Take a running job off its nodes; those that are not offline return to the pool.

    In a simulated run the caller has taken its entry from the heap.
    """
    row = job[who].run_row
    runs[row].end_us = now
    runs[row].outcome = outcome
    if job[who].expected_end_us:
        plan_remove(plan, blocks, reg, job[who].expected_end_us, job[who].returns)
    first = runs[row].first
    count = job[who].nodes
    if reg.nodes_kept:
        for k in range(first, first + count):
            which = log[k]
            node[which].job = -1
            node[which].since_us = now
            if node[which].offline == 0:
                free_push(node, free, reg, which)
    else:  # all nodes are in the pool
        if reg.counts_only == 0:
            copy(log, first, free, reg.free, count)
        reg.free += count
    job[who].end_us = now
    job[who].state = JobState.ENDED
    job[who].ended_before = reg.last_ended
    reg.last_ended = who
    reg.ended_n += 1


@inlined
def set_offline(state: State, which: int) -> None:
    """Take a node out of the pool: an idle one now, a busy one when its job ends."""
    job, node, free = state.job, state.node, state.free
    plan, blocks, reg = state.plan, state.blocks, state.reg
    if node[which].offline:
        return
    node[which].offline = 1
    who = node[which].job
    if who < 0:
        free_remove(node, free, reg, which)
    elif job[who].expected_end_us:
        plan_change(plan, blocks, reg, job[who].expected_end_us, job[who].returns, -1)
        job[who].returns -= 1


@inlined
def set_online(state: State, which: int, now: int) -> None:
    """Put a node back into the pool."""
    job, node, free = state.job, state.node, state.free
    plan, blocks, reg = state.plan, state.blocks, state.reg
    if not node[which].offline:
        return
    node[which].offline = 0
    who = node[which].job
    if who < 0:
        node[which].since_us = now
        free_push(node, free, reg, which)
    elif job[who].expected_end_us:
        plan_change(plan, blocks, reg, job[who].expected_end_us, job[who].returns, +1)
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
