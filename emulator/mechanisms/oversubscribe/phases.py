"""Phases of interactive jobs: they compute, then their user thinks (Minami et al. 2023, section 5.2, Figure 14)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import micros
from emulator.plugins import check_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.workload.table import JobTable

_SHORTEST_US = 1000
"""Of a phase that was drawn: thousands of empty ones would say nothing."""


def draw_phases(jobs: JobTable, rng: np.random.Generator) -> dict[int, NDArray[np.int64]]:
    """Lengths of the phases of each job that has `active_us` and `idle_us`, by row: active and idle by turns.

    Lengths are exponential with these means, at least a millisecond; they add up to the run time. Each job has a
    stream of its own, so that one job more changes no other.
    """
    active_us, idle_us = jobs.column("active_us"), jobs.column("idle_us")
    phases = {}
    rows = np.flatnonzero((active_us > 0) & (idle_us > 0))
    for row, own in zip(rows.tolist(), rng.spawn(len(rows)), strict=True):
        means = np.array([active_us[row], idle_us[row]], np.float64)
        run_us, lengths, total = int(jobs.run_us[row]), np.empty(0, np.int64), 0
        while total < run_us:
            pairs = max(8, int((run_us - total) / means.sum()) + 1)
            drawn = np.rint(own.exponential(means, (pairs, 2))).astype(np.int64).ravel()
            lengths = np.concatenate((lengths, np.maximum(drawn, _SHORTEST_US)))
            total = int(lengths.sum())
        ends = np.cumsum(lengths)
        count = int(np.searchsorted(ends, run_us)) + 1
        lengths = lengths[:count]
        lengths[-1] -= ends[count - 1] - run_us
        phases[row] = lengths
    return phases


@dataclass(frozen=True, slots=True)
class InteractivePhases:
    """Jobs of these queues compute for `active_s` and think for `idle_s`, by turns, on average.

    The transform sets the extra columns `active_us` and `idle_us`; the mechanism draws the phases.
    """

    active_s: float
    idle_s: float
    queues: list[int] = field(default_factory=lambda: [0])

    def __post_init__(self) -> None:
        check_number("interactive_phases", "active_s", self.active_s, at_least=0.001)
        check_number("interactive_phases", "idle_s", self.idle_s, at_least=0.001)

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002 - the same on any cluster
        chosen = np.isin(jobs.queue, self.queues)
        return jobs.with_extra(
            active_us=np.where(chosen, micros(self.active_s), jobs.column("active_us")),
            idle_us=np.where(chosen, micros(self.idle_s), jobs.column("idle_us")),
        )


@dataclass(frozen=True, slots=True)
class ShareLimit:
    """Jobs of these queues bear at most `limit` jobs, themselves included, on each of their cores; 1: they opt out."""

    limit: int
    queues: list[int]

    def __post_init__(self) -> None:
        check_number("share_limit", "limit", self.limit, at_least=1, whole=True)

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002 - the same on any cluster
        chosen = np.isin(jobs.queue, self.queues)
        return jobs.with_extra(share_limit=np.where(chosen, self.limit, jobs.column("share_limit")))
