"""Tiers of a queue order that never changes: whose QOS has a higher priority comes first, then the order counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.schedulers.dynamic import sort_keys
from emulator.workload.job_columns import TIER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.schedulers.config import SchedulerConfig
    from emulator.schedulers.orders import QueueOrder
    from emulator.workload.table import JobTable

_WIDE = 1 << 55
"""Between tiers: more than twice any key."""
_MOST = 1 << 62
_LAST_DIGITS = 9
"""Binary digits of 52 that keys of floats (`dynamic.order_keys`) lose to the tiers: what is left is less than 2^54."""
_SAME_WHENEVER = ("fcfs", "priority")
"""Orders whose keys do not change with a later submit, and that want room for it (`Cluster.expect_later_submits`)."""


def with_tiers(order: Any, jobs: JobTable, config: SchedulerConfig) -> Any:
    """The order within the tiers of these jobs; the order itself where they have none, or if it is asked."""
    if TIER not in jobs.extra or not callable(order):
        return order
    return _Tiers(order, jobs, config)


class _Tiers:
    """A `QueueOrder` of these jobs, or some of them. Raises ValueError for keys that leave no room for tiers."""

    def __init__(self, order: QueueOrder, jobs: JobTable, config: SchedulerConfig) -> None:
        self._order = order
        widest = int(np.abs(sort_keys(order(jobs, config), len(jobs))).max(initial=0))
        is_same = config.order_name in _SAME_WHENEVER
        self._span = 2 * widest + 1 if is_same else _WIDE
        self._dropped = _LAST_DIGITS if widest > self._span // 2 else 0
        tiers = int(jobs.column(TIER, 0).max(initial=0)) + 1
        if tiers * self._span > _MOST:
            raise ValueError(
                f"the priorities of {tiers} QOS leave no room for those of queues: make them fewer"
            )

    def __call__(self, jobs: JobTable, config: SchedulerConfig) -> NDArray[np.int64]:
        keys = sort_keys(self._order(jobs, config), len(jobs)) >> self._dropped
        if np.abs(keys).max(initial=0) > self._span // 2:
            raise ValueError(f"the keys of {config.order_name} leave no room for priorities of QOS")
        return np.asarray(jobs.column(TIER, 0) * self._span + keys)
