"""What a policy in plain Python sees, and the forms that it may have. The docs: `docs/own-policy.md`.

* `rank(job)`: an order. The highest number is served first, ties by (submit, number).
* `may_start(job, reservation)`: a backfill rule. Whether a job behind the head may start now.
* `decide(now_us, view)`: a whole scheduler. The jobs of `view.queue` that start now.

Each is a function, or the one method of a class whose constructor takes parameters. All they see is read only.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from emulator.plugins import make_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SCHEDULERS, BACKFILLS = "emulator.schedulers", "emulator.backfills"
_JOB_FIELDS = (
    "number", "submit_us", "estimate_us", "nodes", "queue", "user", "group", "wait_us", "start_us", "expected_end_us",
    "returns",
)  # fmt: skip


class Job:
    """A job that waits or runs. Times are microseconds of cluster time; how long it will run is not known.

    `wait_us`: how long it has waited, at this pass, since its submit. `estimate_us` and `nodes`: what it asks for.
    `queue`, `user` and `group`: the trace's numbers, -1 where unknown. Of a running job: `start_us` and
    `expected_end_us` (start and estimate, or now if that has passed), which are -1 of one that waits, and `returns`,
    the nodes that go back to the batch pool at its end (all, unless a mechanism takes some).
    """

    __slots__ = _JOB_FIELDS

    number: int
    submit_us: int
    estimate_us: int
    nodes: int
    queue: int
    user: int
    group: int
    wait_us: int
    start_us: int
    expected_end_us: int
    returns: int

    def __init__(self, *values: int) -> None:
        """The first seven fields in order; a job is made by the harness."""
        for name, value in zip(_JOB_FIELDS, (*values, 0, -1, -1, 0), strict=True):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a job can only be looked at: {name} of job {self.number} stays as it is")

    def __repr__(self) -> str:
        return f"Job({', '.join(f'{name}={getattr(self, name)}' for name in _JOB_FIELDS)})"


class View:
    """The machine at one pass, for `decide`. `queue` and `running` are tuples of `Job`.

    `now_us`; `free`: idle nodes of the batch pool; `node_count`: nodes of the machine; `queue`: jobs that wait, in
    order of (submit, number); `running`: batch jobs that run, in order of their starts.
    """

    __slots__ = ("_running", "_running_now", "free", "node_count", "now_us", "queue")

    now_us: int
    free: int
    node_count: int
    queue: tuple[Job, ...]
    _running: tuple[Job, ...] | None
    _running_now: Callable[[int], tuple[Job, ...]]

    def __init__(
        self,
        now_us: int,
        queue: tuple[Job, ...],
        free: int,
        node_count: int,
        running: Callable[[int], tuple[Job, ...]],
    ) -> None:
        for name, value in (
            ("now_us", now_us), ("queue", queue), ("free", free), ("node_count", node_count),
            ("_running_now", running), ("_running", None),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a view can only be looked at: {name} stays as it is")

    @property
    def running(self) -> tuple[Job, ...]:
        if self._running is None:
            object.__setattr__(self, "_running", self._running_now(self.now_us))
        return self._running or ()

    def reservation(self, job: Job, started: Iterable[Job] = ()) -> Reservation:
        """When `job` can start at the latest if nothing else starts, after those that are `started` now."""
        return reservation_of(job, self.now_us, self.free, self.running, started)


class Reservation:
    """The reservation of the head that does not fit (EASY, rule 2 in docs/schedulers.md).

    `head`: the job; `shadow_us`: when it can start at the latest, by the estimates of what runs, NEVER_US if it
    cannot; `spare`: nodes that are free then beside those it takes; `free`: idle nodes; `now_us`.
    """

    __slots__ = ("free", "head", "now_us", "shadow_us", "spare")

    def __init__(self, head: Job, now_us: int, free: int, shadow_us: int, spare: int) -> None:
        for name, value in (
            ("head", head), ("now_us", now_us), ("free", free), ("shadow_us", shadow_us), ("spare", spare),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    head: Job
    now_us: int
    free: int
    shadow_us: int
    spare: int

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a reservation can only be looked at: {name} stays as it is")


NEVER_US = (1 << 63) - 1


def reservation_of(
    head: Job, now_us: int, free: int, running: Iterable[Job], started: Iterable[Job] = ()
) -> Reservation:
    """The reservation of `head` beside jobs that run and those that start now."""
    ends = [(job.expected_end_us, job.returns) for job in running]
    for job in started:
        free -= job.nodes
        ends.append((now_us + job.estimate_us, job.nodes))
    then, shadow_us = free, now_us if head.nodes <= free else NEVER_US
    for end_us, nodes in sorted(ends):
        if then >= head.nodes and end_us > shadow_us:
            break
        then += nodes
        if then >= head.nodes:
            shadow_us = end_us
    spare = then - head.nodes if then >= head.nodes else 0
    return Reservation(head, now_us, free, shadow_us, spare)


@runtime_checkable
class Ranks(Protocol):
    def rank(self, job: Job) -> float:
        """The priority of a waiting job now; higher ones first, no NaN."""


class Compiled:
    """A function of a waiting job, `rank`, that is compiled: passes need no Python."""

    def __init__(self, function: Callable[[Any], float]) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def score(self, job: Any) -> float:
        return self.function(job)


def compiled(function: Callable[[Any], float]) -> Compiled:
    """Compile a queue order, a function of one waiting job: passes then need no Python.

    It may do arithmetic, call `min`, `max` and what `math` has, and look at what a compiled order sees of a job
    (`WAITING` in `schedulers/dynamic.py`): that is all a `Job` has but for `number` and what only running jobs have.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"@emulator.compiled is for a function of (job), not for {function!r}")
    return Compiled(function)


