"""Jobs that run already when a trace begins (Liu et al. 2018: "preloading the cluster with running jobs").

A week cut out of a log begins with an empty cluster that takes days to fill. The log knows better: what was
running at the cut. Such a job is submitted at time 0 with what is left of its run time and of its walltime.
All other jobs submitted at 0 come a microsecond later, so the first scheduling pass sees the preloaded jobs
alone and, as they fit the cluster together, starts all of them at time 0 in whatever order the queue is. They
are the only jobs with submit time 0, and their wait is 0: see `is_preloaded`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US
from emulator.plugins import check_number
from emulator.workload.named_labels import with_numbers_known
from emulator.workload.overruns import Overrun  # noqa: TC001 - read when a plug-in is made
from emulator.workload.rules import to_jobs
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.workload.swf import SwfLog


@dataclass(frozen=True, slots=True)
class Preload:
    """The transform `preload`: puts in front what runs at `at_s` of the log `trace`, for example the week before.

    `at_s` is in the log's own time: 604800, the end of the week, for a weekly file. Sizes, walltimes and overruns
    follow the input rules, as for the trace itself.
    """

    trace: str
    at_s: float = 604_800
    procs_per_node: int = 1
    overrun: Overrun = "extend"

    def __post_init__(self) -> None:
        if not isinstance(self.trace, str | Path):
            raise ValueError(f"preload: trace must be the name of a file, not {self.trace!r}")  # noqa: TRY004 - a border: one kind of error
        check_number("preload", "at_s", self.at_s, at_least=0)
        check_number("preload", "procs_per_node", self.procs_per_node, at_least=1, whole=True)

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:
        """The jobs behind the preloaded ones. Raises ValueError if the log cannot be read."""
        from emulator.workload.formats import load  # noqa: PLC0415 - `load` finds formats, which need tables

        before = running_at(
            load(self.trace),
            self.at_s,
            nodes=nodes,
            procs_per_node=self.procs_per_node,
            overrun=self.overrun,
            beside=jobs,
        )
        return put_in_front(before, jobs)


def running_at(
    log: SwfLog,
    at_s: float,
    *,
    nodes: int,
    procs_per_node: int = 1,
    overrun: Overrun = "extend",
    beside: JobTable | None = None,
) -> JobTable:
    """What was running at a time of the log, as jobs submitted at 0 with the rest of run time and walltime.

    `beside`: jobs of another log, whose users, groups and queues of the same names have one number.

    A job runs in [submit + wait, submit + wait + run). Logs overlap at times: the jobs are taken in the order
    in which they started, as long as they fit `nodes` together. Raises ValueError for a log without waits.
    """
    wait_s = log.column("wait_s")
    if len(log) and not (wait_s >= 0).any():
        raise ValueError(f"{log.source}: the log has no waits, so what was running is unknown")
    work = to_jobs(log, nodes=nodes, procs_per_node=procs_per_node, overrun=overrun, origin_s=0)
    waited_us = np.rint(wait_s[work.rows] * US).astype(np.int64)
    jobs = work.jobs if beside is None else with_numbers_known(work, beside)
    return running_of(jobs, waited_us, round(at_s * US), nodes=nodes)


def running_of(jobs: JobTable, waited_us: NDArray[np.int64], at_us: int, *, nodes: int) -> JobTable:
    """The same of jobs, of which each waited so long, negative where nobody knows."""
    start_us = jobs.submit_us + waited_us
    runs = (waited_us >= 0) & (start_us <= at_us) & (at_us < start_us + jobs.run_us)
    jobs, start_us = jobs.take(runs), start_us[runs]
    order = np.lexsort((jobs.number, start_us))
    order = order[_fitting(jobs.nodes[order], nodes)]
    jobs, ran_us = jobs.take(order), at_us - start_us[order]
    return replace(
        jobs,
        submit_us=np.zeros(len(jobs), np.int64),
        run_us=jobs.run_us - ran_us,
        estimate_us=jobs.estimate_us - ran_us,
        number=np.arange(1, len(jobs) + 1, dtype=np.int64),
    )


def put_in_front(running: JobTable, jobs: JobTable) -> JobTable:
    """Both as one table in which only the running jobs are submitted at 0, numbered behind the others."""
    if not len(running):
        return jobs
    behind = replace(jobs, submit_us=np.maximum(jobs.submit_us, 1))
    return behind.take(np.lexsort((behind.number, behind.submit_us))).merge(running)


def is_preloaded(jobs: JobTable) -> NDArray[np.bool_]:
    """Which jobs are preloaded, in a table that `preload` made: the batch jobs submitted at 0."""
    preloaded: NDArray[np.bool_] = (jobs.submit_us == 0) & (jobs.kind == Kind.BATCH)
    return preloaded


def _fitting(width: NDArray[np.int32], nodes: int) -> NDArray[np.intp]:
    rows: list[int] = []
    free = nodes
    for row, job_nodes in enumerate(width.tolist()):
        if job_nodes <= free:
            rows.append(row)
            free -= job_nodes
    return np.array(rows, np.intp)
