"""Makes a hybrid workload of any trace: on-demand, rigid and malleable jobs (hybrid-fan-2021, section IV)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US, micros
from emulator.plugins import check_number
from emulator.text.number_text import percent
from emulator.workload.daly import optimum_interval_us
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

NOTICES = ("none", "accurate", "early", "late")
"""How an on-demand job is announced (section III-A, Figure 1)."""

MIXES: dict[str, tuple[float, float, float, float]] = {
    "W1": (0.70, 0.10, 0.10, 0.10),
    "W2": (0.10, 0.70, 0.10, 0.10),
    "W3": (0.10, 0.10, 0.70, 0.10),
    "W4": (0.10, 0.10, 0.10, 0.70),
    "W5": (0.25, 0.25, 0.25, 0.25),
}
"""Shares of the on-demand jobs in the order of `NOTICES` (Table II)."""

GROUPED_BY_USER = "project unknown, user taken"
GROUPED_BY_SHAPE = "project and user unknown, jobs of one size and walltime taken as a project"
_DAY_S = 86_400
_WHERE = ("inside", "on_top", "none")
"""Where the time of a setup or of a checkpoint's writes comes from."""
_ROUNDING = 1e-6
_DRAWS = 1000
_FAR_APART = 4


class JobClass(IntEnum):
    """Values of the extra column `job_class`."""

    RIGID = 0
    MOLDABLE = 1
    MALLEABLE = 2


