"""The workloads of Minami et al. 2023: their log as they read it, and stand-ins with the figures that they print."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number
from emulator.workload.requests import gpus
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.workload.swf import SwfLog

_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class CoreJobs:
    """The generator `core_jobs`: jobs of a log that counts cores, on nodes of `cores` of them.

    A job has the fewest nodes that hold its cores, and the same number of cores on each, rounded up. Its run time
    is what it ran, else the processor time it used, at least 1 s; a job with neither is left out. Its estimate is at
    least its run time. `spread: divisor` is the fewest nodes on which its cores divide evenly (200 cores: 20 x 10, not
    17 x 12), as in the authors' program. Jobs of `responsive_queues` that want more than `widest_responsive` cores
    are left out (0: none are). `memory`: `used` or `requested` fills the column `memory_kib` from the log, `none`
    does not. `gpus`: the log's fill the column `gpus`, the same number on each node, rounded up.
    """

    trace: str
    cores: int
    responsive_queues: list[int] = field(default_factory=lambda: [0])
    widest_responsive: int = 0
    memory: str = "none"
    spread: str = "fewest"
    gpus: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.trace, str | Path):
            raise ValueError(f"core_jobs: trace must be the name of a file, not {self.trace!r}")  # noqa: TRY004
        check_number("core_jobs", "cores", self.cores, at_least=1, whole=True)
        check_number("core_jobs", "widest_responsive", self.widest_responsive, at_least=0, whole=True)
        if self.memory not in ("none", "used", "requested"):
            raise ValueError(f"core_jobs: memory is none, used or requested, not {self.memory!r}")
        if self.spread not in ("fewest", "divisor"):
            raise ValueError(f"core_jobs: spread is fewest or divisor, not {self.spread!r}")
        if not isinstance(self.gpus, bool):
            raise ValueError(f"core_jobs: gpus is true or false, not {self.gpus!r}")  # noqa: TRY004

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:  # noqa: ARG002 - nothing is random
        """Raises ValueError if the log cannot be read."""
        from emulator.workload.formats import load  # noqa: PLC0415 - `load` finds formats, which need tables

        return self.of(load(self.trace), nodes)

    def of(self, log: SwfLog, most_nodes: int = 0) -> JobTable:
        """The jobs of a log, on at most so many nodes each (0: any number)."""
        procs = np.where(
            log.column("allocated_procs") > 0, log.column("allocated_procs"), log.column("requested_procs")
        )
        run_s = np.where(log.column("run_s") < 0, log.column("cpu_s"), log.column("run_s"))
        too_wide = np.isin(log.column("queue"), self.responsive_queues) & (procs > self.widest_responsive)
        kept = (procs > 0) & (run_s >= 0) & ~(too_wide & (self.widest_responsive > 0))
        if not kept.any():
            raise ValueError(f"core_jobs: {log.source}: no job has a size and a run time")
        procs, run_s = procs[kept].astype(np.int64), np.maximum(run_s[kept], 1)
        submit_s = log.column("submit_s")[kept]
        nodes = -(-procs // self.cores)
        if self.spread == "divisor":
            nodes = _even_nodes(procs, nodes, self.cores, most_nodes)
        extra = {"cores": -(-procs // nodes)}
        if self.memory != "none":
            per_core = log.column(f"{self.memory}_memory_kb")[kept]
            extra["memory_kib"] = np.where(per_core < 0, -1, per_core * extra["cores"]).astype(np.int64)
        if self.gpus:
            if (of_all := gpus(log)) is None:
                raise ValueError(f"core_jobs: gpus: {log.source} says nothing of GPUs; leave it out")
            extra["gpus"] = -(-of_all[kept] // nodes)
        return JobTable.build(
            number=log.column("number")[kept].astype(np.int64),
            submit_us=_us(submit_s - submit_s.min()),
            run_us=_us(run_s),
            estimate_us=_us(np.maximum(log.column("requested_s")[kept], run_s)),
            nodes=nodes,
            queue=_labels(log.column("queue")[kept]),
            user=_labels(log.column("user")[kept]),
            group=_labels(log.column("group")[kept]),
            status=_labels(log.column("status")[kept]),
            extra=extra,
        )


def _us(time_s: NDArray[np.generic]) -> NDArray[np.int64]:
    return np.rint(time_s.astype(np.float64) * US).astype(np.int64)


def _labels(values: NDArray[Any]) -> NDArray[np.int32]:
    """Numbers that only tell things apart; those beyond 32 bits (hashes) are replaced by 1, 2, ..."""
    if len(values) and np.abs(values).max() > np.iinfo(np.int32).max:
        values = np.unique(values, return_inverse=True)[1] + 1
    return values.astype(np.int32)


def _even_nodes(
    procs: NDArray[np.int64], fewest: NDArray[np.int64], cores: int, most: int
) -> NDArray[np.int64]:
    """The smallest divisor of each job's cores that leaves at most `cores` for a node; the fewest if there is none."""
    nodes = fewest.copy()
    for wanted in np.unique(procs).tolist():
        few = -(-wanted // cores)
        last = min(wanted, most or wanted)
        even = next((count for count in range(few, last + 1) if wanted % count == 0), few)
        nodes[procs == wanted] = even
    return nodes


def _by_node(procs: NDArray[np.int64], cores: int) -> dict[str, NDArray[np.int64]]:
    """Cores on each of the fewest nodes that hold these."""
    nodes = -(-procs // cores)
    return {"cores": -(-procs // nodes)}


@dataclass(frozen=True, slots=True)
class _Class:
    """Jobs alike. `sizes`: cores and their shares; run times are log-normal (of seconds), cut at `longest_s`.

    `arrivals`: what share of them has come after so many hours. `campaign`: the mean number of jobs alike that a user
    submits in a row. Run times of classes with `is_scaled` are what the load is reached by.
    """

    queue: int
    jobs: int
    sizes: tuple[tuple[int, float], ...]
    log_mean: float
    log_spread: float
    longest_s: int
    walltimes_s: tuple[int, ...]
    arrivals: tuple[tuple[float, float], ...]
    campaign: float
    is_scaled: bool = False


@dataclass(frozen=True, slots=True)
class _Site:
    """A machine and its jobs until the last submit at `hours`."""

    cores: int
    users: int
    hours: float
    load: float
    classes: tuple[_Class, ...]


_UNILU_EVEN, _UNILU_LATE = ((0, 0), (1, 2137)), ((0, 0), (0.1, 1464), (0.35, 2040), (0.75, 2088), (1, 2112))
_KIT_EVEN, _KIT_LATE = ((0, 0), (1, 13_560)), ((0, 13_560), (0.5, 13_720), (1, 13_880))
_SITES = {
    # Table 1; sizes, lengths and the many short jobs of the last week as in the log.
    "unilu": _Site(
        cores=12, users=82, hours=2137, load=0.46,
        classes=(
            _Class(0, 1_762, ((1, 0.74), (12, 0.17), (4, 0.06), (6, 0.03)), 7.1, 2.38, 43_507, (7_200, 43_200),
                   _UNILU_EVEN, 1.5),
            _Class(1, 23_500, ((12, 1.0),), 6.5, 0.6, 86_400, (259_200,), _UNILU_LATE, 10),
            _Class(1, 11_705, ((1, 0.3), (12, 0.2), (48, 0.13), (6, 0.1), (4, 0.1), (8, 0.07), (2, 0.05), (36, 0.02),
                               (24, 0.02), (72, 0.007), (200, 0.002), (516, 0.001)),
                   8.0, 2.8, 1_800_012, (7_200, 86_400, 259_200, 432_000), _UNILU_EVEN, 3, is_scaled=True),
            _Class(2, 14_904, ((1, 0.93), (4, 0.05), (12, 0.02)), 8.6, 1.2, 626_638, (7_200, 36_000, 360_000),
                   _UNILU_EVEN, 12),
        ),
    ),
    # Table 2, and Table 5 for when jobs are over; sizes, lengths and load are calibrated (the docs page says on what).
    "kit": _Site(
        cores=20, users=161, hours=13_880, load=0.57,
        classes=(
            _Class(0, 2_349, ((20, 0.5), (1, 0.2), (10, 0.1), (40, 0.15), (48, 0.05)), 9.2, 1.6, 259_200,
                   (86_400, 259_200), _KIT_EVEN, 5),
            _Class(1, 100_500, ((20, 0.35), (40, 0.2), (80, 0.15), (160, 0.12), (320, 0.09), (640, 0.06), (1280, 0.02),
                                (2560, 0.008), (5120, 0.0018), (10_240, 0.0002), (22_960, 0.00002)),
                   8.0, 2.3, 604_800, (14_400, 86_400, 172_800, 604_800), _KIT_EVEN, 3, is_scaled=True),
            _Class(1, 11_498, ((20, 1.0),), 6.0, 1.0, 86_400, (3_600, 86_400), _KIT_LATE, 10),
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CoreJobsLike:
    """The generator `core_jobs_like`: a stand-in for one of the paper's logs, `unilu` or `kit`.

    It has the number of jobs and users, the classes, widest and longest jobs that Tables 1 and 2 print. `load` is
    core-time over that of the whole machine until the last submit; the run times of the normal jobs are scaled to it.
    `share` keeps that share of the time and of the jobs, at the same load. What the paper leaves open, None for the
    site's own: `run_spread` and `campaign` of the normal jobs that are scaled, `responsive_run_s` (median) and
    `responsive_campaign` of the responsive ones. `day_spread`: of the logarithm of how busy a day is; `size_power`: the
    shares of sizes are raised to it.
    """

    site: str
    load: float | None = None
    share: float = 1.0
    run_spread: float | None = None
    campaign: float | None = None
    responsive_run_s: float | None = None
    responsive_campaign: float | None = None
    day_spread: float = 0.8
    size_power: float = 1.0

    def __post_init__(self) -> None:
        if self.site not in _SITES:
            raise ValueError(f"core_jobs_like: site is one of {', '.join(_SITES)}, not {self.site!r}")
        if self.load is not None:
            check_number("core_jobs_like", "load", self.load, above=0, at_most=5)
        check_number("core_jobs_like", "share", self.share, above=0, at_most=1)
        for name, least in (
            ("run_spread", 0), ("campaign", 1), ("responsive_run_s", 1), ("responsive_campaign", 1),
            ("day_spread", 0), ("size_power", 0),
        ):  # fmt: skip
            if getattr(self, name) is not None:
                check_number("core_jobs_like", name, getattr(self, name), at_least=least)

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:
        site = _SITES[self.site]
        classes = [self._changed(job_class) for job_class in site.classes]
        parts = [_jobs_of(rng, each, site.users, self.share, self.day_spread) for each in classes]
        submit_s, procs, run_s, estimate_s, user = (
            np.concatenate(column) for column in zip(*parts, strict=True)
        )
        which = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
        longest_s, queue, is_scaled = (
            np.array([getattr(job_class, name) for job_class in site.classes])[which]
            for name in ("longest_s", "queue", "is_scaled")
        )
        procs = np.minimum(procs, nodes * site.cores)
        wanted = (self.load or site.load) * nodes * site.cores * site.hours * _HOUR_S * self.share
        run_s = np.where(is_scaled, _scaled(run_s, procs, longest_s, ~is_scaled, wanted), run_s)
        run_s = np.maximum(np.rint(np.minimum(run_s, longest_s)), 1)
        return JobTable.build(
            submit_us=_us(submit_s),
            run_us=_us(run_s),
            estimate_us=_us(np.maximum(estimate_s, run_s)),
            nodes=-(-procs // site.cores),
            queue=queue,
            user=user,
            extra=_by_node(procs, site.cores),
        )

    def _changed(self, job_class: _Class) -> _Class:
        """A class of the site with what is given of it."""
        given: dict[str, Any] = {}
        if job_class.is_scaled:
            given = {"log_spread": self.run_spread, "campaign": self.campaign}
        elif job_class.queue == 0:
            log_mean = None if self.responsive_run_s is None else float(np.log(self.responsive_run_s))
            given = {"log_mean": log_mean, "campaign": self.responsive_campaign}
        if self.size_power != 1:
            given["sizes"] = tuple((cores, share**self.size_power) for cores, share in job_class.sizes)
        return replace(job_class, **{name: value for name, value in given.items() if value is not None})


_Drawn = tuple[
    "NDArray[np.float64]",
    "NDArray[np.int64]",
    "NDArray[np.float64]",
    "NDArray[np.int64]",
    "NDArray[np.int64]",
]


def _jobs_of(
    rng: np.random.Generator, job_class: _Class, users: int, share: float, day_spread: float
) -> _Drawn:
    """Submit (s), cores, run time (s), walltime (s) and user of each job of a class, campaign by campaign."""
    count = max(1, round(job_class.jobs * share))
    lengths = rng.geometric(1 / job_class.campaign, count)
    campaigns = int(np.searchsorted(np.cumsum(lengths), count)) + 1
    lengths = lengths[:campaigns]
    which = np.repeat(np.arange(campaigns), lengths)[:count]
    begin_s = _arrivals(rng, campaigns, job_class.arrivals, day_spread) * share
    gap_s = np.where(np.append(True, which[1:] != which[:-1]), 0, rng.exponential(20, count))
    in_row_s = np.cumsum(gap_s)
    first = np.searchsorted(which, np.arange(which[-1] + 1))
    submit_s = np.rint(begin_s[which] + in_row_s - in_row_s[first][which])
    cores, shares = np.array(job_class.sizes).T
    procs = rng.choice(cores.astype(np.int64), campaigns, p=shares / shares.sum())[which]
    inner = 0.3 * job_class.log_spread
    outer = np.sqrt(job_class.log_spread**2 - inner**2)
    log_run = (
        job_class.log_mean
        + outer * rng.standard_normal(campaigns)[which]
        + inner * rng.standard_normal(count)
    )
    walltime_s = rng.choice(np.array(job_class.walltimes_s), campaigns)[which]
    user = (rng.geometric(4 / users, campaigns) % users + 1)[which]
    return submit_s, procs, np.minimum(np.exp(log_run), job_class.longest_s), walltime_s, user


def _arrivals(
    rng: np.random.Generator, count: int, arrivals: tuple[tuple[float, float], ...], day_spread: float
) -> NDArray[np.float64]:
    """Times (s) of campaigns: some days are busier than others, the shares of `arrivals` are kept."""
    shares, hours = np.array(arrivals).T
    grid = np.unique(np.concatenate((np.arange(hours[0], hours[-1], 24), hours)))
    middle = (grid[1:] + grid[:-1]) / 2
    part = np.searchsorted(hours, middle) - 1
    weight = np.diff(grid) * rng.lognormal(0, day_spread, len(middle))
    weight *= (np.diff(shares) / np.bincount(part, weight))[part]
    places = np.concatenate(([0], np.cumsum(weight)))
    return np.asarray(np.interp(rng.random(count) * places[-1], places, grid) * _HOUR_S)


def _scaled(
    run_s: NDArray[np.float64],
    procs: NDArray[np.int64],
    longest_s: NDArray[np.int64],
    fixed: NDArray[np.bool_],
    wanted: float,
) -> NDArray[np.float64]:
    """Run times times one factor, cut at the longest, so that all core-time together is as wanted."""
    low, high = 1e-4, 1e4
    for _ in range(60):
        factor = np.sqrt(low * high)
        scaled = np.where(fixed, run_s, np.minimum(run_s * factor, longest_s))
        if float((scaled * procs).sum()) < wanted:
            low = factor
        else:
            high = factor
    return run_s * high
