"""Weeks with the figures that Wang et al. 2017 print of Mira's (Table 1), for those without its logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number
from emulator.workload.generators import scaled_times
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

DAY_S = 86_400
WEEK_S = 7 * DAY_S
MIRA_NODES = 49_152


class Week(NamedTuple):
    """A row of Table 1. "Cores" there are nodes: the least production job has 512 nodes, which are 8,192 cores."""

    jobs: int
    mean_nodes: float
    mean_walltime_min: float
    mean_node_h: float
    accuracy: float


WEEKS = {
    "a": Week(403, 2650.9, 206.90, 7931.1, 0.867),
    "b": Week(1217, 2659.8, 132.83, 5043.5, 0.856),
    "c": Week(852, 2437.4, 165.39, 6206.2, 0.923),
    "d": Week(943, 2195.3, 235.68, 7021.5, 0.814),
}

_SIZES = np.array([512, 1024, 2048, 4096, 8192, 12_288, 16_384, 24_576, 32_768, 49_152])
_SHARES = np.array([40, 20, 14, 12, 7, 2.5, 2, 1, 1, 0.5])
"""Before they are bent to the week's mean; 85 % are narrow."""
_LONGEST_S = DAY_S
_STEP_S = 300
"""People ask for whole five minutes."""
_NODE_TIME_LIMIT = 0.02
_BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class MiraWeek:
    """A week of batch jobs with one of the rows of Table 1: number of jobs, mean nodes, walltime, node-hours, accuracy.

    `week`: a, b, c or d. Sizes are Mira's partitions, run times log-normal and independent of them (the table's
    node-hours are the product of its means); 63 % of the jobs are narrow and short (section 7.4). Walltimes are
    whole five minutes. Users submit in campaigns of `campaign` jobs (mean of a geometric number, two minutes apart
    on average, `gap_s`) at any hour. No job is wider than `widest`. `run_spread` is the spread of the logarithm of run
    times; `share_power` the power to which the usual shares of sizes are raised: below 1 sizes are more even.
    Raises ValueError on any machine but one of 49,152 nodes.
    """

    # The usual spread is that of a log-normal with a mean of 179 minutes and 74 % up to 120: with 85 % narrow jobs
    # 63 % are narrow and short.
    week: str = "a"
    load: float | None = None
    campaign: float = 12
    widest: int = MIRA_NODES
    gap_s: float = 120
    run_spread: float = 1.744
    share_power: float = 1.0

    def __post_init__(self) -> None:
        if self.week not in WEEKS:
            raise ValueError(f"mira_week: week is one of {', '.join(WEEKS)}, not {self.week!r}")
        if self.load is not None:
            check_number("mira_week", "load", self.load, above=0, at_most=10)
        check_number("mira_week", "campaign", self.campaign, at_least=1, at_most=1000)
        check_number("mira_week", "widest", self.widest, at_least=8192, at_most=MIRA_NODES, whole=True)
        check_number("mira_week", "gap_s", self.gap_s, at_least=0, at_most=DAY_S)
        check_number("mira_week", "run_spread", self.run_spread, at_least=0, at_most=5)
        check_number("mira_week", "share_power", self.share_power, at_least=0, at_most=5)

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:
        if nodes != MIRA_NODES:
            raise ValueError(f"mira_week: Mira has {MIRA_NODES} nodes, the machine {nodes}")
        week = WEEKS[self.week]
        sizes = _sizes(week, self.widest, self.share_power)
        run_s = self._run_times(rng, week, sizes)
        estimate_s = _walltimes(rng, week, run_s)
        order = rng.permutation(week.jobs)
        return JobTable.build(
            submit_us=self._submits_s(rng, week.jobs) * US,
            run_us=run_s[order] * US,
            estimate_us=estimate_s[order] * US,
            nodes=sizes[order].astype(np.int32),
        )

    def _run_times(self, rng: np.random.Generator, week: Week, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """With the week's mean, and as much longer on wide jobs as the load wants: a rank correlation, bisected."""
        mean_s = week.mean_walltime_min * 60 * week.accuracy
        raw_s = np.exp(self.run_spread * rng.standard_normal(week.jobs))
        run_s = np.sort(
            scaled_times(raw_s, np.ones(week.jobs), mean_s * week.jobs, _LONGEST_S).astype(np.int64)
        )
        target = week.mean_node_h * 3600 * week.jobs
        if self.load is not None:
            target = self.load * MIRA_NODES * WEEK_S
        width_z = rng.standard_normal(week.jobs)
        width_z.sort()  # sizes are in order; equal sizes get a spread of their own
        chance_z = rng.standard_normal(week.jobs)
        low, high = -1.0, 1.0
        for _ in range(_BISECTIONS):
            rho = (low + high) / 2
            rank = np.argsort(np.argsort(rho * width_z + np.sqrt(1 - rho * rho) * chance_z))
            got = float(run_s[rank] @ sizes)
            low, high = (rho, high) if got < target else (low, rho)
        if abs(got - target) > _NODE_TIME_LIMIT * target:
            raise ValueError(
                f"mira_week: week {self.week} comes to a load of {got / MIRA_NODES / WEEK_S:.3g}, not"
                f" {target / MIRA_NODES / WEEK_S:.3g}"
            )
        ranked: NDArray[np.int64] = run_s[rank]
        return ranked

    def _submits_s(self, rng: np.random.Generator, jobs: int) -> NDArray[np.int64]:
        sizes = rng.geometric(1 / self.campaign, jobs)
        count = int(np.searchsorted(np.cumsum(sizes), jobs)) + 1
        begins_s = rng.uniform(0, WEEK_S, count)
        of_job = np.repeat(np.arange(count), sizes[:count])[:jobs]
        gaps_s = rng.exponential(self.gap_s, jobs)
        since_s = np.cumsum(gaps_s)
        first = np.searchsorted(of_job, np.arange(count))
        submit_s = begins_s[of_job] + since_s - since_s[first][of_job]
        return np.minimum(submit_s, WEEK_S - 1).astype(np.int64)


def _sizes(week: Week, widest: int, power: float) -> NDArray[np.int64]:
    """As many of each size as the bent shares say, by largest remainder."""
    sizes, usual = _SIZES[widest >= _SIZES], _SHARES[widest >= _SIZES] ** power
    low, high = -1.0, 1.0
    for _ in range(_BISECTIONS):
        bend = (low + high) / 2
        shares = usual * np.exp(bend * sizes / 8192)
        shares /= shares.sum()
        low, high = (bend, high) if float(shares @ sizes) < week.mean_nodes else (low, bend)
    exact = shares * week.jobs
    counts = exact.astype(np.int64)
    most = np.argsort(counts - exact, kind="stable")[: week.jobs - int(counts.sum())]
    counts[most] += 1
    return np.repeat(sizes, counts)


def _walltimes(rng: np.random.Generator, week: Week, run_s: NDArray[np.int64]) -> NDArray[np.int64]:
    """Run times times 1 + an exponential, in whole steps, with the week's mean."""
    extra = rng.exponential(1.0, len(run_s))
    target_s = week.mean_walltime_min * 60 * len(run_s)
    low, high = 0.0, 10.0
    for _ in range(_BISECTIONS):
        factor = (low + high) / 2
        estimate_s = run_s * (1 + factor * extra)
        asked_s = np.maximum(-(-estimate_s // _STEP_S) * _STEP_S, _STEP_S).astype(np.int64)
        asked_s = np.maximum(np.minimum(asked_s, _LONGEST_S), run_s)
        low, high = (factor, high) if int(asked_s.sum()) < target_s else (low, factor)
    return asked_s
