"""A made year of Theta whose jobs come, ask and run as those of its published logs do.

`theta_year` (`hybrid_machines`) has the totals that hybrid-fan-2021 prints and jobs that come at even paces. The logs
of 2022 and 2023, which name no users, tell more: jobs come in bursts (a quarter within ten seconds of the one before),
a third runs to its walltime, most have exactly 128 nodes, and wide jobs are long ones. Projects and their campaigns are
ours, as in `theta_year`. `docs/mechanisms/hybrid.md` has logs and made traces side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from emulator.plugins import check_number
from emulator.workload.generators import scaled_times
from emulator.workload.hybrid_machines import DAY_S, QUARTER_S, Machine, Size

if TYPE_CHECKING:
    from emulator.workload.hybrid_machines import Floats, Whole

_HOURS = 24
_LOW_USE = 0.05
"""A job that ends long before its walltime uses at least this share of it."""


@dataclass(frozen=True, slots=True)
class ThetaLogs(Machine):
    """A year of 4,392 nodes: 37,298 jobs of 128 nodes or more and at most a day, by the logs of 2022 and 2023.

    Jobs of a campaign follow each other after lognormal times with median `gap_s` and spread `gap_spread` (of the
    logarithm); days are busier or quieter by `day_spread`. `at_limit` of the jobs run to their walltime, which has a
    spread of `walltime_spread`; the others use a part of it (the square of a uniform number). Wide jobs are long ones
    by `together` (0: not at all, 1: strictly).
    """

    load: float = 0.832
    jobs: int = 37_298
    days: float = 365
    projects: int = 150
    campaign_jobs: float = 5
    gap_s: float = 35
    run_spread: float = 1.0
    max_run_s: int = DAY_S
    gap_spread: float = 2.0
    day_spread: float = 0.3
    at_limit: float = 0.30
    together: float = 0.5
    NAME: ClassVar[str] = "theta_logs"
    NODES: ClassVar[int] = 4392
    SIZES: ClassVar[tuple[Size, ...]] = (
        Size(0.587, 128, 128),
        Size(0.043, 129, 255),
        Size(0.167, 256, 256),
        Size(0.057, 257, 511),
        Size(0.036, 512, 512),
        Size(0.043, 513, 1023),
        Size(0.042, 1024, 1024),
        Size(0.015, 1025, 2047),
        Size(0.008, 2048, 4095),
        Size(0.002, 4096, 4360),
    )

    def __post_init__(self) -> None:
        Machine.__post_init__(self)
        for name, most in (("gap_spread", 5), ("day_spread", 5), ("at_limit", 1), ("together", 1)):
            check_number(self.NAME, name, getattr(self, name), at_least=0, at_most=most)

    def _gaps_s(self, rng: np.random.Generator) -> Floats:
        gaps: Floats = self.gap_s * np.exp(self.gap_spread * rng.standard_normal(self.jobs))
        return np.minimum(gaps, DAY_S)

    def _busy(self, rng: np.random.Generator, hours: int) -> Floats:
        of_day: Floats = np.exp(self.day_spread * rng.standard_normal(-(-hours // _HOURS)))
        return np.repeat(of_day, _HOURS)[:hours]

    def _times(
        self, rng: np.random.Generator, project: Whole, widths: Floats, target: float
    ) -> tuple[Floats, Floats]:
        wide = np.empty(self.jobs)
        wide[np.argsort(widths + rng.random(self.jobs))] = np.sort(rng.standard_normal(self.jobs))
        taste = rng.standard_normal(self.projects)[project]
        noise = self.likeness * taste + np.sqrt(1 - self.likeness**2) * rng.standard_normal(self.jobs)
        walltime = np.empty(self.jobs)
        order = np.argsort(self.together * wide + np.sqrt(1 - self.together**2) * noise, kind="stable")
        walltime[order] = np.exp(self.run_spread * np.sort(rng.standard_normal(self.jobs)))
        used = np.maximum(rng.random(self.jobs) ** 2, _LOW_USE**2)
        used[rng.random(self.jobs) < self.at_limit] = 1.0
        run_s = scaled_times(walltime * used, widths, target, self.max_run_s)
        asked_s = np.where(used < 1, np.ceil(run_s / used / QUARTER_S) * QUARTER_S, run_s)
        return run_s, asked_s
