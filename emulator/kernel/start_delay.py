"""Starts that take time (the scheduler option `start_delay_s`), compiled: a pass picks one job, which starts later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled
from emulator.kernel.job_states import JobState
from emulator.kernel.occupancy import start_chosen
from emulator.kernel.structures import queue_insert, queue_remove
from emulator.kernel.tables import NEVER

if TYPE_CHECKING:
    from emulator.kernel.tables import State


@compiled
def keep_picked(state: State, now: int) -> None:
    """The job that a pass has just chosen waits on until its start is through."""
    job, queue, started, registers = state.job, state.queue, state.started, state.registers
    registers.started_n -= 1
    registers.picked = started[registers.started_n]
    queue_insert(job, queue, registers, registers.picked)
    registers.next_cycle = now + registers.start_delay


@compiled
def start_picked(state: State, now: int) -> None:
    """Start the job that was picked, unless it was cancelled or held, or nodes were lost, in the meantime."""
    job, queue, started, registers = state.job, state.queue, state.started, state.registers
    row = registers.picked
    registers.picked = -1
    registers.next_cycle = NEVER
    if row < 0 or job[row].state != JobState.QUEUED or job[row].nodes > registers.idle_nodes:
        return
    queue_remove(queue, registers, row)
    started[0] = row
    registers.started_n = 1
    start_chosen(state, 0, 1, now)
