"""Partitions under the plain schedulers: which jobs may have which nodes, how large they may be, and who comes first.

The words are those of slurm.conf (Nodes, PriorityTier, MaxNodes, MinNodes, MaxTime), the rules those of
`docs/placement.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import micros, seconds
from emulator.cluster.placement import Group
from emulator.config.node_names import named_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from emulator.config.scenario_parts import PartitionPart
    from emulator.record.run_record import RunRecord
    from emulator.workload.table import JobTable


@dataclass(frozen=True, slots=True)
class Partition:
    """The jobs of `queues` (numbers), and with `default` those of all others, may have these nodes (indices)."""

    name: str
    nodes: frozenset[int]
    queues: frozenset[int] = frozenset()
    default: bool = False
    priority_tier: int = 1
    min_nodes: int = 1
    max_nodes: int | None = None
    max_time_us: int | None = None


def partitions_on(said: Mapping[str, PartitionPart], names: Sequence[str]) -> tuple[Partition, ...]:
    """The partitions of a machine with these nodes, in the order of their names. Raises ValueError."""
    found: list[Partition] = []
    for name, part in sorted(said.items()):
        nodes = named_nodes(f"partitions: {name}", part.nodes, names)
        time_us = None if part.max_time_s is None else micros(part.max_time_s)
        found.append(
            Partition(
                name, nodes, frozenset(part.queues), part.default, part.priority_tier, part.min_nodes,
                part.max_nodes, time_us,
            )
        )  # fmt: skip
    owner: dict[int, str] = {}
    for each in found:
        for queue in sorted(each.queues):
            if queue in owner:
                raise ValueError(f"partitions: {owner[queue]} and {each.name} both have queue {queue}")
            owner[queue] = each.name
    defaults = [each.name for each in found if each.default]
    if len(defaults) > 1:
        raise ValueError(f"partitions: {defaults[0]} and {defaults[1]} are both the default")
    return tuple(found)


def partition_of(jobs: JobTable, partitions: Sequence[Partition]) -> NDArray[np.int64]:
    """The place of each job's partition. Raises ValueError for a queue that none has."""
    place = np.full(len(jobs), -1, np.int64)
    for which, each in enumerate(partitions):
        if each.default:
            place[:] = which
    for which, each in enumerate(partitions):
        place[np.isin(jobs.queue, list(each.queues))] = which
    for row in np.flatnonzero(place < 0)[:1]:
        queue, count = int(jobs.queue[row]), int((place < 0).sum())
        whose = f"queue {queue}" if queue >= 0 else "no queue"
        raise ValueError(
            f"partitions: job {jobs.number[row]} is of {whose}, which is in none ({count} such jobs); "
            "give one of them `default: true`"
        )
    return place


def refusals(jobs: JobTable, partitions: Sequence[Partition]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """(why, the jobs) that their partition does not take; no job comes twice. Raises ValueError."""
    place = partition_of(jobs, partitions)
    for which, each in enumerate(partitions):
        left = place == which
        widest = min(each.max_nodes or len(each.nodes), len(each.nodes))
        for why, wrong in (
            (f"wider than partition {each.name} takes", jobs.nodes > widest),
            (f"narrower than partition {each.name} takes", jobs.nodes < each.min_nodes),
            (
                f"longer than partition {each.name} takes",
                jobs.estimate_us > (each.max_time_us or np.iinfo(np.int64).max),
            ),
        ):
            if (left & wrong).any():
                yield why, left & wrong
            left = left & ~wrong


def groups_of(jobs: JobTable, partitions: Sequence[Partition]) -> tuple[Group, ...]:
    """The jobs of each partition, as the scheduling pass wants to know them."""
    place = partition_of(jobs, partitions)
    return tuple(
        Group(np.flatnonzero(place == which), each.nodes, each.priority_tier, which)
        for which, each in enumerate(partitions)
    )


def strays(record: RunRecord, partitions: Sequence[Partition]) -> Iterator[str]:
    """A sentence for each run that has nodes outside of its job's partition, by the record alone."""
    place = partition_of(record.jobs, partitions)
    runs = record.runs
    run_of = np.repeat(np.arange(len(runs.job)), np.diff(runs.first))
    for which, each in enumerate(partitions):
        outside = run_of[~np.isin(runs.node, list(each.nodes))]
        for row in np.unique(outside[place[runs.job[outside]] == which]):
            yield (
                f"job {record.jobs.number[runs.job[row]]} (from {seconds(int(runs.start_us[row])):g} s) has nodes "
                f"that are not in its partition {each.name}"
            )
