"""Noting that a job starts; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled
from emulator.harness.tables import (
    LOG_N,
    RUNNING,
    RUNS_N,
    STARTED_N,
)

if TYPE_CHECKING:
    from emulator.mechanisms.oversubscribe.tables import State


@compiled
def book(state: State, who: int, now: int) -> None:
    """The job runs: note it and its slots in the tables."""
    job, slot_next, runs, log, reg = state.job, state.slot_next, state.runs, state.log, state.reg
    row = reg[RUNS_N]
    reg[RUNS_N] = row + 1
    runs[row].job = who
    runs[row].start_us = now
    runs[row].end_us = -1
    runs[row].outcome = 0
    runs[row].first = reg[LOG_N]
    place = job[who].first_slot
    while place >= 0:
        log[reg[LOG_N]] = place
        reg[LOG_N] += 1
        place = slot_next[place]
    reg[STARTED_N] += 1
    job[who].run_row = row
    job[who].start_us = now
    job[who].state = RUNNING
