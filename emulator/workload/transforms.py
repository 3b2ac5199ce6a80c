"""Transforms of a job table: cut it, stretch it, move it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from balancer.clock import NEVER_US, US, micros
from emulator.plugins import check_number, make_plugin
from emulator.workload.plugin_errors import errors_named, jobs_from
from emulator.workload.streams import stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from emulator.workload.table import JobTable

GROUP = "emulator.transforms"
_LONGEST_S = 9_000_000_000


@runtime_checkable
class Transform(Protocol):
    """Jobs in, jobs out. A frozen dataclass whose fields are its parameters, declared in the group above."""

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:
        """The changed jobs, sorted by (submit, number). `nodes` is the size of the cluster."""


@runtime_checkable
class RandomTransform(Protocol):
    """A transform by chance. The same generator state gives the same jobs."""

    def apply_random(self, jobs: JobTable, *, nodes: int, rng: np.random.Generator) -> JobTable:
        """As `Transform.apply`, with a random stream of its own."""


@runtime_checkable
class CountingTransform(Protocol):
    """A transform that makes something up, of which the reader of the results should know."""

    def count(self, jobs: JobTable) -> dict[str, int]:
        """What it will do to these jobs, in words, and to how many."""


def apply_transforms(
    transforms: Sequence[Transform | RandomTransform],
    jobs: JobTable,
    *,
    nodes: int,
    seed: int,
    counted: dict[str, int] | None = None,
) -> JobTable:
    """The jobs after all transforms, from the first to the last; `counted` takes what they count.

    A random transform draws from the stream `workload.transforms.NAME.K` of the seed, where NAME is its class's
    and K counts those of its class from 0: so another transform before it does not change what it draws.
    """
    count: dict[str, int] = {}
    for transform in transforms:
        if counted is not None and isinstance(transform, CountingTransform):
            with errors_named(GROUP, transform, "count"):
                counted.update(transform.count(jobs))
        if isinstance(transform, RandomTransform):
            name = type(transform).__name__
            turn = count[name] = count.get(name, -1) + 1
            rng = stream(seed, f"workload.transforms.{name}.{turn}")
            jobs = jobs_from(GROUP, transform, "apply_random", jobs, nodes=nodes, rng=rng)
        else:
            jobs = jobs_from(GROUP, transform, "apply", jobs, nodes=nodes)
    return jobs


def parse_transforms(items: object) -> list[Transform | RandomTransform]:
    """The transforms of a scenario's list: `[{"window": {"begin_s": 0, "end_s": 86400}}, {"limit": 5}]`.

    Raises ValueError for an unknown name or parameter (with the nearest right one) or a bad value.
    """
    if items is None:
        return []
    if not isinstance(items, list):
        raise ValueError(f"transforms are a list, not {items!r}")  # noqa: TRY004 - a border: one kind of error
    return [make_plugin(GROUP, item) for item in items]


@dataclass(frozen=True, slots=True)
class Window:
    """Keeps the jobs submitted in [begin_s, end_s); the window's begin becomes time 0."""

    begin_s: float
    end_s: float

    def __post_init__(self) -> None:
        check_number("window", "begin_s", self.begin_s, at_least=0, at_most=_LONGEST_S)
        check_number("window", "end_s", self.end_s, above=self.begin_s, at_most=_LONGEST_S)

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002
        begin, end = np.searchsorted(jobs.submit_us, [micros(self.begin_s), micros(self.end_s)])
        inside = jobs.take(np.arange(begin, end))
        return replace(inside, submit_us=inside.submit_us - micros(self.begin_s))


@dataclass(frozen=True, slots=True)
class ScaleInterarrival:
    """Multiplies the time between submits: 0.5 brings the same jobs in half the time, at twice the load."""

    factor: float

    def __post_init__(self) -> None:
        check_number("scale_interarrival", "factor", self.factor, above=0)

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002
        if not len(jobs):
            return jobs
        first_us = jobs.submit_us[0]
        offset_us = (jobs.submit_us - first_us) * float(self.factor)
        if offset_us[-1] > micros(_LONGEST_S):
            raise ValueError(
                f"scale_interarrival: factor {self.factor:g} moves the last job beyond 285 years"
            )
        return _resubmit(jobs, first_us + np.rint(offset_us).astype(np.int64))


@dataclass(frozen=True, slots=True)
class WholeSeconds:
    """Cuts the times since the first submit to whole seconds, as programs that count in seconds do."""

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002
        if not len(jobs):
            return jobs
        first_us = jobs.submit_us[0]
        return _resubmit(jobs, first_us + (jobs.submit_us - first_us) // US * US)


@dataclass(frozen=True, slots=True)
class Limit:
    """Keeps the first jobs, this many, after those to `skip`."""

    jobs: int
    skip: int = 0

    def __post_init__(self) -> None:
        check_number("limit", "jobs", self.jobs, at_least=1, whole=True)
        check_number("limit", "skip", self.skip, at_least=0, whole=True)

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002
        return jobs.take(np.arange(min(self.skip, len(jobs)), min(self.skip + self.jobs, len(jobs))))


@dataclass(frozen=True, slots=True)
class Shift:
    """Adds to all submit times; a negative value must not bring a job before time 0."""

    by_s: float

    def __post_init__(self) -> None:
        check_number("shift", "by_s", self.by_s, at_least=-_LONGEST_S, at_most=_LONGEST_S)

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002
        by_us = micros(self.by_s)
        if (
            len(jobs)
            and not 0 <= int(jobs.submit_us[0]) + by_us <= int(jobs.submit_us[-1]) + by_us < NEVER_US
        ):
            raise ValueError(
                f"shift: by_s {self.by_s:g} moves the first job before time 0; it is submitted at "
                f"{jobs.submit_us[0] / 1e6:g} s"
            )
        return replace(jobs, submit_us=jobs.submit_us + by_us)


def _resubmit(jobs: JobTable, submit_us: NDArray[np.int64]) -> JobTable:
    """The jobs at other submit times, sorted again: jobs that now come together go by number."""
    moved = replace(jobs, submit_us=submit_us)
    order = np.lexsort((moved.number, moved.submit_us))
    return moved.take(order)
