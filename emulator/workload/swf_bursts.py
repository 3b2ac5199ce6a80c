"""Lines of partial executions in SWF: what a job did between two times that it was swapped out.

By the standard such a log has one line that sums the whole job up (status 0, 1 or 5) and further lines of the same
number (2: to be continued, 3 and 4: the last). "For workload studies, only the single-line summary of the job should be
used."
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from emulator.workload.swf import SwfLog

BURSTS = "partial executions of jobs (status 2, 3 or 4)"


def without_bursts(log: SwfLog) -> SwfLog:
    """The log without the lines of partial executions of jobs that have a line of their own, counted."""
    status, number = log.column("status"), log.column("number")
    is_part = np.isin(status, (2, 3, 4))
    if not is_part.any():
        return log
    is_part &= np.isin(number, number[~is_part]) & (number >= 0)
    parts = int(is_part.sum())
    if not parts:
        return log
    columns = tuple(column[~is_part] for column in log.columns)
    return replace(log, columns=columns, passed_over={**log.passed_over, BURSTS: parts})
