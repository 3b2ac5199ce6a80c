"""Noting that a job starts; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled
from emulator.kernel.occupancy import begin_run

if TYPE_CHECKING:
    from emulator.mechanisms.oversubscribe.tables import State


@compiled
def book(state: State, row: int, now: int) -> None:
    """The job runs: note it and its slots in the tables."""
    job, slot_next, runs, log, registers = state.job, state.slot_next, state.runs, state.log, state.registers
    begin_run(job, runs, registers, row, now)
    place = job[row].first_slot
    while place >= 0:
        log[registers.log_n] = place
        registers.log_n += 1
        place = slot_next[place]
    registers.started_n += 1
