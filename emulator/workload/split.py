"""Leases of several nodes as several leases of one node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emulator.workload.table import JobTable, Kind


@dataclass(frozen=True, slots=True)
class SplitLeases:
    """Makes each lease of n nodes n leases of one node that come together: some may be met and others not.

    So a cloud sees it where every virtual machine is a request of its own. Liu et al. 2018, section III-B.2,
    multiply the nodes of leases and then count 264 requests a minute where there were 11 leases.
    """

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002
        copies = np.where(jobs.kind == Kind.ON_DEMAND, jobs.nodes, 1)
        # The first of the copies keeps the number.
        first = np.cumsum(copies) - copies
        rows = np.repeat(np.arange(len(jobs)), copies)
        number = jobs.number[rows].copy()
        is_copy = np.ones(len(rows), np.bool_)
        is_copy[first] = False
        number[is_copy] = jobs.number.max(initial=0) + 1 + np.arange(int(is_copy.sum()))
        width = np.where(jobs.kind[rows] == Kind.ON_DEMAND, 1, jobs.nodes[rows])
        return JobTable.build(
            submit_us=jobs.submit_us[rows],
            run_us=jobs.run_us[rows],
            estimate_us=jobs.estimate_us[rows],
            nodes=width,
            number=number,
            kind=jobs.kind[rows],
            queue=jobs.queue[rows],
            user=jobs.user[rows],
            group=jobs.group[rows],
            status=jobs.status[rows],
        )
