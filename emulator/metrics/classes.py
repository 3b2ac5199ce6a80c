"""Figures of runs with rigid, moldable and malleable jobs (malleable-hungershoefer-2004, sections 4 and 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.kernel.job_states import RunOutcome
from emulator.metrics import jobs as job_figures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

COLUMN = "job_class"
CLASSES = ("rigid", "moldable", "malleable")


def class_figures(record: RunRecord) -> dict[str, Any]:
    """Figures over the batch jobs that ran to their end, and the same by class; `docs/results.md` defines each.

    A job's length is end - start, its area run time x nodes as in the log (what it has to do whatever its width), its
    width area / length: the average over its life, weighted by duration.
    """
    rows = job_figures.batch_jobs_run(record)
    submit, start, end = record.jobs.submit_us[rows], record.start_us[rows], record.end_us[rows]
    area = record.jobs.run_us[rows] * record.jobs.nodes[rows]
    length, response, wait = end - start, end - submit, start - submit
    lasting = length > 0
    width = area[lasting] / length[lasting]
    resized = record.runs.job[record.runs.outcome == RunOutcome.RESIZED]
    changes = np.bincount(resized, minlength=len(record.jobs))[rows]
    kind = record.jobs.column(COLUMN, 0)[rows]
    figures: dict[str, Any] = {
        "slowdown_by_real_length": _weighted(area, response, length),
        "mean_queue_at_submit": job_figures.mean(queue_at_submit(submit, start)),
    }
    figures |= _of_some("", wait, response, width, changes)
    for number, name in enumerate(CLASSES):
        chosen = kind == number
        some = wait[chosen], response[chosen], width[chosen[lasting]], changes[chosen]
        figures |= _of_some(f"{name}_", *some)
    return figures


def _of_some(
    name: str,
    wait: NDArray[np.int64],
    response: NDArray[np.int64],
    width: NDArray[np.float64],
    changes: NDArray[np.int64],
) -> dict[str, Any]:
    return {
        f"{name}jobs": len(wait),
        f"{name}mean_wait_s": job_figures.mean_s(wait),
        f"{name}mean_response_s": job_figures.mean_s(response),
        f"{name}mean_width": job_figures.mean(width),
        f"{name}mean_changes": job_figures.mean(changes.astype(np.float64)),
        f"{name}max_changes": int(changes.max(initial=0)),
    }


def queue_at_submit(submit_us: NDArray[np.int64], start_us: NDArray[np.int64]) -> NDArray[np.float64]:
    """Jobs that wait when each job is submitted: those before it in the table that have not started before."""
    started = np.searchsorted(np.sort(start_us), submit_us, side="left")
    return (np.arange(len(submit_us)) - started).astype(np.float64)


def _weighted(
    area: NDArray[np.int64], response: NDArray[np.int64], length: NDArray[np.int64]
) -> float | None:
    """SLDwA: sum(area x response / length) / sum(area) (section 4)."""
    lasting = (length > 0) & (area > 0)
    if not lasting.any():
        return None
    weight = area[lasting].astype(np.float64)
    return float((weight * response[lasting] / length[lasting]).sum() / weight.sum())
