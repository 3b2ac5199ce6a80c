"""`scheduler: slurm`: the twin of Slurm in virtual time. The docs: `docs/slurm-twin.md`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from balancer.plugins import name_of
from emulator.schedulers.plain import SCHEDULERS
from emulator.schedulers.slurm.settings import SlurmSettings

if TYPE_CHECKING:
    from emulator.cluster.cluster import Cluster
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable


@dataclass(frozen=True, slots=True)
class Slurm(SlurmSettings):
    """What Slurm would do: a pass on each event, backfill every `bf_interval`, priorities and partitions."""

    def make_cluster(self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable) -> Cluster:  # noqa: ARG002 - it is this
        """The machine that this scheduler needs, because it acts at times of its own. Raises ValueError."""
        from emulator.cluster.slurm_cluster import slurm_cluster  # noqa: PLC0415 - listings do not need it

        return slurm_cluster(node_count, jobs, self)


def slurm_in(scheduler: SchedulerConfig) -> Slurm | None:
    """The twin that a configuration names, if it does. Raises ValueError."""
    if scheduler.decide is None or name_of(SCHEDULERS, scheduler.decide) != "slurm":
        return None
    machine = scheduler.make_machine()
    return machine if isinstance(machine, Slurm) else None
