"""Lines of partial executions in SWF: what a job did between two times that it was swapped out.

By the standard such a log has one line that sums the whole job up (status 0, 1 or 5) and further lines of the same
number (2: to be continued, 3 and 4: the last). "For workload studies, only the single-line summary of the job should be
used."
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BURSTS = "partial executions of jobs (status 2, 3 or 4)"


def are_bursts(
    number: NDArray[np.int64] | NDArray[np.float64], status: NDArray[np.int64] | NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Which lines are partial executions of jobs that have a line of their own."""
    is_part = np.isin(status, (2, 3, 4))
    return is_part & np.isin(number, number[~is_part]) & (number >= 0)
