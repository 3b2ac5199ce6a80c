"""CUP: collect until predicted arrival (hybrid-fan-2021, section III-B.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from emulator.mechanisms.hybrid.strategies import NoticeBy


@dataclass(frozen=True, slots=True)
class CollectUntilPredictedArrival:
    """Holds the idle nodes, those of jobs that should end before the predicted arrival, and preempts for the rest.

    Of the jobs that should end in time those with the earliest expected end are taken, as many as are needed.
    If all nodes that may be had are too few, all of them are taken.
    """

    compiled: ClassVar[NoticeBy] = NoticeBy.CUP
