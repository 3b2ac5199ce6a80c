"""Weekly logs of the Advanced Photon Source's Grid Engine cluster, as published with Liu et al. 2018.

`submit_time,start_time,end_time,run_time,wait_time` of single-core jobs on 57 nodes with 1,092 cores. Some
weeks are missing, some are empty. `packing.py` turns these jobs into leases of virtual machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.workload.rows import Faults
from emulator.workload.swf import SwfLog
from emulator.workload.weeks import read_weeks, starts_with

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = ("submit_time", "start_time", "end_time", "run_time", "wait_time")
NODES, CORES = 57, 1092


class ApsFormat:
    """The trace format `aps`: a weekly file, or a folder of them.

    A job submitted before the (first) week's begin is given submit 0, with the wait from there: SWF has no
    times before 0, and the start stays what it was.
    """

    name = "aps"
    reads_folders = True

    def can_read(self, path: Path) -> bool:
        """True if the header line is that of these files."""
        return starts_with(path, COLUMNS)

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """The week or weeks. Raises TraceError naming file and line."""
        faults = Faults(lenient)
        columns, header = read_weeks(path, COLUMNS, ("submit_time", "start_time", "end_time"), faults)
        submit_s = np.maximum(columns["submit_time"], 0)
        count = len(submit_s)
        header += ["; Computer: Advanced Photon Source, Argonne National Laboratory"]
        header += [f"; MaxNodes: {NODES}", f"; MaxProcs: {CORES}"]
        early = int((columns["submit_time"] < 0).sum())
        if early:
            header.append(f"; Note: {early} jobs were submitted before time 0 and have submit 0 here")
        log = SwfLog.build(
            count,
            header,
            str(path),
            number=np.arange(1, count + 1),
            submit_s=submit_s,
            wait_s=columns["start_time"] - submit_s,
            run_s=columns["run_time"],
            allocated_procs=np.ones(count, np.int64),
            requested_procs=np.ones(count, np.int64),
        )
        return faults.within(log)
