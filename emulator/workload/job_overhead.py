"""What a batch system needs for each job, besides the job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import micros
from emulator.plugins import check_number
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from emulator.workload.table import JobTable


@dataclass(frozen=True, slots=True)
class JobOverhead:
    """The transform `job_overhead`: each batch job has its nodes for so much longer; what its user asked for stays.

    An emulation at 60 times real time in which starting and ending a job takes a second of wall time costs each job
    60 s of cluster time (balancer-liu-2018, section III-A).
    """

    overhead_s: float

    def __post_init__(self) -> None:
        check_number("job_overhead", "overhead_s", self.overhead_s, at_least=0)

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002
        run_us = jobs.run_us + np.where(jobs.kind == Kind.BATCH, micros(self.overhead_s), 0)
        return replace(jobs, run_us=run_us, estimate_us=np.maximum(jobs.estimate_us, run_us))
