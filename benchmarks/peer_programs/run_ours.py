"""We on a log, measured as the peers are: run_ours.py LOG.swf NODES SCHEDULER...

Prints a line of JSON for each scheduler: starts by job number, processor seconds (the log's reading is part of them,
compilation is not), peak memory so far.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import numpy as np

from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from emulator.workload.formats import load
from emulator.workload.rules import to_jobs


def main() -> None:
    log, nodes = Path(sys.argv[1]), int(sys.argv[2])
    warm = to_jobs(load(log), nodes=nodes, size="procs", origin_s=0).jobs
    simulate(warm.take(np.arange(2)), nodes, SchedulerConfig())
    for text in sys.argv[3:]:
        begin_s = time.process_time()
        jobs = to_jobs(load(log), nodes=nodes, size="procs", origin_s=0).jobs
        record = simulate(jobs, nodes, SchedulerConfig.parse(text))
        cpu_s = time.process_time() - begin_s
        starts = dict(zip(record.jobs.number.tolist(), (record.start_us / 1_000_000).tolist(), strict=True))
        peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
        peak_mib = int(peak[1]) / 1024 if peak else 0
        print(json.dumps({"starts": starts, "cpu_s": cpu_s, "peak_mib": peak_mib}))


main()
