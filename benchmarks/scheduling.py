"""What a scheduling decision costs, beside a bare loop that only counts nodes; one process a case.

python benchmarks/scheduling.py [--quick] [--json] [--traces FOLDER] [--only GROUP]

`ours` is `simulate`: from a job table to a record with every node of every run. `bare` is `bare_easy.py`. They take
turns, and a case fails unless both start every job at the same time; but `orders`, which serve in another order.
Medians of processor time (user and system), because others may use the machine; `s` is what passed on the wall.
Compilation is not measured.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from bare_easy import bare_easy
from rich.console import Console
from rich.table import Table
from speed_rows import print_rows, row
from workloads import LOGS, TRACES, log_jobs, offered_load, synthetic_jobs

from balancer.clock import US, wall_us
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

CORI_NODES = 12_076
CORI_JOBS = 2_600_000
CORI_WIDEST = 512
"""With this the jobs fill nine months. Four times as wide: most of the time goes into writing node lists."""


@dataclass(frozen=True, slots=True)
class Case:
    """What to measure: a log, or `jobs` synthetic jobs on `nodes` nodes."""

    group: str
    name: str
    log: Path | None = None
    jobs: int = 0
    nodes: int = 0
    load: float = 0.85
    widest: int = 64
    repeat: int = 5
    scheduler: str = "fcfs+easy"


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians. `ratio` is that of jobs/s, ours to bare; `peak_mib` is that of the process before `bare` ran."""

    group: str
    name: str
    jobs: int
    nodes: int
    load: float
    bare_jobs_per_s: float
    ours_jobs_per_s: float
    ratio: float
    us_per_job: float
    wall_s: float
    peak_mib: float


def cpu_s() -> float:
    """Processor time of this process so far, user and system."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def timed(work: Callable[[], T]) -> tuple[T, float, float]:
    """What `work` returns, its processor seconds and its wall seconds."""
    begin_us, begin_cpu_s = wall_us(), cpu_s()
    result = work()
    return result, cpu_s() - begin_cpu_s, (wall_us() - begin_us) / US


def measure(case: Case) -> Figures:
    """Run one case in this process."""
    if case.log is not None:
        jobs, nodes = log_jobs(case.log)
    else:
        nodes = case.nodes
        jobs = synthetic_jobs(case.jobs, nodes, load=case.load, widest=case.widest)
    scheduler = SchedulerConfig.parse(case.scheduler)
    tiny = synthetic_jobs(4, 64)
    simulate(tiny, 64, scheduler)
    bare_easy(tiny.submit_us, tiny.run_us, tiny.estimate_us, tiny.nodes, 64)
    peak_mib = 0.0
    bare_s: list[float] = []
    ours_s: list[float] = []
    wall_s: list[float] = []
    for _ in range(case.repeat):
        record, used_s, lasted_s = timed(lambda: simulate(jobs, nodes, scheduler))
        ours_s.append(used_s)
        wall_s.append(lasted_s)
        peak_mib = peak_mib or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        start_us = record.start_us
        del record
        bare_start_us, used_s, _ = timed(
            lambda: bare_easy(jobs.submit_us, jobs.run_us, jobs.estimate_us, jobs.nodes, nodes)
        )
        bare_s.append(used_s)
        if case.group != "orders" and not np.array_equal(start_us, bare_start_us):
            raise AssertionError(f"{case.name}: the two loops start jobs at different times")
    ours = statistics.median(ours_s)
    return Figures(
        group=case.group,
        name=case.name,
        jobs=len(jobs),
        nodes=nodes,
        load=offered_load(jobs, nodes),
        bare_jobs_per_s=len(jobs) / statistics.median(bare_s),
        ours_jobs_per_s=len(jobs) / ours,
        ratio=statistics.median(b / o for b, o in zip(bare_s, ours_s, strict=True)),
        us_per_job=ours / len(jobs) * US,
        wall_s=statistics.median(wall_s),
        peak_mib=peak_mib,
    )


def cases(traces: Path, *, quick: bool) -> list[Case]:
    """Whole logs; more jobs; more nodes; other queue orders; a queue that only grows; and a year of a large machine."""
    few = 3 if quick else 9
    found = [Case("log", name, log=traces / file, repeat=few) for name, file in LOGS.items()]
    if quick:
        found = found[:1]
    counts = (10_000, 50_000) if quick else (10_000, 100_000, 1_000_000)
    found += [Case("jobs", f"{n:,} jobs", jobs=n, nodes=1000, repeat=few) for n in counts]
    sizes = (100, 12_000) if quick else (100, 372, 1000, 3000, 12_000)
    count = 50_000 if quick else 200_000
    found += [Case("nodes", f"{n:,} nodes", jobs=count, nodes=n, repeat=few) for n in sizes]
    orders = ("fcfs", "wfp3") if quick else ("fcfs", "f1", "wfp3", "unicef", "multifactor")
    found += [
        Case("orders", name, jobs=count, nodes=1000, repeat=few, scheduler=f"{name}+easy") for name in orders
    ]
    if not quick:
        over = (20_000, 50_000, 100_000)
        found += [Case("overload", f"{n:,} jobs", jobs=n, nodes=1000, load=1.2, repeat=3) for n in over]
        found += [
            Case("cori", name, jobs=CORI_JOBS, nodes=CORI_NODES, widest=widest)
            for name, widest in (("like Cori", CORI_WIDEST), ("wider jobs", 4 * CORI_WIDEST))
        ]
    return found


def row_of(found: Figures) -> dict[str, Any]:
    figures = asdict(found)
    return row(f"{figures.pop('group')}: {figures.pop('name')}", figures)


def print_table(rows: list[Figures]) -> None:
    table = Table("group", "case", box=None, pad_edge=False)
    for column in ("jobs", "nodes", "load", "bare jobs/s", "ours jobs/s", "ratio", "us/job", "s", "peak MiB"):
        table.add_column(column, justify="right")
    for each in rows:
        table.add_row(
            each.group,
            each.name,
            f"{each.jobs:,}",
            f"{each.nodes:,}",
            f"{each.load:.2f}",
            f"{each.bare_jobs_per_s:,.0f}",
            f"{each.ours_jobs_per_s:,.0f}",
            f"{each.ratio:.2f}",
            f"{each.us_per_job:.3f}",
            f"{each.wall_s:.2f}",
            f"{each.peak_mib:,.0f}",
        )
    Console(width=115).print(table)
    for group in ("jobs", "nodes"):
        costs = [each.us_per_job for each in rows if each.group == group]
        if costs:
            print(f"more {group}: the dearest case costs {max(costs) / min(costs):.2f} times the cheapest")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder with the logs (default: traces)")
    parser.add_argument("--only", metavar="GROUP", help="log, jobs, nodes, orders, overload or cori")
    chosen = parser.parse_args()
    wanted = [
        case
        for case in cases(chosen.traces, quick=chosen.quick)
        if chosen.only is None or case.group == chosen.only
    ]
    # A process of its own for each case, one after another, so that each has its own peak of memory.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        rows = list(pool.map(measure, wanted))
    if chosen.json:
        print_rows(row_of(each) for each in rows)
    else:
        print_table(rows)


if __name__ == "__main__":
    main()
