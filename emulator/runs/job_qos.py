"""Which QOS each job has, by a scenario's `qos` (docs/job-rules.md): further columns of the job table.

`qos` is the place of a job's QOS in the table, by name; where priorities differ, `qos_tier` is the rank of its priority
(0: the highest), and `qos_factor_ppb` is its priority / the highest of the table, in parts per billion (Slurm's QOS
factor, *Multifactor Priority Plugin*).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.workload.job_columns import FACTOR_PPB, PPB, QOS, TIER
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from emulator.cluster.partitions import Partition
    from emulator.config.scenario_parts import QosJobsPart
    from emulator.schedulers.slurm.qos import Qos
    from emulator.workload.table import JobTable

_MINUTE_US = 60_000_000


def places(
    jobs: JobTable,
    table: Sequence[Qos],
    who: Mapping[str, QosJobsPart],
    default: str,
    partitions: Sequence[Partition] = (),
) -> NDArray[np.int64]:
    """The place in the table of each job's QOS. Raises ValueError for a name that is not there, or twice.

    Who names a job's number goes before who names its queue; then come its partition, its user, its group.
    """
    index = {each.name: place for place, each in enumerate(table)}
    for name in (*who, default):
        if name not in index:
            raise ValueError(f"qos: the table has no {name!r}; there are: {', '.join(index)}")
    queues_of = {each.name: each.queues for each in partitions}
    found = np.full(len(jobs), index[default], np.int64)
    for key, column in (
        ("groups", jobs.group),
        ("users", jobs.user),
        ("partitions", jobs.queue),
        ("queues", jobs.queue),
        ("jobs", jobs.number),
    ):
        owner: dict[int | str, str] = {}
        for name, part in sorted(who.items()):
            said = getattr(part, key)
            for each in said:
                if owner.setdefault(each, name) != name:
                    raise ValueError(f"qos: {owner[each]} and {name} both have {key[:-1]} {each}")
                if key == "partitions" and each not in queues_of:
                    there = ", ".join(queues_of) or "none"
                    raise ValueError(f"qos: {name}: there is no partition {each!r}; there are: {there}")
            numbers = _queues(jobs, said, partitions) if key == "partitions" else list(said)
            found[np.isin(column, numbers)] = index[name]
    return found


def _queues(jobs: JobTable, names: Sequence[str], partitions: Sequence[Partition]) -> list[int]:
    """The queues that are in these partitions; the default one has all that no other has."""
    taken = {queue for each in partitions for queue in each.queues}
    others = [queue for queue in np.unique(jobs.queue).tolist() if queue not in taken]
    return [
        queue
        for each in partitions
        if each.name in names
        for queue in (*each.queues, *(others if each.default else ()))
    ]


def refusals(
    jobs: JobTable, place: NDArray[np.int64], table: Sequence[Qos]
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """(why, the batch jobs) that their QOS does not take; no job comes twice."""
    for which, each in enumerate(table):
        left = (place == which) & (jobs.kind == Kind.BATCH)
        for why, wrong in (
            (f"wider than QOS {each.name} takes", (jobs.nodes > each.max_nodes) & (each.max_nodes >= 0)),
            (f"narrower than QOS {each.name} takes", jobs.nodes < each.min_nodes),
            (
                f"longer than QOS {each.name} takes",
                (jobs.estimate_us > each.max_wall * _MINUTE_US) & (each.max_wall >= 0),
            ),
        ):
            if (left & wrong).any():
                yield why, left & wrong
            left = left & ~wrong


def with_qos(jobs: JobTable, place: NDArray[np.int64], table: Sequence[Qos]) -> JobTable:
    """The jobs with the columns of their QOS."""
    jobs = jobs.with_extra(**{QOS: place})
    priorities = [each.priority for each in table]
    ranks = {value: rank for rank, value in enumerate(sorted(set(priorities), reverse=True))}
    if len(ranks) == 1:
        return jobs
    tiers = np.array([ranks[value] for value in priorities], np.int64)
    factors = np.array([value * PPB // max(priorities) for value in priorities], np.int64)
    return jobs.with_extra(**{TIER: tiers[place], FACTOR_PPB: factors[place]})
