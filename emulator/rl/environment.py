"""`PickEnv`: one cluster, one pick a step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces

from emulator.kernel.entry_points import entry_point
from emulator.kernel.rows import new_record
from emulator.metrics.jobs import bounded_slowdown
from emulator.rl import kernel
from emulator.rl.settings import Log, Settings, window_stream
from emulator.simulation.picked_cluster import PickedCluster

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.api import Source
    from emulator.cluster.cluster import Cluster
    from emulator.record.run_record import RunRecord
    from emulator.workload.table import JobTable

Seen: TypeAlias = "dict[str, NDArray[np.float32]]"

_AT_A_TIME = 32


class PickEnv(gymnasium.Env[Seen, np.int64]):
    """Whoever acts picks a waiting job; an episode is a window of a log. See docs/reinforcement-learning.md.

    `source`, `nodes`, `overrun`: as for `emulator.run`, or a job table; `options`: those of `Settings`. Raises
    ScenarioError or TraceError for a wrong log, ValueError or TypeError for wrong options.

    Observation: `jobs`, float32 (window, features), the queue's first jobs, zero behind the last; `cluster`, float32
    (features,). Action: a place in `jobs`; with `decision="fitting"` the last one waits.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - gymnasium says what it is

    def __init__(
        self,
        source: Source | JobTable,
        *,
        nodes: int | None = None,
        overrun: str | None = None,
        **options: Any,
    ) -> None:
        self.settings = Settings(**options)
        self.log = Log(source, self.settings, nodes=nodes, overrun=overrun)
        self.observation_space, self.action_space = spaces_of(self.settings)
        self._setup = self.settings.for_kernel(self.log.nodes)
        self._charged = new_record(kernel.Charged)
        self._chance: np.random.Generator | None = None
        self._goes_on = False
        self._first = self.log.first
        self._jobs, self._known = self.log.episode(self._first)
        self._picked = PickedCluster(
            self.log.nodes, self._jobs, backfill=self.settings.backfill, node_room=self.log.node_room
        )
        self.cluster = self._picked.cluster
        self._mask = np.zeros(self.settings.actions, np.int8)
        self._rooms: list[tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int8]]] = []
        self._open, self._step = entry_point(kernel.open_episode), entry_point(kernel.step)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode. `options`: `{"first": row}` of the log, else the seed's stream draws one."""
        first = self.log.chosen(options)
        super().reset(seed=seed)
        if seed is not None or self._chance is None:
            self._chance = window_stream(self.np_random_seed if seed is None else seed)
        self._first = self.log.draw(self._chance) if first is None else first
        self._jobs, self._known = self.log.episode(self._first)
        self._picked.restart(self._jobs)
        seen, whole, mask = self._blank()
        self._open(self.cluster.kernel_state, self._setup, self._charged, self._known, seen, whole, mask)
        self._goes_on = True
        return {"jobs": seen, "cluster": whole}, {"action_mask": mask, "first": self._first}

    def step(self, action: np.int64 | int) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Pick the job at this place. The episode is over when no job is left to pick; all run to their ends then."""
        if not self._goes_on:
            raise gymnasium.error.ResetNeeded("the episode is over, or none has begun: call reset()")
        seen, whole, mask = self._blank()
        reward, self._goes_on, is_wrong = self._step(
            self.cluster.kernel_state, int(action), self._setup, self._charged, self._known, seen, whole, mask
        )
        info: dict[str, Any] = {"action_mask": mask}
        if is_wrong:
            info["was_masked"] = True
        if not self._goes_on:
            info.update(figures_of(self.cluster, self.settings))
        return {"jobs": seen, "cluster": whole}, reward, not self._goes_on, False, info

    def _blank(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int8]]:
        """Room for what is observed, new at each step: whoever learns keeps it. Many at a time cost a third."""
        if not self._rooms:
            window, actions = self.settings.window, self.settings.actions
            jobs = np.zeros((_AT_A_TIME, window, len(kernel.JobFeature)), np.float32)
            cluster = np.zeros((_AT_A_TIME, len(kernel.ClusterFeature)), np.float32)
            self._rooms += zip(jobs, cluster, np.zeros((_AT_A_TIME, actions), np.int8), strict=True)
        room = self._rooms.pop()
        self._mask = room[2]
        return room

    def action_masks(self) -> NDArray[np.int8]:
        """1 for each action that is allowed now; also in the step's `info["action_mask"]`."""
        return self._mask

    def waiting(self) -> JobTable:
        """The waiting jobs that the rows of `jobs` stand for, as the log has them (`waiting().number`)."""
        return self._jobs.take(self.cluster.queue[: self.settings.window].astype(np.intp))

    def record(self) -> RunRecord:
        """The episode so far as the record of a run: figures, laws, Gantt chart and tables work on it."""
        return record_of(self._picked, self._first)


def spaces_of(settings: Settings) -> tuple[spaces.Space[Seen], spaces.Discrete]:
    """What is observed, and what can be done."""
    jobs = spaces.Box(0.0, 1.0, (settings.window, len(kernel.JobFeature)), np.float32)
    cluster = spaces.Box(0.0, 1.0, (len(kernel.ClusterFeature),), np.float32)
    seen: Any = spaces.Dict({"jobs": jobs, "cluster": cluster})
    return seen, spaces.Discrete(settings.actions)


def figures_of(cluster: Cluster, settings: Settings) -> dict[str, float]:
    """Figures of an episode that is over, with the names that results have for them."""
    table = cluster.kernel_table[: len(cluster)]
    submit, start, end = table["submit_us"], table["start_us"], table["end_us"]
    response_us = end - submit
    threshold_s = settings.bounded_slowdown_threshold_s
    slowdown = bounded_slowdown(response_us, end - start, threshold_s=threshold_s)
    span_us = int(end.max() - submit[0])
    used_us = float((table["nodes"] * (end - start)).sum())
    return {
        "mean_bounded_slowdown": float(slowdown.mean()),
        "mean_wait_s": float((start - submit).mean() / 1e6),
        "mean_response_s": float(response_us.mean() / 1e6),
        "utilization": used_us / (span_us * cluster.node_count) if span_us else 0.0,
    }


def record_of(picked: PickedCluster, first: int) -> RunRecord:
    """The record of a cluster, with the window's place in the log as its name."""
    return replace(picked.record(), scenario={"name": f"jobs from row {first} on"})
