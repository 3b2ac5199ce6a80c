"""Lublin and Feitelson's model with the parameters of a log of one's own: `emulator trace fit`.

The parts of the model (`lublin.py`, JPDC 63(11), 2003) are fitted one by one, each to what it says of a job: sizes by
maximum likelihood over where the two stages meet; run times by expectation and maximisation over two gamma
distributions of logarithms whose mixture depends on the size; the cycle of a day by least squares over half hours, the
day beginning where it fits best; gaps, in time without that cycle, as one gamma distribution of logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.text.number_text import grouped
from emulator.workload.files import TraceError
from emulator.workload.lublin import BUCKETS, DAY_S, LublinFeitelson, Parameters, day_points

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.table import Table

    from emulator.workload.table import JobTable

    Floats = NDArray[np.float64]

_LEAST_JOBS = 200
_LEAST_LOG = 0.05
"""Logarithms of a second or less: a gamma distribution has no zero."""
_STAGES = 0.1
_POINTS = 2000
_MOST_STEPS, _SETTLED = 500, 1e-7
_LEAST_SPREAD = 1e-3
_DAY_A, _DAY_B = np.arange(2.0, 14.01, 0.25), np.arange(1.0, 15.01, 0.25)


@dataclass(frozen=True, slots=True)
class FittedModel:
    """`model`: makes as many days of as much load. `day_begins_s`: its midnight, in seconds after the first submit."""

    model: LublinFeitelson
    nodes: int
    day_begins_s: int

    def as_part(self) -> dict[str, object]:
        """What stands in a scenario's `workload.generate`."""
        parameters = {name: float(f"{value:.5g}") for name, value in (self.model.own or {}).items()}
        return {"lublin": {"days": self.model.days, "load": self.model.load, "own": parameters}}


def fit(jobs: JobTable, nodes: int) -> FittedModel:
    """Fit the model to the batch jobs of a log on `nodes` nodes. Raises TraceError for too few of them."""
    if len(jobs) < _LEAST_JOBS:
        raise TraceError(f"{len(jobs)} jobs are too few to fit a model to: {_LEAST_JOBS} or more")
    submit_s = (jobs.submit_us - jobs.submit_us[0]) / US
    days = float(submit_s[-1]) / DAY_S
    if days < 1:
        raise TraceError("a log of less than a day does not tell the cycle of a day")
    widths, run_s = jobs.nodes.astype(np.float64), np.maximum(jobs.run_us / US, 1.0)
    parameters = _sizes(widths, nodes) | _run_times(run_s, widths)
    cycle, begins_s = _day(submit_s)
    parameters |= cycle
    parameters |= _gaps(submit_s - begins_s, Parameters(**parameters, gap_a=1, gap_b=1, rush_ratio=1))
    load = float(widths @ run_s) / (nodes * days * DAY_S)
    model = LublinFeitelson(days=round(days, 3), load=float(f"{load:.4g}"), own=parameters)
    return FittedModel(model, nodes, int(begins_s))


def _sizes(widths: Floats, nodes: int) -> dict[str, float]:
    """Section 2.1: serial jobs, powers of two, and where the two stages of the logarithm of the others meet."""
    serial = widths == 1
    log2 = np.log2(widths[~serial])
    is_power = log2 == np.rint(log2)
    found = {"serial_share": float(serial.mean()), "power_of_two_share": float(is_power.sum() / len(widths))}
    if not len(log2):
        return found | {"low_log2": 0.0, "medium_below": 0.0, "below_machine": 0.0, "low_share": 1.0}
    # A stage that begins at 0.8 gives two nodes, which 0.5 to 1.5 are rounded to, a fair part (section 2.1).
    low, high = max(float(log2.min()) - 0.2, 0.0), float(log2.max())
    best = (-np.inf, high, 1.0)
    for medium in np.arange(low + _STAGES, high, _STAGES):
        share = float((log2 < medium).mean())
        likely = sum(
            part * np.log(part / width)
            for part, width in ((share, medium - low), (1 - share, high - medium))
            if part > 0
        )
        if likely > best[0]:
            best = (float(likely), float(medium), share)
    _, medium, share = best
    not_serial = 1 - found["serial_share"]
    chance = _powers_by_chance(low, medium, high, share)
    if chance < 1:
        drawn = (found["power_of_two_share"] - not_serial * chance) / (1 - chance)
        found["power_of_two_share"] = max(drawn, 0.0)
    return found | {
        "low_log2": low,
        "medium_below": high - medium,
        "below_machine": max(float(np.log2(nodes)) - high, 0.0),
        "low_share": share,
    }


def _powers_by_chance(low: float, medium: float, high: float, low_share: float) -> float:
    """How many of the sizes that need not be powers of two are, once they are whole numbers."""
    at = (np.arange(_POINTS) + 0.5) / _POINTS
    is_power = [
        np.log2(np.rint(2 ** (begin + at * (end - begin)))) % 1 == 0
        for begin, end in ((low, medium), (medium, high))
    ]
    return float(low_share * is_power[0].mean() + (1 - low_share) * is_power[1].mean())


