"""Figures of single jobs and their means: wait, response, slowdown.

All functions take arrays with one entry a job, times in integer microseconds of cluster time, and return
seconds or plain ratios. None stands for "there is no such figure" (no job was run).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

    Times = NDArray[np.int64]
    Ratios = NDArray[np.float64]


def batch_jobs_run(record: RunRecord) -> NDArray[np.intp]:
    """Rows of the batch jobs that ran to their end or walltime limit; batch figures are over these."""
    done = (record.jobs.kind == Kind.BATCH) & (record.state == JobState.ENDED)
    return np.flatnonzero(done & (record.start_us >= 0) & (record.end_us >= 0))


def wait_us(submit_us: Times, start_us: Times) -> Times:
    """Wait time: start - submit (Hungershoefer 2004, section 4, t^w; Liu 2018, section V)."""
    return start_us - submit_us


def response_us(submit_us: Times, end_us: Times) -> Times:
    """Response (turnaround) time: end - submit.

    Hungershoefer 2004, section 4, prints t^r = t^e - t^s, a slip: its tables are end - submit, as in
    Feitelson and Rudolph 1998 and in Wang 2017, section 7.2 (job turnaround time).
    """
    return end_us - submit_us


def owed_us(record: RunRecord, rows: NDArray[np.intp]) -> Times:
    """Run time that each of the jobs `rows` owed: alone, on the size that it asked for. Slowdowns divide by it.

    That of the workload; of a job that its walltime limit ended at most the time until then. It is end - start where
    nothing stretches a job, and stays the same where sharing, resizing, suspension or overhead do (S_OSub of Minami et
    al. 2023, equation 2, and the work that a job has to do in Hungershoefer 2004, section 4).
    """
    owed = record.jobs.run_us[rows]
    length = record.end_us[rows] - record.start_us[rows]
    killed = np.zeros(len(record.jobs), np.bool_)
    killed[record.runs.job[record.runs.outcome == RunOutcome.KILLED]] = True
    return np.where(killed[rows], np.minimum(owed, length), owed)


def bounded_slowdown(response: Times, run: Times, *, threshold_s: float = 10) -> Ratios:
    """Bounded slowdown of each job: max(1, response / max(run, threshold)), with the run time that it owed.

    Feitelson and Rudolph 1998 ("Metrics and benchmarking for parallel job scheduling"), threshold 10 s. The
    threshold keeps very short jobs from ruling the mean. Wang 2017, eq. 21 divides wait + max(run, threshold)
    instead, with 10 minutes; see `bounded_slowdown_wang`.
    """
    if threshold_s <= 0:
        raise ValueError(f"the threshold of the bounded slowdown must be above 0 s, not {threshold_s}")
    return np.maximum(1.0, response / np.maximum(run, threshold_s * US))


def bounded_slowdown_wang(wait: Times, run: Times, *, threshold_s: float = 600) -> Ratios:
    """Bounded slowdown as in Wang 2017, eq. 21: (wait + max(run, threshold)) / max(run, threshold)."""
    bounded = np.maximum(run, threshold_s * US)
    return (wait + bounded) / bounded


def slowdown_weighted_by_area(nodes: NDArray[np.int32], response: Times, run: Times) -> float | None:
    """SLDwA: sum(area * response / run) / sum(area) with area = nodes * run.

    Streit 2003; Hungershoefer 2004, section 4. A job of no length has no area and no say.
    """
    lasting = run > 0
    if not lasting.any():
        return None
    # area * response / run is nodes * response: one division less, and no rounding before the sum.
    width = nodes[lasting].astype(np.float64)
    return float((width * response[lasting]).sum() / (width * run[lasting]).sum())


def mean_s(times_us: Times) -> float | None:
    """Arithmetic mean of times, in seconds."""
    return float(times_us.mean()) / US if len(times_us) else None


def mean(ratios: Ratios) -> float | None:
    """Arithmetic mean of ratios."""
    return float(ratios.mean()) if len(ratios) else None


def percentiles_s(
    times_us: Times, percents: Sequence[float], *, in_place: bool = False
) -> list[float | None]:
    """Percentiles of times in seconds, by linear interpolation between closest ranks (NumPy's default).

    `in_place`: without a copy of the times, which come into another order.
    """
    if not len(times_us):
        return [None] * len(percents)
    return [float(value) / US for value in np.percentile(times_us, percents, overwrite_input=in_place)]
