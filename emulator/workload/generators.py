"""Made workloads: a batch cluster's days and an experiment's bursts.

Both draw shapes first and then scale the run times, so that the node-time asked for is what the parameters
say, whatever the shapes. Times are whole seconds; time 0 is Monday, midnight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number, make_plugin
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

GROUP = "emulator.generators"

_HOUR_S = 3600
_DAY_S = 24 * _HOUR_S
_WORKDAYS = 5
_WEEK = 7
_MOST_DAYS = 36_500
_MOST_JOBS = 100_000_000
_BATCH = 50_000
_SCALE_STEPS = 100
_SCALE_GOOD_ENOUGH = 1e-4
_SCALE_LIMIT = 0.02

_DAY_CURVE = np.clip(np.sin(np.pi * (np.arange(24) + 0.5 - 7) / 14), 0, None)
"""Submits by hour of the day above the night's level: from 7:00 to 21:00, most at 14:00."""

_USUAL_REQUESTS_S = np.array(
    [60 * minutes for minutes in (5, 10, 15, 20, 30, 45)]
    + [
        _HOUR_S * hours
        for hours in (1, 2, 3, 4, 6, 8, 10, 12, 16, 18, 20, 24, 30, 36, 48, 60, 72, 96, 120, 168)
    ]
)
"""People ask for round times."""


@runtime_checkable
class Generator(Protocol):
    """Makes jobs or leases. A frozen dataclass; its fields are the parameters. Declared in GROUP."""

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:
        """Jobs for a cluster of this many nodes; the same generator state gives the same jobs."""


def parse_generators(items: object) -> list[Generator]:
    """The generators of a scenario's list, such as `[{"daily_batch": {"load": 0.8}}, "bursty_leases"]`.

    Raises ValueError for an unknown name or parameter (with the nearest right one) or a bad value.
    """
    if items is None:
        return []
    if not isinstance(items, list):
        raise ValueError(f"generators are a list, not {items!r}")  # noqa: TRY004 - a border: one kind of error
    return [make_plugin(GROUP, item) for item in items]


