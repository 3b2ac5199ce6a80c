"""How many jobs, nodes and node-hours of a user, group, queue or array may be queued or run at once.

Jobs that count together are a pool; a job may be in several. Who finds no room in one of its pools is held. Such
limits are Slurm's MaxJobsPerUser, MaxTRESPerUser and MaxTRESRunMinsPerUser and PBS's max_run and max_run_res (Slurm's
page on resource limits, the PBS Administrator's Guide), which count jobs that run. Here a job over its limit does not
stand in the queue, either, so that no order and no backfill has to know of limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import micros
from emulator.schedulers.slurm.qos import UNDEFINED, read_qos
from emulator.workload import relations as r
from emulator.workload.job_columns import QOS
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from emulator.config.scenario_parts import LimitPart, QosPart
    from emulator.schedulers.slurm.qos import Qos
    from emulator.workload.table import JobTable

_NO_LIMIT = 1 << 62
_MINUTE_US = 60_000_000
_ARRAYS = -1
"""Where the number of a limit is for other pools."""


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `jobs` jobs and `nodes` nodes for each value of column `by`: user, group, queue or qos. None: any number.

    `node_us`: at most so many node-microseconds that are asked for, nodes x estimate. `only`: for these values alone.
    Jobs whose value is not known (-1) have no such limit. `submitted`: at most so many jobs that are submitted and not
    over, be they held or not. `qos`: of the jobs of this QOS alone.
    """

    by: str
    jobs: int | None = None
    nodes: int | None = None
    only: frozenset[int] | None = None
    node_us: int | None = None
    submitted: int | None = None
    qos: int | None = None

    @property
    def most(self) -> tuple[int, int, int] | None:
        """Jobs, nodes, node-microseconds that may be queued or run at once; None: any number of each."""
        said = self.jobs, self.nodes, self.node_us
        if said == (None, None, None):
            return None
        jobs, nodes, node_us = (_NO_LIMIT if each is None else each for each in said)
        return jobs, nodes, node_us


_Amount = tuple[int, int, int]
"""Jobs, nodes, node-microseconds."""
_NOTHING: _Amount = (0, 0, 0)
_ONE: _Amount = (1, 0, 0)


class Pools:
    """Of jobs (rows of a table) by their limits and arrays: who has room, who waits for it.

    Raises ValueError for an array with several limits.
    """

    def __init__(self, jobs: JobTable, limits: Sequence[Limit] = ()) -> None:
        width, estimate_us = jobs.nodes.tolist(), jobs.estimate_us.tolist()
        self._asks: list[_Amount] = [
            (1, nodes, nodes * each_us) for nodes, each_us in zip(width, estimate_us, strict=True)
        ]
        self._number: dict[tuple[int, int], int] = {}
        self._of: dict[int, list[int]] = {}
        """Of each job that has any: its pools."""
        self._most: list[_Amount] = []
        self._used: list[_Amount] = []
        self._waiting: list[set[int]] = []
        self._inside: set[int] = set()
        self._touched: set[int] = set()
        """Pools in which somebody may have found room."""
        for row, key, jobs_at_once in _tasks(jobs):
            self._enter(row, key, (jobs_at_once, _NO_LIMIT, _NO_LIMIT))
        for number, limit in enumerate(limits):
            if (most := limit.most) is not None:
                for row, value in values_of(jobs, limit):
                    self._enter(row, (number, value), most)

    def _enter(self, row: int, key: tuple[int, int], most: _Amount) -> None:
        pool = self._number.setdefault(key, len(self._most))
        if pool == len(self._most):
            self._most.append(most)
            self._used.append(_NOTHING)
            self._waiting.append(set())
        self._of.setdefault(row, []).append(pool)

    def __bool__(self) -> bool:
        return bool(self._of)

    def __contains__(self, row: int) -> bool:
        return row in self._of

    @property
    def rows(self) -> set[int]:
        """Jobs that have a limit."""
        return set(self._of)

    def is_too_large(self, row: int) -> bool:
        """Whether the job alone is more than one of its limits."""
        return not all(_fits(_NOTHING, self._asks[row], self._most[pool]) for pool in self._of[row])

    @property
    def is_touched(self) -> bool:
        """Whether `admit` may find somebody."""
        return bool(self._touched)

    def wait(self, row: int) -> None:
        """The job wants in."""
        for pool in self._of[row]:
            self._waiting[pool].add(row)
            self._touched.add(pool)

    def leave(self, row: int) -> None:
        """The job is over, whether it was in or waited; unknown jobs and those that are out already are none."""
        for pool in self._of.get(row, ()):
            self._waiting[pool].discard(row)
            if row in self._inside:
                (jobs, nodes, node_us), asks = self._used[pool], self._asks[row]
                self._used[pool] = jobs - asks[0], nodes - asks[1], node_us - asks[2]
                self._touched.add(pool)
        self._inside.discard(row)

    def admit(self) -> list[int]:
        """The jobs that have room in all their pools now, the lowest rows first; they are in."""
        asked = sorted(
            set().union(*(self._waiting[pool] for pool in self._touched if self._has_room(pool, _ONE)))
        )
        self._touched.clear()
        admitted = [row for row in asked if self._try(row)]
        for row in admitted:
            for pool in self._of[row]:
                self._waiting[pool].discard(row)
        return admitted

    def _has_room(self, pool: int, asks: _Amount) -> bool:
        return _fits(self._used[pool], asks, self._most[pool])

    def _try(self, row: int) -> bool:
        asks = self._asks[row]
        if not all(self._has_room(pool, asks) for pool in self._of[row]):
            return False
        for pool in self._of[row]:
            jobs, nodes, node_us = self._used[pool]
            self._used[pool] = jobs + asks[0], nodes + asks[1], node_us + asks[2]
        self._inside.add(row)
        return True


