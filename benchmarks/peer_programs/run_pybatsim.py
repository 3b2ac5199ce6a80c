"""pybatsim's EasyBackfillNotopo on a log, in the environment that `peers.py` makes: run_pybatsim.py LOG NODES FOLDER.

Batsim itself is no package: this loop stands in its place and tells the scheduler what Batsim would, one event after
the other, ends first. Prints JSON: starts by job number, processor seconds, peak memory.
"""

from __future__ import annotations

import heapq
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from batsim.batsim import Job  # type: ignore[import-not-found]
from schedulers.unMaintained.easyBackfillNotopo import EasyBackfillNotopo  # type: ignore[import-not-found]


class InBatsimsPlace:
    """What the scheduler asks of Batsim, for jobs that only take time."""

    def __init__(self, nodes: int) -> None:
        self.nb_resources = self.nb_compute_resources = nodes
        self.now = 0.0
        self.starts: dict[str, float] = {}
        self.ends: list[tuple[float, int, Any]] = []

    def time(self) -> float:
        return self.now

    def execute_jobs(self, jobs: list[Any]) -> None:
        for job in jobs:
            self.starts[job.id] = self.now
            heapq.heappush(self.ends, (self.now + job.profile, len(self.starts), job))


def main() -> None:
    log, nodes = Path(sys.argv[1]), int(sys.argv[2])
    begin_s = time.process_time()
    machine, scheduler = InBatsimsPlace(nodes), EasyBackfillNotopo({})
    scheduler.bs = machine
    scheduler.onAfterBatsimInit()
    coming = []
    for line in log.read_text().splitlines():
        fields = line.split()
        coming.append(
            Job(fields[0], float(fields[1]), float(fields[8]), int(fields[7]), float(fields[3]), {})
        )
    coming.reverse()
    while coming or machine.ends:
        if machine.ends and (not coming or machine.ends[0][0] <= coming[-1].submit_time):
            machine.now, _, job = heapq.heappop(machine.ends)
            job.finish_time = machine.now
            scheduler.onJobCompletion(job)
        else:
            job = coming.pop()
            machine.now = job.submit_time
            scheduler.onJobSubmission(job)
    cpu_s = time.process_time() - begin_s
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    peak_mib = int(peak[1]) / 1024 if peak else 0
    print(json.dumps({"starts": machine.starts, "cpu_s": cpu_s, "peak_mib": peak_mib}))


main()
