"""Makes a share of the jobs of a log moldable or malleable (malleable-hungershoefer-2004, sections 3 and 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from emulator.mechanisms.malleable.tables import JobClass
from emulator.plugins import check_number

if TYPE_CHECKING:
    from emulator.workload.table import JobTable


@dataclass(frozen=True, slots=True)
class FlexibleJobs:
    """Draws so many jobs at random; the rest stays rigid. Shares from 0 to 1, of the number of jobs.

    Writes the columns `job_class`, `min_nodes` and `max_nodes`. A flexible job runs on anything from `least` (a share
    of the nodes it asks for, at least one node) to the whole machine. A job drawn for a small share is drawn for a
    larger one too, and malleable ones are drawn before moldable ones.
    """

    moldable: float = 0.0
    malleable: float = 0.0
    least: float = 0.0

    def __post_init__(self) -> None:
        for name in ("moldable", "malleable", "least"):
            check_number("flexible_jobs", name, getattr(self, name), at_least=0, at_most=1)
        if self.moldable + self.malleable > 1 + 1e-9:
            raise ValueError(
                f"flexible_jobs: moldable and malleable are {self.moldable + self.malleable:g} of all jobs"
            )

    def apply_random(self, jobs: JobTable, *, nodes: int, rng: np.random.Generator) -> JobTable:
        count = len(jobs)
        drawn = rng.permutation(count)
        malleable = round(self.malleable * count)
        flexible = min(malleable + round(self.moldable * count), count)
        kind = np.full(count, JobClass.RIGID, np.int64)
        kind[drawn[:malleable]] = JobClass.MALLEABLE
        kind[drawn[malleable:flexible]] = JobClass.MOLDABLE
        rigid = kind == JobClass.RIGID
        asked = jobs.nodes.astype(np.int64)
        least = np.maximum(np.ceil(self.least * asked).astype(np.int64), 1)
        return jobs.with_extra(
            job_class=kind,
            min_nodes=np.where(rigid, asked, least),
            max_nodes=np.where(rigid, asked, nodes),
        )