def _fits(used: _Amount, asks: _Amount, most: _Amount) -> bool:
    return used[0] + asks[0] <= most[0] and used[1] + asks[1] <= most[1] and used[2] + asks[2] <= most[2]


def values_of(jobs: JobTable, limit: Limit) -> Iterator[tuple[int, int]]:
    """Rows of batch jobs for which a limit holds, and the value by which they count together."""
    columns: dict[str, NDArray[Any]] = {
        "user": jobs.user,
        "group": jobs.group,
        "queue": jobs.queue,
        "qos": jobs.column(QOS),
    }
    holds = (jobs.kind == Kind.BATCH) & (columns[limit.by] >= 0)
    if limit.qos is not None:
        holds &= columns["qos"] == limit.qos
    for row, value in zip(np.flatnonzero(holds).tolist(), columns[limit.by][holds].tolist(), strict=True):
        if limit.only is None or value in limit.only:
            yield row, value


class Submissions:
    """Jobs that are submitted and not over, by their limits of those."""

    def __init__(self, jobs: JobTable, limits: Sequence[Limit]) -> None:
        self._of: dict[int, list[tuple[int, int]]] = {}
        self._most: dict[tuple[int, int], int] = {}
        self._inside: dict[tuple[int, int], set[int]] = {}
        for number, limit in enumerate(limits):
            if limit.submitted is not None:
                for row, value in values_of(jobs, limit):
                    self._of.setdefault(row, []).append((number, value))
                    self._most[number, value] = limit.submitted
                    self._inside[number, value] = set()

    def __bool__(self) -> bool:
        return bool(self._of)

    @property
    def rows(self) -> set[int]:
        """Jobs that have such a limit."""
        return set(self._of)

    def admit(self, row: int) -> bool:
        """Whether the job finds room in all its limits; it counts from now on then."""
        limits = self._of.get(row, ())
        if any(len(self._inside[each]) >= self._most[each] for each in limits):
            return False
        for each in limits:
            self._inside[each].add(row)
        return True

    def leave(self, row: int) -> None:
        """The job is over; one that was never in is none."""
        for each in self._of.get(row, ()):
            self._inside[each].discard(row)


def _tasks(jobs: JobTable) -> Iterator[tuple[int, tuple[int, int], int]]:
    """Rows of tasks of arrays that have a limit, what they count together by, and the limit."""
    if r.ARRAY not in jobs.extra or r.ARRAY_LIMIT not in jobs.extra:
        return
    arrays, said = jobs.column(r.ARRAY).tolist(), jobs.column(r.ARRAY_LIMIT).tolist()
    limits: dict[int, int] = {}
    for array, limit in zip(arrays, said, strict=True):
        if array >= 0 and limit >= 0 and limits.setdefault(array, limit) != limit:
            raise ValueError(
                f"array {array} has limits of {limits[array]} and {limit} running jobs; give it one"
            )
    for row, array in enumerate(arrays):
        if array in limits:
            yield row, (_ARRAYS, array), limits[array]


def limits_of(limits: Sequence[LimitPart], part: QosPart | None) -> list[Limit]:
    """All limits, those of QOS among them. Raises ValueError."""
    found = [
        Limit(
            each.by,
            each.jobs,
            each.nodes,
            None if each.only is None else frozenset(each.only),
            None if each.node_h is None else micros(3600 * each.node_h),
        )
        for each in limits
    ]
    return found if part is None else [*found, *_of_qos(part)]


def _of_qos(part: QosPart) -> Iterator[Limit]:
    for place, each in enumerate(read_qos(part.table, part.cpus_per_node, plain=True)):
        yield from _limits(place, each)


def _limits(place: int, each: Qos) -> Iterator[Limit]:
    said: Sequence[tuple[str, int, int, int, int]] = (
        ("qos", each.grp_jobs, each.grp_nodes, each.grp_node_min, each.grp_submitted),
        ("user", each.user_jobs, each.user_nodes, each.user_node_min, each.user_submitted),
        ("group", each.account_jobs, each.account_nodes, each.account_node_min, each.account_submitted),
    )
    for by, *values in said:
        jobs, nodes, node_min, submitted = (None if value == UNDEFINED else value for value in values)
        if any(value is not None for value in (jobs, nodes, node_min, submitted)):
            node_us = None if node_min is None else node_min * _MINUTE_US
            yield Limit(by, jobs, nodes, None, node_us, submitted, place)
