"""What an environment is asked for, and the job log of which its episodes are windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from emulator.kernel.rows import new_record
from emulator.rl import kernel
from emulator.runs.preparation import prepare
from emulator.runs.runner import check_live
from emulator.runs.scenario import scenario_of
from emulator.workload.streams import stream
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from emulator.api import Source

Asked = Literal["next", "fitting"]
Backfill = Literal["none", "easy"]
Objective = Literal["bounded_slowdown", "wait", "response", "utilization"]
Reward = Literal["end", "step"]

_MONTH_US = 30 * 86_400 * 1e6
"""The longest estimate that is told from a longer one."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of an environment; docs/reinforcement-learning.md defines them. Raises ValueError."""

    jobs: int = 256
    window: int = 128
    decision: Asked = "next"
    backfill: Backfill = "none"
    objective: Objective = "bounded_slowdown"
    reward: Reward = "end"
    part: tuple[float, float] = (0.0, 1.0)
    bounded_slowdown_threshold_s: float = 10.0

    def __post_init__(self) -> None:
        for name, allowed in _ALLOWED.items():
            if (value := getattr(self, name)) not in allowed:
                raise ValueError(f"{name}: {value!r} is none of {', '.join(allowed)}")
        for name in ("jobs", "window"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name}: a whole number from 1 on, not {value!r}")
        if self.decision == "fitting" and self.backfill != "none":
            raise ValueError(
                "backfill: with decision='fitting' no job has a reservation to backfill behind: leave it out"
            )
        if self.objective == "utilization" and self.reward == "step":
            raise ValueError("reward: utilization is known at the end of an episode only: use reward='end'")
        if not self.bounded_slowdown_threshold_s > 0:
            raise ValueError(
                f"bounded_slowdown_threshold_s: above 0, not {self.bounded_slowdown_threshold_s!r}"
            )
        low, high = self.part
        if not 0 <= low < high <= 1:
            raise ValueError(f"part: two parts of the log, 0 <= FROM < TO <= 1, not {self.part!r}")

    @property
    def actions(self) -> int:
        """Places of the window and, where one may wait, waiting."""
        return self.window + (self.decision == "fitting")

    def for_kernel(self, node_count: int) -> kernel.Setup:
        """The options as the compiled functions read them."""
        setup = new_record(kernel.Setup)
        setup.decision = get_args(Asked).index(self.decision)
        setup.goal = get_args(Objective).index(self.objective)
        setup.each_step = self.reward == "step"
        setup.threshold_us = round(self.bounded_slowdown_threshold_s * 1e6)
        setup.node_count = node_count
        return setup


_ALLOWED = {
    "decision": get_args(Asked),
    "backfill": get_args(Backfill),
    "objective": get_args(Objective),
    "reward": get_args(Reward),
}


class Log:
    """The jobs of a log and the windows of it that are episodes: `size` jobs one after the other.

    `source`: as for `emulator.run`, or a job table, with `nodes`. Raises ScenarioError, TraceError and ValueError.
    """

    def __init__(
        self,
        source: Source | JobTable,
        settings: Settings,
        *,
        nodes: int | None = None,
        overrun: str | None = None,
    ) -> None:
        self.jobs, self.nodes = _jobs_of(source, nodes, overrun)
        self.size = int(settings.jobs)
        leases = self.jobs.kind != Kind.BATCH
        if leases.any():
            raise ValueError(
                f"job {self.jobs.number[leases][0]} is an on-demand lease: only batch jobs can be picked"
            )
        low, high = settings.part
        self.first = int(low * len(self.jobs))
        self.last = int(high * len(self.jobs)) - self.size
        """The rows in which a window may begin, from `first` to `last`."""
        if self.last < self.first:
            raise ValueError(
                f"jobs: an episode of {self.size} jobs; the part of the log has {self.last + self.size - self.first}"
            )
        self._known = _constant_features(self.jobs, self.nodes)
        ends = np.concatenate(([0], np.cumsum(self.jobs.nodes, dtype=np.int64)))
        self.node_room = int((ends[self.size :] - ends[: -self.size]).max())
        """Nodes of all jobs of an episode, at most."""

    def draw(self, chance: np.random.Generator) -> int:
        """The row of the log with which the next episode begins."""
        return int(chance.integers(self.first, self.last + 1))

    def chosen(self, options: Mapping[str, Any] | None) -> int | None:
        """The row that `reset` was asked for. Raises ValueError."""
        for key in options or {}:
            if key != "first":
                raise ValueError(f"unknown option of reset {key!r}; known: first")
        first = (options or {}).get("first")
        if first is None:
            return None
        last = len(self.jobs) - self.size
        if isinstance(first, bool) or not isinstance(first, int | np.integer) or not 0 <= first <= last:
            raise ValueError(f"first: a row of the log from 0 to {last}, not {first!r}")
        return int(first)

    def episode(self, first: int) -> tuple[JobTable, NDArray[np.float32]]:
        """The jobs of the window that begins in this row, from 0 s on, and what is known of them."""
        rows = slice(first, first + self.size)
        jobs = self.jobs.take(rows)  # type: ignore[arg-type] # a slice takes rows, too
        return replace(jobs, submit_us=jobs.submit_us - jobs.submit_us[0]), self._known[rows]


def window_stream(seed: int) -> np.random.Generator:
    """The chance that draws windows; of an environment's seed."""
    return stream(seed, "rl.window")


def _jobs_of(source: Source | JobTable, nodes: int | None, overrun: str | None) -> tuple[JobTable, int]:
    if isinstance(source, JobTable):
        if nodes is None:
            raise ValueError("nodes: how many nodes? (a job table does not tell)")
        return source, nodes
    given = {"nodes": nodes, "workload.overrun": overrun}
    scenario = scenario_of(source, {key: value for key, value in given.items() if value is not None})
    prepared = prepare(scenario)
    check_live(scenario, prepared)
    return prepared.jobs, prepared.nodes


def _constant_features(jobs: JobTable, node_count: int) -> NDArray[np.float32]:
    """What of the jobs' features does not change (`kernel.Known`)."""
    known = np.empty((len(jobs), len(kernel.Known)), np.float32)
    estimate_us = np.maximum(jobs.estimate_us, 1)
    known[:, kernel.Known.LENGTH] = np.minimum(np.log1p(estimate_us / 1e6) / np.log1p(_MONTH_US / 1e6), 1)
    known[:, kernel.Known.WIDTH] = jobs.nodes / node_count
    known[:, kernel.Known.WIDTH_LOG] = np.log1p(jobs.nodes) / np.log1p(node_count)
    known[:, kernel.Known.ESTIMATE] = estimate_us
    return known
