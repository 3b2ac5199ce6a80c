"""Several machines side by side, each with its own jobs, queue and scheduler, as one `Machine`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from emulator.cluster.cluster import Stop
from emulator.kernel.job_states import JobState
from emulator.kernel.lists import gather
from emulator.mechanisms.oversubscribe.machine import in_slots, slot_names
from emulator.record.run_record import RunTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from emulator.mechanisms.oversubscribe.machine import Demands, OversubscribedMachine
    from emulator.workload.table import JobTable


@dataclass(frozen=True, slots=True)
class Part:
    """A machine with the jobs that are `rows` of the whole table."""

    cluster: OversubscribedMachine
    rows: NDArray[np.intp]


class PartedCluster:
    """Parts that share nothing but the time. `jobs`: those of all parts, and those that no part takes.

    As in a part, slots are what nodes are elsewhere; those of the first part come first.
    """

    def __init__(self, jobs: JobTable, demands: Demands, parts: Sequence[Part]) -> None:
        self._jobs = in_slots(jobs, demands)
        self._parts = parts
        self.node_count = sum(part.cluster.node_count for part in parts)
        nodes = sum(part.cluster.nodes for part in parts)
        self._shape = parts[0].cluster.shape
        self.node_names = slot_names(nodes, self._shape)

    @property
    def slots_per_node(self) -> int:
        return self._shape.slot_count

    @property
    def core_count(self) -> int:
        return sum(part.cluster.core_count for part in self._parts)

    def core_of(self, slot: int) -> int:
        return self._shape.core_of(slot)

    @property
    def now_us(self) -> int:
        return max(part.cluster.now_us for part in self._parts)

    @property
    def ended_count(self) -> int:
        return sum(part.cluster.ended_count for part in self._parts)

    @property
    def next_event_us(self) -> int:
        return min(part.cluster.next_event_us for part in self._parts)

    @property
    def state(self) -> NDArray[np.int64]:
        return self._gather([part.cluster.state for part in self._parts], JobState.REJECTED)

    @property
    def start_us(self) -> NDArray[np.int64]:
        return self._gather([part.cluster.start_us for part in self._parts], -1)

    @property
    def end_us(self) -> NDArray[np.int64]:
        return self._gather([part.cluster.end_us for part in self._parts], self._jobs.submit_us)

    def _gather(
        self, columns: list[NDArray[np.int64]], refused: NDArray[np.int64] | int
    ) -> NDArray[np.int64]:
        """A column of the whole table, `refused` where no part took the job."""
        whole = np.broadcast_to(np.asarray(refused, np.int64), len(self._jobs)).copy()
        for part, column in zip(self._parts, columns, strict=True):
            whole[part.rows] = column
        return whole

    def advance(
        self, until_us: int, *, stop_on_end: bool = False, stop_on_pass: bool = False, pause_after: int = -1
    ) -> Stop:
        """As `Cluster.advance`; parts go on one after the other, so nobody can ask it to stop at an end or a pass."""
        if stop_on_end or stop_on_pass:
            raise ValueError("parts of a machine do not stop at ends or passes")
        clusters = [part.cluster for part in self._parts]
        leader = min(clusters, key=lambda cluster: cluster.next_event_us)
        stop = leader.advance(until_us, pause_after=pause_after)
        for cluster in clusters:
            if cluster is not leader:
                if stop == Stop.PAUSED:
                    cluster.catch_up(leader.now_us)
                else:
                    cluster.advance(until_us)
        return stop

    def finish_instant(self, now_us: int) -> None:
        for part in self._parts:
            part.cluster.finish_instant(now_us)

    def job_table(self) -> JobTable:
        return self._jobs

    def run_table(self) -> RunTable:
        """The runs of all parts in order of start (those of the first part first)."""
        tables = [part.cluster.run_table() for part in self._parts]
        start_us = np.concatenate([table.start_us for table in tables])
        order = np.argsort(start_us, kind="stable")
        widths = np.concatenate([np.diff(table.first) for table in tables])
        counts = [part.cluster.node_count for part in self._parts]
        before = np.cumsum([0, *counts])
        nodes = np.concatenate(
            [table.node + np.int32(first) for table, first in zip(tables, before[:-1], strict=True)]
        )
        begins = np.concatenate(([0], np.cumsum(widths)))[:-1]
        first = np.concatenate(([0], np.cumsum(widths[order])))
        node = np.empty(first[-1], np.int32)
        gather(nodes, begins[order], widths[order], node)
        job = np.concatenate([part.rows[table.job] for table, part in zip(tables, self._parts, strict=True)])
        return RunTable(
            job=job[order].astype(np.int32),
            start_us=start_us[order],
            end_us=np.concatenate([table.end_us for table in tables])[order],
            outcome=np.concatenate([table.outcome for table in tables])[order],
            first=first,
            node=node,
            done_node_us=np.concatenate([table.done_node_us for table in tables])[order],
            lost_node_us=np.zeros(len(order), np.int64),
        )
