"""Queue orders: each gives every job a sort key; the smaller key is served first, ties by (submit, number).

A plug-in of the group `emulator.queue_orders` is such a function; its first docstring line is its help text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from emulator.plugins import find_plugin, plugin_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

GROUP = "emulator.queue_orders"


class QueueOrder(Protocol):
    """Sort keys, one int64 a job; larger than -2**62."""

    def __call__(self, jobs: JobTable, config: SchedulerConfig) -> NDArray[np.int64]: ...


def fcfs(jobs: JobTable, config: SchedulerConfig) -> NDArray[np.int64]:  # noqa: ARG001
    """First come, first served."""
    return np.zeros(len(jobs), np.int64)


def sjf(jobs: JobTable, config: SchedulerConfig) -> NDArray[np.int64]:  # noqa: ARG001
    """Shortest job first, by estimate."""
    return jobs.estimate_us


def ljf(jobs: JobTable, config: SchedulerConfig) -> NDArray[np.int64]:  # noqa: ARG001
    """Longest job first, by estimate."""
    return -jobs.estimate_us


def smallest(jobs: JobTable, config: SchedulerConfig) -> NDArray[np.int64]:  # noqa: ARG001
    """Fewest nodes first."""
    return jobs.nodes.astype(np.int64)


def largest(jobs: JobTable, config: SchedulerConfig) -> NDArray[np.int64]:  # noqa: ARG001
    """Most nodes first."""
    return -jobs.nodes.astype(np.int64)


def priority(jobs: JobTable, config: SchedulerConfig) -> NDArray[np.int64]:
    """Highest priority of the job's queue first (scheduler option `priorities`: queue number -> priority)."""
    keys = np.zeros(len(jobs), np.int64)
    for queue, value in config.priorities.items():
        keys[jobs.queue == queue] = -value
    return keys


def known_orders() -> tuple[str, ...]:
    return tuple(plugin_names(GROUP))


def order_named(name: str) -> QueueOrder:
    """The plug-in of this name (`SchedulerConfig` has checked that there is one)."""
    return cast("QueueOrder", find_plugin(GROUP, name))
