"""What nodes that jobs share have, and what each job wants of each of its nodes (`docs/shared-nodes.md`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from balancer.clock import seconds
from emulator.cluster.features import TOO_FEW, asked_for
from emulator.cluster.node_kinds import NodeKind, kinds_of
from emulator.config.scenario_parts import SharedNodesPart
from emulator.kernel.rows import new_rows, plain
from emulator.kernel.shared_pass import Left

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from emulator.cluster.features import Feature
    from emulator.kernel.rows import Rows
    from emulator.record.run_record import RunRecord
    from emulator.workload.table import JobTable

TOO_MUCH = "wants more of a node than it has"
_MOST_TOLD = 10


@dataclass(frozen=True, slots=True)
class CoreRequests:
    """What jobs want of `nodes` nodes. `wants[j]`: cores, memory (KiB), GPUs of each of the nodes of job j.

    `allowed[s, n]`: whether jobs of set s may have node n, `of_set[j]`: the set of job j; None: all may have all.
    `holds[j]`: how many empty nodes could hold a part of job j.
    """

    wants: Rows[Left]
    holds: NDArray[np.int64]
    of_set: NDArray[np.int64]
    allowed: NDArray[np.bool_] | None

    def left_out(self, jobs: JobTable) -> dict[str, NDArray[np.bool_]]:
        """By reason, the jobs that could never start; no job comes twice."""
        too_much = (self.holds == 0) | (self.wants["cores"] < 1)
        return {TOO_MUCH: too_much, TOO_FEW: ~too_much & (self.holds < jobs.nodes)}


@dataclass(frozen=True, slots=True)
class SharedNodes:
    """Each node has `cores`, `memory_kib` and `gpus`, or what its kind has; None: nobody looks at it.

    With `kinds` the three say what is looked at, and what the smallest kind has. `best_fit`: a job has the nodes with
    the fewest free cores, else those with the lowest numbers. Jobs of `exclusive_queues`, `exclusive_users` and
    `exclusive_jobs` have whole nodes. `features`: which nodes have them, which jobs ask for them.
    """

    cores: int
    memory_kib: int | None = None
    gpus: int | None = None
    best_fit: bool = False
    exclusive_queues: tuple[int, ...] = ()
    exclusive_users: tuple[int, ...] = ()
    exclusive_jobs: tuple[int, ...] = ()
    kinds: tuple[NodeKind, ...] = ()
    features: tuple[Feature, ...] = field(default=())

    @classmethod
    def of(cls, part: SharedNodesPart, names: Sequence[str] = (), features: tuple[Feature, ...] = ()) -> Self:
        """As a scenario says it; `names`: of the nodes, for their kinds. Raises ValueError."""
        kinds = kinds_of(part, names)
        first = kinds[0]
        return cls(
            cores=first.cores,
            memory_kib=first.memory_kib,
            gpus=first.gpus,
            best_fit=part.placement == "best_fit",
            exclusive_queues=part.exclusive.queues,
            exclusive_users=part.exclusive.users,
            exclusive_jobs=part.exclusive.jobs,
            kinds=kinds if part.kinds else (),
            features=features,
        )

    def all_kinds(self, nodes: int) -> tuple[NodeKind, ...]:
        """The kinds of so many nodes, the smallest first."""
        if self.kinds:
            return self.kinds
        return (NodeKind("all", frozenset(range(nodes)), self.cores, self.memory_kib, self.gpus),)

    def rooms(self, nodes: int) -> Rows[Left]:
        """What each node has left while it is empty, 0 of what nobody looks at."""
        found = new_rows(Left, nodes)
        for kind in self.all_kinds(nodes):
            found[np.array(list(kind.nodes))] = kind.room
        return found

    def node_of_core(self, nodes: int) -> NDArray[np.int32]:
        """The node of each core."""
        return np.repeat(np.arange(nodes, dtype=np.int32), self.rooms(nodes)["cores"])

    def requests_of(self, jobs: JobTable, nodes: int) -> CoreRequests:
        """What jobs want: extra columns `cores`, `memory_kib` and `gpus`, of what nobody looks at 0.

        Without `cores`, with `exclusive` above 0, and of those that are exclusive here: all that a node has, of the
        smallest kind that has enough nodes for the job.
        """
        kinds = self.all_kinds(nodes)
        wants = new_rows(Left, len(jobs))
        wants["cores"][:] = jobs.column("cores", min(kind.cores for kind in kinds))
        if self.memory_kib is not None:
            wants["memory_kib"][:] = jobs.column("memory_kib", 0)
        if self.gpus is not None:
            wants["gpus"][:] = jobs.column("gpus", 0)
        mask = np.zeros(len(jobs), np.int64)
        for bit, feature in enumerate(self.features):
            mask |= asked_for(jobs, feature).astype(np.int64) << bit
        masks = np.unique(mask)
        has_all = np.array([self._has_all(each, nodes) for each in masks.tolist()]).reshape(-1, nodes)
        of_mask = np.searchsorted(masks, mask)
        # How many nodes of each kind could hold a part of the job.
        holds = np.zeros((len(jobs), len(kinds)), np.int64)
        for which, kind in enumerate(kinds):
            fits = (plain(wants) <= kind.room).all(axis=1)
            holds[:, which] = np.where(fits, has_all[:, list(kind.nodes)].sum(axis=1)[of_mask], 0)
        whole = np.flatnonzero(self._is_whole(jobs))
        enough = holds[whole] >= jobs.nodes[whole, None]
        chosen = np.where(enough.any(axis=1), enough.argmax(axis=1), holds[whole].argmax(axis=1))
        for which, kind in enumerate(kinds):
            rows = whole[chosen == which]
            wants[rows[holds[rows, which] > 0]] = kind.room
        total = holds.sum(axis=1)
        total[whole] = holds[whole, chosen]
        of_set, allowed = self._sets(of_mask, has_all, whole, chosen, kinds)
        return CoreRequests(wants, total, of_set, None if allowed.all() else allowed)

    def _has_all(self, mask: int, nodes: int) -> NDArray[np.bool_]:
        """The nodes that have all of these features."""
        found = np.ones(nodes, np.bool_)
        for bit, feature in enumerate(self.features):
            if mask >> bit & 1:
                found &= np.isin(np.arange(nodes), list(feature.nodes))
        return found

    @staticmethod
    def _sets(
        of_mask: NDArray[np.intp],
        has_all: NDArray[np.bool_],
        whole: NDArray[np.intp],
        chosen: NDArray[np.intp],
        kinds: Sequence[NodeKind],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The set of each job, and the nodes of each set: those with its features, of whole-node jobs of one kind."""
        of_kind = np.full(len(of_mask), len(kinds))
        if len(kinds) > 1:
            of_kind[whole] = chosen
        codes, of_set = np.unique(of_mask * (len(kinds) + 1) + of_kind, return_inverse=True)
        allowed = np.ones((max(len(codes), 1), has_all.shape[1]), np.bool_)
        for place, code in enumerate(codes.tolist()):
            mask, kind = divmod(code, len(kinds) + 1)
            allowed[place] = has_all[mask]
            if kind < len(kinds):
                allowed[place] &= np.isin(np.arange(has_all.shape[1]), list(kinds[kind].nodes))
        return of_set.astype(np.int64), allowed

    def _is_whole(self, jobs: JobTable) -> NDArray[np.bool_]:
        return np.asarray(
            (jobs.column("cores") < 0)
            | (jobs.column("exclusive") > 0)
            | np.isin(jobs.queue, self.exclusive_queues)
            | np.isin(jobs.user, self.exclusive_users)
            | np.isin(jobs.number, self.exclusive_jobs)
        )

    def in_cores(self, jobs: JobTable, wants: Rows[Left]) -> JobTable:
        """The jobs as the machine and records know them: `nodes` are cores, their nodes are `whole_nodes`."""
        more: dict[str, NDArray[Any]] = {"cores": wants["cores"], "whole_nodes": jobs.nodes}
        if self.memory_kib is not None:
            more["memory_kib"] = wants["memory_kib"]
        if self.gpus is not None:
            more["gpus"] = wants["gpus"]
        cores = (jobs.nodes * wants["cores"]).astype(np.int32)
        return replace(jobs.with_extra(**more), nodes=cores)