class Decides(Protocol):
    def decide(self, now_us: int, view: View) -> Iterable[Job | int]:
        """The jobs that start now, or their numbers."""


class Allows(Protocol):
    def may_start(self, job: Job, reservation: Reservation) -> bool:
        """Whether a job behind the head, which would fit, may start now."""


def make_decider(item: object) -> Decides:
    """The whole scheduler that a scenario names. Raises ValueError."""
    made: Any = make_plugin(SCHEDULERS, item)
    return made  # type: ignore[no-any-return]


def make_rule(item: object) -> Allows:
    """The backfill rule that a scenario names. Raises ValueError."""
    made: Any = make_plugin(BACKFILLS, item)
    return made  # type: ignore[no-any-return]


def _yes_or_no(said: object) -> bool:
    """Raises TypeError for what is neither."""
    if not isinstance(said, bool | np.bool_):
        raise TypeError(f"it returned {said!r}; return True or False")
    return bool(said)


class ByRule:
    """Heads in queue order, then whoever behind the first that does not fit the rule lets start.

    `event`: what the rule is asked for at the moment, for an error.
    """

    def __init__(self, rule: Allows) -> None:
        self._rule = rule
        self.event = "may_start"

    def _asked(self, job: Job, reservation: Reservation) -> bool:
        try:
            return _yes_or_no(self._rule.may_start(job, reservation))
        except Exception:
            self.event = f"may_start of job {job.number}"
            raise

    def decide(self, now_us: int, view: View) -> list[Job]:
        starts: list[Job] = []
        free = view.free
        queue = iter(view.queue)
        head = None
        for job in queue:
            if job.nodes > free:
                head = job
                break
            free -= job.nodes
            starts.append(job)
        if head is None or not free:
            return starts
        held = view.reservation(head, starts)
        spare = held.spare
        for job in queue:
            if job.nodes > free:
                continue
            if self._asked(job, Reservation(head, now_us, free, held.shadow_us, spare)):
                free -= job.nodes
                if now_us + job.estimate_us > held.shadow_us:
                    spare = max(0, spare - job.nodes)
                starts.append(job)
        return starts
