"""Small random workloads full of ties, and the smallest part of one that still shows a difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.workload.table import JobTable
from oracle.reference import Job

if TYPE_CHECKING:
    from collections.abc import Callable

ESTIMATES = ("exact", "longer", "mixed", "shorter")
"""How estimates lie to run times: `mixed` is exact or longer, `shorter` is anything."""

QUEUES = 4
USERS, GROUPS = 5, 3


def random_workload(
    rng: np.random.Generator, *, estimates: str | None = None, jobs: int = 60, nodes: int = 20
) -> tuple[list[Job], int]:
    """Jobs in whole seconds, many at one time, some as wide as the machine; and the machine's nodes."""
    node_count = int(rng.integers(1, nodes + 1))
    count = int(rng.integers(1, jobs + 1))
    longest_s = int(rng.choice((3, 12, 100)))
    longest_gap_s = int(rng.choice((0, 1, 4, 30)))
    estimates = estimates or str(rng.choice(ESTIMATES[:3]))
    widest = node_count if rng.random() < 0.5 else max(1, node_count // 3)
    gap_s = np.where(rng.random(count) < 0.5, 0, rng.integers(0, longest_gap_s + 1, count))
    submit_s = np.cumsum(gap_s)
    run_s = rng.integers(1, longest_s + 1, count)
    factor = rng.integers(1, 6, count)
    estimate_s = {
        "exact": run_s,
        "longer": run_s * factor,
        "mixed": np.where(rng.random(count) < 0.5, run_s, run_s + factor),
        "shorter": rng.integers(1, longest_s + 1, count),
    }[estimates]
    width = np.where(rng.random(count) < 0.1, node_count, rng.integers(1, widest + 1, count))
    numbers = rng.permutation(count) + 1
    queues = rng.integers(-1, QUEUES, count)
    users, groups = rng.integers(-1, USERS, count), rng.integers(-1, GROUPS, count)
    columns = (numbers, submit_s * US, run_s * US, estimate_s * US, width, queues, users, groups)
    return [Job(*map(int, row)) for row in zip(*columns, strict=True)], node_count


def job_table(jobs: list[Job]) -> JobTable:
    return JobTable.build(
        number=[job.number for job in jobs],
        submit_us=[job.submit_us for job in jobs],
        run_us=[job.run_us for job in jobs],
        estimate_us=[job.estimate_us for job in jobs],
        nodes=[job.nodes for job in jobs],
        queue=[job.queue for job in jobs],
        user=[job.user for job in jobs],
        group=[job.group for job in jobs],
    )


def smallest_part(jobs: list[Job], still_differs: Callable[[list[Job]], bool]) -> list[Job]:
    """Leave out jobs as long as the rest still differs."""
    shorter = True
    while shorter:
        shorter = False
        for job in jobs:
            rest = [other for other in jobs if other is not job]
            if rest and still_differs(rest):
                jobs, shorter = rest, True
                break
    return jobs
