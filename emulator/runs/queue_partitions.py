"""What Slurm's twin is told of a log's names: the partition of each queue, and who its users and accounts are.

A queue goes to the partition of its name, else to the default one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.cluster.slurm_scheduler import slurm_in
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.cluster.slurm_scheduler import Slurm
    from emulator.runs.preparation import Prepared
    from emulator.runs.scenario import Scenario
    from emulator.workload.table import JobTable

_MOST_NAMES = 12


@dataclass(frozen=True, slots=True)
class QueuePartitions:
    """`by_queue`: queue of the log -> partition. `elsewhere`: queues that have jobs and no partition, in order.

    `has_unnamed`: the log does not say of some job which queue it was in.
    """

    by_queue: Mapping[int, str]
    elsewhere: tuple[str, ...]
    has_unnamed: bool = False

    def not_followed(self, conf: object) -> list[str]:
        """A sentence on the queues that go to the default partition of this file, if there are any."""
        if conf is None:
            return []
        named = ", ".join(self.elsewhere[:_MOST_NAMES])
        said = [f"no such partition in {conf}, taken for the default one: {named}"] if named else []
        unnamed = f"jobs whose partition the log does not say are in the default one of {conf}"
        return [*said, *([unnamed] if self.has_unnamed else [])]


def partitions_by_name(
    slurm: Slurm, nodes: int, queue_names: Mapping[int, str], jobs: JobTable
) -> QueuePartitions:
    """The partitions of the log's queues. Raises ValueError for a slurm.conf that cannot be used."""
    known = {each.name for each in slurm.rules(nodes).partitions}
    queues = np.unique(jobs.queue[jobs.kind == Kind.BATCH])
    has_jobs = {queue_names.get(number, str(number)) for number in queues[queues >= 0].tolist()}
    by_queue = {number: name for number, name in queue_names.items() if name in known}
    return QueuePartitions(by_queue, tuple(sorted(has_jobs - known)), bool((queues < 0).any()))


def people_by_name(
    slurm: Slurm, user_names: Mapping[int, str], group_names: Mapping[int, str]
) -> dict[str, Mapping[int, str]]:
    """`users` and `accounts` for a twin that has associations, unless it was told of others."""
    if slurm.associations is None:
        return {}
    return {"users": slurm.users or user_names, "accounts": slurm.accounts or group_names}


def names_of(scenario: Scenario, prepared: Prepared) -> dict[str, Any]:
    """The settings of Slurm's twin in a run that the log's names make; empty for other schedulers.

    Raises ValueError for a slurm.conf that cannot be used.
    """
    slurm = _twin(scenario)
    if slurm is None:
        return {}
    partitions = partitions_of(scenario, prepared)
    queues = {} if partitions is None else {"queues": partitions.by_queue}
    qos = {"qos_names": prepared.qos_names} if prepared.qos_names and not slurm.qos_names else {}
    constraints = {}
    if prepared.constraint_names and not slurm.constraint_names:
        constraints["constraint_names"] = prepared.constraint_names
    return {
        **queues,
        **qos,
        **constraints,
        **people_by_name(slurm, prepared.user_names, prepared.group_names),
    }


def _twin(scenario: Scenario) -> Slurm | None:
    with scenario.plugged_in():
        return slurm_in(scenario.scheduler_config)


def partitions_of(scenario: Scenario, prepared: Prepared) -> QueuePartitions | None:
    """Those of a run under Slurm's twin; None where `queues` says them, or the log has no names of queues.

    Raises ValueError for a slurm.conf that cannot be used.
    """
    slurm = _twin(scenario) if prepared.queue_names else None
    if slurm is None or slurm.queues:
        return None
    return partitions_by_name(slurm, prepared.nodes, prepared.queue_names, prepared.jobs)
