"""Node-time of runs: how wide and how long each one was, and what share of the machine that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import NEVER_US
from emulator.kernel.columns import blocks
from emulator.kernel.job_states import RunOutcome
from emulator.plugins import named
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord


EVERY = slice(None)
AT_ONCE = 1 << 15
"""Runs that are looked at together: what is worked out on the way stays in the processor's own memory."""


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

        Where jobs share cores, of physical cores: a core with several jobs counts once.

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


def widths(record: RunRecord, rows: slice = EVERY) -> NDArray[np.int64]:
    """Nodes of each run: those recorded, or what the job asked for where identities were not recorded."""
    runs = record.runs
    recorded = runs.first[1:][rows] - runs.first[:-1][rows]
    return np.where(recorded > 0, recorded, record.jobs.nodes[runs.job[rows]].astype(np.int64))


def ends_us(record: RunRecord, rows: slice = EVERY) -> NDArray[np.int64]:
    """End of each run; a run that still goes on counts up to the horizon."""
    end_us = record.runs.end_us[rows]
    return np.where(end_us < 0, record.horizon_us, end_us)


def node_time(record: RunRecord) -> NodeTime:
    """Node-time of all runs: each run of a requeued job counts, the lost ones too, for they held the nodes.

    makespan = last end - first submit over the jobs that were run, leases included (Hungershoefer 2004, MS).
    """
    runs, jobs = record.runs, record.jobs
    batch, ondemand, requeued, first_us, last_us = 0, 0, 0, NEVER_US, -NEVER_US
    for rows in blocks(len(runs.job), AT_ONCE):
        job, outcome, end = runs.job[rows], runs.outcome[rows], ends_us(record, rows)
        used = widths(record, rows) * (end - runs.start_us[rows])
        is_batch = jobs.kind[job] == Kind.BATCH
        batch += int(used.sum(where=is_batch))
        ondemand += int(used.sum(where=~is_batch))
        requeued += int(used.sum(where=outcome == RunOutcome.REQUEUED))
        first_us = min(first_us, int(jobs.submit_us[job].min()))
        last_us = max(last_us, int(end.max()))
    overhead = batch + ondemand - int(runs.done_node_us.sum()) if runs.has_work else 0
    nodes, core = len(record.node_names), core_of_slot(record)
    if core is not None:
        nodes, batch, ondemand = int(core.max()) + 1, _busy_core_us(record, core), 0
    return NodeTime(
        batch_node_us=batch,
        ondemand_node_us=ondemand,
        lost_node_us=int(runs.lost_node_us.sum()) if runs.has_work else requeued,
        overhead_node_us=overhead,
        nodes=nodes,
        makespan_us=last_us - first_us if len(runs.job) else 0,
    )


def core_of_slot(record: RunRecord) -> NDArray[np.int64] | None:
    """The physical core of each entry of the node table where several jobs share a core (`oversubscribe`).

    Its nodes are slots of cores there, `n001/c03.2` is the second of core 3. None where each job has its nodes alone.
    """
    if named(record.scenario.get("mechanism"), "oversubscribe") is None:
        return None
    cores = [name.rpartition(".")[0] or name for name in record.node_names]
    number = {core: place for place, core in enumerate(dict.fromkeys(cores))}
    return np.array([number[core] for core in cores], np.int64)


def _busy_core_us(record: RunRecord, core: NDArray[np.int64]) -> int:
    """Time in which at least one job is on a core, over all cores."""
    runs = record.runs
    run = np.repeat(np.arange(len(runs.job)), np.diff(runs.first))
    at, start_us, end_us = core[runs.node], runs.start_us[run], ends_us(record)[run]
    order = np.lexsort((start_us, at))
    at, start_us, end_us = at[order], start_us[order], end_us[order]
    if not len(at):
        return 0
    # Times of one core after another, so that the latest end so far is never that of another core.
    base_us = int(start_us.min())
    shift_us = at * (int(end_us.max()) - base_us + 1)
    start_us, end_us = start_us - base_us + shift_us, end_us - base_us + shift_us
    covered_us = np.append(np.int64(0), np.maximum.accumulate(end_us)[:-1])
    return int(np.maximum(end_us - np.maximum(start_us, covered_us), 0).sum())


def last_run_of_job(record: RunRecord) -> NDArray[np.int64]:
    """Row in the run table of each job's last run, -1 where it had none."""
    last = np.full(len(record.jobs), -1, np.int64)
    # Runs are in order of start, and of several values NumPy keeps the last.
    last[record.runs.job] = np.arange(len(record.runs.job))
    return last
