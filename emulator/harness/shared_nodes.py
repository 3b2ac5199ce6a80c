"""What nodes that jobs share have, and what each job wants of each of its nodes (`docs/shared-nodes.md`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from balancer.clock import seconds
from emulator.harness import shared_pass as p
from emulator.scenario_parts import SharedNodesPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from emulator.harness.record import RunRecord
    from emulator.workload.table import JobTable

TOO_MUCH = "wants more of a node than it has"
_KIB_PER_GIB = 1024**2
_MOST_TOLD = 10


@dataclass(frozen=True, slots=True)
class SharedNodes:
    """Each node has `cores`, `memory_kib` and `gpus`; None: nobody looks at it.

    `best_fit`: a job has the nodes with the fewest free cores, else those with the lowest numbers. Jobs of
    `exclusive_queues`, `exclusive_users` and `exclusive_jobs` have whole nodes.
    """

    cores: int
    memory_kib: int | None = None
    gpus: int | None = None
    best_fit: bool = False
    exclusive_queues: tuple[int, ...] = ()
    exclusive_users: tuple[int, ...] = ()
    exclusive_jobs: tuple[int, ...] = ()

    @classmethod
    def of(cls, part: SharedNodesPart) -> Self:
        """As a scenario says it."""
        return cls(
            cores=part.cores,
            memory_kib=None if part.memory_gib is None else int(part.memory_gib * _KIB_PER_GIB),
            gpus=part.gpus,
            best_fit=part.placement == "best_fit",
            exclusive_queues=part.exclusive.queues,
            exclusive_users=part.exclusive.users,
            exclusive_jobs=part.exclusive.jobs,
        )

    @property
    def room(self) -> tuple[int, int, int]:
        """What an empty node has left, 0 of what nobody looks at."""
        return self.cores, self.memory_kib or 0, self.gpus or 0

    def wants(self, jobs: JobTable) -> NDArray[np.int64]:
        """Cores, memory (KiB) and GPUs of each node of each job: extra columns `cores`, `memory_kib` and `gpus`.

        Of what nobody looks at: 0. Without `cores`, with `exclusive` above 0, and of those that are exclusive here: all
        that a node has.
        """
        found = np.zeros((len(jobs), p.LEFT_COLUMNS), np.int64)
        found[:, p.LEFT_CORES] = jobs.column("cores", self.cores)
        if self.memory_kib is not None:
            found[:, p.LEFT_MEMORY] = jobs.column("memory_kib", 0)
        if self.gpus is not None:
            found[:, p.LEFT_GPUS] = jobs.column("gpus", 0)
        fits = (found <= self.room).all(axis=1)
        found[self._is_whole(jobs) & fits] = self.room
        return found

    def _is_whole(self, jobs: JobTable) -> NDArray[np.bool_]:
        return np.asarray(
            (jobs.column("cores") < 0)
            | (jobs.column("exclusive") > 0)
            | np.isin(jobs.queue, self.exclusive_queues)
            | np.isin(jobs.user, self.exclusive_users)
            | np.isin(jobs.number, self.exclusive_jobs)
        )

    def too_much(self, jobs: JobTable) -> NDArray[np.bool_]:
        """The jobs that no node can hold a part of."""
        wants = self.wants(jobs)
        return np.asarray((wants > self.room).any(axis=1) | (wants[:, p.LEFT_CORES] < 1))

    def in_cores(self, jobs: JobTable) -> JobTable:
        """The jobs as the machine and records know them: `nodes` are cores, their nodes are `whole_nodes`."""
        wants = self.wants(jobs)
        more: dict[str, NDArray[Any]] = {"cores": wants[:, p.LEFT_CORES], "whole_nodes": jobs.nodes}
        if self.memory_kib is not None:
            more["memory_kib"] = wants[:, p.LEFT_MEMORY]
        if self.gpus is not None:
            more["gpus"] = wants[:, p.LEFT_GPUS]
        cores = (jobs.nodes * wants[:, p.LEFT_CORES]).astype(np.int32)
        return replace(jobs.with_extra(**more), nodes=cores)


@dataclass(frozen=True, slots=True)
class NodeParts:
    """Which parts of which nodes the runs of a record had: one entry for each run and node of it."""

    run: NDArray[np.int64]
    node: NDArray[np.int64]
    cores: NDArray[np.int64]

    @classmethod
    def of(cls, record: RunRecord, cores_per_node: int) -> Self:
        runs = record.runs
        run = np.repeat(np.arange(len(runs.job)), np.diff(runs.first))
        nodes = len(record.node_names) // cores_per_node
        place, cores = np.unique(run * nodes + runs.node // cores_per_node, return_counts=True)
        return cls(place // nodes, place % nodes, cores)

    def in_use(
        self, record: RunRecord, each: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """(node, time, how much is in use from then on), by node and time; `each`: of one entry."""
        runs = record.runs
        ends_us = np.where(runs.end_us < 0, record.horizon_us, runs.end_us)
        node = np.tile(self.node, 2)
        at_us = np.concatenate((runs.start_us[self.run], ends_us[self.run]))
        change = np.concatenate((each, -each))
        order = np.lexsort((change, at_us, node))  # at each time what ends comes first
        return node[order], at_us[order], np.cumsum(change[order])


def overbooked(record: RunRecord, part: SharedNodesPart) -> Iterator[str]:
    """What of a record is not as nodes that are shared can have it, as sentences."""
    shared = SharedNodes.of(part)
    jobs, runs = record.jobs, record.runs
    parts = NodeParts.of(record, shared.cores)
    job = runs.job[parts.run]
    wrong = np.unique(job[parts.cores != jobs.column("cores")[job]])
    count = np.bincount(runs.job[np.unique(parts.run)], minlength=len(jobs))
    given = np.bincount(job, minlength=len(jobs))
    spread = np.flatnonzero(given != count * jobs.column("whole_nodes"))
    for what, rows in (("cores of each of its nodes", wrong), ("nodes", spread)):
        for row in rows[:_MOST_TOLD]:
            yield f"job {jobs.number[row]} has not as many {what} as it asked for"
    for name, unit, most in (
        ("memory_kib", "KiB of memory", shared.memory_kib),
        ("gpus", "GPUs", shared.gpus),
    ):
        if most is None:
            continue
        node, at_us, in_use = parts.in_use(record, jobs.column(name)[job])
        for place in np.flatnonzero(in_use > most)[:_MOST_TOLD]:
            yield (
                f"{in_use[place]} {unit} of node {_name(record, int(node[place]), shared.cores)} are in use at "
                f"{seconds(int(at_us[place])):.15g} s, it has {most}"
            )


def _name(record: RunRecord, node: int, cores: int) -> str:
    return record.node_names[node * cores].partition("/")[0]


def part_of(record: RunRecord) -> SharedNodesPart | None:
    """What the record's scenario says of nodes that are shared."""
    said: Any = record.scenario.get("shared_nodes")
    return None if not said else SharedNodesPart.model_validate(said)
