"""The laws of nodes that are not for everybody at any time: whose they are, which go together, what jobs have of them.

A part of `laws.py`: each breach of a rule of `docs/placement.md` and `docs/shared-nodes.md` is a sentence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.cluster.features import Feature, features_on, lacks, split
from emulator.cluster.interconnect import scattered
from emulator.cluster.partitions import Partition, groups_of, partitions_on, strays
from emulator.cluster.placement import everybody
from emulator.cluster.reservations import breaches, reserved_on
from emulator.cluster.shared_nodes import SharedRecord, overbooked
from emulator.config.scenario_parts import FeaturePart, PartitionPart, ReservationPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.validation.node_use import NodeUse


def reserved_nodes_are_kept(facts: NodeUse) -> Iterator[str]:
    """A node of an advance reservation runs its jobs only, in its time (docs/placement.md)."""
    said: Any = facts.record.scenario.get("reservations")
    if not said:
        return
    parts = {name: ReservationPart.model_validate(part) for name, part in said.items()}
    record, partitions = facts.record, _partitions(facts)
    groups = (
        groups_of(record.jobs, partitions)
        if partitions
        else (everybody(len(record.jobs), len(record.node_names)),)
    )
    groups = split(record.jobs, groups, _features(facts))
    yield from breaches(facts.record, reserved_on(parts, facts.record.node_names), groups)


def jobs_stay_in_their_partition(facts: NodeUse) -> Iterator[str]:
    """A job has nodes of its partition only (docs/placement.md)."""
    if partitions := _partitions(facts):
        yield from strays(facts.record, partitions)


def jobs_have_what_they_ask_for(facts: NodeUse) -> Iterator[str]:
    """A job has nodes with the features that it asks for (docs/placement.md)."""
    yield from lacks(facts.record, _features(facts))


def no_shared_node_is_overbooked(facts: NodeUse) -> Iterator[str]:
    """Jobs have the parts of nodes that they ask for, and no node more than it has (docs/shared-nodes.md)."""
    if (seen := SharedRecord.of(facts.record)) is not None:
        yield from overbooked(facts.record, seen)


def jobs_wait_for_nodes_that_go_together(facts: NodeUse) -> Iterator[str]:
    """Where a place is required, a job has it (docs/placement.md)."""
    yield from scattered(facts.record)


def _features(facts: NodeUse) -> tuple[Feature, ...]:
    said: Any = facts.record.scenario.get("features", {})
    parts = {name: FeaturePart.model_validate(part) for name, part in said.items()}
    if not parts or (seen := SharedRecord.of(facts.record)) is None:
        return features_on(parts, facts.record.node_names)
    cores = np.arange(len(seen.node_of_core))  # which are what a record calls nodes
    return tuple(
        replace(each, nodes=frozenset(cores[np.isin(seen.node_of_core, list(each.nodes))].tolist()))
        for each in features_on(parts, seen.names)
    )


def _partitions(facts: NodeUse) -> tuple[Partition, ...]:
    said: Any = facts.record.scenario.get("partitions", {})
    parts = {name: PartitionPart.model_validate(part) for name, part in said.items()}
    return partitions_on(parts, facts.record.node_names)


NODE_LAWS = (
    reserved_nodes_are_kept,
    jobs_stay_in_their_partition,
    jobs_have_what_they_ask_for,
    no_shared_node_is_overbooked,
    jobs_wait_for_nodes_that_go_together,
)
