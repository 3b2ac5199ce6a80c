"""Jobs on nodes, compiled: starts, ends, and nodes that leave the batch pool and come back.

A job's nodes are a list through `node[NEXT]`, so that starts and ends cost O(nodes of the job).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled
from emulator.harness.structures import free_push, free_remove, heap_push, plan_find, plan_insert, plan_remove
from emulator.harness.tables import (
    BATCH,
    END,
    ENDED,
    ENDED_N,
    ESTIMATE,
    FIRST,
    FREE,
    HOW_MANY,
    JOB,
    KIND,
    LOG_N,
    LOG_NODES,
    NEXT,
    NODES,
    OFFLINE,
    PLACE,
    R_END,
    R_FIRST,
    R_JOB,
    R_OUTCOME,
    R_START,
    RETURNS,
    RUN,
    RUN_ROW,
    RUNNING,
    RUNS_N,
    SIMULATED,
    SINCE,
    START,
    STARTED_N,
    STATE,
)

if TYPE_CHECKING:
    from emulator.harness.tables import Ints, State


@compiled
def begin_run(state: State, who: int, now: int) -> None:
    """The part of a start that is the same for every job: its state and its row in the run table."""
    job, _, _, _, _, _, runs, _, _, reg = state
    row = reg[RUNS_N]
    reg[RUNS_N] = row + 1
    runs[R_JOB, row] = who
    runs[R_START, row] = now
    runs[R_END, row] = -1
    runs[R_OUTCOME, row] = 0
    runs[R_FIRST, row] = reg[LOG_N]
    job[RUN_ROW, who] = row
    job[STATE, who] = RUNNING
    job[START, who] = now
    job[END, who] = -1


@compiled
def start_job(state: State, who: int, now: int) -> None:
    """Give a waiting job the nodes on top of the free stack. The caller takes it out of the queue."""
    job, node, free, _, plan, heap, _, log, started, reg = state
    begin_run(state, who, now)
    needed = job[NODES, who]
    top = reg[FREE]
    logged = reg[LOG_N]
    keep = reg[LOG_NODES] != 0
    following = -1
    for k in range(needed):
        which = free[top - 1 - k]
        node[PLACE, which] = -1
        node[JOB, which] = who
        node[NEXT, which] = following
        node[SINCE, which] = now
        following = which
        if keep:
            log[logged + k] = which
    if keep:
        reg[LOG_N] = logged + needed
    reg[FREE] = top - needed
    job[FIRST, who] = following
    job[RETURNS, who] = needed
    plan_insert(plan, reg, now + job[ESTIMATE, who], who, needed)
    if reg[SIMULATED]:
        heap_push(heap, reg, now + job[RUN, who], who)
    started[reg[STARTED_N]] = who
    reg[STARTED_N] += 1


@compiled
def start_on(state: State, who: int, nodes: Ints, now: int) -> None:
    """Start a job on these nodes, which are out of the pool and idle (a lease)."""
    job, node, _, _, _, _, _, log, _, reg = state
    begin_run(state, who, now)
    keep = reg[LOG_NODES] != 0
    following = -1
    for k in range(nodes.shape[0]):
        which = nodes[k]
        node[JOB, which] = who
        node[NEXT, which] = following
        node[SINCE, which] = now
        following = which
        if keep:
            log[reg[LOG_N]] = which
            reg[LOG_N] += 1
    job[FIRST, who] = following
    job[RETURNS, who] = 0


@compiled
def end_job(state: State, who: int, now: int, outcome: int) -> None:
    """Take a running job off its nodes; those that are not offline return to the pool.

    The caller sets the job's new state and, in a simulated run, has taken its entry from the heap.
    """
    job, node, free, _, plan, _, runs, _, _, reg = state
    row = job[RUN_ROW, who]
    runs[R_END, row] = now
    runs[R_OUTCOME, row] = outcome
    if job[KIND, who] == BATCH:
        plan_remove(plan, reg, job[START, who] + job[ESTIMATE, who], who)
    which = job[FIRST, who]
    while which >= 0:
        following = node[NEXT, which]
        node[JOB, which] = -1
        node[NEXT, which] = -1
        node[SINCE, which] = now
        if node[OFFLINE, which] == 0:
            free_push(node, free, reg, which)
        which = following
    job[FIRST, who] = -1
    job[END, who] = now
    job[STATE, who] = ENDED
    reg[ENDED_N] += 1


@compiled
def set_offline(state: State, which: int) -> None:
    """Take a node out of the pool: an idle one now, a busy one when its job ends."""
    job, node, free, _, plan, _, _, _, _, reg = state
    if node[OFFLINE, which]:
        return
    node[OFFLINE, which] = 1
    who = node[JOB, which]
    if who < 0:
        free_remove(node, free, reg, which)
    elif job[KIND, who] == BATCH:
        job[RETURNS, who] -= 1
        plan[HOW_MANY, plan_find(plan, reg, job[START, who] + job[ESTIMATE, who], who)] -= 1


@compiled
def set_online(state: State, which: int, now: int) -> None:
    """Put a node back into the pool."""
    job, node, free, _, plan, _, _, _, _, reg = state
    if not node[OFFLINE, which]:
        return
    node[OFFLINE, which] = 0
    who = node[JOB, which]
    if who < 0:
        node[SINCE, which] = now
        free_push(node, free, reg, which)
    elif job[KIND, who] == BATCH:
        job[RETURNS, who] += 1
        plan[HOW_MANY, plan_find(plan, reg, job[START, who] + job[ESTIMATE, who], who)] += 1
