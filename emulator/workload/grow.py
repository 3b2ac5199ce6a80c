"""More jobs like those that a log has, for a week in which users ask for more than they did.

What is added are other weeks of the log's own users: all that one user submitted in some other week, at the same hours
of the week, one user after the other in random order, until the wanted node-time is there. So sizes, run times,
estimates, the sessions of users, and the cycles of day and week stay as they are, and only their number grows. This is
the resampling by users of Zakay and Feitelson (Workload resampling for performance evaluation of parallel job
schedulers, ICPE 2013, and Concurrency and Computation 26(12), 2014). The older practice, to divide all times between
submits by the growth, makes days shorter than jobs know them; copies of single jobs (Ernemann, Song and Yahyapour,
Scaling of workload traces, JSSPP 2003) tear sessions apart. Where nobody says whose a job is, what came on one day
stays together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.workload.table import JobTable

DAY_US = 86_400 * US
WEEK_US = 7 * DAY_US
NEAR = 0.005
"""So little of the wanted node-time may be missing before it is enough."""


def node_time(jobs: JobTable) -> NDArray[np.int64]:
    """Nodes times run time of each job, in node-microseconds."""
    return jobs.run_us * jobs.nodes.astype(np.int64)


def more_jobs(pool: JobTable, target: float, rng: np.random.Generator) -> JobTable:
    """Jobs that together take `target` node-microseconds or a little less, at times from 0 to a week.

    `pool`: the jobs to draw from, at times that count from the begin of some week. What does not fit into the
    rest of what is wanted is passed over. If all of `pool` is not enough, it is drawn from again.
    """
    chosen: list[int] = []
    rest, size = target, node_time(pool).tolist()
    order = _by_random_user(pool, rng).tolist()
    before = float("inf")
    while (
        rest > NEAR * target and before - rest > NEAR * target
    ):  # not for jobs so small that they bring nothing
        before = rest
        for row in order:
            if 0 < size[row] <= rest:
                chosen.append(row)
                rest -= size[row]
                if rest <= NEAR * target:
                    break
    found = pool.take(np.array(chosen, np.intp))
    found = replace(
        found, submit_us=found.submit_us % WEEK_US, number=np.arange(1, len(found) + 1, dtype=np.int64)
    )
    return found.take(np.lexsort((found.number, found.submit_us)))


def turned(week: JobTable, rng: np.random.Generator) -> JobTable:
    """A week's jobs as another week's: each user's on other days. For a log that has no other week."""
    unit = _units(week)
    days = rng.integers(1, 7, int(unit.max(initial=0)) + 1)
    submit_us = (week.submit_us + days[unit] * DAY_US) % WEEK_US
    return replace(week, submit_us=submit_us)


def _by_random_user(jobs: JobTable, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows, unit by unit in random order, each in order of time."""
    unit = _units(jobs)
    rank = rng.permutation(int(unit.max(initial=0)) + 1)[unit]
    return np.lexsort((jobs.number, jobs.submit_us, rank))


def _units(jobs: JobTable) -> NDArray[np.intp]:
    """Numbers from 0 of what stays together: a user's week, or a day where nobody knows the user."""
    known = jobs.user >= 0
    span = np.where(known, jobs.submit_us // WEEK_US, jobs.submit_us // DAY_US)
    _, unit = np.unique(np.column_stack((jobs.user.astype(np.int64), span)), axis=0, return_inverse=True)
    return unit.reshape(-1)
