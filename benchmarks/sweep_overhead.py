"""What a run of a sweep costs beside its simulation: processor time of all processes, the parent's included.

python benchmarks/sweep_overhead.py [--runs 2000] [--jobs 2] [--dask [--whole-runs 400]] [--trace LOG]

A log of 1,000 jobs is swept with two backfill rules and many seeds; two sweeps of different length, so that what is
paid once cancels out. `simulate` is timed on the same jobs in this process. With --dask two sweeps are also done by one
and by two workers of a Dask cluster in turns, and the wall times compared: the longer one of these, whose runs cost
hardly more than what client and scheduler do for them on the same cores, and one of whole logs. One worker is given one
core, which it shares with client and scheduler, or both: then these have a core for nothing. What two cores can give at
most is measured beside it: the same simulations by bare processes that know nothing of each other.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speed_rows import print_rows, row
from workloads import LOGS, TRACES, synthetic_jobs

from balancer.clock import US, wall_us
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from emulator.workload.formats import load
from emulator.workload.rules import to_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.synchronize import Barrier

EMULATOR = (sys.executable, "-c", "from emulator.cli import main; main(prog_name='emulator')")
RULES = ("fcfs+easy", "fcfs+easy+best_fit")
JOBS = 1000
REPEATS = 3
"""Of each measurement with --dask."""
WHOLE_RULES = ("fcfs+conservative", "sjf+conservative")
_SUBREAPER = 36
"""Of `prctl`: processes whose parent ends become ours, and their times with them."""


def first_jobs(log: Path, folder: Path) -> Path:
    """The header and the first jobs of a log as a file of its own."""
    import lzma  # noqa: PLC0415 - the logs are packed so

    with lzma.open(log, "rt") as file:
        lines = file.read().splitlines()
    head = [line for line in lines if line.startswith(";")]
    rest = [line for line in lines if not line.startswith(";")][:JOBS]
    short = folder / "log.swf"
    short.write_text("\n".join((*head, *rest, "")))
    return short


def sweep_wall_s(
    log: Path, folder: Path, runs: int, options: list[str], rules: tuple[str, ...] = RULES
) -> float:
    """Do a sweep. Returns its wall seconds."""
    grid = {
        "name": "overhead",
        "scenario": {"workload": {"trace": str(log)}},
        "grid": {"scheduler": list(rules)},
        "seeds": runs // len(rules),
    }
    file = folder / "grid.yaml"
    file.write_text(json.dumps(grid))
    with tempfile.TemporaryDirectory(dir=folder) as out:
        begin_us = wall_us()
        command = [*EMULATOR, "sweep", str(file), "--quiet", "--out", out, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return (wall_us() - begin_us) / US


def sweep_s(log: Path, folder: Path, runs: int, options: list[str]) -> tuple[float, float]:
    """Processor seconds of all processes of a sweep, and its wall seconds."""
    before = used_s()
    lasted_s = sweep_wall_s(log, folder, runs, options)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return used_s() - before, lasted_s


def used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def simulate_s(log: Path) -> float:
    """Processor seconds of one simulation, the mean over the rules."""
    work = to_jobs(load(log), nodes=None)
    rules = [SchedulerConfig.parse(rule) for rule in RULES]
    tiny = synthetic_jobs(4, 64)
    for rule in rules:
        simulate(tiny, 64, rule)
    before = os.times()
    for _ in range(100):
        for rule in rules:
            simulate(work.jobs, work.nodes, rule)
    after = os.times()
    return (after.user + after.system - before.user - before.system) / (100 * len(rules))


def by_dask(
    log: Path, folder: Path, runs: int, rules: tuple[str, ...], what: str
) -> Iterator[tuple[str, dict[str, float]]]:
    """The same sweep by one and by two workers, in turns; and by one that has one core for itself and all else."""
    cores = os.sched_getaffinity(0)
    one_core = {min(cores)}
    for number in range(1, REPEATS + 1):
        bare_s = [bare_wall_s(log, rules, runs // processes, processes) for processes in (1, 2)]
        core_s, one_s, two_s = (
            dask_wall_s(log, folder, runs, rules, workers, on)
            for workers, on in ((1, one_core), (1, cores), (2, cores))
        )
        yield (
            f"Dask, {runs} runs of {what}, turn {number}",
            {
                "two_workers_s": two_s,
                "one_on_one_core_s": core_s,
                "one_core_ratio": core_s / two_s,
                "one_on_two_cores_s": one_s,
                "two_cores_ratio": one_s / two_s,
                "one_bare_process_s": bare_s[0],
                "two_bare_processes_s": bare_s[1],
                "bare_ratio": bare_s[0] / bare_s[1],
            },
        )


def dask_wall_s(  # noqa: PLR0917
    log: Path, folder: Path, runs: int, rules: tuple[str, ...], workers: int, cores: set[int]
) -> float:
    """Wall seconds of a sweep by so many workers, which with scheduler and client have these cores.

    The first few runs pay for the start and are not counted.
    """
    import distributed  # noqa: PLC0415 - an optional extra

    had = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    few = min(40, runs // 4)
    try:
        with distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None
        ) as cluster:
            options = ["--dask", cluster.scheduler_address]
            sweep_wall_s(log, folder, few, options, rules)
            few_s = sweep_wall_s(log, folder, few, options, rules)
            return sweep_wall_s(log, folder, runs + few, options, rules) - few_s
    finally:
        os.sched_setaffinity(0, had)


def bare_wall_s(log: Path, rules: tuple[str, ...], runs: int, processes: int) -> float:
    """Wall seconds in which each of so many processes simulates so many runs of a log, once all are ready."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(processes + 1)
    bare = [context.Process(target=_simulate, args=(log, rules, runs, ready)) for _ in range(processes)]
    for each in bare:
        each.start()
    ready.wait()
    begin_us = wall_us()
    for each in bare:
        each.join()
    return (wall_us() - begin_us) / US


