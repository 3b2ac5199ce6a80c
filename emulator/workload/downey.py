"""Jobs of Downey's workload model: average parallelism and total work are log-uniform, arrivals Poisson.

A. B. Downey: A parallel workload model and its implications for processor allocation, HPDC 1997; Predicting queue times
on space-sharing parallel computers, IPPS 1997. Written from the description of the Parallel Workloads Archive; the
bounds that the papers fitted to SDSC and CTC were not at hand, so they have no defaults here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number
from emulator.workload.speedup import Downey as Speedup
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DAY_S = 86_400
_BLOCK, _MOST_JOBS = 50_000, 100_000_000


@dataclass(frozen=True, slots=True)
class DowneyJobs:
    """Rigid jobs of Downey's model, each on as many nodes as its average parallelism.

    `least_node_s` and `most_node_s` bound the work of a job, all its nodes together, and 1 and `widest` (default: the
    cluster) its average parallelism; logarithms are uniform between them. The run time is the work over Downey's
    speed-up with the variance `sigma` (0: the parallelism never varies). Jobs are drawn until their node-time is `load`
    x nodes x `days`; they come at any time of that, independently of each other. Walltimes are the run times.
    """

    least_node_s: float
    most_node_s: float
    widest: int | None = None
    sigma: float = 0
    days: float = 7
    load: float = 0.8

    def __post_init__(self) -> None:
        owner = "downey"
        check_number(owner, "least_node_s", self.least_node_s, above=0)
        check_number(owner, "most_node_s", self.most_node_s, above=self.least_node_s)
        check_number(owner, "sigma", self.sigma, at_least=0)
        check_number(owner, "days", self.days, above=0, at_most=36_500)
        check_number(owner, "load", self.load, above=0, at_most=10)
        if self.widest is not None:
            check_number(owner, "widest", self.widest, at_least=1)

    def generate(self, rng: np.random.Generator, *, nodes: int) -> JobTable:
        if nodes < 1:
            raise ValueError(f"downey: the cluster needs at least 1 node, not {nodes}")
        widest = nodes if self.widest is None else min(self.widest, nodes)
        target_s = self.load * nodes * self.days * _DAY_S
        widths, runs = [], []
        drawn_s, drawn = 0.0, 0
        while drawn_s < target_s:
            if drawn >= _MOST_JOBS:
                raise ValueError(f"downey: more than {_MOST_JOBS} jobs; take fewer days or a smaller load")
            width = np.clip(np.rint(_log_uniform(rng, 1, widest, _BLOCK)), 1, widest).astype(np.int64)
            work_s = _log_uniform(rng, self.least_node_s, self.most_node_s, _BLOCK)
            run_s = np.maximum(np.rint(work_s / self._speed(width)), 1).astype(np.int64)
            widths.append(width)
            runs.append(run_s)
            drawn_s, drawn = drawn_s + float((width * run_s).sum()), drawn + _BLOCK
        width, run_s = np.concatenate(widths), np.concatenate(runs)
        count = int(np.searchsorted(np.cumsum(width * run_s), target_s)) + 1
        submit_s = np.sort(np.floor(rng.random(count) * self.days * _DAY_S))
        return JobTable.build(
            submit_us=submit_s.astype(np.int64) * US,
            run_us=run_s[:count] * US,
            nodes=width[:count].astype(np.int32),
        )

    def _speed(self, widths: NDArray[np.int64]) -> NDArray[np.float64]:
        """Speed-up of each job on as many nodes as it has parallelism."""
        model = Speedup(self.sigma)
        kinds, row = np.unique(widths, return_inverse=True)
        speeds = np.array([float(model.of(np.array([kind]), int(kind))[0]) for kind in kinds])
        return np.asarray(speeds[row])


def _log_uniform(rng: np.random.Generator, least: float, most: float, count: int) -> NDArray[np.float64]:
    return np.asarray(np.exp(rng.uniform(np.log(least), np.log(most), count)))
