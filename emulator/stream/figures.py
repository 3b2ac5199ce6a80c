"""The summary of a streamed run: the same to the last digit, with one column of the jobs in memory at a time."""

from __future__ import annotations

from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import seconds
from emulator.metrics import jobs as job_figures
from emulator.metrics.summary import HOUR_US, summarize
from emulator.metrics.wait_comparison import means
from emulator.record.run_record import NodePool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

    Ints = NDArray[np.int64]

_CHUNK = 1 << 18


class _Column:
    """Numbers of all jobs so far, in a file that nobody sees."""

    def __init__(self, folder: Path) -> None:
        self._file: IO[bytes] = TemporaryFile(dir=folder)  # noqa: SIM115 - it lives as long as this

    def close(self) -> None:
        self._file.close()

    def add(self, values: Ints) -> None:
        self._file.write(values.astype(np.int64).tobytes())

    def whole(self) -> Ints:
        self._file.seek(0)
        return np.fromfile(self._file, np.int64)

    def chunks(self) -> Iterator[tuple[slice, Ints]]:
        self._file.seek(0)
        begin = 0
        while len(chunk := np.fromfile(self._file, np.int64, _CHUNK)):
            yield slice(begin, begin + len(chunk)), chunk
            begin += len(chunk)


class Figures:
    """Takes the jobs of a run as they are over. `folder`: where there is room for four numbers a job."""

    def __init__(self, folder: Path) -> None:
        self.jobs = 0
        self.horizon_us = 0
        self._first_submit_us = 0
        self._used_us = 0
        self._wait, self._run, self._nodes, self._recorded = (_Column(folder) for _ in range(4))

    def close(self) -> None:
        for column in (self._wait, self._run, self._nodes, self._recorded):
            column.close()

    def add(self, submit_us: Ints, start_us: Ints, end_us: Ints, nodes: Ints) -> None:
        """Further jobs that ran to their end, in order of submit."""
        if not self.jobs:
            self._first_submit_us = int(submit_us[0])
        self.jobs += len(submit_us)
        self.horizon_us = max(self.horizon_us, int(end_us.max()))
        self._used_us += int(((end_us - start_us) * nodes).sum())
        self._wait.add(start_us - submit_us)
        self._run.add(end_us - start_us)
        self._nodes.add(nodes)

    def add_recorded(self, wait_us: Ints) -> None:
        """What further jobs waited by the log (-1: not known), in the same order."""
        self._recorded.add(wait_us)

    def beside_recorded(self) -> dict[str, Any]:
        """Recorded and simulated waits of the jobs so far."""
        waits = (chunk for _, chunk in self._wait.chunks())
        recorded = (chunk for _, chunk in self._recorded.chunks())
        return means(zip(recorded, waits, strict=True))

    def summary(self, nothing: RunRecord, *, threshold_s: float, wall_s: float) -> dict[str, Any]:
        """As `summarize` gives it. `nothing`: the record of the run, but without its jobs and runs."""
        found = summarize(nothing, bounded_slowdown_threshold_s=threshold_s)
        makespan_us = self.horizon_us - self._first_submit_us
        whole = len(nothing.node_names) * makespan_us
        exact = {pool.value: 0 for pool in NodePool} | {
            NodePool.OA_IDLE.value: len(nothing.node_names) * self.horizon_us - self._used_us,
            NodePool.OA_BUSY.value: self._used_us,
        }
        changed = {
            "jobs_in": self.jobs + sum(nothing.left_out.values()),
            "jobs_run": self.jobs,
            **self._means(threshold_s),
            "utilization": self._used_us / whole if whole else None,
            "makespan_s": seconds(makespan_us),
            "node_time_h": {pool: exact[pool] / HOUR_US for pool in found["node_time_us"]},
            "node_time_us": {pool: exact[pool] for pool in found["node_time_us"]},
            "wall_s": wall_s,
            "jobs_per_s": self.jobs / wall_s if wall_s > 0 else None,
        }
        return {name: changed.get(name, value) for name, value in found.items()}

    def _means(self, threshold_s: float) -> dict[str, float | None]:
        column = self._wait.whole()
        mean_wait_s = job_figures.mean_s(column)
        median, p90, p95, p99, most = job_figures.percentiles_s(column, (50, 90, 95, 99, 100), in_place=True)
        column = self._wait.whole()  # the percentiles have put the other one into another order
        for rows, run in self._run.chunks():
            column[rows] += run
        return {
            "mean_wait_s": mean_wait_s,
            "median_wait_s": median,
            "p90_wait_s": p90,
            "p95_wait_s": p95,
            "p99_wait_s": p99,
            "max_wait_s": most,
            "mean_response_s": job_figures.mean_s(column),
            **self._ratios(column, threshold_s),
        }

    def _ratios(self, response: Ints, threshold_s: float) -> dict[str, float | None]:
        """Means of whole columns, so that NumPy adds in the order in which it always does."""
        values = np.empty(self.jobs)
        for rows, run in self._run.chunks():
            values[rows] = job_figures.bounded_slowdown(response[rows], run, threshold_s=threshold_s)
        slowdown = job_figures.mean(values)
        for rows, nodes in self._nodes.chunks():
            values[rows] = nodes * response[rows]
        weighted = values.sum()
        runs = (run for _, run in self._run.chunks())
        for (rows, nodes), run in zip(self._nodes.chunks(), runs, strict=True):
            values[rows] = nodes.astype(np.float64) * run
        area = values.sum()
        return {
            "mean_bounded_slowdown": slowdown,
            "slowdown_weighted_by_area": float(weighted / area) if area else None,
        }
