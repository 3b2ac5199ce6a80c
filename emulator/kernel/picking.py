"""Somebody outside picks the next job: the choice is followed and time goes on to the next decision, compiled.

Two kinds of decision:

* NEXT: the picked job is the next to start. If it fits it starts at once; else time goes on until it does, and others
  may be backfilled behind it (EASY, with the picked job as the head). So in Zhang, Dai, He, Bao and Xie:
  *RLScheduler: an automated HPC batch job scheduler using reinforcement learning*, SC'20, section IV.
* FITTING: one of those that fit now starts, or time goes on to the next event. So in de Freitas Cunha and Chaimowicz:
  *Towards a common environment for learning scheduling algorithms*, MASCOTS 2020.

An instant is as in every run: all ends, then all submits; then decisions, until none is left.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inlined
from emulator.kernel.job_states import RunOutcome
from emulator.kernel.kernel import submit_due
from emulator.kernel.occupancy import end_job, start_chosen
from emulator.kernel.passes import choose, choose_backfill
from emulator.kernel.stepping import next_submit
from emulator.kernel.structures import heap_pop, queue_remove_at
from emulator.kernel.tables import (
    NEVER,
    BackfillRule,
)

if TYPE_CHECKING:
    from emulator.kernel.tables import Ints32, Jobs, Registers, State


class Decision(IntEnum):
    """What is asked: see above."""

    NEXT = 0
    FITTING = 1


@compiled
def next_instant(state: State) -> bool:
    """Let the next ends and submits happen. False if there are none: all is over."""
    job, node, free, queue, plan = state.job, state.node, state.free, state.queue, state.plan
    blocks, heap, runs, log, registers = state.blocks, state.heap, state.runs, state.log, state.registers
    next_end = heap[0].at_us if registers.heap_n else NEVER
    now = min(next_end, next_submit(job, registers))
    if now == NEVER:
        return False
    registers.now = now
    while registers.heap_n and heap[0].at_us == now:
        row = heap_pop(heap, registers)
        end_job(job, node, free, plan, blocks, runs, log, registers, row, now, RunOutcome.FINISHED)
    submit_due(job, queue, registers, now, NEVER)
    return True


@inlined
def first_fitting(job: Jobs, queue: Ints32, registers: Registers, window: int) -> int:
    """The place in the queue, from its head, of the first of `window` jobs that fits now; -1 if none does."""
    for k in range(min(window, registers.queue_hi - registers.queue_lo)):
        if job[queue[registers.queue_lo + k]].nodes <= registers.idle_nodes:
            return k
    return -1


@compiled
def go_on(state: State, decision: int, window: int) -> bool:
    """Let time go on until there is something to decide. False: there never will be, and all has run to its end.

    `window`: for FITTING, so many jobs at the head of the queue can be picked.
    """
    job, queue, registers = state.job, state.queue, state.registers
    while True:
        if decision == Decision.NEXT:
            if registers.queue_lo < registers.queue_hi:
                return True
        elif first_fitting(job, queue, registers, window) >= 0:
            return True
        if not next_instant(state):
            return False


@inlined
def start_started(state: State) -> None:
    """Give those that have been chosen, and are out of the queue, their nodes."""
    start_chosen(state, 0, state.registers.started_n, state.registers.now)


@compiled
def start_next(state: State, place: int) -> None:
    """Start the job at this place of the queue as soon as it fits, before all others but those backfilled behind it."""
    job, queue, started, registers = state.job, state.queue, state.started, state.registers
    head = registers.queue_lo
    row = queue[head + place]
    for k in range(head + place, head, -1):
        queue[k] = queue[k - 1]
    queue[head] = row  # later submits have later rows, so the queue need not know a reason
    while job[row].nodes > registers.idle_nodes:
        if registers.backfill == BackfillRule.EASY:
            registers.started_n = 0
            choose_backfill(state, registers.now)
            start_started(state)
        next_instant(state)  # there is one: without running jobs every job fits
    registers.started_n = 0
    registers.queue_lo += 1
    choose(started, registers, row)
    start_started(state)


@compiled
def start_fitting(state: State, place: int) -> None:
    """Start the job at this place of the queue, which fits."""
    queue, started, registers = state.queue, state.started, state.registers
    row = queue[registers.queue_lo + place]
    registers.started_n = 0
    queue_remove_at(queue, registers, registers.queue_lo + place)
    choose(started, registers, row)
    start_started(state)
