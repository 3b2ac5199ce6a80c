"""The compiled loop between decision points: ends, submits and scheduling passes, instant by instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled
from emulator.harness.occupancy import end_job
from emulator.harness.passes import schedule_pass
from emulator.harness.structures import heap_pop, queue_insert
from emulator.harness.tables import (
    AT,
    AT_ENDS,
    AT_UNTIL,
    BATCH,
    EVERY_EVENT,
    FINISHED,
    FUTURE,
    HEAP_N,
    JOBS_N,
    KIND,
    LOG_N,
    LOG_NODES,
    NEEDS_ROOM,
    NEVER,
    NEXT_SUBMIT,
    NOW,
    QUEUED,
    RUNS_N,
    STATE,
    STOP_ON_END,
    SUBMIT,
)

if TYPE_CHECKING:
    from emulator.harness.tables import State


@compiled
def submit_due(state: State, now: int, one: bool) -> int:
    """Queue the batch jobs that are submitted now (`one`: at most one of them). Returns how many."""
    job, _, _, queue, _, _, _, _, _, reg = state
    count = 0
    while reg[NEXT_SUBMIT] < reg[JOBS_N] and job[SUBMIT, reg[NEXT_SUBMIT]] <= now and not (one and count):
        who = reg[NEXT_SUBMIT]
        reg[NEXT_SUBMIT] += 1
        if job[KIND, who] == BATCH and job[STATE, who] == FUTURE:
            job[STATE, who] = QUEUED
            queue_insert(job, queue, reg, who)
            count += 1
    return count


@compiled
def finish_instant(state: State, now: int) -> None:
    """What comes after the decision points of an instant: submits, then one pass."""
    _, _, _, _, _, _, _, _, _, reg = state
    reg[NOW] = now
    if reg[EVERY_EVENT]:
        while submit_due(state, now, True):
            schedule_pass(state, now)
    else:
        submit_due(state, now, False)
        schedule_pass(state, now)


@compiled
def has_room(state: State) -> bool:
    """One instant's passes can start at most as many jobs, on at most as many nodes, as there are nodes."""
    _, node, _, _, _, _, runs, log, _, reg = state
    nodes = node.shape[1]
    return runs.shape[1] - reg[RUNS_N] > nodes and (not reg[LOG_NODES] or log.shape[0] - reg[LOG_N] > nodes)


@compiled
def advance(state: State, until: int) -> int:
    """Let ends, submits and passes happen up to the decision point at `until`.

    Returns AT_UNTIL when all instants before `until` are over and the ends of `until` itself have happened
    (its submits and pass are `finish_instant`'s); AT_ENDS, if STOP_ON_END is set, after the ends of an
    earlier instant (reg[NOW]), which `finish_instant` must complete; NEEDS_ROOM when the run table has to
    grow first.
    """
    job, _, _, _, _, heap, _, _, _, reg = state
    while True:
        if not has_room(state):
            return NEEDS_ROOM
        next_end = heap[AT, 0] if reg[HEAP_N] else NEVER
        next_submit = job[SUBMIT, reg[NEXT_SUBMIT]] if reg[NEXT_SUBMIT] < reg[JOBS_N] else NEVER
        now = min(next_end, next_submit)
        if now > until or now == NEVER:
            if until != NEVER:
                reg[NOW] = until
            return AT_UNTIL
        reg[NOW] = now
        ended = False
        while reg[HEAP_N] and heap[AT, 0] == now:
            who = heap_pop(heap, reg)
            end_job(state, who, now, FINISHED)
            ended = True
            if reg[EVERY_EVENT] and now != until:
                schedule_pass(state, now)
        if now == until:
            return AT_UNTIL
        if ended and reg[STOP_ON_END]:
            return AT_ENDS
        finish_instant(state, now)
