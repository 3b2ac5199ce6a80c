"""A job that does nothing but compute: `python -m emulator.live.job.spin`, one worker on each of its processors.

It goes on until it is ended, and says on the way how far it has come: one JSON object a line and worker,

    {"processor": 1, "wall_us": ..., "cpu_us": ..., "rounds": ...}

with the machine's steady time, the processor time that the worker has had, and the rounds of a bare loop that it has
done. Workers bind themselves to their processor, as MPI ranks do; which ones these are stands in EMULATOR_PROCESSORS.
"""

from __future__ import annotations

import argparse
import json
import os
import resource

from balancer.clock import NEVER_US, micros, wall_us

PROCESSORS_VARIABLE = "EMULATOR_PROCESSORS"
_BATCH = 20_000
"""Rounds between two looks at the time: about a millisecond."""
_EVERY_US = 50_000


def work(rounds: int) -> int:
    """The bare loop, which has nothing to wait for: a linear congruential generator."""
    value = 1
    for _ in range(rounds):
        value = (value * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return value


def worker(processor: int, most_cpu_us: int) -> None:
    """Compute on this processor until so much of its time is used."""
    os.sched_setaffinity(0, {processor})
    done, reported_us = 0, 0
    while True:
        now_us, cpu_us = wall_us(), _cpu_us()
        is_over = cpu_us >= most_cpu_us
        if is_over or now_us - reported_us >= _EVERY_US:
            reported_us = now_us
            line = {"processor": processor, "wall_us": now_us, "cpu_us": cpu_us, "rounds": done}
            os.write(1, (json.dumps(line) + "\n").encode())  # whole lines, whoever else writes
        if is_over:
            return
        work(_BATCH)
        done += _BATCH


def _cpu_us() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return micros(used.ru_utime + used.ru_stime)


def main() -> int:
    parser = argparse.ArgumentParser(prog="emulator.live.job.spin", description="A job that only computes.")
    parser.add_argument(
        "--cpu",
        dest="cpu_s",
        type=float,
        metavar="S",
        help="end when each worker has used so much processor time",
    )
    options = parser.parse_args()
    named = os.environ.get(PROCESSORS_VARIABLE, "")
    processors = [int(name) for name in named.split(",") if name] or sorted(os.sched_getaffinity(0))[:1]
    most_cpu_us = NEVER_US if options.cpu_s is None else micros(options.cpu_s)
    children = []
    for processor in processors:
        child = os.fork()
        if child == 0:
            worker(processor, most_cpu_us)
            os._exit(0)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    raise SystemExit(main())
