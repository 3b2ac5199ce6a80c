"""Daly's higher-order estimate of the optimum checkpoint interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from balancer.clock import US

Times = NDArray[np.int64]


def optimum_interval_us(write_us: Times, mtbf_us: Times) -> Times:
    """Work between two checkpoints that loses least time, for each job.

    `write_us` is what one checkpoint costs (delta), `mtbf_us` the mean time between failures that stop the job (M).
    Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer
    Systems 22 (2006), eq. 37: sqrt(2 delta M) (1 + 1/3 sqrt(delta / 2M) + 1/9 (delta / 2M)) - delta for
    delta < 2M, else M. At least one second, for two checkpoints must not come at one time.
    """
    delta, mean = np.asarray(write_us, np.float64), np.asarray(mtbf_us, np.float64)
    ratio = delta / (2 * mean)
    higher = np.sqrt(2 * delta * mean) * (1 + np.sqrt(ratio) / 3 + ratio / 9) - delta
    return np.maximum(np.rint(np.where(ratio < 1, higher, mean)).astype(np.int64), US)
