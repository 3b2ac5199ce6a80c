"""The jobs of a cluster as orders and schedulers in plain Python see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.schedulers.plain import Job

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from emulator.kernel import tables as t
    from emulator.workload.table import JobTable

# The fields of a job that change, set past its guard. Descriptors are twice as fast as `object.__setattr__`.
_set_wait: Any = Job.__dict__["wait_us"].__set__
_set_estimate: Any = Job.__dict__["estimate_us"].__set__
_set_nodes: Any = Job.__dict__["nodes"].__set__
_set_submit: Any = Job.__dict__["submit_us"].__set__
_set_start: Any = Job.__dict__["start_us"].__set__
_set_end: Any = Job.__dict__["expected_end_us"].__set__
_set_returns: Any = Job.__dict__["returns"].__set__
_ASKED = ["submit_us", "estimate_us", "nodes"]
_RUNS = ["start_us", "expected_end_us", "estimate_us", "nodes", "returns"]


def _columns(job: t.Jobs, names: list[str], rows: list[int] | NDArray[np.int64]) -> Iterable[tuple[int, ...]]:
    """Of each of these rows what has these names."""
    which = np.asarray(rows, np.int64)
    return zip(*(job[name][which].tolist() for name in names), strict=True)


class SeenJobs:
    """The jobs of a machine as plain policies see them: one object for each, from its first pass to the last."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []

    def learn(self, jobs: JobTable, first: int) -> None:
        """Jobs that are the rows from `first` on."""
        columns = (
            jobs.number,
            jobs.submit_us,
            jobs.estimate_us,
            jobs.nodes,
            jobs.queue,
            jobs.user,
            jobs.group,
        )
        self._jobs[first:] = [
            Job(*values) for values in zip(*(each.tolist() for each in columns), strict=True)
        ]

    def waiting(self, job: t.Jobs, rows: list[int], now_us: int) -> tuple[Job, ...]:
        """These rows, as they are now."""
        jobs = self._jobs
        found = []
        for row, (submit_us, estimate_us, nodes) in zip(rows, _columns(job, _ASKED, rows), strict=True):
            seen_job = jobs[row]
            _set_wait(seen_job, now_us - submit_us)
            if (
                seen_job.estimate_us != estimate_us
                or seen_job.nodes != nodes
                or seen_job.submit_us != submit_us
            ):
                _set_submit(seen_job, submit_us)
                _set_estimate(seen_job, estimate_us)
                _set_nodes(seen_job, nodes)
            if seen_job.start_us >= 0:  # it ran before
                _set_start(seen_job, -1)
                _set_end(seen_job, -1)
                _set_returns(seen_job, 0)
            found.append(seen_job)
        return tuple(found)

    def running(self, job: t.Jobs, rows: NDArray[np.int64], now_us: int) -> tuple[Job, ...]:
        """Of these rows, which run, those whose nodes come back to the pool."""
        found = []
        columns = _columns(job, _RUNS, rows)
        for row, (start_us, expected_us, estimate_us, nodes, returns) in zip(
            rows.tolist(), columns, strict=True
        ):
            if not expected_us:
                continue
            seen_job = self._jobs[row]
            _set_start(seen_job, start_us)
            _set_end(seen_job, max(expected_us, now_us))
            _set_estimate(seen_job, estimate_us)
            _set_nodes(seen_job, nodes)
            _set_returns(seen_job, returns)
            found.append(seen_job)
        return tuple(found)

    def __getitem__(self, row: int) -> Job:
        return self._jobs[row]
