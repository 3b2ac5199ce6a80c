"""What a clock that waits for nobody cost a live run: how late things were, by the run's own record.

Everything that a real machine does takes wall time: to start a process, to send a message. On a clock that runs S times
as fast it takes S times as long. A batch job shows it twice: it is submitted later than its trace says, and it has
its nodes longer than it runs. A lease on a real cloud shows it between the Balancer's grant and its last server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US, seconds
from emulator.kernel.job_states import RunOutcome
from emulator.live.collect import granted_requests, replayed
from emulator.record.run_record import Mark
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from balancer.lifecycle.records import RequestRecord
    from emulator.live.replay_log import LeaseResult
    from emulator.record.run_record import RunRecord
    from emulator.workload.table import JobTable


def clock_cost(record: RunRecord, jobs: JobTable) -> dict[str, float]:
    """Mean and most, in us of cluster time: submits against the trace `jobs`, finished runs against their run time."""
    batch = jobs.kind == Kind.BATCH
    submitted = batch & (record.start_us >= 0)
    runs = record.runs
    finished = (runs.outcome == RunOutcome.FINISHED) & batch[runs.job]
    whole = np.bincount(runs.job, minlength=len(jobs))[runs.job] == 1
    row = runs.job[finished & whole]
    lasted_us = (runs.end_us - runs.start_us)[finished & whole]
    return {
        **_mean_and_most("submit_late", (record.jobs.submit_us - jobs.submit_us)[submitted]),
        **_mean_and_most("run_over_nominal", lasted_us - jobs.run_us[row]),
    }


def _mean_and_most(name: str, late_us: NDArray[np.int64]) -> dict[str, float]:
    if not len(late_us):
        return {}
    return {f"{name}_mean_us": float(late_us.mean()), f"{name}_most_us": float(late_us.max())}


def with_cost(
    record: RunRecord,
    jobs: JobTable,
    pace: dict[str, Any],
    limit_s: float,
    more: Mapping[str, float] | None = None,
) -> tuple[RunRecord, dict[str, Any]]:
    """The record and its pace with the cost, and with a mark if something was later than `limit_s` of wall time.

    `more`: what else was measured.
    """
    cost = clock_cost(record, jobs) | dict(more or {})
    most_us = max((cost[name] for name in cost if name.endswith("_most_us")), default=0.0)
    lag_us = max(most_us / pace["speed"], pace["longest_hold_us"])
    pace = pace | cost | {"lag_us": lag_us}
    if lag_us <= limit_s * US:
        return record, pace
    late = f"something was {seconds(round(lag_us)):.2f} s of wall time late"
    text = f"the run lagged: {late} (live.max_lag_s is {limit_s:g} s)"
    return replace(record, marks=(*record.marks, Mark(record.horizon_us, text))), pace


def lease_cost(ledger: Path | str, log: Path) -> dict[str, float]:
    """Mean and most, in us of cluster time, of the granted leases; empty without any."""
    late_us = starts_late_us(replayed(log).leases.values(), granted_requests(ledger))
    return _mean_and_most("lease_start_late", np.array(late_us, np.int64))


def starts_late_us(leases: Iterable[LeaseResult], requests: Iterable[RequestRecord]) -> list[int]:
    """A lease is that of the last request that was granted its hosts before it began."""
    pending = list(requests)
    found = []
    for lease in leases:
        decided_us = [
            each.decided_us
            for each in pending
            if each.decided_us is not None
            and each.decided_us <= lease.decided_us
            and set(lease.hosts) <= set(each.nodes)
        ]
        if lease.hosts and decided_us:
            found.append(lease.decided_us - max(decided_us))
    return found
