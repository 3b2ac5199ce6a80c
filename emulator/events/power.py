"""Nodes that are switched off when they have been idle for long, and take time to come back.

A node is asleep by how long it has been idle: nothing need happen for that. Whoever gets such a node waits for it: the
job has all its nodes from its start on and begins to compute when the last of them is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import micros

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from emulator.machine.actions import Accounting

_NEVER_US = 1 << 62


@dataclass(frozen=True, slots=True)
class SleepTimes:
    """A node begins to shut down when it has been idle for `after_us`; that takes `shutdown_us`, a boot `boot_us`."""

    after_us: int = _NEVER_US
    shutdown_us: int = 0
    boot_us: int = 0

    @classmethod
    def of(cls, energy: Mapping[str, Any]) -> SleepTimes:
        """From the keys of a scenario's `energy`."""
        if energy.get("sleep_after_s") is None:
            return cls()
        return cls(*(micros(energy[name]) for name in ("sleep_after_s", "shutdown_s", "boot_s")))

    def wake_us(self, idle_us: NDArray[np.int64]) -> NDArray[np.int64]:
        """How long a node that has been idle for so long takes before a job can compute on it."""
        still_us = np.maximum(self.after_us + self.shutdown_us - idle_us, 0)
        return np.where(idle_us >= self.after_us, still_us + self.boot_us, 0)


class SleepingNodes:
    """Makes jobs wait for the nodes that they woke. `after_pass` after each pass."""

    def __init__(self, times: SleepTimes) -> None:
        self._times = times
        self._seen = 0

    def after_pass(self, act: Accounting) -> None:
        cluster = act.cluster
        begun = cluster.started_since(self._seen)
        self._seen += len(begun)
        for job in begun:
            idle_us = act.now_us - cluster.node_since_us[cluster.nodes_of(job)]
            wake_us = int(self._times.wake_us(idle_us).max(initial=0))
            if wake_us:  # nothing is done meanwhile, as when a checkpoint of nothing is written
                act.checkpoint(job, write_us=wake_us)