@dataclass(frozen=True, slots=True)
class HybridKinds:
    """Turns projects into on-demand, rigid and malleable ones, and gives jobs what such jobs have.

    All jobs of a project are of one kind, so on-demand jobs come in the bursts of their projects. A project is the
    trace's group, else its user, else all jobs of one size and requested walltime (`grouping: auto`; the result's
    `jobs_changed` says which); `on_demand_share` and `rigid_share` are shares of projects, the rest is malleable.
    Malleable projects' jobs of one node cannot change size and become rigid or on-demand (by the two shares).
    `on_demand_load`: a range of what on-demand jobs have of all node-seconds; projects are drawn until it is met.

    On-demand: the trace's submit time is the real arrival; predicted arrival and notice (`notice_s` before it, a
    range) are derived backwards, by `notices` (W1 to W5, or shares of none, accurate, early, late). An early job
    arrives between notice and predicted arrival, a late one up to `late_s` after it.

    Each run of a job pays its setup (`rigid_setup`, `malleable_setup`: ranges, shares of the run time) at its start.
    `setups: inside`: it is taken out of the trace's run time and request; `on_top`: it is not; `none`: there are none.
    A rigid job writes a checkpoint (`checkpoint_s`, from `wide_nodes` on `wide_checkpoint_s`) after each interval of
    `checkpoint_scale` times Daly's optimum for `mtbf_s`; none if the interval is longer than its run time.
    `checkpoints: on_top`: the writes come on top of run time and request; `inside`: they are a part of them; `none`:
    nobody writes any. Malleable jobs run on `min_share` of their nodes or more.
    """

    notices: str | Mapping[str, float] = "W5"
    on_demand_share: float = 0.10
    rigid_share: float = 0.60
    on_demand_load: tuple[float, float] | None = None
    grouping: str = "auto"
    notice_s: tuple[float, float] = (900, 1800)
    late_s: float = 1800
    rigid_setup: tuple[float, float] = (0.05, 0.10)
    malleable_setup: tuple[float, float] = (0.0, 0.05)
    min_share: float = 0.20
    checkpoint_s: float = 600
    wide_checkpoint_s: float = 1200
    wide_nodes: int = 1000
    checkpoint_scale: float = 1.0
    mtbf_s: float = 180_000
    setups: str = "inside"
    checkpoints: str = "on_top"
    _mix: tuple[float, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        owner = "hybrid_kinds"
        object.__setattr__(self, "_mix", _mix(self.notices))
        for name in ("on_demand_share", "rigid_share", "min_share"):
            check_number(owner, name, getattr(self, name), at_least=0, at_most=1)
        if self.on_demand_share + self.rigid_share > 1:
            raise ValueError(f"{owner}: on_demand_share and rigid_share are more than 1 together")
        if self.grouping not in ("auto", "group", "user", "shape"):
            raise ValueError(f"{owner}: grouping is auto, group, user or shape, not {self.grouping!r}")
        for name, most in (("notice_s", _DAY_S), ("rigid_setup", 0.9), ("malleable_setup", 0.9)):
            low, high = _pair(owner, name, getattr(self, name))
            check_number(owner, f"{name}[0]", low, at_least=0)
            check_number(owner, f"{name}[1]", high, at_least=low, at_most=most)
        if self.on_demand_load is not None:
            low, high = _pair(owner, "on_demand_load", self.on_demand_load)
            check_number(owner, "on_demand_load[0]", low, at_least=0, at_most=1)
            check_number(owner, "on_demand_load[1]", high, at_least=low, at_most=1)
        check_number(owner, "late_s", self.late_s, at_least=0, at_most=_DAY_S)
        check_number(owner, "checkpoint_s", self.checkpoint_s, at_least=0, at_most=_DAY_S)
        check_number(owner, "wide_checkpoint_s", self.wide_checkpoint_s, at_least=0, at_most=_DAY_S)
        check_number(owner, "wide_nodes", self.wide_nodes, at_least=1, whole=True)
        check_number(owner, "checkpoint_scale", self.checkpoint_scale, above=0, at_most=1000)
        check_number(owner, "mtbf_s", self.mtbf_s, at_least=1)
        for name in ("setups", "checkpoints"):
            if getattr(self, name) not in _WHERE:
                raise ValueError(f"{owner}: {name} is {', '.join(_WHERE)}, not {getattr(self, name)!r}")

    def count(self, jobs: JobTable) -> dict[str, int]:
        """What a reader of the results should know about the projects."""
        by, _ = self._grouping(jobs)
        note = {"user": GROUPED_BY_USER, "shape": GROUPED_BY_SHAPE}.get(by)
        return {note: len(jobs)} if note else {}

    def apply_random(self, jobs: JobTable, *, nodes: int, rng: np.random.Generator) -> JobTable:  # noqa: ARG002
        project = self._projects(jobs)
        on_demand, malleable = self._kinds(jobs, project, rng)
        count = len(jobs)
        setup_us = self._setup_us(jobs, on_demand, malleable, rng)
        taken_us = setup_us if self.setups == "inside" else np.zeros(count, np.int64)
        work_us = np.maximum(jobs.run_us - taken_us, 1)
        interval_us, write_us = self._checkpoints(jobs, ~on_demand & ~malleable)
        asked_us = np.maximum(jobs.estimate_us - taken_us, work_us)
        if self.checkpoints == "inside":
            work_us, asked_us = (_without_writes(each, interval_us, write_us) for each in (work_us, asked_us))
        notice_us, predicted_us = self._notices(jobs, on_demand, rng)
        least = np.maximum(np.ceil(jobs.nodes * self.min_share - 1e-9).astype(np.int64), 1)
        table = replace(
            jobs,
            kind=np.where(on_demand, Kind.ON_DEMAND, jobs.kind).astype(np.int8),
            run_us=work_us,
            estimate_us=np.maximum(asked_us, work_us),
        )
        return table.with_extra(
            project=project,
            job_class=np.where(malleable, JobClass.MALLEABLE, np.full(count, JobClass.RIGID)),
            min_nodes=np.where(malleable, least, jobs.nodes),
            max_nodes=jobs.nodes.astype(np.int64),
            setup_us=setup_us,
            checkpoint_us=np.where(interval_us > 0, write_us, 0),
            checkpoint_interval_us=interval_us,
            notice_us=notice_us,
            predicted_us=predicted_us,
        )

    def _grouping(self, jobs: JobTable) -> tuple[str, NDArray[np.int32] | None]:
        """What tells projects apart, and the column of it; None: the shape of jobs."""
        for by, column in (("group", jobs.group), ("user", jobs.user)):
            if self.grouping == by or (self.grouping == "auto" and _tells_apart(column)):
                return by, column
        return "shape", None

    def _projects(self, jobs: JobTable) -> NDArray[np.int64]:
        """The project of each job, from 0."""
        _, column = self._grouping(jobs)
        if column is not None:
            return ranks(column)
        shape = np.stack((jobs.nodes.astype(np.int64), jobs.estimate_us), axis=1)
        return np.unique(shape, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def _kinds(
        self, jobs: JobTable, project: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which jobs are on-demand and which malleable. Raises ValueError if no draw has `on_demand_load`."""
        if self.on_demand_load is None:
            return self._drawn(jobs, project, rng)
        low, high = self.on_demand_load
        node_s = jobs.nodes * (jobs.run_us / US)
        shares = []
        for _ in range(_DRAWS):
            on_demand, malleable = self._drawn(jobs, project, rng)
            shares.append(float(node_s[on_demand].sum()) / max(float(node_s.sum()), 1.0))
            if low <= shares[-1] <= high:
                return on_demand, malleable
        raise ValueError(
            f"hybrid_kinds: of {_DRAWS} draws of projects none has {percent(low)} to {percent(high)} of the"
            f" node-seconds on demand ({percent(min(shares))} to {percent(max(shares))});"
            " change on_demand_load or on_demand_share"
        )

    def _drawn(
        self, jobs: JobTable, project: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        projects = int(project.max(initial=-1)) + 1
        place = rng.permutation(projects)
        first_rigid = round(self.on_demand_share * projects)
        first_malleable = first_rigid + round(self.rigid_share * projects)
        on_demand, malleable = place < first_rigid, place >= first_malleable
        both = self.on_demand_share + self.rigid_share
        instead = rng.random(projects) < (self.on_demand_share / both if both else 0.0)
        narrow = malleable[project] & (jobs.nodes == 1)
        is_on_demand = (on_demand[project] | (narrow & instead[project])) & (jobs.kind == Kind.BATCH)
        is_malleable = malleable[project] & ~narrow & (jobs.kind == Kind.BATCH)
        return is_on_demand | (jobs.kind == Kind.ON_DEMAND), is_malleable

    def _setup_us(
        self,
        jobs: JobTable,
        on_demand: NDArray[np.bool_],
        malleable: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> NDArray[np.int64]:
        share = rng.random(len(jobs))
        low = np.where(malleable, self.malleable_setup[0], self.rigid_setup[0])
        high = np.where(malleable, self.malleable_setup[1], self.rigid_setup[1])
        setup = np.floor(jobs.run_us * (low + share * (high - low)))
        return np.where(on_demand | (self.setups == "none"), 0, setup).astype(np.int64)

    def _checkpoints(
        self, jobs: JobTable, rigid: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Interval (0: none) and cost of one."""
        write_us = np.where(
            jobs.nodes >= self.wide_nodes, micros(self.wide_checkpoint_s), micros(self.checkpoint_s)
        )
        mtbf_us = np.full(len(jobs), micros(self.mtbf_s))
        optimum_us = optimum_interval_us(write_us, mtbf_us)
        interval_us = np.maximum(np.rint(optimum_us * self.checkpoint_scale).astype(np.int64), 1_000_000)
        writes = rigid & (interval_us <= jobs.run_us) & (self.checkpoints != "none")
        interval_us = np.where(writes, interval_us, 0)
        return interval_us, write_us.astype(np.int64)

    def _notices(
        self, jobs: JobTable, on_demand: NDArray[np.bool_], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Time of the notice and predicted arrival, -1 without notice."""
        count = len(jobs)
        bounds = np.cumsum(self._mix)[:-1]
        sort = np.searchsorted(bounds, rng.random(count), side="right")
        low_us, high_us = (micros(each) for each in self.notice_s)
        ahead_us = rng.integers(low_us, high_us, count, endpoint=True)
        share = rng.random(count)
        arrival_us = jobs.submit_us
        after_notice_us = np.floor(ahead_us * share).astype(np.int64)
        late_us = np.floor(micros(self.late_s) * share).astype(np.int64)
        predicted_us = arrival_us + np.select(
            [sort == NOTICES.index("early"), sort == NOTICES.index("late")],
            [ahead_us - after_notice_us, -late_us],
            0,
        )
        known = on_demand & (sort > 0)
        notice_us = np.where(known, np.maximum(predicted_us - ahead_us, 0), -1)
        return notice_us, np.where(known, np.maximum(predicted_us, 0), -1)


def ranks(values: NDArray[np.int32]) -> NDArray[np.int64]:
    """The place of each value among the different ones in order, from 0."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if high - low > _FAR_APART * len(values):
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    is_there = np.zeros(high - low + 1, np.bool_)  # a sort of millions of jobs takes ten times as long
    is_there[values - low] = True
    place: NDArray[np.int64] = (np.cumsum(is_there) - 1)[values - low]
    return place


def _tells_apart(column: NDArray[np.int32]) -> bool:
    known = column[column >= 0]
    return len(known) > 0 and bool((known != known[0]).any())


def _pair(owner: str, name: str, value: object) -> tuple[float, float]:
    if isinstance(value, list | tuple):
        match value:
            case [low, high]:
                return low, high
    raise ValueError(f"{owner}: {name} is a range such as [0.05, 0.1], not {value!r}")


def _mix(notices: str | Mapping[str, float]) -> tuple[float, ...]:
    if isinstance(notices, str):
        if notices not in MIXES:
            raise ValueError(
                f"hybrid_kinds: notices is one of {', '.join(MIXES)} or shares of {', '.join(NOTICES)}, "
                f"not {notices!r}"
            )
        return MIXES[notices]
    unknown = [name for name in notices if name not in NOTICES]
    if unknown:
        raise ValueError(f"hybrid_kinds: notices has no {unknown[0]!r}; there are {', '.join(NOTICES)}")
    shares = tuple(notices.get(name, 0.0) for name in NOTICES)
    for name, share in zip(NOTICES, shares, strict=True):
        check_number("hybrid_kinds", f"notices.{name}", share, at_least=0, at_most=1)
    if abs(sum(shares) - 1) > _ROUNDING:
        raise ValueError(f"hybrid_kinds: the shares of notices add up to {sum(shares):g}, not to 1")
    return shares


def _without_writes(
    run_us: NDArray[np.int64], interval_us: NDArray[np.int64], write_us: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The work of runs that take so long with their checkpoints; one that would end in a write ends before it."""
    cycle_us = interval_us + write_us
    whole = np.where(interval_us > 0, (run_us - 1) // np.maximum(cycle_us, 1), 0)
    rest_us = np.minimum(run_us - whole * cycle_us, interval_us)
    return np.where(interval_us > 0, whole * interval_us + rest_us, run_us)
