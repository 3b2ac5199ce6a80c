"""The model of Jann et al. with the parameters of a log of one's own: `emulator trace fit --model jann`.

For each range of sizes the hyper-Erlang distributions of common order that have the first three moments of the log's
gaps and run times (JSSPP 1997, section 3).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.workload.files import TraceError
from emulator.workload.hyper_erlang import match
from emulator.workload.jann import DAY_S, Jann, Range

if TYPE_CHECKING:
    from emulator.workload.table import JobTable

LEAST_JOBS = 10
"""A range with fewer says nothing of three moments; it is joined with the range below it."""
_LEAST_LOG = 200


@dataclass(frozen=True, slots=True)
class FittedModel:
    """`model` makes as many days of as much load."""

    model: Jann
    nodes: int

    def as_part(self) -> dict[str, object]:
        """What stands in a scenario's `workload.generate`."""
        return {"jann": {"days": self.model.days, "load": self.model.load, "own": list(self.model.own or ())}}


def fit(jobs: JobTable, nodes: int) -> FittedModel:
    """Fit the model to the batch jobs of a log on `nodes` nodes. Raises TraceError for too few of them."""
    if len(jobs) < _LEAST_LOG:
        raise TraceError(f"{len(jobs)} jobs are too few to fit a model to: {_LEAST_LOG} or more")
    days = float(jobs.submit_us[-1] - jobs.submit_us[0]) / US / DAY_S
    if days <= 0:
        raise TraceError("all jobs come at one time: there are no gaps to fit a model to")
    found = tuple(ranges(jobs, nodes))
    node_s = float(jobs.nodes.astype(np.float64) @ np.maximum(jobs.run_us / US, 1.0))
    parameters = tuple({name: _digits(value) for name, value in asdict(each).items()} for each in found)
    load = float(f"{node_s / (nodes * days * DAY_S):.4g}")
    return FittedModel(Jann(days=round(days, 3), load=load, own=parameters), nodes)


def ranges(jobs: JobTable, nodes: int) -> list[Range]:
    """The ranges of sizes that have jobs, from the narrowest: one node, two, three and four, five to eight, ..."""
    bounds = [1]
    while bounds[-1] < nodes:
        bounds.append(min(2 * bounds[-1], nodes))
    pairs: list[tuple[int, int]] = []
    least = 1
    for at, most in enumerate(bounds):
        count = int(((jobs.nodes >= least) & (jobs.nodes <= most)).sum())
        last = at == len(bounds) - 1
        if count >= LEAST_JOBS:
            pairs.append((least, most))
            least = most + 1
        elif last and count:
            first = pairs.pop()[0] if pairs else 1
            pairs.append((first, most))
    return [_range(jobs, least, most) for least, most in pairs]


def _range(jobs: JobTable, least: int, most: int) -> Range:
    rows = (jobs.nodes >= least) & (jobs.nodes <= most)
    gaps = match(np.maximum(np.diff(jobs.submit_us[rows] / US), 1.0))
    runs = match(np.maximum(jobs.run_us[rows] / US, 1.0))
    return Range(
        least=least,
        most=most,
        most_share=float((jobs.nodes[rows] == most).mean()),
        gap_stages=gaps.stages,
        gap_first_s=gaps.first_s,
        gap_second_s=gaps.second_s,
        gap_first_share=gaps.first_share,
        run_stages=runs.stages,
        run_first_s=runs.first_s,
        run_second_s=runs.second_s,
        run_first_share=runs.first_share,
    )


def _digits(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.6g}")
