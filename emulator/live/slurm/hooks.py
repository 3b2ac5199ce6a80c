"""PrologSlurmctld and EpilogSlurmctld without a Python a job: `python -m emulator.live.slurm.hooks CALLS READY`.

The scripts that slurmctld runs append what they were told to the file CALLS, one line a call, and end. This process
reads the lines and does what `balancer hook slurm-prolog` and `slurm-epilog` do, in the order of the calls. Those
end well whatever the Balancer says, so nothing waits for the answer that did not wait for it before.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from balancer.hooks.slurm import slurm_hook
from emulator.live.process import read_ready, stop_on_signal
from emulator.live.replay_log import Tail

_FIELDS = ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME")
_LOOK_S = 0.004
SCRIPT = """#!/bin/sh
told="$SLURM_JOB_ID|$SLURM_JOB_NODELIST|$SLURM_JOB_START_TIME|$SLURM_JOB_END_TIME"
printf '%s|%s\\n' {hook} "$told" >> {calls}
exit 0
"""
"""What slurmctld runs."""


def main(calls: Path, ready: Path) -> None:
    stopped = threading.Event()
    stop_on_signal(stopped.set)
    tail = Tail()
    while not stopped.wait(_LOOK_S):
        for line in tail.lines(calls):
            balancer = read_ready(ready)
            if balancer is not None:  # else no job has run yet
                hook, *values = line.decode().split("|")
                fields = {name: value for name, value in zip(_FIELDS, values, strict=True) if value}
                slurm_hook(hook, {**os.environ, **fields, "BALANCER_URL": balancer["url"]})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
