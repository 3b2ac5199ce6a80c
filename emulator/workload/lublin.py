"""The workload model of Lublin and Feitelson, with its published parameters.

U. Lublin, D. G. Feitelson: The workload on parallel supercomputers: modeling the characteristics of rigid jobs.
J. Parallel and Distributed Computing 63(11), 2003, pp. 1105-1122. Written from the paper's description.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

DAY_S = 86_400
BUCKETS = 48
_BUCKET_S = DAY_S // BUCKETS
_DAY_BEGINS = 11
"""The half hour in which the cycle of arrivals begins: 5:30, when fewest jobs come (section 4)."""
_LONGEST_LOG_RUN, _LONGEST_LOG_GAP = 12.0, 13.0
"""Larger logarithms (of seconds) are drawn again: run times over two days, gaps over five."""
_MOST_DAYS, _MOST_JOBS, _BLOCK = 36_500, 100_000_000, 50_000
_QUADRATURE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """One class of jobs; names as in the paper's tables.

    Sizes: `serial_share` run on one node, `power_of_two_share` on a power of two; log2 of the others is uniform in two
    stages, `low_log2` to medium with `low_share`, medium to `below_machine` under the machine's size. Natural
    logarithm of run times: gamma `(a1, b1)` with probability `pa` x nodes + `pb`, else gamma `(a2, b2)`. Logarithm of
    gaps at rush hours: gamma `(gap_a, gap_b)`; `rush_ratio` makes it that of the whole day, whose cycle is gamma
    `(day_a, day_b)`.
    """

    serial_share: float
    power_of_two_share: float
    low_log2: float
    medium_below: float
    """How far, in log2, the medium size is below the largest."""
    below_machine: float
    low_share: float
    a1: float
    b1: float
    a2: float
    b2: float
    pa: float
    pb: float
    gap_a: float
    gap_b: float
    day_a: float
    day_b: float
    rush_ratio: float


ALL = Parameters(
    serial_share=0.244, power_of_two_share=0.576, low_log2=0.8, medium_below=2.5, below_machine=0, low_share=0.86,
    a1=4.2, b1=0.94, a2=312, b2=0.03, pa=-0.0054, pb=0.78,
    gap_a=10.2303, gap_b=0.4871, day_a=8.1737, day_b=3.9631, rush_ratio=1.0225,
)  # fmt: skip
"""Jobs whose class nobody knows."""
BATCH = Parameters(
    serial_share=0.2927, power_of_two_share=0.6686, low_log2=1.2, medium_below=2, below_machine=0, low_share=0.875,
    a1=6.57, b1=0.823, a2=639.1, b2=0.0156, pa=-0.003, pb=0.6986,
    gap_a=6.0415, gap_b=0.8531, day_a=6.1271, day_b=5.2740, rush_ratio=1.0519,
)  # fmt: skip
INTERACTIVE = Parameters(
    serial_share=0.1541, power_of_two_share=0.625, low_log2=1, medium_below=2.5, below_machine=1.5, low_share=0.705,
    a1=3.8351, b1=0.6605, a2=7.073, b2=0.6856, pa=-0.0118, pb=0.9156,
    gap_a=6.5510, gap_b=0.6621, day_a=8.9186, day_b=3.6680, rush_ratio=0.9797,
)  # fmt: skip
_SHARES = ("serial_share", "power_of_two_share", "low_share")
_SIZES = ("low_log2", "medium_below", "below_machine")
_ANY = ("pa", "pb")
_CLASSES = {"all": (ALL,), "batch": (BATCH,), "interactive": (INTERACTIVE,), "both": (INTERACTIVE, BATCH)}


@dataclass(frozen=True, slots=True)
class LublinFeitelson:
    """Rigid jobs with a cycle of days, as the paper's model makes them.

    `jobs`: `all` (jobs of unknown class), `batch`, `interactive`, or `both` (queue 1 and 0); `own`: all parameters of a
    class of one's own instead, as `emulator trace fit` prints them. Without `load` there are
    as many jobs as the model sends to its own machines in `days`, whatever the cluster's size. With it, gaps are
    multiplied, all by one factor, until the node-time of the jobs is `load` x nodes x days; what the model says of each
    job stays. The model has no requested walltimes: they are the run times (a transform may change them).
    """

    days: float = 7
    load: float | None = None
    jobs: str = "all"
    own: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        owner = "lublin"
        if self.own is not None:
            self._check_own(self.own)
        check_number(owner, "days", self.days, above=0, at_most=_MOST_DAYS)
        if self.load is not None:
            check_number(owner, "load", self.load, above=0, at_most=10)
        if self.jobs not in _CLASSES:
            raise ValueError(f"{owner}: jobs must be one of {', '.join(_CLASSES)}, not {self.jobs!r}")

    def _check_own(self, values: Mapping[str, float]) -> None:
        """Raises ValueError unless these are all parameters, and of distributions that there are."""
        if self.jobs != "all":
            raise ValueError(f"lublin: own has the parameters of all jobs, so there is no jobs: {self.jobs}")
        names = {each.name for each in fields(Parameters)}
        for name in sorted(names.symmetric_difference(values)):
            raise ValueError(f"lublin: own.{name} is {'missing' if name in names else 'not a parameter'}")
        for name, value in values.items():
            if name in _SHARES:
                check_number("lublin", f"own.{name}", value, at_least=0, at_most=1)
            elif name in _ANY:
                check_number("lublin", f"own.{name}", value)
            else:
                check_number("lublin", f"own.{name}", value, at_least=0 if name in _SIZES else 1e-9)
        if values["serial_share"] + values["power_of_two_share"] > 1 + 1e-9:
            raise ValueError("lublin: own.serial_share and own.power_of_two_share are more than 1 together")

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:
        if nodes < 1:
            raise ValueError(f"lublin: the cluster needs at least 1 node, not {nodes}")
        classes = _CLASSES[self.jobs] if self.own is None else (Parameters(**self.own),)
        made = [self._one_class(rng, parameters, nodes, len(classes)) for parameters in classes]
        queue = np.repeat(np.arange(len(made)), [len(submit) for submit, _, _ in made])
        submit_s, run_s, widths = (np.concatenate(part) for part in zip(*made, strict=True))
        return JobTable.build(
            submit_us=submit_s * US,
            run_us=run_s * US,
            nodes=widths.astype(np.int32),
            queue=queue.astype(np.int32) if self.jobs == "both" else -1,
        )

    def _one_class(
        self, rng: np.random.Generator, made_by: Parameters, nodes: int, classes: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Submits, run times and sizes; of several classes each has its share of the load."""
        points = day_points(made_by.day_a, made_by.day_b)
        length = self.days * BUCKETS
        if self.load is None:
            passed = _until(lambda: gap_points(rng, made_by, _BLOCK), length)
            submit_s = seconds_of(passed, points)
            submit_s = submit_s[submit_s < self.days * DAY_S]
            widths = sizes(rng, made_by, len(submit_s), nodes)
            return submit_s, run_times_s(rng, made_by, widths), widths
        widths, run_s = self._filled(rng, made_by, nodes, self.load * nodes * self.days * DAY_S / classes)
        passed = np.cumsum(gap_points(rng, made_by, len(widths) + 1))
        submit_s = seconds_of(passed[:-1] / passed[-1] * length, points)
        return np.minimum(submit_s, int(np.ceil(self.days * DAY_S)) - 1), run_s, widths

    def _filled(
        self, rng: np.random.Generator, made_by: Parameters, nodes: int, node_s: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sizes and run times of jobs drawn until they take this many node-seconds."""
        drawn: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

        def areas() -> NDArray[np.float64]:
            widths = sizes(rng, made_by, _BLOCK, nodes)
            drawn.append((widths, run_times_s(rng, made_by, widths)))
            return (drawn[-1][0] * drawn[-1][1]).astype(np.float64)

        count = int(np.searchsorted(_until(areas, node_s), node_s)) + 1
        return np.concatenate([widths for widths, _ in drawn])[:count], np.concatenate(
            [run_s for _, run_s in drawn]
        )[:count]


def sizes(rng: np.random.Generator, made_by: Parameters, count: int, nodes: int) -> NDArray[np.int64]:
    """Nodes of jobs (section 2.1): serial, powers of two, and others, none wider than the cluster."""
    largest = max(0.0, float(np.log2(nodes)) - made_by.below_machine)
    low = min(made_by.low_log2, largest)
    medium = max(low, largest - made_by.medium_below)
    kind = rng.random(count)
    is_low = rng.random(count) < made_by.low_share
    at = rng.random(count)
    log2 = np.where(is_low, low + at * (medium - low), medium + at * (largest - medium))
    is_power = kind <= made_by.serial_share + made_by.power_of_two_share
    log2 = np.where(is_power, np.minimum(np.rint(log2), np.floor(np.log2(nodes))), log2)
    widths = np.clip(np.rint(2.0**log2), 1, nodes)
    return np.where(kind <= made_by.serial_share, 1, widths).astype(np.int64)


def run_times_s(
    rng: np.random.Generator, made_by: Parameters, widths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Run times in whole seconds, at least 1 (section 3.1): wider jobs come more often from the longer gamma."""
    first = np.clip(made_by.pa * widths + made_by.pb, 0, 1)

    def draw(which: NDArray[np.intp]) -> NDArray[np.float64]:
        is_first = rng.random(len(which)) <= first[which]
        shape = np.where(is_first, made_by.a1, made_by.a2)
        return rng.gamma(shape, np.where(is_first, made_by.b1, made_by.b2))

    logs = _redrawn(draw, len(widths), _LONGEST_LOG_RUN)
    return np.maximum(np.exp(logs).astype(np.int64), 1)


def gap_points(rng: np.random.Generator, made_by: Parameters, count: int) -> NDArray[np.float64]:
    """Gaps between submits, in half hours of a day without a cycle (section 4.2)."""
    shape = made_by.gap_a * made_by.rush_ratio
    logs = _redrawn(lambda which: rng.gamma(shape, made_by.gap_b, len(which)), count, _LONGEST_LOG_GAP)
    return np.asarray(np.exp(logs) / _BUCKET_S)


def day_points(day_a: float, day_b: float) -> NDArray[np.float64]:
    """How much of a gap each half hour of the day takes, from midnight; their mean is 1 (section 4.1).

    A half hour with twice the points has twice the submits. The share of half hour `i` of a day that begins at 5:30 is
    the gamma distribution's between `i` - 0.5 and `i` + 0.5.
    """
    hours = np.arange(_DAY_BEGINS, _DAY_BEGINS + BUCKETS)
    places, weights = np.polynomial.legendre.leggauss(_QUADRATURE)
    x = hours[:, None] + places[None, :] / 2
    logs = (day_a - 1) * np.log(x) - x / day_b
    shares = np.exp(logs - logs.max()) @ weights
    points = np.empty(BUCKETS)
    points[(hours - 1) % BUCKETS] = shares / shares.mean()
    return points


def seconds_of(passed: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.int64]:
    """When so many points have passed since midnight of the first day: whole seconds.

    Each half hour passes its own points, evenly; a day passes 48.
    """
    edges = np.concatenate(([0.0], np.cumsum(points)))
    day, rest = np.divmod(passed, edges[-1])
    within_s = np.interp(rest, edges, np.arange(BUCKETS + 1) * float(_BUCKET_S))
    found: NDArray[np.int64] = np.floor(day * DAY_S + within_s).astype(np.int64)
    return found


def _until(draw: Callable[[], NDArray[np.float64]], least: float) -> NDArray[np.float64]:
    """Running sums of what is drawn, block by block, until they reach `least`. Raises ValueError: too many."""
    blocks: list[NDArray[np.float64]] = []
    total = 0.0
    while total < least:
        blocks.append(total + np.cumsum(draw()))
        total = float(blocks[-1][-1])
        if least / total * len(blocks) * _BLOCK > _MOST_JOBS:
            raise ValueError(f"lublin: more than {_MOST_JOBS} jobs; take fewer days or a smaller load")
    return np.concatenate(blocks)


def _redrawn(
    draw: Callable[[NDArray[np.intp]], NDArray[np.float64]], count: int, most: float
) -> NDArray[np.float64]:
    """Values drawn for rows 0 to count - 1, those above `most` again."""
    values = draw(np.arange(count))
    while (above := np.flatnonzero(values > most)).size:
        values[above] = draw(above)
    return values
