"""A log shaken a little: what its figures owe to chance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from emulator.workload.table import JobTable


@dataclass(frozen=True, slots=True)
class Shake:
    """The transform `shake`: batch jobs come up to `submit_s` earlier or later and run up to `run_share` less or more.

    Each seed shakes otherwise. Nobody comes before time 0 or runs beyond his estimate, unless he did already.
    """

    submit_s: float = 60
    run_share: float = 0.0

    def __post_init__(self) -> None:
        check_number("shake", "submit_s", self.submit_s, at_least=0, at_most=1e9)
        check_number("shake", "run_share", self.run_share, at_least=0, at_most=0.99)

    def apply_random(self, jobs: JobTable, *, nodes: int, rng: np.random.Generator) -> JobTable:  # noqa: ARG002
        count, batch = len(jobs), jobs.kind == Kind.BATCH
        later_us = np.rint(rng.uniform(-self.submit_s, self.submit_s, count) * US).astype(np.int64)
        longer = 1 + rng.uniform(-self.run_share, self.run_share, count)
        run_us = np.maximum(np.rint(jobs.run_us * longer).astype(np.int64), np.minimum(jobs.run_us, 1))
        run_us = np.minimum(run_us, np.maximum(jobs.estimate_us, jobs.run_us))
        shaken = replace(
            jobs,
            submit_us=np.where(batch, np.maximum(jobs.submit_us + later_us, 0), jobs.submit_us),
            run_us=np.where(batch, run_us, jobs.run_us),
        )
        return shaken.take(np.lexsort((shaken.number, shaken.submit_us)))
