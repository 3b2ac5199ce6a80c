"""F1 to F4: orders found by regression on simulated schedules. They see no time and cost what `sjf` costs.

Carastan-Santos and de Camargo: *Obtaining dynamic scheduling policies with simulation and machine learning*, SC'17,
Table 3. The smallest value is served first; r: estimate in s, n: nodes, s: submit time in s from the start of the
trace. A submit before 0.1 s counts as one at it (as in RLScheduler's F1), since log10(0) is no number. Values are
compared as priorities are (`dynamic.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.schedulers.dynamic import order_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable


def _rns(jobs: JobTable) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Estimates in s, nodes, and the logarithms of the submit times in s."""
    submit_s = np.maximum(jobs.submit_us / US, 0.1)
    return np.maximum(jobs.estimate_us, 1) / US, jobs.nodes.astype(np.float64), np.log10(submit_s)


def f1(jobs: JobTable, config: SchedulerConfig) -> NDArray[np.int64]:  # noqa: ARG001
    """Smallest log10(r) x n + 870 x log10(s)."""
    r, n, log_s = _rns(jobs)
    return order_keys(np.log10(r) * n + 8.70e2 * log_s)


def f2(jobs: JobTable, config: SchedulerConfig) -> NDArray[np.int64]:  # noqa: ARG001
    """Smallest sqrt(r) x n + 25 600 x log10(s)."""
    r, n, log_s = _rns(jobs)
    return order_keys(np.sqrt(r) * n + 2.56e4 * log_s)


def f3(jobs: JobTable, config: SchedulerConfig) -> NDArray[np.int64]:  # noqa: ARG001
    """Smallest r x n + 6 860 000 x log10(s)."""
    r, n, log_s = _rns(jobs)
    return order_keys(r * n + 6.86e6 * log_s)


def f4(jobs: JobTable, config: SchedulerConfig) -> NDArray[np.int64]:  # noqa: ARG001
    """Smallest r x sqrt(n) + 530 000 x log10(s)."""
    r, n, log_s = _rns(jobs)
    return order_keys(r * np.sqrt(n) + 5.30e5 * log_s)
