"""The scheduling pass over shared nodes, compiled. The rules: `docs/mechanisms/oversubscribe.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled
from emulator.kernel.structures import queue_remove_at
from emulator.kernel.tables import BackfillRule
from emulator.mechanisms.oversubscribe.pinned_head import backfill_beside
from emulator.mechanisms.oversubscribe.places import choose_nodes, enough_open, occupy, vacate
from emulator.mechanisms.oversubscribe.plan import leaves_enough, planned_start, ready_by
from emulator.mechanisms.oversubscribe.starts import book

if TYPE_CHECKING:
    from emulator.mechanisms.oversubscribe.tables import State


@compiled
def backfill(state: State, now: int) -> None:
    """Start whoever leaves the planned start of the head where it is, those that it slows down included.

    A candidate is put where it would run, so that it and its victims have the speeds and expected ends that they
    would have, and is taken off again if the head could no longer start as planned. Candidates of the same shape
    that last as long as one that failed, or longer, fail as well as long as nobody has started.
    """
    job, node, slot_job, queue, failed = state.job, state.node, state.slot_job, state.queue, state.failed
    open_nodes, registers = state.open_nodes, state.registers
    core_registers = state.core_registers
    head = queue[registers.queue_lo]
    is_certain = slot_job.shape[2] == 1 and job[head].gpus == 0 and core_registers.has_memory == 0
    at = -1
    ready = -1  # nodes that the head could use then
    core_registers.stamp += 1
    stamp = core_registers.stamp
    place = registers.queue_lo + 1
    while place < registers.queue_hi and open_nodes[0] < node.open.shape[0]:
        row = queue[place]
        is_plain = (
            job[row].gpus == 0
            and job[row].limit >= core_registers.core_slots
            and core_registers.has_memory == 0
        )
        n = job[row].nodes - 1
        c = job[row].cores - 1
        if is_plain and failed.stamp[n, c] == stamp and failed.estimate_us[n, c] <= job[row].estimate_us:
            place += 1
            continue
        good = choose_nodes(state, row)
        if good:
            if at < 0:
                at = planned_start(state, head, now)
            if ready < 0:
                ready = ready_by(state, head, at)
            good = leaves_enough(state, row, head, at, ready, now)
        if good:
            occupy(state, row, now)
            if is_certain or ready_by(state, head, at) >= job[head].nodes:
                book(state, row, now)
                place = queue_remove_at(queue, registers, place)
                core_registers.stamp += 1
                stamp = core_registers.stamp
                ready = -1
                continue
            vacate(state, row, now)
        if is_plain:
            failed.stamp[n, c] = stamp
            failed.estimate_us[n, c] = job[row].estimate_us if enough_open(state, row) else 0
        place += 1


@compiled
def schedule_pass(state: State, now: int) -> None:
    """Start what the scheduler starts now: heads in queue order, then (EASY) who delays no planned start."""
    queue, registers = state.queue, state.registers
    core_registers = state.core_registers
    registers.started_n = 0
    while registers.queue_lo < registers.queue_hi:
        head = queue[registers.queue_lo]
        if not choose_nodes(state, head):
            break
        registers.queue_lo += 1
        occupy(state, head, now)
        book(state, head, now)
    if registers.backfill == BackfillRule.EASY and registers.queue_hi - registers.queue_lo > 1:
        if core_registers.program:
            backfill_beside(state, now)
        else:
            backfill(state, now)
