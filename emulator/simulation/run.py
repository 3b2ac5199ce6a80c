"""One call from a job table to a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.cluster.cluster import Cluster
from emulator.cluster.selections.by_class import ClassSelection
from emulator.cluster.selections.compact import CompactSelection
from emulator.simulation.loop import Loop

if TYPE_CHECKING:
    from emulator.cluster.interconnect import Interconnect
    from emulator.cluster.placement import Placement
    from emulator.record.run_record import RunRecord
    from emulator.schedulers.config import SchedulerConfig
    from emulator.simulation.loop import OnProgress
    from emulator.simulation.mechanism import Mechanism
    from emulator.workload.table import JobTable


def make_cluster(
    node_count: int,
    scheduler: SchedulerConfig,
    jobs: JobTable,
    placement: Placement | None = None,
    interconnect: Interconnect | None = None,
) -> Cluster:
    """Whole nodes and a queue over them in virtual time: the scheduler's own, if it brings one. Raises ValueError.

    `placement`: who may have which nodes, and when, if that is not everybody at any time; `interconnect`: which nodes a
    job gets together, if that is not any.
    """
    if placement is not None:
        by_class = ClassSelection(node_count, scheduler, placement)
        return Cluster(node_count, scheduler, jobs, selection=by_class)
    if interconnect is not None:
        compact = CompactSelection(node_count, scheduler, jobs, interconnect)
        return Cluster(node_count, scheduler, jobs, selection=compact)
    own = scheduler.make_machine()
    return (Cluster if own is None else own.make_cluster)(node_count, scheduler, jobs)


def simulate(
    jobs: JobTable,
    nodes: int,
    scheduler: SchedulerConfig,
    *,
    mechanism: Mechanism | None = None,
    on_progress: OnProgress | None = None,
) -> RunRecord:
    """Run the jobs on `nodes` nodes in virtual time. A job wider than the cluster is the caller's mistake.

    `on_progress` is called now and then, as by `Loop.run`.
    """
    widest = int(jobs.nodes.max(initial=0))
    if widest > nodes:
        raise ValueError(f"a job wants {widest} nodes, the cluster has {nodes}: leave it out first")
    loop = Loop(make_cluster(nodes, scheduler, jobs), mechanism)
    loop.run(on_progress)
    return loop.record()
