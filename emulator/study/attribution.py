"""Who gains and who loses: waits of batch jobs by size, run time and user, today and with the recommended setting.

The jobs are those that were submitted in the weeks, without those that ran when a week began.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.metrics import jobs as job_figures
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.study.logs import WEEK_S
from emulator.sweeps.pools import on_cores
from emulator.workload.preload import is_preloaded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from emulator.runs.scenario import Scenario
    from emulator.sweeps.grid import Run

_NODES = (
    (1, "1 node"),
    (4, "2 to 4 nodes"),
    (16, "5 to 16 nodes"),
    (64, "17 to 64 nodes"),
    (2**31, "more nodes"),
)
_RUN_MIN = (
    (10, "up to 10 min"), (60, "10 min to 1 h"), (360, "1 to 6 h"), (1440, "6 to 24 h"), (2**31, "longer")
)  # fmt: skip
_FEWEST_JOBS = 10
"""A user with fewer jobs in these weeks has no mean that says anything."""


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs of a kind: how many, and their mean waits in minutes in both settings."""

    name: str
    jobs: int
    today_min: float
    then_min: float


@dataclass(frozen=True, slots=True)
class WaitChanges:
    """Groups by size and by run time; how many users have ten jobs and more, and how many of these wait longer."""

    by_size: tuple[Group, ...]
    by_run_time: tuple[Group, ...]
    users: int
    users_that_lose: int


@dataclass(frozen=True, slots=True)
class _Jobs:
    """What each job is and how long it waited (us)."""

    nodes: NDArray[np.int64]
    run_us: NDArray[np.int64]
    user: NDArray[np.int64]
    number: NDArray[np.int64]
    wait_us: NDArray[np.int64]


def wait_changes(
    today: Sequence[Run],
    then: Sequence[Run],
    begin_s: float,
    without_queue: int | None = None,
    *,
    processes: int = 1,
) -> WaitChanges:
    """Of runs of the same weeks in the same order, which are done again; a week begins `begin_s` after its run.

    Jobs of `without_queue` do not count.
    """
    of_a_run = partial(_jobs_of, begin_s=begin_s, without_queue=without_queue)
    parts = on_cores(of_a_run, [run.scenario for run in (*today, *then)], processes)
    was, now = (_joined(some) for some in (parts[: len(today)], parts[len(today) :]))
    if not np.array_equal(was.number, now.number):
        raise ValueError("the settings do not have the same jobs")
    was_min, now_min = was.wait_us / US / 60, now.wait_us / US / 60
    sizes = np.searchsorted([most for most, _ in _NODES], was.nodes)
    lengths = np.searchsorted([most * 60 * US for most, _ in _RUN_MIN], was.run_us)
    users, losers = _users(was.user, was_min, now_min)
    return WaitChanges(
        by_size=tuple(_groups(sizes, [name for _, name in _NODES], was_min, now_min)),
        by_run_time=tuple(_groups(lengths, [name for _, name in _RUN_MIN], was_min, now_min)),
        users=users,
        users_that_lose=losers,
    )


def _jobs_of(scenario: Scenario, begin_s: float, without_queue: int | None) -> _Jobs:
    begin_us, end_us = round(begin_s * US), round((begin_s + WEEK_S) * US)
    record = run_virtual(scenario, prepare(scenario))
    rows, jobs = job_figures.batch_jobs_run(record), record.jobs
    if without_queue is not None:
        rows = rows[jobs.queue[rows] != without_queue]
    submit_us = jobs.submit_us[rows]
    in_week = rows[(submit_us >= begin_us) & (submit_us < end_us) & ~is_preloaded(jobs)[rows]]
    in_week = in_week[np.argsort(jobs.number[in_week], kind="stable")]
    return _Jobs(
        nodes=jobs.nodes[in_week].astype(np.int64),
        run_us=jobs.run_us[in_week],
        user=jobs.user[in_week].astype(np.int64),
        number=jobs.number[in_week].astype(np.int64),
        wait_us=record.start_us[in_week] - jobs.submit_us[in_week],
    )


def _joined(parts: Sequence[_Jobs]) -> _Jobs:
    """One behind the other."""
    return _Jobs(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(_Jobs)))


def _groups(
    which: NDArray[np.intp], names: Sequence[str], was_min: NDArray[np.float64], now_min: NDArray[np.float64]
) -> Iterable[Group]:
    for at, name in enumerate(names):
        selected = which == at
        if selected.any():
            yield Group(
                name, int(selected.sum()), float(was_min[selected].mean()), float(now_min[selected].mean())
            )


def _users(
    user: NDArray[np.int64], was_min: NDArray[np.float64], now_min: NDArray[np.float64]
) -> tuple[int, int]:
    """Users with enough jobs, and how many of them wait longer on average."""
    known = user >= 0
    _, place = np.unique(user[known], return_inverse=True)
    longer = np.bincount(place, (now_min - was_min)[known])
    enough = np.bincount(place) >= _FEWEST_JOBS
    return int(enough.sum()), int((enough & (longer > 0)).sum())
