"""Queue orders that do not change: each gives every job a sort key.

The smaller key is served first, ties by (submit, number). A plug-in of the group `emulator.queue_orders` is such a
function, or a dataclass whose objects can be called as one (its fields are parameters), or an order that is asked at
each pass (`dynamic.py`). Its first docstring line is its help text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from emulator.schedulers.dynamic import sort_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable


class QueueOrder(Protocol):
    """Sort keys, one int64 a job; larger than -2**63."""

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


def static_keys(jobs: JobTable, config: SchedulerConfig, who: str) -> NDArray[np.int64]:
    """The keys of an order for a machine, `who`'s, whose queue is sorted once. Raises ValueError for another order."""
    order = config.make_order()
    if config.cycle_s:
        raise ValueError(f"{who}: this machine makes its passes when something happens; cycle_s must be 0")
    if config.predict is not None:
        raise ValueError(
            f"{who}: this machine goes by users' estimates; leave the scheduler option predict out"
        )
    for name in config.virtual_only:
        raise ValueError(
            f"{who}: this machine has ends and heads of its own; leave the scheduler option {name} out"
        )
    if config.is_plain:
        raise ValueError(f"{who}: this machine has its own scheduler, which {config.label} cannot replace")
    if not callable(order):
        raise ValueError(  # noqa: TRY004 - what the user wrote is wrong
            f"{who}: the queue order {config.order_name} is called at each pass, and this machine sorts its queue by "
            "what does not change: use fcfs, sjf, ljf, smallest, largest, priority, f1, f2, f3 or f4"
        )
    return sort_keys(order(jobs, config), len(jobs))
