"""A cluster that is busy from the begin, for workloads with no week before them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number
from emulator.workload.preload import put_in_front
from emulator.workload.table import JobTable, Kind


@dataclass(frozen=True, slots=True)
class WrapAround:
    """Begins with the batch jobs that would still run if the span had gone before: it follows itself.

    A job that, started when submitted, would run beyond `span_s` is also submitted at time 0 with what is then
    left of its run time and walltime, in order of submit as long as they fit together. What a log knows of the
    week before is better (`preload`); a made or sampled week has none (Liu et al. 2018, section III: preloading).
    """

    span_s: float = 604_800

    def __post_init__(self) -> None:
        check_number("wrap_around", "span_s", self.span_s, above=0)

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:
        span_us = round(self.span_s * US)
        end_us = jobs.submit_us + jobs.run_us
        batch = jobs.take((jobs.kind == Kind.BATCH) & (jobs.submit_us < span_us) & (end_us > span_us))
        fits = np.cumsum(batch.nodes, dtype=np.int64) <= nodes
        batch = batch.take(fits)
        ran_us = span_us - batch.submit_us
        running = replace(
            batch,
            submit_us=np.zeros(len(batch), np.int64),
            run_us=batch.run_us - ran_us,
            estimate_us=np.maximum(batch.estimate_us - ran_us, 1),
            number=np.arange(1, len(batch) + 1, dtype=np.int64),
        )
        return put_in_front(running, jobs)
