"""One call from a job table to a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.cluster import Cluster
from emulator.harness.loop import Loop

if TYPE_CHECKING:
    from emulator.harness.mechanism import Mechanism
    from emulator.harness.record import RunRecord
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable


def simulate(
    jobs: JobTable,
    nodes: int,
    scheduler: SchedulerConfig,
    *,
    mechanism: Mechanism | None = None,
) -> RunRecord:
    """Run the jobs on `nodes` nodes in virtual time. A job wider than the cluster is the caller's mistake."""
    widest = int(jobs.nodes.max(initial=0))
    if widest > nodes:
        raise ValueError(f"a job wants {widest} nodes, the cluster has {nodes}: leave it out first")
    loop = Loop(Cluster(nodes, scheduler, jobs), mechanism)
    loop.run()
    return loop.record()