def _run_times(run_s: Floats, widths: Floats) -> dict[str, float]:
    """Section 3.1: two gamma distributions of the logarithm; a job is of the first with `pa` x nodes + `pb`."""
    logs = np.maximum(np.log(run_s), _LEAST_LOG)
    middle = float(np.median(logs))
    first = np.where(logs <= middle, 0.9, 0.1)
    pa = pb = known = 0.0
    for _ in range(_MOST_STEPS):
        parts = [_gamma(logs, weight) for weight in (first, 1 - first)]
        pa, pb = _line(widths, first)
        share = np.clip(pa * widths + pb, 1e-6, 1 - 1e-6)
        likely = [np.exp(_log_density(logs, *part)) for part in parts]
        both = share * likely[0] + (1 - share) * likely[1] + 1e-300
        first = share * likely[0] / both
        now = float(np.log(both).mean())
        if abs(now - known) < _SETTLED:
            break
        known = now
    (a1, b1), (a2, b2) = parts
    return {"a1": a1, "b1": b1, "a2": a2, "b2": b2, "pa": pa, "pb": pb}


def _gamma(values: Floats, weight: Floats) -> tuple[float, float]:
    """Shape and scale of weighted values, by their moments."""
    total = max(float(weight.sum()), 1e-9)
    mean = float(weight @ values) / total
    variance = max(float(weight @ (values - mean) ** 2) / total, _LEAST_SPREAD)
    return mean * mean / variance, variance / mean


def _log_density(values: Floats, shape: float, scale: float) -> Floats:
    found: Floats = (shape - 1) * np.log(values) - values / scale - lgamma(shape) - shape * np.log(scale)
    return found


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and begin of the straight line through the points, level where all are at one place."""
    spread = float(((x - x.mean()) ** 2).mean())
    slope = float(((x - x.mean()) * (y - y.mean())).mean()) / spread if spread else 0.0
    return slope, float(y.mean()) - slope * float(x.mean())


def _day(submit_s: Floats) -> tuple[dict[str, float], int]:
    """Section 4.1: the gamma distribution of half hours, and when the model's midnight is, after the first submit."""
    bucket_s = DAY_S // BUCKETS
    count = np.bincount((submit_s % DAY_S // bucket_s).astype(np.int64), minlength=BUCKETS)
    observed = count / count.mean()
    best = (np.inf, 0.0, 0.0, 0)
    turned = np.array([np.roll(observed, -turn) for turn in range(BUCKETS)])
    for a in _DAY_A:
        for b in _DAY_B:
            points = day_points(a, b)
            apart = ((turned - points) ** 2).sum(axis=1)
            turn = int(apart.argmin())
            if apart[turn] < best[0]:
                best = (float(apart[turn]), float(a), float(b), turn)
    _, a, b, turn = best
    return {"day_a": a, "day_b": b}, turn * bucket_s


def _gaps(since_midnight_s: Floats, made_by: Parameters) -> dict[str, float]:
    """Section 4.2: the logarithm of gaps, in seconds of a day in which all half hours are alike."""
    points = day_points(made_by.day_a, made_by.day_b)
    edges = np.concatenate(([0.0], np.cumsum(points)))
    day, rest_s = np.divmod(since_midnight_s, DAY_S)
    bucket_s = DAY_S / BUCKETS
    passed = day * edges[-1] + np.interp(rest_s, np.arange(BUCKETS + 1) * bucket_s, edges)
    logs = np.log(np.maximum(np.diff(passed) * bucket_s, 1.0))
    shape, scale = _gamma(np.maximum(logs, _LEAST_LOG), np.ones(len(logs)))
    return {"gap_a": shape, "gap_b": scale, "rush_ratio": 1.0}


def figures(jobs: JobTable, nodes: int) -> dict[str, float]:
    """What a log and the jobs of a model are held against each other by."""
    submit_s, run_s, widths = jobs.submit_us / US, np.maximum(jobs.run_us / US, 1.0), jobs.nodes
    days = max(float(submit_s[-1] - submit_s[0]) / DAY_S, 1e-9)
    gaps = np.diff(np.sort(submit_s))
    log2 = np.log2(widths)
    wide = widths > np.median(widths)
    return {
        "jobs a day": len(jobs) / days,
        "one-node jobs, %": 100 * float((widths == 1).mean()),
        "powers of two (not one), %": 100 * float(((log2 == np.rint(log2)) & (widths > 1)).mean()),
        "nodes, mean": float(widths.mean()),
        "nodes, mean of log2": float(log2.mean()),
        "run time, median, s": float(np.median(run_s)),
        "run time, mean, s": float(run_s.mean()),
        "run time, spread of log": float(np.log(run_s).std()),
        "run time of wide jobs, median, s": float(np.median(run_s[wide])) if wide.any() else 0.0,
        "gaps, coefficient of variation": float(gaps.std() / max(gaps.mean(), 1e-9)),
        "load, %": 100 * float(widths @ run_s) / (nodes * days * DAY_S),
    }


def render(name: str, log: dict[str, float], model: dict[str, float]) -> Table:
    """The two side by side, for the console."""
    from rich.table import Table  # noqa: PLC0415 - slow to load; most runs and pages need none

    table = Table("", name, "model", box=None)
    for each, value in log.items():
        table.add_row(each, grouped(value, 2), grouped(model[each], 2))
    return table