@dataclass(frozen=True, slots=True)
class DailyBatch:
    """Batch jobs by day and night.

    Widths are log-uniform from 1 to `widest_share` of the cluster, with `serial_share` of one node and
    `power_of_two_share` of the others at powers of two (the shape of Lublin and Feitelson, J. Parallel and
    Distributed Computing 63(11), 2003). Run times are log-normal up to `max_walltime_s`. Requested walltimes
    are the run time times 1 + an exponential of mean `mean_overestimate`, rounded up to what people ask for;
    `request_limit_share` of the jobs ask for the limit. Submits follow a day curve with `night_level` (of the
    day's peak) at night and `weekend_level` (of a workday) on weekends. Users are drawn by Zipf's law.

    `load` is node-time of the jobs over `nodes` x `days`. The number of jobs follows from it and the shapes;
    with `jobs` given, run times are scaled instead. Raises ValueError if no scale gives the load.
    """

    days: float = 7
    load: float = 0.8
    jobs: int | None = None
    median_run_s: float = 1200
    run_spread: float = 1.6
    max_walltime_s: int = _DAY_S
    widest_share: float = 0.5
    serial_share: float = 0.25
    power_of_two_share: float = 0.75
    mean_overestimate: float = 1.5
    request_limit_share: float = 0.1
    night_level: float = 0.2
    weekend_level: float = 0.4
    users: int = 50
    groups: int = 10

    def __post_init__(self) -> None:
        owner = "daily_batch"
        check_number(owner, "days", self.days, above=0, at_most=_MOST_DAYS)
        check_number(owner, "load", self.load, above=0, at_most=10)
        if self.jobs is not None:
            check_number(owner, "jobs", self.jobs, at_least=1, at_most=_MOST_JOBS, whole=True)
        check_number(
            owner, "max_walltime_s", self.max_walltime_s, at_least=60, at_most=365 * _DAY_S, whole=True
        )
        check_number(owner, "median_run_s", self.median_run_s, at_least=1, at_most=self.max_walltime_s)
        check_number(owner, "run_spread", self.run_spread, at_least=0, at_most=5)
        check_number(owner, "widest_share", self.widest_share, above=0, at_most=1)
        for name in ("serial_share", "power_of_two_share", "request_limit_share", "weekend_level"):
            check_number(owner, name, getattr(self, name), at_least=0, at_most=1)
        check_number(owner, "night_level", self.night_level, above=0, at_most=1)
        check_number(owner, "mean_overestimate", self.mean_overestimate, at_least=0, at_most=1000)
        check_number(owner, "users", self.users, at_least=1, at_most=1_000_000, whole=True)
        check_number(owner, "groups", self.groups, at_least=1, at_most=self.users, whole=True)

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:
        _check_nodes("daily_batch", nodes)
        target = self.load * nodes * self.days * _DAY_S
        if self.jobs is None:
            raw_s, widths = self._fill(rng, nodes, target)
        else:
            raw_s, widths = self._raw_run_s(rng, self.jobs), self._widths(rng, self.jobs, nodes)
        count = len(raw_s)
        run_s = scaled_times(raw_s, widths, target, self.max_walltime_s)
        got = float(run_s @ widths)
        if self.jobs is not None and abs(got - target) > _SCALE_LIMIT * target:
            cure = "more jobs or a longer max_walltime_s" if got < target else "fewer jobs"
            raise ValueError(
                f"daily_batch: {count} jobs give a load of {got / target * self.load:.3g} on {nodes} nodes, "
                f"not {self.load:g}; take {cure}"
            )
        users = rng.choice(self.users, count, p=_zipf(self.users)) + 1
        return JobTable.build(
            submit_us=self._submit_s(rng, count) * US,
            run_us=run_s.astype(np.int64) * US,
            estimate_us=self._request_s(rng, run_s) * US,
            nodes=widths.astype(np.int32),
            user=users.astype(np.int32),
            group=((users - 1) % self.groups + 1).astype(np.int32),
        )

    def _fill(
        self, rng: np.random.Generator, nodes: int, target: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Run times and widths of jobs drawn until they take the target's node-seconds."""
        runs: list[NDArray[np.float64]] = []
        widths: list[NDArray[np.float64]] = []
        area = 0.0
        while area < target:
            runs.append(self._raw_run_s(rng, _BATCH))
            widths.append(self._widths(rng, _BATCH, nodes))
            so_far = area + np.cumsum(np.clip(runs[-1], 1, self.max_walltime_s) * widths[-1])
            if target / float(so_far[-1]) * _BATCH * len(runs) > _MOST_JOBS:
                raise ValueError(f"daily_batch: this load takes more than {_MOST_JOBS} jobs; take fewer days")
            area = float(so_far[-1])
        count = (len(runs) - 1) * _BATCH + int(np.searchsorted(so_far, target)) + 1
        return np.concatenate(runs)[:count], np.concatenate(widths)[:count]

    def _raw_run_s(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return self.median_run_s * np.exp(self.run_spread * rng.standard_normal(count))

    def _widths(self, rng: np.random.Generator, count: int, nodes: int) -> NDArray[np.float64]:
        widest = max(1, int(nodes * self.widest_share))
        exponent = rng.random(count) * np.log2(widest + 1)
        any_width = np.minimum(np.floor(2.0**exponent), widest)
        power = 2.0 ** np.minimum(np.floor(exponent + 0.5), np.floor(np.log2(widest)))
        widths = np.where(rng.random(count) < self.power_of_two_share, power, any_width)
        return np.where(rng.random(count) < self.serial_share, 1.0, widths)

    def _request_s(self, rng: np.random.Generator, run_s: NDArray[np.float64]) -> NDArray[np.int64]:
        choices = np.unique(
            np.minimum(np.append(_USUAL_REQUESTS_S, self.max_walltime_s), self.max_walltime_s)
        )
        estimate_s = run_s * (1 + self.mean_overestimate * rng.standard_exponential(len(run_s)))
        request = choices[np.minimum(np.searchsorted(choices, estimate_s), len(choices) - 1)]
        at_limit = rng.random(len(run_s)) < self.request_limit_share
        walltime_s: NDArray[np.int64] = np.where(at_limit, self.max_walltime_s, request).astype(np.int64)
        return walltime_s

    def _submit_s(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """Sorted submit times: the inverse of the arrival rate's integral, at sorted uniform points."""
        hours = np.arange(int(np.ceil(self.days * 24)))
        edges_s = np.minimum(np.append(hours, len(hours)) * _HOUR_S, self.days * _DAY_S)
        rate = self.night_level + (1 - self.night_level) * _DAY_CURVE[hours % 24]
        workday = hours // 24 % _WEEK < _WORKDAYS
        rate = rate * np.where(workday, 1.0, self.weekend_level)
        integral = np.append(0.0, np.cumsum(rate * np.diff(edges_s)))
        points = np.sort(rng.random(count)) * integral[-1]
        submit_s: NDArray[np.int64] = np.floor(np.interp(points, integral, edges_s)).astype(np.int64)
        return submit_s


@dataclass(frozen=True, slots=True)
class BurstyLeases:
    """On-demand leases that come in bursts in working hours, as experiments send them.

    The defaults give the on-demand load of the Balancer paper's most challenging week (Liu et al. 2018,
    section III): 141 leases a week, 1.25 % of the cluster's node-time, about ten in the busiest minute.

    A burst has a geometric number of leases (mean `burst_leases`; 1: no bursts) within `burst_span_s`; bursts
    begin at any time between `day_begin_s` and `day_end_s` of a working day. Nodes are geometric (mean
    `mean_nodes`) and at most the cluster, durations log-normal up to `max_duration_s`, scaled so that all
    leases take `utilisation` of the node-time; with `utilisation` null their mean is `mean_duration_s`. A
    lease is asked for as long as it lasts. Raises ValueError if no scale gives the utilisation.
    """

    days: float = 7
    leases_per_day: float = 141 / 7
    utilisation: float | None = 0.0125
    mean_nodes: float = 1
    mean_duration_s: float = 4 * _HOUR_S
    duration_spread: float = 1.5
    max_duration_s: int = 3 * _DAY_S
    burst_leases: float = 8
    burst_span_s: float = 120
    day_begin_s: float = 8 * _HOUR_S
    day_end_s: float = 20 * _HOUR_S
    weekends: bool = False

    def __post_init__(self) -> None:
        owner = "bursty_leases"
        check_number(owner, "days", self.days, above=0, at_most=_MOST_DAYS)
        check_number(owner, "leases_per_day", self.leases_per_day, above=0, at_most=1_000_000)
        if self.utilisation is not None:
            check_number(owner, "utilisation", self.utilisation, above=0, at_most=10)
        check_number(owner, "mean_nodes", self.mean_nodes, at_least=1)
        check_number(
            owner, "max_duration_s", self.max_duration_s, at_least=1, at_most=365 * _DAY_S, whole=True
        )
        check_number(owner, "mean_duration_s", self.mean_duration_s, at_least=1, at_most=self.max_duration_s)
        check_number(owner, "duration_spread", self.duration_spread, at_least=0, at_most=5)
        check_number(owner, "burst_leases", self.burst_leases, at_least=1)
        check_number(owner, "burst_span_s", self.burst_span_s, at_least=0, at_most=_DAY_S)
        check_number(owner, "day_begin_s", self.day_begin_s, at_least=0, at_most=_DAY_S)
        check_number(owner, "day_end_s", self.day_end_s, above=self.day_begin_s, at_most=_DAY_S)
        if not isinstance(self.weekends, bool):
            raise ValueError(f"{owner}: weekends must be true or false, not {self.weekends!r}")  # noqa: TRY004
        if self.days * self.leases_per_day > _MOST_JOBS:
            raise ValueError(f"{owner}: more than {_MOST_JOBS} leases; take fewer days or leases_per_day")

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:
        _check_nodes("bursty_leases", nodes)
        count = max(1, round(self.days * self.leases_per_day))
        submit_s = self._submit_s(rng, count)
        widths = np.minimum(rng.geometric(1 / self.mean_nodes, count), nodes).astype(np.float64)
        raw_s = np.exp(self.duration_spread * rng.standard_normal(count))
        run_s = self._durations_s(raw_s, widths, nodes)
        return JobTable.build(
            submit_us=submit_s * US,
            run_us=run_s.astype(np.int64) * US,
            nodes=widths.astype(np.int32),
            kind=Kind.ON_DEMAND,
        )

    def _durations_s(
        self, raw_s: NDArray[np.float64], widths: NDArray[np.float64], nodes: int
    ) -> NDArray[np.float64]:
        if self.utilisation is None:
            return scaled_times(
                raw_s, np.ones_like(widths), self.mean_duration_s * len(raw_s), self.max_duration_s
            )
        target = self.utilisation * nodes * self.days * _DAY_S
        run_s = scaled_times(raw_s, widths, target, self.max_duration_s)
        got = float(run_s @ widths)
        if abs(got - target) > _SCALE_LIMIT * target:
            cure = (
                "more leases or nodes, or a longer max_duration_s"
                if got < target
                else "fewer leases or nodes"
            )
            raise ValueError(
                f"bursty_leases: {len(raw_s)} leases give a utilisation of "
                f"{got / target * self.utilisation:.3g} of {nodes} nodes, not {self.utilisation:g}; "
                f"take {cure}"
            )
        return run_s

    def _submit_s(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        begins, ends = self._working_hours()
        sizes = rng.geometric(1 / self.burst_leases, count)
        burst = np.searchsorted(np.cumsum(sizes), np.arange(count), side="right")
        # Uniform in working time, all working hours laid end to end.
        lengths = ends - begins
        total = np.cumsum(lengths)
        points = rng.random(count) * total[-1]
        day = np.searchsorted(total, points, side="right")
        starts = begins[day] + points - (total[day] - lengths[day])
        exact_s = starts[burst] + rng.random(count) * self.burst_span_s
        submit_s: NDArray[np.int64] = np.minimum(exact_s, max(0.0, self.days * _DAY_S - 1)).astype(np.int64)
        return submit_s

    def _working_hours(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Begin and end of the working hours of each working day, within `days`."""
        day = np.arange(int(np.ceil(self.days)))
        if not self.weekends:
            day = day[day % _WEEK < _WORKDAYS]
        begins = day * _DAY_S + float(self.day_begin_s)
        ends = np.minimum(day * _DAY_S + float(self.day_end_s), self.days * _DAY_S)
        within = ends > begins
        if not within.any():
            raise ValueError(
                f"bursty_leases: {self.days:g} days from Monday, midnight, have no working hours; "
                "take more days or an earlier day_begin_s"
            )
        return begins[within], ends[within]


def scaled_times(
    raw_s: NDArray[np.float64], widths: NDArray[np.float64], target: float, longest_s: int
) -> NDArray[np.float64]:
    """Whole seconds from 1 to `longest_s`, proportional to `raw_s` in between, with times @ widths = target.

    As near as the bounds allow; the caller looks whether that is near enough.
    """
    factor = target / max(float(raw_s @ widths), 1e-9)
    times = raw_s
    for _ in range(_SCALE_STEPS):
        times = np.clip(np.rint(raw_s * factor), 1, longest_s)
        ratio = target / float(times @ widths)
        if abs(ratio - 1) < _SCALE_GOOD_ENOUGH:
            break
        # What is at the bounds does not move, so the rest has to move a little more each time.
        factor *= ratio
    return times


def _zipf(count: int) -> NDArray[np.float64]:
    weights = 1 / np.arange(1, count + 1)
    share: NDArray[np.float64] = weights / weights.sum()
    return share


def _check_nodes(owner: str, nodes: int) -> None:
    if nodes < 1:
        raise ValueError(f"{owner}: the cluster needs at least 1 node, not {nodes}")