@dataclass(frozen=True, slots=True)
class NodeParts:
    """Which parts of which nodes the runs of a record had: one entry for each run and node of it."""

    run: NDArray[np.int64]
    node: NDArray[np.int64]
    cores: NDArray[np.int64]

    @classmethod
    def of(cls, record: RunRecord, node_of_core: NDArray[np.int32]) -> Self:
        runs = record.runs
        run = np.repeat(np.arange(len(runs.job)), np.diff(runs.first))
        nodes = int(node_of_core[-1]) + 1
        place, cores = np.unique(run * nodes + node_of_core[runs.node], return_counts=True)
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


@dataclass(frozen=True, slots=True)
class SharedRecord:
    """What the scenario of a record says of nodes that are shared, and which core is whose."""

    shared: SharedNodes
    names: tuple[str, ...]
    """Of the nodes."""
    rooms: Rows[Left]
    node_of_core: NDArray[np.int32]

    @classmethod
    def of(cls, record: RunRecord) -> Self | None:
        """None if jobs do not share nodes."""
        part = part_of(record)
        if part is None:
            return None
        if not part.kinds:  # what nodes have may be more, or less, than their names say
            assert part.cores is not None  # noqa: S101 - the scenario was checked
            count = -(-len(record.node_names) // part.cores)
            names = tuple(each.partition("/")[0] for each in record.node_names[:: part.cores])
        else:
            names = tuple(dict.fromkeys(each.partition("/")[0] for each in record.node_names))
            count = len(names)
        shared = SharedNodes.of(part, names)
        return cls(shared, names, shared.rooms(count), shared.node_of_core(count))


def overbooked(record: RunRecord, seen: SharedRecord) -> Iterator[str]:
    """What of a record is not as nodes that are shared can have it, as sentences."""
    jobs, runs = record.jobs, record.runs
    parts = NodeParts.of(record, seen.node_of_core)
    job = runs.job[parts.run]
    wrong = np.unique(job[parts.cores != jobs.column("cores")[job]])
    count = np.bincount(runs.job[np.unique(parts.run)], minlength=len(jobs))
    given = np.bincount(job, minlength=len(jobs))
    spread = np.flatnonzero(given != count * jobs.column("whole_nodes"))
    for what, rows in (("cores of each of its nodes", wrong), ("nodes", spread)):
        for row in rows[:_MOST_TOLD]:
            yield f"job {jobs.number[row]} has not as many {what} as it asked for"
    for name, unit, is_seen in (
        ("memory_kib", "KiB of memory", seen.shared.memory_kib is not None),
        ("gpus", "GPUs", seen.shared.gpus is not None),
    ):
        if not is_seen:
            continue
        node, at_us, in_use = parts.in_use(record, jobs.column(name)[job])
        most = seen.rooms[name][node]
        for place in np.flatnonzero(in_use > most)[:_MOST_TOLD]:
            yield (
                f"{in_use[place]} {unit} of node {seen.names[node[place]]} are in use at "
                f"{seconds(int(at_us[place])):.15g} s, it has {most[place]}"
            )


def part_of(record: RunRecord) -> SharedNodesPart | None:
    """What the record's scenario says of nodes that are shared."""
    said: Any = record.scenario.get("shared_nodes")
    return None if not said else SharedNodesPart.model_validate(said)
