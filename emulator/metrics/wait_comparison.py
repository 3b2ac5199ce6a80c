"""The waits of a run beside those that its log recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.metrics.jobs import batch_jobs_run
from emulator.workload.recorded_waits import FAR, apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord
    from emulator.workload.recorded_waits import RecordedWaits

JOBS, RECORDED, SIMULATED, LIKELY = "jobs", "mean_recorded_s", "mean_simulated_s", "likely"


def beside_recorded(record: RunRecord, recorded: RecordedWaits | None) -> dict[str, Any]:
    """How many batch jobs that ran have a wait in the log, and the means of both; empty if none has."""
    if recorded is None:
        return {}
    rows = batch_jobs_run(record)
    order = np.argsort(recorded.number, kind="stable")
    number = recorded.number[order]
    place = np.searchsorted(number, record.jobs.number[rows]).clip(max=len(number) - 1)
    was = np.where(number[place] == record.jobs.number[rows], recorded.wait_us[order][place], -1)
    return means([(was, record.start_us[rows] - record.jobs.submit_us[rows])])


def means(parts: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> dict[str, Any]:
    """Of jobs that come in parts, recorded and simulated waits (recorded -1: not known); empty if none has both."""
    count = was_us = now_us = 0
    for recorded_us, simulated_us in parts:
        known = recorded_us >= 0
        count += int(known.sum())
        was_us += int(recorded_us[known].sum())
        now_us += int(simulated_us[known].sum())
    return {JOBS: count, RECORDED: was_us / US / count, SIMULATED: now_us / US / count} if count else {}


def is_far(found: Mapping[str, Any]) -> bool:
    """Whether the two are so far apart that something about the site is not known."""
    return bool(found) and apart(found[RECORDED] / 60, found[SIMULATED] / 60) > FAR
