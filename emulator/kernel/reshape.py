"""Running jobs that change, compiled: other nodes, another end; and waiting jobs that start on chosen nodes.

Nothing is checked here: that is `cluster.py`'s business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled
from emulator.kernel.job_states import RunOutcome
from emulator.kernel.occupancy import begin_run, start_on
from emulator.kernel.plan import plan_insert, plan_remove
from emulator.kernel.structures import free_push, free_remove, heap_push, heap_remove
from emulator.kernel.tables import NEVER

if TYPE_CHECKING:
    from emulator.kernel.tables import Ints, Nodes, State


NO_CONFLICT, TWICE = -1, -2


@compiled
def first_conflict(node: Nodes, ordered: Ints, row: int) -> int:
    """The first of these sorted nodes that another job runs on, TWICE if one is there twice, else NO_CONFLICT."""
    for k in range(ordered.shape[0]):
        job = node[ordered[k]].job
        if job >= 0 and job != row:
            found: int = ordered[k]
            return found
        if k and ordered[k] == ordered[k - 1]:
            return TWICE
    return NO_CONFLICT


@compiled
def occupy(state: State, row: int, nodes: Ints, now: int, end: int, expected: int) -> None:
    """Begin a run of a job on these nodes, which are idle, in the pool or out of it; `end` NEVER: not by itself."""
    job, node, free, plan, blocks = state.job, state.node, state.free, state.plan, state.blocks
    heap, runs, log, registers = state.heap, state.runs, state.log, state.registers
    begin_run(job, runs, registers, row, now)
    returns = 0
    for k in range(nodes.shape[0]):
        which = nodes[k]
        if node[which].offline == 0:
            free_remove(node, free, registers, which)
            returns += 1
        node[which].job = row
        log[registers.log_n] = which
        registers.log_n += 1
    job[row].nodes = nodes.shape[0]
    job[row].returns = returns
    job[row].expected_end_us = expected
    plan_insert(plan, blocks, registers, expected, returns)
    if registers.simulated and end < NEVER:
        heap_push(heap, registers, end, row)


@compiled
def vacate(state: State, row: int, now: int) -> None:
    """Close a job's run as RunOutcome.RESIZED and take it off its nodes: `occupy` must follow at once."""
    job, node, free, plan, blocks = state.job, state.node, state.free, state.plan, state.blocks
    heap, runs, log, registers = state.heap, state.runs, state.log, state.registers
    run_row = job[row].run_row
    runs[run_row].end_us = now
    runs[run_row].outcome = RunOutcome.RESIZED
    plan_remove(plan, blocks, registers, job[row].expected_end_us, job[row].returns)
    if registers.simulated:
        heap_remove(heap, registers, row)
    for k in range(runs[run_row].first, runs[run_row].first + job[row].nodes):
        which = log[k]
        node[which].job = -1
        node[which].since_us = now
        if node[which].offline == 0:
            free_push(node, free, registers, which)


@compiled
def change_nodes(state: State, row: int, nodes: Ints, now: int, end: int, expected: int) -> None:
    """A running job has exactly these nodes from now on, and other ends; it keeps its start."""
    job = state.job
    start = job[row].start_us
    vacate(state, row, now)
    occupy(state, row, nodes, now, end, expected)
    job[row].start_us = start


@compiled
def change_lease_nodes(state: State, row: int, nodes: Ints, now: int) -> None:
    """As `change_nodes` of a lease: all its nodes are out of the pool, and nobody plans with its end."""
    job, node, runs, log = state.job, state.node, state.runs, state.log
    start = job[row].start_us
    run_row = job[row].run_row
    runs[run_row].end_us = now
    runs[run_row].outcome = RunOutcome.RESIZED
    for k in range(runs[run_row].first, runs[run_row].first + job[row].nodes):
        which = log[k]
        node[which].job = -1
        node[which].since_us = now
    start_on(state, row, nodes, now)
    job[row].nodes = nodes.shape[0]
    job[row].start_us = start


@compiled
def expect(state: State, row: int, expected: int) -> None:
    """A running job is expected to end at another time; it ends when it did."""
    job, plan, blocks, registers = state.job, state.plan, state.blocks, state.registers
    plan_remove(plan, blocks, registers, job[row].expected_end_us, job[row].returns)
    plan_insert(plan, blocks, registers, expected, job[row].returns)
    job[row].expected_end_us = expected


@compiled
def retime(state: State, row: int, end: int, expected: int) -> None:
    """A running job ends at another time than was thought; NEVER: not by itself."""
    job, plan, blocks, heap, registers = state.job, state.plan, state.blocks, state.heap, state.registers
    if job[row].expected_end_us:
        plan_remove(plan, blocks, registers, job[row].expected_end_us, job[row].returns)
        plan_insert(plan, blocks, registers, expected, job[row].returns)
        job[row].expected_end_us = expected
    if registers.simulated:
        heap_remove(heap, registers, row)
        if end < NEVER:
            heap_push(heap, registers, end, row)
