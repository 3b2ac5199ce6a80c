"""Noting that a job starts; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled
from emulator.harness.tables import (
    LOG_N,
    R_END,
    R_FIRST,
    R_JOB,
    R_OUTCOME,
    R_START,
    RUNNING,
    RUNS_N,
    STARTED_N,
)

if TYPE_CHECKING:
    from emulator.mechanisms.oversubscribe.tables import State


@compiled
def book(state: State, who: int, now: int) -> None:
    """The job runs: note it and its slots in the tables."""
    job, _, _, slot_next, _, _, _, _, _, _, _, _, runs, log, _, _, _, reg = state
    row = reg[RUNS_N]
    reg[RUNS_N] = row + 1
    runs[row, R_JOB] = who
    runs[row, R_START] = now
    runs[row, R_END] = -1
    runs[row, R_OUTCOME] = 0
    runs[row, R_FIRST] = reg[LOG_N]
    place = job[who].first_slot
    while place >= 0:
        log[reg[LOG_N]] = place
        reg[LOG_N] += 1
        place = slot_next[place]
    reg[STARTED_N] += 1
    job[who].run_row = row
    job[who].start_us = now
    job[who].state = RUNNING
