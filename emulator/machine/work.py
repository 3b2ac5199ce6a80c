"""What running jobs have done and still owe, exactly, in node-microseconds. Compiled.

A job owes `run_us x nodes` of its row in the job table. On n nodes at the rate a/b it does n * a / b node-us in each
microsecond, but for the time that goes to its set-up, to writing checkpoints and to standing still. A *phase* is a time
in which none of this changes. Checkpoints of the job's own come every `interval` us of the phase's computing
time and cost `cost` us each; the last one is left out if the job ends before it would be written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from emulator.kernel.columns import fill
from emulator.kernel.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from emulator.kernel.tables import Ints, Jobs
    from emulator.workload.table import JobTable

# Columns of the work table. Fixed: RUN_US and WIDTH make what the job owes, ESTIMATE_US is its user's guess of RUN_US;
# SETUP: time that each run loses at its start; INTERVAL: 0 for no checkpoints of its own; COST of one.
RUN_US, WIDTH, ESTIMATE_US, SETUP, INTERVAL, COST = range(6)
# SAVED: work that a stop does not take. The rest is of the present phase: ROW, the run it belongs to (plus 1; another
# number means that the run has had no phase but its first); BEGUN, what was done when that run began; DONE at the
# phase's beginning; SINCE, when computing begins, STILL if not at all; the rate NUM / DEN.
SAVED, ROW, BEGUN, DONE, SINCE, NUM, DEN = range(6, 13)
WORK_COLUMNS = 13
STILL = (1 << 63) - 1

Work: TypeAlias = "NDArray[np.int64]"


def work_table(jobs: JobTable) -> Work:
    """The table of jobs of which none has run. Extra columns read: setup_us, checkpoint_us, checkpoint_interval_us."""
    work = np.zeros((len(jobs), WORK_COLUMNS), np.int64)
    columns: dict[int, ArrayLike] = {
        RUN_US: jobs.run_us,
        WIDTH: jobs.nodes,
        ESTIMATE_US: np.maximum(jobs.estimate_us, 1),
    }
    for column, name in (
        (SETUP, "setup_us"),
        (COST, "checkpoint_us"),
        (INTERVAL, "checkpoint_interval_us"),
    ):
        if name in jobs.extra:
            columns[column] = np.maximum(jobs.extra[name], 0)  # -1: unknown
    fill(work, columns)
    return work


@compiled
def length_us(work: Work, who: int, owed: int, nodes: int, num: int, den: int) -> int:
    """Wall time in which a phase does this much work: the first whole microsecond at which nothing is owed."""
    if owed <= 0:
        return 0
    speed = nodes * num
    computing = (owed * den + speed - 1) // speed
    if work[who, INTERVAL] > 0:
        computing += (computing - 1) // work[who, INTERVAL] * work[who, COST]
    return computing


@compiled
def phase_of(job: Jobs, work: Work, who: int) -> tuple[int, int, int, int, int]:
    """(begun, done, since, num, den) of a running job's present phase."""
    if work[who, ROW] == job[who].run_row + 1:
        return work[who, BEGUN], work[who, DONE], work[who, SINCE], work[who, NUM], work[who, DEN]
    return work[who, SAVED], work[who, SAVED], job[who].start_us + work[who, SETUP], 1, 1


@compiled
def done_at(job: Jobs, work: Work, who: int, now: int) -> tuple[int, int]:
    """(done, saved) node-us of a running job. `saved` is what its last whole checkpoint keeps."""
    _, done, since, num, den = phase_of(job, work, who)
    saved = work[who, SAVED]
    if now <= since:
        return done, saved
    owed = work[who, RUN_US] * work[who, WIDTH]
    speed = job[who].nodes * num
    computing = now - since
    interval = work[who, INTERVAL]
    if interval > 0:
        cycle = interval + work[who, COST]
        whole = computing // cycle
        if whole > 0:
            saved = max(saved, min(done + whole * interval * speed // den, owed))
        computing = whole * interval + min(computing - whole * cycle, interval)
    return min(done + computing * speed // den, owed), saved


@compiled
def done_of_each(job: Jobs, work: Work, who: Ints, now: int, done: Ints, saved: Ints) -> None:
    """`done_at` of many running jobs."""
    for k in range(who.shape[0]):
        done[k], saved[k] = done_at(job, work, who[k], now)


@compiled
def next_run(work: Work, who: int) -> tuple[int, int]:
    """Wall time of a job's next run, as it will be and as its user guesses, at full width."""
    width = work[who, WIDTH]
    saved = work[who, SAVED]
    run = work[who, SETUP] + length_us(work, who, work[who, RUN_US] * width - saved, width, 1, 1)
    guess = max(work[who, ESTIMATE_US] * width - saved, width)
    return run, max(work[who, SETUP] + length_us(work, who, guess, width, 1, 1), 1)


@compiled
def lengths_of_next_runs(work: Work, first: Ints, run: Ints, estimate: Ints) -> None:
    """`next_run` of the jobs `first`."""
    for k in range(first.shape[0]):
        run[k], estimate[k] = next_run(work, first[k])
