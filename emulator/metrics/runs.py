"""Node-time of runs: how wide and how long each one was, and what share of the machine that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from emulator.harness.record import RunOutcome
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.harness.record import RunRecord


@dataclass(frozen=True, slots=True)
class NodeTime:
    """Node-time that runs used, in integer node-microseconds, and the makespan they are compared with."""

    batch_node_us: int
    ondemand_node_us: int
    lost_node_us: int
    overhead_node_us: int
    nodes: int
    makespan_us: int

    @property
    def utilization(self) -> float | None:
        """UTIL: node-time used by jobs / (nodes * makespan), 0 to 1 (Hungershoefer 2004, section 4).

        "Combined utilization" of Liu 2018, Table I: the sum of the batch and the on-demand share.
        """
        return self._share(self.batch_node_us + self.ondemand_node_us)

    @property
    def batch_utilization(self) -> float | None:
        """The part of `utilization` that comes from batch jobs (Liu 2018, Table I)."""
        return self._share(self.batch_node_us)

    @property
    def ondemand_utilization(self) -> float | None:
        """The part of `utilization` that comes from on-demand leases (Liu 2018, Table I)."""
        return self._share(self.ondemand_node_us)

    def _share(self, node_us: int) -> float | None:
        whole = self.nodes * self.makespan_us
        return node_us / whole if whole else None


def widths(record: RunRecord) -> NDArray[np.int64]:
    """Nodes of each run: those recorded, or what the job asked for where identities were not recorded."""
    recorded = np.diff(record.runs.first)
    return np.where(recorded > 0, recorded, record.jobs.nodes[record.runs.job].astype(np.int64))


def ends_us(record: RunRecord) -> NDArray[np.int64]:
    """End of each run; a run that still goes on counts up to the horizon."""
    return np.where(record.runs.end_us < 0, record.horizon_us, record.runs.end_us)


def node_time(record: RunRecord) -> NodeTime:
    """Node-time of all runs: each run of a requeued job counts, the lost ones too, for they held the nodes.

    makespan = last end - first submit over the jobs that were run, leases included (Hungershoefer 2004, MS).
    """
    runs = record.runs
    end = ends_us(record)
    used = widths(record) * (end - runs.start_us)
    is_batch = record.jobs.kind[runs.job] == Kind.BATCH
    makespan_us = int(end.max() - record.jobs.submit_us[runs.job].min()) if len(runs.job) else 0
    return NodeTime(
        batch_node_us=int(used[is_batch].sum()),
        ondemand_node_us=int(used[~is_batch].sum()),
        lost_node_us=int(
            runs.lost_node_us.sum() if runs.has_work else used[runs.outcome == RunOutcome.REQUEUED].sum()
        ),
        overhead_node_us=int(used.sum() - runs.done_node_us.sum()) if runs.has_work else 0,
        nodes=len(record.node_names),
        makespan_us=makespan_us,
    )


def last_run_of_job(record: RunRecord) -> NDArray[np.int64]:
    """Row in the run table of each job's last run, -1 where it had none."""
    last = np.full(len(record.jobs), -1, np.int64)
    # Runs are in order of start, and of several values NumPy keeps the last.
    last[record.runs.job] = np.arange(len(record.runs.job))
    return last
