"""Flexible jobs of the reference planner as the product takes and plans them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.workload.table import JobTable
from oracle.planner import Flexible, Segment

if TYPE_CHECKING:
    from emulator.mechanisms.malleable.machine import PlanningMachine


def flexible_table(jobs: list[Flexible]) -> JobTable:
    return JobTable.build(
        number=[job.number for job in jobs],
        submit_us=[job.submit_us for job in jobs],
        run_us=[job.run_us for job in jobs],
        estimate_us=[job.estimate_us for job in jobs],
        nodes=[job.nodes for job in jobs],
        extra={
            "job_class": [job.kind for job in jobs],
            "min_nodes": [job.least for job in jobs],
            "max_nodes": [job.most for job in jobs],
        },
    )


def segments(machine: PlanningMachine) -> dict[int, list[Segment]]:
    runs, numbers = machine.run_table(), machine.job_table().number
    found = {int(number): [] for number in numbers}
    widths = np.diff(runs.first)
    for row in range(len(runs.job)):
        segment = Segment(int(runs.start_us[row]), int(runs.end_us[row]), int(widths[row]))
        found[int(numbers[runs.job[row]])].append(segment)
    return found
