"""CUP: collect until predicted arrival (hybrid-fan-2021, section III-B.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from emulator.mechanisms.hybrid.decisions import least_first
from emulator.mechanisms.hybrid.notice_plan import Preparation

if TYPE_CHECKING:
    from emulator.mechanisms.hybrid.notice_plan import Outlook


@dataclass(frozen=True, slots=True)
class CollectUntilPredictedArrival:
    """Holds the idle nodes, those of jobs that should end before the predicted arrival, and preempts for the rest.

    Of the jobs that should end in time those with the earliest expected end are taken, as many as are needed.
    If all nodes that may be had are too few, all of them are taken.
    """

    def prepare(self, outlook: Outlook) -> Preparation:
        missing = outlook.needed - outlook.free
        if missing <= 0:
            return Preparation()
        jobs = outlook.candidates
        in_time = jobs.expected_end_us <= outlook.predicted_us
        ending = np.flatnonzero(in_time)
        chosen = least_first(jobs.expected_end_us[ending], jobs.nodes[ending], missing)
        promised = ending if chosen is None else ending[chosen]
        missing -= int(jobs.nodes[promised].sum())
        stops: tuple[tuple[int, int], ...] = ()
        if missing > 0:
            others = np.flatnonzero(~in_time)
            chosen = least_first(jobs.overhead_us[others], jobs.nodes[others], missing)
            victims = others if chosen is None else others[chosen]
            stops = tuple(zip(jobs.stop_us[victims].tolist(), jobs.job[victims].tolist(), strict=True))
        return Preparation(promised=tuple(jobs.job[promised].tolist()), stops=stops)
