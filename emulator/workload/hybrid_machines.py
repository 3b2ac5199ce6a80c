"""Made traces of the two machines of hybrid-fan-2021: a year of Theta and four months of Cori.

What the paper prints is met: machine, period, number of jobs, longest job, smallest job (Table I), the share of
one-node jobs (section IV-A) and the utilisation of the baseline (Table III). Figure 3's shares are a picture and
not in the text: Theta's sizes and spread of run times are those of its published logs of other years, Cori's are
ours (`SIZES`). Nor does the paper tell how projects submit: that was fitted to Table III and, on Theta, to how many
on-demand jobs there is room for. `docs/mechanisms/hybrid.md` has target and obtained figures side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number
from emulator.workload.generators import scaled_times
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]

_HOUR_S = 3600
DAY_S = 24 * _HOUR_S
_MOST_JOBS = 100_000_000
_NIGHT_LEVEL, _WEEKEND_LEVEL = 0.4, 0.6
QUARTER_S = 900
_POWERS_OF_TWO = 0.7
_WORKDAYS = 5
_LOAD_LIMIT = 0.02


@dataclass(frozen=True, slots=True)
class Size:
    """A share of the jobs, and the widths they have: `least` to `most`, or only `least`."""

    share: float
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Machine:
    """Jobs of projects that submit in campaigns.

    Widths and run times have fixed distributions over the trace; who has which is drawn, so that jobs of a project
    are alike (`likeness` 0 to 1). Project sizes follow Zipf's law with exponent `zipf`. A campaign has a geometric
    number of jobs (mean `campaign_jobs`), submitted `gap_s` apart (exponential); campaigns begin more often by day.
    """

    load: float
    jobs: int
    days: float
    projects: int
    campaign_jobs: float
    gap_s: float
    run_spread: float
    max_run_s: int
    zipf: float = 0.8
    likeness: float = 0.6
    mean_overestimate: float = 1.0
    NAME: ClassVar[str] = ""
    NODES: ClassVar[int] = 1
    SIZES: ClassVar[tuple[Size, ...]] = ()

    def __post_init__(self) -> None:
        owner = self.NAME
        check_number(owner, "load", self.load, above=0, at_most=10)
        check_number(owner, "jobs", self.jobs, at_least=1, at_most=_MOST_JOBS, whole=True)
        check_number(owner, "days", self.days, at_least=1, at_most=36_500)
        check_number(owner, "projects", self.projects, at_least=1, at_most=1_000_000, whole=True)
        check_number(owner, "campaign_jobs", self.campaign_jobs, at_least=1)
        check_number(owner, "gap_s", self.gap_s, at_least=0, at_most=DAY_S)
        check_number(owner, "run_spread", self.run_spread, at_least=0, at_most=5)
        check_number(owner, "max_run_s", self.max_run_s, at_least=60, at_most=365 * DAY_S, whole=True)
        check_number(owner, "zipf", self.zipf, at_least=0, at_most=5)
        check_number(owner, "likeness", self.likeness, at_least=0, at_most=1)
        check_number(owner, "mean_overestimate", self.mean_overestimate, at_least=0, at_most=1000)

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:
        """Jobs by submit time, `group` and `user` their project. Raises ValueError for another machine's size."""
        widest = max(size.most for size in self.SIZES)
        if nodes < widest:
            raise ValueError(f"{self.NAME}: its widest jobs have {widest} nodes; give at least as many")
        project, submit_s = self._campaigns(rng)
        widths = self._alike(rng, project, np.sort(self._widths(rng)))
        target = self.load * nodes * self.days * DAY_S
        run_s, asked_s = self._times(rng, project, widths, target)
        got = float(run_s @ widths) / target
        if abs(got - 1) > _LOAD_LIMIT:
            raise ValueError(
                f"{self.NAME}: {self.jobs} jobs of at most {self.max_run_s} s give a load of {got * self.load:.3g} on "
                f"{nodes} nodes, not {self.load:g}; change jobs or load"
            )
        return JobTable.build(
            submit_us=submit_s * US,
            run_us=run_s.astype(np.int64) * US,
            estimate_us=np.clip(asked_s, run_s, max(self.max_run_s, QUARTER_S)).astype(np.int64) * US,
            nodes=widths.astype(np.int32),
            user=project.astype(np.int32) + 1,
            group=project.astype(np.int32) + 1,
        )

    def _times(
        self, rng: np.random.Generator, project: Whole, widths: Floats, target: float
    ) -> tuple[Floats, Floats]:
        """Run time and walltime in seconds of each job, run times of `target` node-seconds together."""
        # Longest last, so that a project's jobs are alike in length too.
        raw_s = np.exp(self.run_spread * np.sort(rng.standard_normal(self.jobs)))
        raw_s = self._alike(rng, project, raw_s)
        run_s = scaled_times(raw_s, widths.astype(np.float64), target, self.max_run_s)
        asked_s = run_s * (1 + self.mean_overestimate * rng.standard_exponential(self.jobs))
        return run_s, np.ceil(asked_s / QUARTER_S) * QUARTER_S

    def _widths(self, rng: np.random.Generator) -> Floats:
        """As many of each size as its share says, to one job; inside a size powers of two and their neighbours."""
        bounds = np.rint(np.cumsum([0.0, *(size.share for size in self.SIZES)]) * self.jobs).astype(int)
        bounds[-1] = self.jobs
        parts = []
        for size, count in zip(self.SIZES, np.diff(bounds), strict=True):
            exponent = np.log2(size.least) + rng.random(count) * np.log2((size.most + 1) / size.least)
            any_width = np.clip(np.floor(2.0**exponent), size.least, size.most)
            power = np.clip(2.0 ** np.floor(exponent), size.least, size.most)
            parts.append(np.where(rng.random(count) < _POWERS_OF_TWO, power, any_width))
        return np.concatenate(parts)

    def _alike(self, rng: np.random.Generator, project: Whole, values: Floats) -> Floats:
        """These sorted values, given to jobs so that those of one project tend to have neighbouring ones."""
        taste = rng.standard_normal(self.projects)[project]
        noise = rng.standard_normal(self.jobs)
        score = self.likeness * taste + np.sqrt(1 - self.likeness**2) * noise
        drawn = np.empty_like(values)
        drawn[np.argsort(score, kind="stable")] = values
        return drawn

    def _campaigns(self, rng: np.random.Generator) -> tuple[Whole, Whole]:
        """Project and submit time in seconds of each job."""
        weights = np.arange(1, self.projects + 1, dtype=np.float64) ** -self.zipf
        weights = rng.permutation(weights / weights.sum())
        count = max(1, round(self.jobs / self.campaign_jobs))
        sizes = (
            rng.multinomial(self.jobs - count, rng.dirichlet(np.ones(count))) + 1
            if self.jobs > count
            else None
        )
        sizes = np.ones(self.jobs, np.int64) if sizes is None else sizes
        project_of = rng.choice(self.projects, len(sizes), p=weights)
        begin_s = self._begins_s(rng, len(sizes))
        campaign = np.repeat(np.arange(len(sizes)), sizes)
        since = np.cumsum(np.rint(self._gaps_s(rng)).astype(np.int64))
        first = np.repeat(since[np.cumsum(sizes) - sizes], sizes)
        period_s = int(self.days * DAY_S)
        # What a campaign at the end of the period has left comes at its begin: the machine is as busy all the time.
        submit_s = (begin_s[campaign] + since - first) % period_s
        return project_of[campaign], submit_s

    def _gaps_s(self, rng: np.random.Generator) -> Floats:
        """Time from the job before in the same campaign, of each job."""
        return self.gap_s * rng.standard_exponential(self.jobs)

    def _busy(self, rng: np.random.Generator, hours: int) -> Floats:  # noqa: ARG002
        """How busy each hour is beside what hours and weekdays make of it."""
        return np.ones(hours)

    def _begins_s(self, rng: np.random.Generator, count: int) -> Whole:
        hours = np.arange(int(self.days * 24))
        curve = np.clip(np.sin(np.pi * (hours % 24 + 0.5 - 7) / 14), 0, None)
        rate = _NIGHT_LEVEL + (1 - _NIGHT_LEVEL) * curve
        rate = rate * np.where(hours // 24 % 7 < _WORKDAYS, 1.0, _WEEKEND_LEVEL) * self._busy(rng, len(hours))
        hour = rng.choice(len(hours), count, p=rate / rate.sum())
        begin: Whole = hour * _HOUR_S + rng.integers(0, _HOUR_S, count)
        return begin


@dataclass(frozen=True, slots=True)
class ThetaYear(Machine):
    """A year of a capability machine: 4,392 nodes, 37,298 jobs of 128 nodes or more and at most a day (Table I).

    `SIZES` is the mean of Theta's logs of 2018 (3,000 jobs) and 2022, `run_spread` the spread of their run times.
    """

    load: float = 0.832
    jobs: int = 37_298
    days: float = 365
    projects: int = 150
    campaign_jobs: float = 11
    gap_s: float = 7200
    run_spread: float = 1.8
    max_run_s: int = DAY_S
    NAME: ClassVar[str] = "theta_year"
    NODES: ClassVar[int] = 4392
    SIZES: ClassVar[tuple[Size, ...]] = (
        Size(0.545, 128, 255),
        Size(0.271, 256, 511),
        Size(0.106, 512, 1023),
        Size(0.058, 1024, 2047),
        Size(0.0175, 2048, 4095),
        Size(0.0025, 4096, 4392),
    )


@dataclass(frozen=True, slots=True)
class CoriMonths(Machine):
    """Four months of a capacity machine: 12,076 nodes, 2,607,054 jobs, 76 % of one node, at most a week (Table I)."""

    load: float = 0.845
    jobs: int = 2_607_054
    days: float = 122
    projects: int = 700
    campaign_jobs: float = 75
    gap_s: float = 30
    run_spread: float = 1.8
    max_run_s: int = 7 * DAY_S
    NAME: ClassVar[str] = "cori_months"
    NODES: ClassVar[int] = 12_076
    SIZES: ClassVar[tuple[Size, ...]] = (
        Size(0.76, 1, 1),
        Size(0.14, 2, 8),
        Size(0.074, 9, 64),
        Size(0.022, 65, 512),
        Size(0.0038, 513, 4095),
        Size(0.0002, 4096, 12_076),
    )


def figures(jobs: JobTable, *, nodes: int, days: float) -> dict[str, float]:
    """What Table I and section IV-A tell of a trace, for the side-by-side tables."""
    node_s = float((jobs.nodes * (jobs.run_us / US)).sum())
    return {
        "jobs": len(jobs),
        "one_node_share": float((jobs.nodes == 1).mean()),
        "min_nodes": int(jobs.nodes.min()),
        "max_nodes": int(jobs.nodes.max()),
        "max_run_h": float(jobs.run_us.max()) / US / _HOUR_S,
        "load": node_s / (nodes * days * DAY_S),
    }
