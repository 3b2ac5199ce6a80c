"""Features of nodes under the plain schedulers: which nodes have them, and which jobs ask for them.

The words are those of Slurm (Feature in slurm.conf, `sbatch --constraint`), the rules those of `docs/placement.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import seconds
from emulator.config.node_names import named_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from emulator.cluster.placement import Group
    from emulator.config.scenario_parts import FeaturePart
    from emulator.record.run_record import RunRecord
    from emulator.workload.table import JobTable

TOO_FEW = "wider than the nodes that have what it asks for"
_MOST = 62
"""A job's features are the bits of a number."""


@dataclass(frozen=True, slots=True)
class Feature:
    """These nodes (indices) have it; the jobs of `queues` and `users`, and `jobs` (all by number), ask for it."""

    name: str
    nodes: frozenset[int]
    queues: frozenset[int] = frozenset()
    users: frozenset[int] = frozenset()
    jobs: frozenset[int] = frozenset()


def features_on(said: Mapping[str, FeaturePart], names: Sequence[str]) -> tuple[Feature, ...]:
    """The features of a machine with these nodes, in the order of their names. Raises ValueError."""
    if len(said) > _MOST:
        raise ValueError(f"features: there are {len(said)}, more than {_MOST}")
    return tuple(
        Feature(
            name,
            named_nodes(f"features: {name}", part.nodes, names),
            frozenset(part.queues),
            frozenset(part.users),
            frozenset(part.jobs),
        )
        for name, part in sorted(said.items())
    )


def asked_for(jobs: JobTable, feature: Feature) -> NDArray[np.bool_]:
    """Which jobs ask for a feature: by its lists, or by a column `needs_NAME` of the job table that is above 0."""
    return (
        np.isin(jobs.queue, list(feature.queues))
        | np.isin(jobs.user, list(feature.users))
        | np.isin(jobs.number, list(feature.jobs))
        | (jobs.column(f"needs_{feature.name}", 0) > 0)
    )


def split(jobs: JobTable, groups: Sequence[Group], features: Sequence[Feature]) -> tuple[Group, ...]:
    """The groups, and for those of their jobs that ask for something groups of their own in the same lines."""
    bits = np.zeros(len(jobs), np.int64)
    for bit, feature in enumerate(features):
        bits |= asked_for(jobs, feature).astype(np.int64) << bit
    found = [replace(group, jobs=group.jobs[bits[group.jobs] == 0]) for group in groups]
    for group in groups:
        for mask in np.unique(bits[group.jobs]).tolist():
            if mask:
                having = [each.nodes for bit, each in enumerate(features) if mask >> bit & 1]
                rows = group.jobs[bits[group.jobs] == mask]
                found.append(replace(group, jobs=rows, nodes=group.nodes.intersection(*having)))
    return tuple(found)


def too_wide(jobs: JobTable, groups: Sequence[Group]) -> NDArray[np.bool_]:
    """Which jobs want more nodes than they may ever have."""
    wrong = np.zeros(len(jobs), np.bool_)
    for group in groups:
        wrong[group.jobs] = jobs.nodes[group.jobs] > len(group.nodes)
    return wrong


def lacks(record: RunRecord, features: Sequence[Feature]) -> Iterator[str]:
    """A sentence for each run that has nodes without what its job asks for, by the record alone."""
    runs = record.runs
    run_of = np.repeat(np.arange(len(runs.job)), np.diff(runs.first))
    for each in features:
        asks = asked_for(record.jobs, each)
        without = run_of[~np.isin(runs.node, list(each.nodes))]
        for row in np.unique(without[asks[runs.job[without]]]):
            yield (
                f"job {record.jobs.number[runs.job[row]]} (from {seconds(int(runs.start_us[row])):g} s) asks for "
                f"{each.name} and has nodes without it"
            )