def _simulate(log: Path, rules: tuple[str, ...], runs: int, ready: Barrier) -> None:
    work = to_jobs(load(log), nodes=None)
    several = [SchedulerConfig.parse(rule) for rule in rules]
    for rule in several:
        simulate(work.jobs, work.nodes, rule)
    ready.wait()
    for which in range(runs):
        simulate(work.jobs, work.nodes, several[which % len(several)])


def measured(chosen: argparse.Namespace, folder: Path) -> Iterator[tuple[str, dict[str, float]]]:
    """What was measured, and its figures."""
    log = first_jobs(chosen.trace, folder)
    options = ["--jobs", str(chosen.jobs)]
    few = max(100, chosen.runs // 10)
    sweep_s(log, folder, 2, options)  # compiles what nobody has
    short_s, _ = sweep_s(log, folder, few, options)
    long_s, wall_s = sweep_s(log, folder, chosen.runs, options)
    a_run_ms = (long_s - short_s) / (chosen.runs - few) * 1e3
    simulated_ms = simulate_s(log) * 1e3
    yield (
        f"{chosen.runs} runs of {JOBS} jobs, {chosen.jobs} processes",
        {
            "processor_ms_per_run": a_run_ms,
            "simulate_ms_per_run": simulated_ms,
            "overhead_ms_per_run": a_run_ms - simulated_ms,
            "with_start_ms_per_run": long_s / chosen.runs * 1e3,
            "wall_s": wall_s,
        },
    )
    if chosen.dask:
        yield from by_dask(log, folder, chosen.runs, RULES, f"{JOBS} jobs")
        yield from by_dask(chosen.trace.resolve(), folder, chosen.whole_runs, WHOLE_RULES, "the whole log")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--dask", action="store_true")
    parser.add_argument("--whole-runs", type=int, default=400, help="of the whole log, with --dask")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--trace", type=Path, default=TRACES / LOGS["KTH"])
    chosen = parser.parse_args()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        for what, figures in measured(chosen, Path(name)):
            rows.append(row(what, figures))
            if not chosen.json:
                print(
                    f"{what}: " + ", ".join(f"{name} {value:.2f}" for name, value in figures.items()),
                    flush=True,
                )
    if chosen.json:
        print_rows(rows)


if __name__ == "__main__":
    main()
