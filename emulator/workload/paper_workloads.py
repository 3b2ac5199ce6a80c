"""Workloads with the figures that the Balancer paper prints (Liu et al. 2018), for those without its logs.

Shapes are taken from the logs of other weeks than the one the paper uses: widths and run times from the LCRC
weeks before 2015-04-05, bursts and durations from eight APS weeks with experiments (2014-01-19, 04-27, 05-04,
05-11, 05-18, 05-25, 07-20 and 09-21), packed onto 16-core machines. Sizes are then scaled to what is printed.
Time 0 is Sunday, midnight, as in those logs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number
from emulator.text.number_text import number, percent
from emulator.workload.generators import scaled_times
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import RenderableType

DAY_S = 86_400
WEEK_S = 7 * DAY_S
_DAYS = 7
_WEEKEND = (0, 6)
_MINUTE_S = 60
_APART_S = 180
_TRIES = 10_000
_DRAWS = 20
"""Sets of durations that are tried where leases are not to be more than so many at once."""
_BATCH = 10_000
_MOST_JOBS = 10_000_000

_WIDTHS = np.array([1, 2, 4, 5, 6, 8, 12, 14, 16, 32, 64, 128, 256])
_WIDTH_SHARES = np.array([13562, 73762, 1377, 4510, 220, 4183, 202, 616, 691, 550, 169, 139, 19], np.float64)
"""Of 100,000 jobs; rare widths are with their neighbours."""
_RUN_CLASS = np.searchsorted([1, 2, 4, 8, 16, 32, 64, 128], _WIDTHS)
_RUN_LOG_MEAN = np.array([3.64, 7.45, 7.06, 6.66, 5.73, 5.11, 6.33, 4.29, 5.49])[_RUN_CLASS]
_RUN_LOG_SPREAD = np.array([3.22, 1.30, 3.19, 2.30, 2.70, 3.24, 2.50, 2.34, 1.76])[_RUN_CLASS]
"""Mean and standard deviation of the logarithm of the run time in seconds, by width."""
_REQUESTS_S = np.array(
    [
        600,
        900,
        1800,
        3600,
        6000,
        7200,
        9000,
        10_800,
        14_400,
        18_000,
        21_600,
        36_000,
        43_200,
        72_000,
        180_000,
        WEEK_S,
    ]
)
_REQUEST_SHARES = np.array(
    [674, 84, 184, 408, 266, 3373, 322, 46, 483, 645, 81, 2773, 40, 37, 29, 1], np.float64
)


@dataclass(frozen=True, slots=True)
class LcrcBatch:
    """Batch jobs like those of the LCRC cluster: three of four have two nodes, few are wide, run times vary a lot.

    The defaults are the paper's mainstream workload U66-Main. `load` is node-time over `nodes` x a week; the number
    of jobs follows from it and `mean_run_s`, or, with `jobs` given, the run times do: 24,177 jobs at a load of
    0.844 are as many and as much as in the most challenging week. Submits are uniform (those of the logs vary by
    a tenth over the day). Users ask for the walltimes that were usual, but never for less than the run time.
    """

    load: float = 0.665
    jobs: int | None = None
    mean_run_s: float = 3846
    widest: int = 256

    def __post_init__(self) -> None:
        check_number("lcrc_batch", "load", self.load, above=0, at_most=10)
        check_number("lcrc_batch", "mean_run_s", self.mean_run_s, at_least=1, at_most=WEEK_S)
        check_number("lcrc_batch", "widest", self.widest, at_least=1, whole=True)
        if self.jobs is not None:
            check_number("lcrc_batch", "jobs", self.jobs, at_least=1, at_most=_MOST_JOBS, whole=True)

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:
        target = self.load * nodes * WEEK_S
        widths, raw_s = self._draw(rng, nodes, self.jobs or _BATCH)
        while self.jobs is None:
            # Node-time of the first jobs, 1, 2, ... of them, with their run times scaled to the mean wanted.
            number = np.arange(1, len(raw_s) + 1)
            node_time = np.cumsum(widths * raw_s) / np.cumsum(raw_s) * number * self.mean_run_s
            if float(node_time[-1]) >= target:
                count = int(np.argmax(node_time >= target)) + 1
                widths, raw_s = widths[:count], raw_s[:count]
                break
            if len(raw_s) > _MOST_JOBS:
                raise ValueError("lcrc_batch: this load takes too many jobs; take a longer mean_run_s")
            more_widths, more_s = self._draw(rng, nodes, _BATCH)
            widths, raw_s = np.append(widths, more_widths), np.append(raw_s, more_s)
        run_s = scaled_times(raw_s, widths.astype(np.float64), target, WEEK_S).astype(np.int64)
        got = float(run_s @ widths) / target * self.load
        if abs(got - self.load) > self.load / 50:
            raise ValueError(
                f"lcrc_batch: {len(run_s)} jobs give a load of {got:.3g} on {nodes} nodes, not {self.load:g}; "
                "take another number of jobs"
            )
        asked_s = rng.choice(_REQUESTS_S, len(run_s), p=_REQUEST_SHARES / _REQUEST_SHARES.sum())
        enough_s = _REQUESTS_S[np.searchsorted(_REQUESTS_S, run_s)]
        return JobTable.build(
            submit_us=np.sort(rng.integers(0, WEEK_S, len(run_s))) * US,
            run_us=run_s * US,
            estimate_us=np.maximum(asked_s, enough_s) * US,
            nodes=widths.astype(np.int32),
        )

    def _draw(
        self, rng: np.random.Generator, nodes: int, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        place = rng.choice(len(_WIDTHS), count, p=_WIDTH_SHARES / _WIDTH_SHARES.sum())
        raw_s = np.exp(_RUN_LOG_MEAN[place] + _RUN_LOG_SPREAD[place] * rng.standard_normal(count))
        return np.minimum(_WIDTHS[place], min(self.widest, nodes)), np.clip(raw_s, 1, WEEK_S)


@dataclass(frozen=True, slots=True)
class ApsLeases:
    """On-demand leases like those of the APS: mostly single ones, and now and then a whole experiment at once.

    The defaults are the most challenging week: 141 leases of one node, 1.25 % of 372 nodes, 11 in the busiest
    minute (the paper's 264 for leases times 24). A share of `full_share` of the bursts are experiments: `least_full` to
    `peak` leases within `burst_span_s`, the first one `peak`; the others are geometric with mean `small_mean`.
    Bursts are at least three minutes apart, `working_share` of them from 8 to 20 h, `weekend_share` on the
    weekend. Durations are log-normal with `duration_spread`, up to `max_duration_s`, scaled to `utilisation` of
    `nodes` x a week. `most_at_once`: never more leases than that at a time (0: no limit); in the eight weeks that
    the shapes come from it is 9 to 11, as all leases are one site's. Raises ValueError if no scale gives that.
    """

    leases: int = 141
    utilisation: float = 0.0125
    peak: int = 11
    least_full: int = 8
    full_share: float = 0.037
    small_mean: float = 1.26
    burst_span_s: int = 38
    duration_spread: float = 1.9
    max_duration_s: int = 3 * DAY_S
    working_share: float = 0.77
    weekend_share: float = 0.2
    most_at_once: int = 0

    def __post_init__(self) -> None:
        owner = "aps_leases"
        check_number(owner, "most_at_once", self.most_at_once, at_least=0, whole=True)
        if 0 < self.most_at_once < self.peak:
            raise ValueError(
                f"{owner}: most_at_once is {self.most_at_once}, fewer than the peak of {self.peak}"
            )
        check_number(owner, "leases", self.leases, at_least=1, at_most=2000, whole=True)
        check_number(owner, "utilisation", self.utilisation, above=0, at_most=10)
        check_number(owner, "peak", self.peak, at_least=1, at_most=self.leases, whole=True)
        check_number(owner, "least_full", self.least_full, at_least=1, at_most=self.peak, whole=True)
        check_number(owner, "small_mean", self.small_mean, at_least=1, at_most=self.peak)
        check_number(owner, "burst_span_s", self.burst_span_s, at_least=1, at_most=_MINUTE_S - 1, whole=True)
        check_number(owner, "duration_spread", self.duration_spread, at_least=0, at_most=5)
        check_number(
            owner, "max_duration_s", self.max_duration_s, at_least=1, at_most=365 * DAY_S, whole=True
        )
        for name in ("full_share", "working_share", "weekend_share"):
            check_number(owner, name, getattr(self, name), at_least=0, at_most=1)

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:
        sizes = self._sizes(rng)
        if self.most_at_once:
            run_s, begins_s = self._below(rng, sizes, nodes)
            submit_s = np.repeat(begins_s, sizes) + rng.integers(0, self.burst_span_s, self.leases)
        else:
            begins_s = self._begins_s(rng, len(sizes))
            submit_s = np.repeat(begins_s, sizes) + rng.integers(0, self.burst_span_s, self.leases)
            run_s = self._durations_s(rng, nodes)
        return JobTable.build(
            submit_us=submit_s * US,
            run_us=run_s.astype(np.int64) * US,
            nodes=np.ones(self.leases, np.int32),
            kind=Kind.ON_DEMAND,
        )

    def _below(
        self, rng: np.random.Generator, sizes: NDArray[np.int64], nodes: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Durations, and begins of bursts with never more than `most_at_once`; where some cannot be had, others."""
        for _ in range(_DRAWS):
            run_s = self._durations_s(rng, nodes)
            begins_s = self._begins_below_s(rng, sizes, run_s)
            if begins_s is not None:
                return run_s, begins_s
        raise ValueError(
            f"aps_leases: {self.leases} leases do not fit into a week with {self.most_at_once} at once"
        )

    def _durations_s(self, rng: np.random.Generator, nodes: int) -> NDArray[np.float64]:
        target = self.utilisation * nodes * WEEK_S
        raw_s = np.exp(self.duration_spread * rng.standard_normal(self.leases))
        run_s = scaled_times(raw_s, np.ones(self.leases), target, self.max_duration_s)
        if abs(float(run_s.sum()) - target) > target / 50:
            raise ValueError(
                f"aps_leases: {self.leases} leases of at most {self.max_duration_s} s cannot take "
                f"{percent(self.utilisation, 2)} of {nodes} nodes; take more leases or a longer max_duration_s"
            )
        return run_s

    def _sizes(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Leases of each burst: the first is a whole experiment, the last has what is left."""
        small = np.minimum(rng.geometric(1 / self.small_mean, self.leases), self.peak)
        full = rng.integers(self.least_full, self.peak + 1, self.leases)
        sizes = np.where(rng.random(self.leases) < self.full_share, full, small)
        sizes[0] = self.peak
        count = int(np.searchsorted(np.cumsum(sizes), self.leases)) + 1
        sizes = sizes[:count]
        sizes[-1] -= int(sizes.sum()) - self.leases
        return sizes

    def _begins_s(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """Begins of bursts in random order, so far apart that no minute sees two of them."""
        begins: list[int] = []
        for _ in range(_TRIES):
            if len(begins) == count:
                return np.array(begins)
            begin = self._a_begin_s(rng)
            if all(abs(begin - other) >= _APART_S for other in begins):
                begins.append(begin)
        raise ValueError(f"aps_leases: {count} bursts do not fit into a week; take fewer leases")

    def _a_begin_s(self, rng: np.random.Generator) -> int:
        day_share = np.full(_DAYS, (1 - self.weekend_share) / (_DAYS - len(_WEEKEND)))
        day_share[list(_WEEKEND)] = self.weekend_share / len(_WEEKEND)
        hour_share = np.full(24, (1 - self.working_share) / 12)
        hour_share[8:20] = self.working_share / 12
        day, hour = rng.choice(_DAYS, p=day_share), rng.choice(24, p=hour_share)
        return int(day * DAY_S + hour * 3600 + rng.integers(0, 3600 - _MINUTE_S))

    def _begins_below_s(
        self, rng: np.random.Generator, sizes: NDArray[np.int64], run_s: NDArray[np.float64]
    ) -> NDArray[np.int64] | None:
        """The same for bursts whose leases are never more than `most_at_once`: large ones are placed first.

        None: they find no place.
        """
        first = np.cumsum(sizes) - sizes
        begins = np.full(len(sizes), -1)
        starts, ends = np.empty(0), np.empty(0)
        for burst in np.argsort(-sizes, kind="stable"):
            lasts_s = run_s[first[burst] : first[burst] + sizes[burst]]
            for _ in range(_TRIES):
                begin = self._a_begin_s(rng)
                own_ends = begin + self.burst_span_s + lasts_s
                # The number of leases is greatest at the begin of one of them.
                times = np.append(starts[(starts > begin) & (starts < own_ends.max())], begin)
                of_others = ((starts <= times[:, None]) & (ends > times[:, None])).sum(axis=1)
                of_user = (own_ends > times[:, None]).sum(axis=1)
                apart = (np.abs(begins[begins >= 0] - begin) >= _APART_S).all()
                if apart and (of_others + of_user).max() <= self.most_at_once:
                    break
            else:
                return None
            begins[burst] = begin
            starts = np.append(starts, np.full(sizes[burst], begin))
            ends = np.append(ends, own_ends)
        return begins


@dataclass(frozen=True, slots=True)
class Figures:
    """What a paper prints of a week's workload: batch jobs or leases. Times in minutes, as printed there."""

    count: float
    utilisation: float
    mean_nodes: float
    std_nodes: float
    mean_run_min: float
    std_run_min: float
    busiest_minute: float
    most_at_once: float


def figures(jobs: JobTable, *, nodes: int) -> Figures:
    """The figures of jobs as they would be if all started when submitted. Raises ValueError for no jobs."""
    if not len(jobs):
        raise ValueError("there are no jobs")
    run_min = jobs.run_us / (60 * US)
    submit_us = jobs.submit_us
    in_a_minute = np.searchsorted(submit_us, submit_us + _MINUTE_S * US) - np.arange(len(jobs))
    ends = np.argsort(submit_us + jobs.run_us, kind="stable")
    ended = np.concatenate(([0], np.cumsum(jobs.nodes[ends])))
    before = np.searchsorted((submit_us + jobs.run_us)[ends], submit_us, side="right")
    return Figures(
        count=len(jobs),
        utilisation=float(run_min @ jobs.nodes) * 60 / (nodes * WEEK_S),
        mean_nodes=float(jobs.nodes.mean()),
        std_nodes=float(jobs.nodes.std()),
        mean_run_min=float(run_min.mean()),
        std_run_min=float(run_min.std()),
        busiest_minute=int(in_a_minute.max()),
        most_at_once=int((np.cumsum(jobs.nodes) - ended[before]).max()),
    )


PUBLISHED: dict[str, dict[str, float]] = {
    "challenging-batch": {"count": 24_177, "utilisation": 0.844},
    "challenging-leases": {"count": 141, "utilisation": 0.0125, "busiest_minute": 11},
    "U66-Narrow": {
        "mean_nodes": 1.6,
        "std_nodes": 3.4,
        "mean_run_min": 62.6,
        "std_run_min": 293.6,
        "utilisation": 0.665,
    },
    "U66-Main": {
        "mean_nodes": 2.9,
        "std_nodes": 6.6,
        "mean_run_min": 64.1,
        "std_run_min": 303.1,
        "utilisation": 0.665,
    },
    "U66-Wide": {
        "mean_nodes": 5.7,
        "std_nodes": 12.7,
        "mean_run_min": 60.8,
        "std_run_min": 299.2,
        "utilisation": 0.665,
    },
    "U77-Main": {
        "mean_nodes": 2.9,
        "std_nodes": 6.5,
        "mean_run_min": 64.8,
        "std_run_min": 310.7,
        "utilisation": 0.77,
    },
    "U88-Main": {
        "mean_nodes": 2.9,
        "std_nodes": 6.2,
        "mean_run_min": 65.4,
        "std_run_min": 302.1,
        "utilisation": 0.88,
    },
}
"""What Liu et al. print: section III-A and tables I and II; 264 requests a minute are 24 x 11."""


def compare(target: str | None, obtained: Figures) -> list[tuple[str, float | None, float]]:
    """Figure, printed value (None: not printed) and obtained value. Raises ValueError for an unknown target."""
    if target is not None and target not in PUBLISHED:
        raise ValueError(f"no published figures {target!r}; there are: {', '.join(PUBLISHED)}")
    printed = {} if target is None else PUBLISHED[target]
    return [(name, printed.get(name), value) for name, value in asdict(obtained).items()]


def render(title: str, rows: list[tuple[str, float | None, float]]) -> RenderableType:
    """What `compare` answers, side by side for a terminal."""
    from rich.table import Table  # noqa: PLC0415 - not needed for the figures alone

    table = Table(box=None, padding=(0, 2), pad_edge=False)
    table.add_column(title, style="bold")
    table.add_column("printed", justify="right")
    table.add_column("obtained", justify="right")
    for name, printed, value in rows:
        table.add_row(
            name,
            "" if printed is None else number(printed),
            number(value),
        )
    return table
