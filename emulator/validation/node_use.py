"""Who had each node when: runs and pools laid side by side on every node, and the exact node-time account.

Only the record is read. Everything is vectorised but the stints outside of
the batch pool, of which there are few.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import NEVER_US
from emulator.kernel.job_states import RunOutcome
from emulator.record.run_record import NodePool
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

_BATCH_POOLS = (NodePool.OA_IDLE, NodePool.OA_BUSY)


@dataclass(frozen=True, slots=True)
class NodeTime:
    """Whose the nodes were, in node-microseconds between begin and horizon; the five are all (I17)."""

    idle_us: int
    batch_us: int
    on_demand_us: int
    reserve_us: int
    down_us: int

    @property
    def total_us(self) -> int:
        return self.idle_us + self.batch_us + self.on_demand_us + self.reserve_us + self.down_us


@dataclass(frozen=True, slots=True)
class Stays:
    """Every run on every node, sorted by (node, start): one row a node and run. Open runs end at NEVER_US.

    The rows of node n are `first[n]:first[n + 1]`.
    """

    node: NDArray[Any]
    run: NDArray[Any]
    start_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    first: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Stint:
    """A node's time in one pool that is not the batch pool, cut to the accounted time."""

    node: int
    start_us: int
    end_us: int
    pool: NodePool


@dataclass(frozen=True, slots=True)
class Overlap:
    """A run and a stint on the same node at the same time."""

    stint: Stint
    run: int
    for_us: int


class NodeUse:
    """What each node of a record did, computed when first asked for."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record

    @property
    def nodes(self) -> int:
        return len(self.record.node_names)

    @property
    def has_node_identities(self) -> bool:
        return len(self.record.runs.node) > 0

    @cached_property
    def run_end_us(self) -> NDArray[np.int64]:
        """Ends of all runs; those that still run end at NEVER_US."""
        return np.where(self.record.runs.outcome == RunOutcome.RUNNING, NEVER_US, self.record.runs.end_us)

    @cached_property
    def stays(self) -> Stays:
        runs = self.record.runs
        # 16-bit keys are sorted by counting, several times faster; few machines have more nodes than that.
        key = runs.node.astype(np.uint16) if self.nodes <= 1 << 16 else runs.node
        # Runs are in order of start, so a stable sort by node is a sort by (node, start).
        order = np.argsort(key, kind="stable")
        node = runs.node[order]
        run = np.repeat(np.arange(len(runs.job), dtype=np.int32), np.diff(runs.first))[order]
        first = np.searchsorted(node, np.arange(self.nodes + 1))
        return Stays(node, run, runs.start_us[run], self.run_end_us[run], first)

    @cached_property
    def stints(self) -> list[Stint]:
        record = self.record
        since: dict[int, tuple[int, NodePool]] = {}
        stints: list[Stint] = []

        def leave(node: int, at_us: int) -> None:
            if node in since:
                start_us, pool = since.pop(node)
                start_us, end_us = max(start_us, record.begin_us), min(at_us, record.horizon_us)
                if start_us < end_us:
                    stints.append(Stint(node, start_us, end_us, pool))

        for move in record.moves:
            for node in move.nodes:
                if node not in since or since[node][1] != move.pool:
                    leave(node, move.at_us)
                    if move.pool not in _BATCH_POOLS:
                        since[node] = (move.at_us, move.pool)
        for node in list(since):
            leave(node, record.horizon_us)
        return stints

    @cached_property
    def overlaps(self) -> list[Overlap]:
        """Runs during stints on their nodes, and runs without duration strictly inside one."""
        stays = self.stays
        found: list[Overlap] = []
        for stint in self.stints:
            rows = slice(int(stays.first[stint.node]), int(stays.first[stint.node + 1]))
            begins, ends = stays.start_us[rows], stays.end_us[rows]
            # Where no node is booked twice the ends are sorted too; where one is, another law says so.
            low = int(np.searchsorted(ends, stint.start_us, "right"))
            high = int(np.searchsorted(begins, stint.end_us, "left"))
            for row in range(low, high):
                shared_us = min(int(ends[row]), stint.end_us) - max(int(begins[row]), stint.start_us)
                found.append(Overlap(stint, int(stays.run[rows][row]), max(shared_us, 0)))
        return found

    def clip(self, times_us: NDArray[np.int64]) -> NDArray[np.int64]:
        """Times moved into the accounted time."""
        return np.clip(times_us, self.record.begin_us, self.record.horizon_us)

    def is_lease(self, runs: NDArray[Any] | int) -> Any:
        return self.record.jobs.kind[self.record.runs.job[runs]] == Kind.ON_DEMAND

    def node_time(self) -> NodeTime:
        """The node-time account, exact. On a node that is DOWN a job that still runs there does not count.

        Idle time is added up from the gaps between runs, not taken as what is left over.
        """
        in_pool = Counter[NodePool]()
        for stint in self.stints:
            in_pool[stint.pool] += stint.end_us - stint.start_us
        out_of_batch_us = sum(in_pool.values())
        runs = self.record.runs
        lasted_us = self.clip(self.run_end_us) - self.clip(runs.start_us)
        lease = self.is_lease(np.arange(len(runs.job)))
        if self.has_node_identities or not len(runs.job):
            area_us = lasted_us * np.diff(runs.first)
            lease_us, batch_us = _exact_sum(area_us[lease]), _exact_sum(area_us[~lease])
            hidden = Counter[bool]()
            for overlap in self.overlaps:
                hidden[bool(self.is_lease(overlap.run))] += overlap.for_us
            idle_us = self._gaps_us() - (out_of_batch_us - hidden.total())
            batch_us -= hidden[False]
            lease_us -= hidden[True]
        else:
            # Which nodes ran what is not known: leases are on OD_ALLOC nodes if there are any.
            area_us = lasted_us * self.record.jobs.nodes[runs.job]
            batch_us = _exact_sum(area_us[~lease])
            lease_us = 0 if in_pool[NodePool.OD_ALLOC] else _exact_sum(area_us[lease])
            idle_us = self.total_us - out_of_batch_us - batch_us - lease_us
        return NodeTime(
            idle_us=idle_us,
            batch_us=batch_us,
            on_demand_us=in_pool[NodePool.OD_ALLOC] + lease_us,
            reserve_us=in_pool[NodePool.OD_RESERVE],
            down_us=in_pool[NodePool.DOWN],
        )

    @property
    def total_us(self) -> int:
        return self.nodes * (self.record.horizon_us - self.record.begin_us)

    def _gaps_us(self) -> int:
        """The time in which nodes ran nothing."""
        stays, record = self.stays, self.record
        starts_us, ends_us = self.clip(stays.start_us), self.clip(stays.end_us)
        same = stays.node[1:] == stays.node[:-1]
        between_us = np.maximum(starts_us[1:] - ends_us[:-1], 0)[same]
        used = np.diff(stays.first) > 0
        before_us = starts_us[stays.first[:-1][used]] - record.begin_us
        after_us = record.horizon_us - ends_us[stays.first[1:][used] - 1]
        unused_us = int((~used).sum()) * (record.horizon_us - record.begin_us)
        return _exact_sum(between_us) + _exact_sum(before_us) + _exact_sum(after_us) + unused_us


def _exact_sum(values: NDArray[np.int64]) -> int:
    """A sum that cannot overflow: a machine's node-microseconds of many years do not fit into 64 bits."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFF_FFFF).sum())
