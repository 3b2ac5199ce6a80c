"""The jobs that ran in both of two runs, side by side: a table, and by size and length a heat map of the ratio."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.metrics import jobs as job_figures
from emulator.metrics.heat import LENGTH_EDGES_S, SIZE_EDGES, Average, by_size_and_length
from emulator.text.number_text import NO_FIGURE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray
    from rich.table import Table

    from emulator.record.run_record import RunRecord

    Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Batch jobs that ran to their end in both runs, one entry a job; sizes are those of a.

    `owed_us`: the run time that each job owed in a and in b, alone on its size (`emulator.metrics.jobs.owed_us`).
    """

    number: NDArray[np.int64]
    size: NDArray[np.int32]
    owed_us: tuple[NDArray[np.int64], NDArray[np.int64]]
    submit_us: tuple[NDArray[np.int64], NDArray[np.int64]]
    start_us: tuple[NDArray[np.int64], NDArray[np.int64]]
    end_us: tuple[NDArray[np.int64], NDArray[np.int64]]

    @classmethod
    def of(cls, a: RunRecord, b: RunRecord) -> Pairs:
        rows_a, rows_b = job_figures.batch_jobs_run(a), job_figures.batch_jobs_run(b)
        number, at_a, at_b = np.intersect1d(a.jobs.number[rows_a], b.jobs.number[rows_b], return_indices=True)
        in_a, in_b = rows_a[at_a], rows_b[at_b]
        return cls(
            number=number,
            size=a.jobs.nodes[in_a],
            owed_us=(job_figures.owed_us(a, in_a), job_figures.owed_us(b, in_b)),
            submit_us=(a.jobs.submit_us[in_a], b.jobs.submit_us[in_b]),
            start_us=(a.start_us[in_a], b.start_us[in_b]),
            end_us=(a.end_us[in_a], b.end_us[in_b]),
        )

    def metric(self, name: str, run: int) -> Values:
        """A metric of `METRICS` of each job in run 0 (a) or 1 (b)."""
        return METRICS[name](self, run)


def _wait_s(pairs: Pairs, run: int) -> Values:
    return job_figures.wait_us(pairs.submit_us[run], pairs.start_us[run]) / US


def _response_s(pairs: Pairs, run: int) -> Values:
    return job_figures.response_us(pairs.submit_us[run], pairs.end_us[run]) / US


def _slowdown(pairs: Pairs, run: int) -> Values:
    """S_OSub (Minami et al. 2023, equation 2): response over the run time that the job owed, at least 1 s."""
    return _response_s(pairs, run) / np.maximum(pairs.owed_us[run] / US, 1)


def _bounded_slowdown(pairs: Pairs, run: int) -> Values:
    response = job_figures.response_us(pairs.submit_us[run], pairs.end_us[run])
    return job_figures.bounded_slowdown(response, pairs.owed_us[run])


METRICS: dict[str, Callable[[Pairs, int], Values]] = {
    "slowdown": _slowdown,
    "bounded_slowdown": _bounded_slowdown,
    "response_s": _response_s,
    "wait_s": _wait_s,
}
"""Slowdowns are those of the summary: a job that was killed at its limit owed what it had until then."""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """The average of a metric in b over that in a, for each class of sizes and lengths; NaN where there is none."""

    metric: str
    average: Average
    jobs: NDArray[np.int64]
    ratio: Values

    @classmethod
    def of(cls, pairs: Pairs, metric: str, average: Average = "mean") -> HeatMap:
        jobs, in_a = by_size_and_length(pairs.size, pairs.owed_us[0], pairs.metric(metric, 0), average)
        _, in_b = by_size_and_length(pairs.size, pairs.owed_us[0], pairs.metric(metric, 1), average)
        ratio = np.divide(in_b, in_a, out=np.full_like(in_a, np.nan), where=in_a > 0)
        return cls(metric, average, jobs, ratio)

    def to_json(self) -> dict[str, Any]:
        """In JSON's types; null where there are no jobs, or the average in a is 0."""
        ratio = [[None if np.isnan(value) else float(value) for value in row] for row in self.ratio]
        classes = {"sizes_from": list(SIZE_EDGES), "lengths_from_s": list(LENGTH_EDGES_S)}
        names = {"metric": self.metric, "average": self.average}
        return names | classes | {"jobs": self.jobs.tolist(), "ratio": ratio}

    @property
    def title(self) -> str:
        return f"{self.average.capitalize()} {METRIC_NAMES[self.metric]}, other run over baseline"

    def render(self) -> Table:
        """For the console: largest jobs first, classes without jobs left out."""
        from rich.table import Table  # noqa: PLC0415 - slow to load; most runs and pages need none

        used = np.flatnonzero(self.jobs.sum(axis=1))
        table = Table(title=f"{self.title} (below 1: less)", title_justify="left", box=None)
        table.add_column("nodes", justify="right")
        for name in LENGTH_NAMES:
            table.add_column(name, justify="right")
        for row in reversed(range(used[-1] + 1 if len(used) else 0)):
            table.add_row(SIZE_NAMES[row], *(self.text(row, column) for column in range(len(LENGTH_NAMES))))
        return table

    def text(self, row: int, column: int) -> str:
        """What stands in a cell: nothing where there are no jobs."""
        if not self.jobs[row, column]:
            return ""
        value = self.ratio[row, column]
        if np.isnan(value):
            return NO_FIGURE
        return f"{value:.2f}" if value >= _TENTH else f"{value:.2g}"


_TENTH = 0.1
METRIC_NAMES = {
    "slowdown": "slowdown",
    "bounded_slowdown": "bounded slowdown",
    "response_s": "response time",
    "wait_s": "wait time",
}
_HIGHEST = [*(edge - 1 for edge in SIZE_EDGES[1:]), None]
SIZE_NAMES = tuple(
    f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}"
    for low, high in zip(SIZE_EDGES, _HIGHEST, strict=True)
)
LENGTH_NAMES = ("< 1 min", "≥ 1 min", "≥ 10 min", "≥ 1 h", "≥ 6 h", "≥ 1 d", "≥ 3 d")


def write_jobs(pairs: Pairs, path: Path) -> None:
    """One row a job: its size and run time, and each metric in a and in b. Raises OSError."""
    columns: dict[str, NDArray[Any]] = {
        "job": pairs.number,
        "nodes": pairs.size,
        "run_s": pairs.owed_us[0] / US,
    }
    for name in METRICS:
        columns |= {f"{name}_{letter}": pairs.metric(name, run) for run, letter in enumerate("ab")}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
