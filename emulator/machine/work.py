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
from emulator.kernel.rows import new_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Ints, Jobs
    from emulator.workload.table import JobTable


class JobWork:
    """A job's row of the work table: what it owes, and what of it is done."""

    run_us: int
    """With `width` what the job owes."""
    width: int
    estimate_us: int
    """Its user's guess of `run_us`."""
    setup_us: int
    """Lost at the start of each run."""
    interval_us: int
    """Between checkpoints of its own; 0 for none."""
    cost_us: int
    """Of a checkpoint."""
    saved: int
    """Work that a stop does not take."""
    row: int
    """The run that the present phase belongs to, plus 1; another number: that run has had no phase but its first."""
    begun: int
    """What was done when that run began."""
    done: int
    """What was done when the phase began."""
    since_us: int
    """When computing begins; STILL if not at all."""
    num: int
    """The rate is num / den."""
    den: int


STILL = (1 << 63) - 1

Work: TypeAlias = "Rows[JobWork]"


def work_table(jobs: JobTable) -> Work:
    """The table of jobs of which none has run. Extra columns read: setup_us, checkpoint_us, checkpoint_interval_us."""
    work = new_rows(JobWork, len(jobs))
    columns: dict[str, ArrayLike] = {
        "run_us": jobs.run_us,
        "width": jobs.nodes,
        "estimate_us": np.maximum(jobs.estimate_us, 1),
    }
    for column, name in (
        ("setup_us", "setup_us"),
        ("cost_us", "checkpoint_us"),
        ("interval_us", "checkpoint_interval_us"),
    ):
        if name in jobs.extra:
            columns[column] = np.maximum(jobs.extra[name], 0)  # -1: unknown
    fill(work, columns)
    return work


@compiled
def length_us(work: Work, row: int, owed: int, nodes: int, num: int, den: int) -> int:
    """Wall time in which a phase does this much work: the first whole microsecond at which nothing is owed."""
    if owed <= 0:
        return 0
    speed = nodes * num
    computing = (owed * den + speed - 1) // speed
    if work[row].interval_us > 0:
        computing += (computing - 1) // work[row].interval_us * work[row].cost_us
    return computing


@compiled
def phase_of(job: Jobs, work: Work, row: int) -> tuple[int, int, int, int, int]:
    """(begun, done, since, num, den) of a running job's present phase."""
    if work[row].row == job[row].run_row + 1:
        return work[row].begun, work[row].done, work[row].since_us, work[row].num, work[row].den
    return work[row].saved, work[row].saved, job[row].start_us + work[row].setup_us, 1, 1


@compiled
def done_at(job: Jobs, work: Work, row: int, now: int) -> tuple[int, int]:
    """(done, saved) node-us of a running job. `saved` is what its last whole checkpoint keeps."""
    _, done, since, num, den = phase_of(job, work, row)
    saved = work[row].saved
    if now <= since:
        return done, saved
    owed = work[row].run_us * work[row].width
    speed = job[row].nodes * num
    computing = now - since
    interval = work[row].interval_us
    if interval > 0:
        cycle = interval + work[row].cost_us
        whole = computing // cycle
        if whole > 0:
            saved = max(saved, min(done + whole * interval * speed // den, owed))
        computing = whole * interval + min(computing - whole * cycle, interval)
    return min(done + computing * speed // den, owed), saved


@compiled
def done_of_each(job: Jobs, work: Work, row: Ints, now: int, done: Ints, saved: Ints) -> None:
    """`done_at` of many running jobs."""
    for k in range(row.shape[0]):
        done[k], saved[k] = done_at(job, work, row[k], now)


@compiled
def next_run(work: Work, row: int) -> tuple[int, int]:
    """Wall time of a job's next run, as it will be and as its user guesses, at full width."""
    width = work[row].width
    saved = work[row].saved
    run = work[row].setup_us + length_us(work, row, work[row].run_us * width - saved, width, 1, 1)
    guess = max(work[row].estimate_us * width - saved, width)
    return run, max(work[row].setup_us + length_us(work, row, guess, width, 1, 1), 1)


@compiled
def lengths_of_next_runs(work: Work, first: Ints, run: Ints, estimate: Ints) -> None:
    """`next_run` of the jobs `first`."""
    for k in range(first.shape[0]):
        run[k], estimate[k] = next_run(work, first[k])
