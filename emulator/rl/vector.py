"""`PickVectorEnv`: many clusters, all picks of a step in one compiled call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from emulator.kernel.entry_points import entry_point
from emulator.kernel.rows import new_rows
from emulator.rl import kernel
from emulator.rl.environment import Seen, figures_of, record_of, spaces_of
from emulator.rl.settings import Log, Settings, window_stream
from emulator.simulation.picked_cluster import PickedCluster, stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from emulator.api import Source
    from emulator.record.run_record import RunRecord
    from emulator.workload.table import JobTable


class PickVectorEnv(VectorEnv[Seen, "NDArray[np.int64]", "NDArray[Any]"]):
    """`num_envs` of `PickEnv`, step by step what `SyncVectorEnv` makes of them, and several times faster.

    An episode that is over begins anew at the next step, whose action is not looked at (`AutoresetMode.NEXT_STEP`).
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 - gymnasium's

    def __init__(
        self,
        source: Source | JobTable,
        *,
        num_envs: int = 1,
        nodes: int | None = None,
        overrun: str | None = None,
        **options: Any,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs: a whole number from 1 on, not {num_envs!r}")
        self.num_envs = num_envs
        self.settings = Settings(**options)
        self.log = Log(source, self.settings, nodes=nodes, overrun=overrun)
        self.single_observation_space, self.single_action_space = spaces_of(self.settings)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        jobs, known = self.log.episode(self.log.first)
        self.clusters = [
            PickedCluster(self.log.nodes, jobs, backfill=self.settings.backfill, node_room=self.log.node_room)
            for _ in range(num_envs)
        ]
        self._state = stacked(self.clusters)
        self._open_episode, self._step_many = entry_point(kernel.open_episode), entry_point(kernel.step_many)
        self._setup = self.settings.for_kernel(self.log.nodes)
        self._known = np.stack([known] * num_envs)
        self._charged = new_rows(kernel.Charged, num_envs)
        self._goes_on = np.zeros(num_envs, np.bool_)
        self._has_begun = False
        self._chances: list[np.random.Generator] = []
        self._firsts = [self.log.first] * num_envs
        self._mask = np.zeros((num_envs, self.settings.actions), np.int8)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode in each. A seed s is s, s + 1, ... for one after the other; `options`: as of `PickEnv`."""
        first = self.log.chosen(options)
        self._seed(seed)
        seen, whole, mask = self._blank()
        for k in range(self.num_envs):
            self._open(k, first, seen, whole, mask)
        self._has_begun = True
        return {"jobs": seen, "cluster": whole}, self._infos(mask, begun=np.ones(self.num_envs, np.bool_))

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[Seen, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """One pick in each cluster."""
        if not self._has_begun:
            raise gymnasium.error.ResetNeeded("no episode has begun: call reset()")
        picks = np.ascontiguousarray(actions, np.int64)
        if picks.shape != (self.num_envs,):
            raise ValueError(f"actions: one for each of {self.num_envs} environments, not {picks.shape}")
        seen, whole, mask = self._blank()
        rewards, is_wrong = np.zeros(self.num_envs), np.zeros(self.num_envs, np.bool_)
        was_over = ~self._goes_on
        self._step_many(
            self._state, picks, self._goes_on, self._setup, self._charged, self._known, seen, whole, mask, rewards,
            is_wrong,
        )  # fmt: skip
        is_over = ~self._goes_on & ~was_over
        for k in np.flatnonzero(was_over):
            self._open(int(k), None, seen, whole, mask)
        infos = self._infos(mask, begun=was_over, is_wrong=is_wrong, is_over=is_over)
        return {"jobs": seen, "cluster": whole}, rewards, is_over, np.zeros(self.num_envs, np.bool_), infos

    def action_masks(self) -> NDArray[np.int8]:
        """1 for each action that is allowed now, a row an environment."""
        return self._mask

    def record(self, which: int = 0) -> RunRecord:
        """As `PickEnv.record`, of one environment. Ask at an episode's last step: the next one begins anew."""
        return record_of(self.clusters[which], self._firsts[which])

    def _seed(self, seed: int | Sequence[int | None] | None) -> None:
        if isinstance(seed, int):
            super().reset(seed=seed)
            seeds: list[int | None] = [seed + k for k in range(self.num_envs)]
        else:
            seeds = [None] * self.num_envs if seed is None else list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed: one for each of {self.num_envs} environments, not {len(seeds)}")
        if not self._chances:
            drawn = self.np_random.integers(2**63, size=self.num_envs).tolist()
            self._chances = [window_stream(each) for each in drawn]
        for k, each in enumerate(seeds):
            if each is not None:
                self._chances[k] = window_stream(each)

    def _open(
        self,
        k: int,
        first: int | None,
        seen: NDArray[np.float32],
        whole: NDArray[np.float32],
        mask: NDArray[np.int8],
    ) -> None:
        """Begin an episode in one environment."""
        self._firsts[k] = self.log.draw(self._chances[k]) if first is None else first
        jobs, self._known[k] = self.log.episode(self._firsts[k])
        cluster = self.clusters[k]
        cluster.restart(jobs)
        self._open_episode(
            cluster.kernel_state, self._setup, self._charged[k], self._known[k], seen[k], whole[k], mask[k]
        )
        self._goes_on[k] = True

    def _blank(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int8]]:
        count, window = self.num_envs, self.settings.window
        self._mask = np.zeros((count, self.settings.actions), np.int8)
        seen = np.zeros((count, window, len(kernel.JobFeature)), np.float32)
        return seen, np.zeros((count, len(kernel.ClusterFeature)), np.float32), self._mask

    def _infos(
        self,
        mask: NDArray[np.int8],
        *,
        begun: NDArray[np.bool_],
        is_wrong: NDArray[np.bool_] | None = None,
        is_over: NDArray[np.bool_] | None = None,
    ) -> dict[str, Any]:
        """An array each, and in `_NAME` for which environments it holds."""
        infos: dict[str, Any] = {"action_mask": mask, "_action_mask": np.ones(self.num_envs, np.bool_)}
        if begun.any():
            infos |= {"first": np.where(begun, self._firsts, 0), "_first": begun}
        if is_wrong is not None and is_wrong.any():
            infos |= {"was_masked": is_wrong, "_was_masked": is_wrong.copy()}
        if is_over is not None and is_over.any():
            for k in np.flatnonzero(is_over):
                for name, value in figures_of(self.clusters[k].cluster, self.settings).items():
                    infos.setdefault(name, np.zeros(self.num_envs))[k] = value
                    infos[f"_{name}"] = is_over
        return infos
