"""Leaving out batch jobs by what they are, or other estimates for them, to see what an experiment owes to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from emulator.plugins import check_number
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from emulator.workload.table import JobTable


@dataclass(frozen=True, slots=True)
class LeaveOut:
    """The transform `leave_out`: takes batch jobs away; leases stay.

    `overrun`: those that ran to their walltime or beyond (with `overrun: extend` their estimate is their run time).
    `twins`: of those submitted at the same time with the same run time all but the first.
    `wider_than`: those with more nodes than that (0: none).
    """

    overrun: bool = False
    twins: bool = False
    wider_than: int = 0

    def __post_init__(self) -> None:
        check_number("leave_out", "wider_than", self.wider_than, at_least=0, whole=True)

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002
        is_batch = jobs.kind == Kind.BATCH
        goes = np.zeros(len(jobs), np.bool_)
        if self.wider_than:
            goes |= jobs.nodes > self.wider_than
        if self.overrun:
            goes |= jobs.run_us >= jobs.estimate_us
        if self.twins:
            rows = np.flatnonzero(is_batch & ~goes)
            alike = np.stack((jobs.submit_us[rows], jobs.run_us[rows]))
            first = np.unique(alike, axis=1, return_index=True)[1]
            goes[np.delete(rows, first)] = True
        return jobs.take(~(goes & is_batch))


@dataclass(frozen=True, slots=True)
class RunToWalltime:
    """The transform `run_to_walltime`: each batch job runs as long as it asked for.

    Liu et al. 2018 write that their jobs are "a sleep script for the duration of the job walltime".
    """

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002
        run_us = np.where(jobs.kind == Kind.BATCH, jobs.estimate_us, jobs.run_us)
        return replace(jobs, run_us=run_us)


@dataclass(frozen=True, slots=True)
class ScaleEstimates:
    """The transform `scale_estimates`: estimates of batch jobs are `factor` times what they were, or the run times.

    Doubled estimates and exact ones (Gaussier et al. 2015, "clairvoyant": `of: run_time`).
    """

    factor: float = 1
    of: Literal["estimate", "run_time"] = "estimate"

    def __post_init__(self) -> None:
        check_number("scale_estimates", "factor", self.factor, at_least=1, at_most=1000)
        if self.of not in ("estimate", "run_time"):
            raise ValueError(f"scale_estimates: of is estimate or run_time, not {self.of!r}")

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002
        of_us = jobs.estimate_us if self.of == "estimate" else jobs.run_us
        scaled_us = np.rint(of_us * self.factor).astype(np.int64)
        return replace(jobs, estimate_us=np.where(jobs.kind == Kind.BATCH, scaled_us, jobs.estimate_us))
