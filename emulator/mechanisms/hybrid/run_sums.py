"""What the figures need of all runs together, in one pass over them. Compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from emulator.kernel.compiled import compiled
from emulator.kernel.job_states import RunOutcome
from emulator.kernel.rows import new_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.kernel.tables import Ints, Ints32
    from emulator.record.run_record import RunRecord

    Ints8 = NDArray[np.int8]

_NO_RUN = -1


class Sums:
    """What is added up."""

    setups_again_node_us: int
    """What setups of runs took that were not a job's first."""
    writes_node_us: int
    """In which jobs that write checkpoints had nodes and neither set up nor worked."""


@compiled
def add_up(  # noqa: PLR0917 - compiled code has no keywords
    job: Ints32,
    start: Ints,
    end: Ints,
    outcome: Ints8,
    first: Ints,
    done: Ints,
    asked: Ints32,
    setup: Ints,
    interval: Ints,
    horizon: int,
    last: Ints8,
    ran: Ints,
    stopped: Ints32,
    sums: Sums,
) -> None:
    """Adds runs in order of start up. `done` is empty where the work of runs is not known.

    Of each job: `last`, the outcome of the run before, _NO_RUN at first; `ran`, its run time; `stopped`, preemptions.
    """
    for run_row in range(job.shape[0]):
        row = job[run_row]
        nodes = first[run_row + 1] - first[run_row]
        if nodes == 0:
            nodes = asked[row]
        length = (end[run_row] if end[run_row] >= 0 else horizon) - start[run_row]
        before = last[row]
        last[row] = outcome[run_row]
        set_up = min(setup[row], length)
        if before == RunOutcome.RESIZED:  # the same run
            set_up = 0
        elif before != _NO_RUN:
            sums.setups_again_node_us += nodes * set_up
        if interval[row] > 0 and done.shape[0] > 0:
            sums.writes_node_us += max(nodes * (length - set_up) - done[run_row], 0)
        ran[row] += length
        if outcome[run_row] == RunOutcome.PREEMPTED:
            stopped[row] += 1


@dataclass(frozen=True, slots=True)
class RunSums:
    """Node-us of setups that were paid again and of checkpoints; by job its run time and how often it was preempted."""

    setups_again_node_us: int
    checkpoints_node_us: int
    ran_us: NDArray[np.int64]
    preempted: NDArray[np.int32]

    @classmethod
    def of(cls, record: RunRecord) -> RunSums:
        """Those of all runs of a record; what goes on counts up to its horizon."""
        runs, jobs = record.runs, record.jobs
        ran, stopped = np.zeros(len(jobs), np.int64), np.zeros(len(jobs), np.int32)
        sums = new_rows(Sums, 1)[0]
        add_up(
            runs.job,
            runs.start_us,
            runs.end_us,
            runs.outcome,
            runs.first,
            runs.done_node_us if runs.has_work else np.empty(0, np.int64),
            jobs.nodes.astype(np.int32),
            jobs.column("setup_us", 0),
            jobs.column("checkpoint_interval_us", 0),
            record.horizon_us,
            np.full(len(jobs), _NO_RUN, np.int8),
            ran,
            stopped,
            sums,
        )
        return cls(int(sums.setups_again_node_us), int(sums.writes_node_us), ran, stopped)
