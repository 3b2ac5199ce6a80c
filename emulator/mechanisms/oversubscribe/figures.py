"""The figures of Minami et al. 2023 from the start and end of each job; times in microseconds, one entry a job."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.metrics.heat import by_size_and_length

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from emulator.workload.table import JobTable

LEVELS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 10.0, 20.0, 50.0, 100.0)
"""Slowdowns at which the distribution (Figures 8 and 9) is told."""
TERRIBLE = 100


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What became of the jobs that ran to their end. `is_responsive`: of the class that wants quick answers."""

    jobs: JobTable
    cores: NDArray[np.int64]
    start_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    is_responsive: NDArray[np.bool_]

    @property
    def wait_us(self) -> NDArray[np.int64]:
        return self.start_us - self.jobs.submit_us

    @property
    def slowdown(self) -> NDArray[np.float64]:
        """S_OSub (equation 2): response time over the run time alone on the cores."""
        return (self.end_us - self.jobs.submit_us) / self.jobs.run_us


def completion_us(end_us: NDArray[np.int64], share: float) -> int:
    """When this share of the jobs is over (Tables 4 and 5: the 49,278th of 51,871 for 0.95)."""
    return int(np.sort(end_us)[int(np.ceil(len(end_us) * share)) - 1])


def heat(outcomes: Outcomes) -> list[list[list[float]]]:
    """Jobs and mean S_OSub by size (SIZE_EDGES) and length (LENGTH_EDGES_S): `heat[size][length]` is both."""
    count, mean = by_size_and_length(outcomes.cores, outcomes.jobs.run_us, outcomes.slowdown)
    table = np.stack((count, np.nan_to_num(mean)), axis=-1)
    return [[[float(value) for value in each] for each in row] for row in table]


def figures(outcomes: Outcomes, follow: Sequence[int] = ()) -> dict[str, Any]:
    """All figures as one flat mapping; `follow` are the numbers of jobs that are told one by one (Table 3).

    `heat` and `distribution` are JSON. A class without jobs has none of its figures.
    """
    slowdown, wait_us = outcomes.slowdown, outcomes.wait_us
    row: dict[str, Any] = {}
    for name, rows in (("responsive", outcomes.is_responsive), ("normal", ~outcomes.is_responsive)):
        row[f"jobs_{name}"] = int(rows.sum())
        if rows.any():
            row[f"max_wait_s_{name}"] = float(wait_us[rows].max()) / US
            row[f"mean_wait_s_{name}"] = float(wait_us[rows].mean()) / US
            row[f"max_slowdown_{name}"] = float(slowdown[rows].max())
            row[f"mean_slowdown_{name}"] = float(slowdown[rows].mean())
            row[f"waiting_{name}"] = int((wait_us[rows] > 0).sum())
    if not len(slowdown):
        return row
    row["slowdown_100"] = int((slowdown >= TERRIBLE).sum())
    row["slowdown_100_share"] = float((slowdown >= TERRIBLE).mean())
    row["last_end_s"] = float(outcomes.end_us.max()) / US
    row["completion_90_h"] = completion_us(outcomes.end_us, 0.90) / (3600 * US)
    row["completion_95_h"] = completion_us(outcomes.end_us, 0.95) / (3600 * US)
    row["distribution"] = json.dumps([float((slowdown <= level).mean()) for level in LEVELS])
    row |= {f"slowdown_at_most_{level:g}": float((slowdown <= level).mean()) for level in LEVELS}
    row["heat"] = json.dumps(heat(outcomes))
    for number in follow:
        found = np.flatnonzero(outcomes.jobs.number == number)
        if len(found):
            one = int(found[0])
            row[f"job_{number}_wait_s"] = float(wait_us[one]) / US
            row[f"job_{number}_run_s"] = float(outcomes.end_us[one] - outcomes.start_us[one]) / US
            row[f"job_{number}_slowdown"] = float(slowdown[one])
    return row
