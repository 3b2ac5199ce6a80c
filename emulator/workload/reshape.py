"""Transforms that make other workloads of one log's jobs (Liu et al. 2018, section III-B).

Sample, widen, narrow and inject change batch jobs and leave leases alone; multiply does the opposite. The
random ones draw from their own stream of the run's seed (`apply_random`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

WEEK_S = 604_800
_MOST_JOBS = 100_000_000
_MOST_NODES = 2**31 - 1
_MISSES = 200
"""So many jobs in a row may be too large for the rest of the load before injecting ends."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Keeps a random share of the batch jobs; each is submitted at its offset from the begin of its week.

    So one per cent of two years becomes a week of about the average load. Nodes, run times and estimates stay.
    Weeks of `week_s` are counted from time 0.
    """

    share: float = 0.01
    week_s: float = WEEK_S

    def __post_init__(self) -> None:
        check_number("sample", "share", self.share, above=0, at_most=1)
        check_number("sample", "week_s", self.week_s, at_least=1, at_most=1e9)

    def apply_random(self, jobs: JobTable, *, nodes: int, rng: np.random.Generator) -> JobTable:  # noqa: ARG002
        batch, leases = _by_kind(jobs)
        count = round(self.share * len(batch))
        sampled = batch.take(np.sort(rng.permutation(len(batch))[:count]))
        return replace(sampled, submit_us=sampled.submit_us % round(self.week_s * US)).merge(leases)


@dataclass(frozen=True, slots=True)
class Widen:
    """Doubles the nodes of the batch jobs (at most the cluster) and removes half of the jobs at random.

    Of each two jobs of like node-time one is removed, so that the node-time stays: but for jobs that the
    cluster's size cuts, it differs by at most the largest job's, and usually by far less.
    """

    def apply_random(self, jobs: JobTable, *, nodes: int, rng: np.random.Generator) -> JobTable:
        batch, leases = _by_kind(jobs)
        by_size = np.argsort(batch.run_us * batch.nodes, kind="stable")
        # The largest jobs make a pair, so an odd one out is the smallest.
        pairs = by_size[len(batch) % 2 :].reshape(-1, 2)
        stays = pairs[np.arange(len(pairs)), rng.integers(0, 2, len(pairs))]
        single = by_size[: len(batch) % 2]
        selected = batch.take(np.sort(np.concatenate((single, stays))))
        twice = np.minimum(2 * selected.nodes.astype(np.int64), nodes)
        return replace(selected, nodes=np.maximum(twice, selected.nodes).astype(np.int32)).merge(leases)


@dataclass(frozen=True, slots=True)
class Narrow:
    """Splits each batch job into two of half the nodes, one rounded up and one down; one-node jobs stay.

    The node-time stays exactly. The first half keeps the number, the second is numbered behind the largest.
    """

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002
        batch, leases = _by_kind(jobs)
        second = batch.take(batch.nodes > 1)
        first = replace(batch, nodes=batch.nodes - batch.nodes // 2)
        largest = int(jobs.number.max(initial=0))
        second = replace(
            second, nodes=second.nodes // 2, number=largest + 1 + np.arange(len(second), dtype=np.int64)
        )
        return first.merge(second).merge(leases)


@dataclass(frozen=True, slots=True)
class Inject:
    """Adds batch jobs until they take `load` of the cluster's node-time in `span_s`.

    An added job has size, run time and estimate of a random job and is submitted when another random one is,
    so that shapes and hours stay as they are. A job too large for the rest of the load is drawn again. Raises
    ValueError if the jobs' load is above `load` before.
    """

    load: float
    span_s: float = WEEK_S

    def __post_init__(self) -> None:
        check_number("inject", "load", self.load, above=0, at_most=100)
        check_number("inject", "span_s", self.span_s, at_least=1, at_most=1e10)

    def apply_random(self, jobs: JobTable, *, nodes: int, rng: np.random.Generator) -> JobTable:
        batch, _ = _by_kind(jobs)
        if not len(batch):
            return jobs
        size = batch.run_us.astype(np.float64) * batch.nodes
        room = nodes * self.span_s * US
        rest = self.load * room - float(size.sum())
        if rest < 0:
            raise ValueError(
                f"inject: the jobs' load is {size.sum() / room:.3f} already, more than {self.load:g}; "
                "take a higher load or a longer span_s"
            )
        if rest / float(size.mean()) > _MOST_JOBS:
            raise ValueError(f"inject: this takes more than {_MOST_JOBS} jobs; take a lower load")
        drawn = _draw(size, rest, rng)
        added = batch.take(drawn)
        added = replace(
            added,
            submit_us=batch.submit_us[rng.integers(0, len(batch), len(drawn))],
            number=int(jobs.number.max()) + 1 + np.arange(len(drawn), dtype=np.int64),
        )
        return jobs.merge(added)


@dataclass(frozen=True, slots=True)
class MultiplyLeases:
    """Multiplies the nodes of the leases: more on-demand load that comes in the same bursts."""

    factor: int

    def __post_init__(self) -> None:
        check_number("multiply_leases", "factor", self.factor, at_least=1, whole=True)

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002
        width = jobs.nodes.astype(np.int64)
        width[jobs.kind == Kind.ON_DEMAND] *= self.factor
        if width.max(initial=0) > _MOST_NODES:
            raise ValueError(f"multiply_leases: factor {self.factor} makes leases of more than 2^31 nodes")
        return replace(jobs, nodes=width.astype(np.int32))


def _by_kind(jobs: JobTable) -> tuple[JobTable, JobTable]:
    lease = jobs.kind == Kind.ON_DEMAND
    return jobs.take(~lease), jobs.take(lease)


def _draw(size: NDArray[np.float64], rest: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """Random jobs that together take `rest`, or a little less."""
    drawn: list[NDArray[np.intp]] = []
    misses = 0
    while misses < _MISSES:
        batch = rng.integers(0, len(size), max(16, int(rest / size.mean())))
        total = np.cumsum(size[batch])
        fits = int(np.searchsorted(total, rest, side="right"))
        drawn.append(batch[:fits])
        rest -= float(total[fits - 1]) if fits else 0.0
        # The next one is too large; what comes after it is drawn anew.
        misses = misses + 1 if fits == 0 else 0
    return np.concatenate(drawn)
