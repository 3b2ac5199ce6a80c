"""Weekly logs of batch jobs on the LCRC cluster (Argonne), as published with Liu et al. 2018.

`SubmitTime,StartTime,EndTime,QueuedTime,RunTime,NodesRequested,walltime,bslowdown`: times in seconds, sizes
in whole nodes of 16 cores, 304 of them. See `weeks.py` for files, folders and the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.workload.rows import Faults
from emulator.workload.swf import SwfLog
from emulator.workload.weeks import read_weeks, starts_with

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = ("SubmitTime", "StartTime", "EndTime", "QueuedTime", "RunTime", "NodesRequested", "walltime")
NODES = 304


class LcrcFormat:
    """The trace format `lcrc`: a weekly file, or a folder of them. A node counts as one processor."""

    name = "lcrc"
    reads_folders = True

    def can_read(self, path: Path) -> bool:
        """True if the header line is that of these files."""
        return starts_with(path, COLUMNS)

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """The week or weeks. Raises TraceError naming file and line."""
        faults = Faults(lenient)
        columns, header = read_weeks(path, COLUMNS, ("SubmitTime", "StartTime", "EndTime"), faults)
        count = len(columns["SubmitTime"])
        header += [
            "; Computer: LCRC, Argonne National Laboratory",
            f"; MaxNodes: {NODES}",
            f"; MaxProcs: {NODES}",
        ]
        log = SwfLog.build(
            count,
            header,
            str(path),
            number=np.arange(1, count + 1),
            submit_s=columns["SubmitTime"],
            wait_s=columns["StartTime"] - columns["SubmitTime"],
            run_s=columns["RunTime"],
            allocated_procs=columns["NodesRequested"],
            requested_procs=columns["NodesRequested"],
            requested_s=columns["walltime"],
        )
        return faults.within(log)
