"""The cluster over time: node pools, queue length and utilisation as step functions, in exact integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.kernel.job_states import JobState, RunOutcome
from emulator.metrics import runs as run_figures
from emulator.record.moves import CODE, MoveTable
from emulator.record.run_record import NodePool, rows_after
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

    Steps = NDArray[np.int64]


class InconsistentRecordError(ValueError):
    """The record says that a node was in two pools at once."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Step functions: entry i holds from `at_us[i]` to `at_us[i + 1]`, the last one to `horizon_us`.

    `at_us` starts with the record's begin and rises strictly. `pools` has the nodes in each pool and sums to
    `nodes` at every step; `queued_jobs` and `queued_nodes` are the waiting batch jobs and their nodes.
    """

    at_us: Steps
    horizon_us: int
    nodes: int
    pools: dict[NodePool, Steps]
    queued_jobs: Steps
    queued_nodes: Steps

    @property
    def lengths_us(self) -> Steps:
        """How long each step holds."""
        return np.diff(self.at_us, append=self.horizon_us)

    @property
    def used_nodes(self) -> Steps:
        """Nodes with a job or a lease on them; over `nodes` it is the utilisation at each moment."""
        return self.pools[NodePool.OA_BUSY] + self.pools[NodePool.OD_ALLOC]

    def node_us(self) -> dict[NodePool, int]:
        """Node-time in each pool in integer node-microseconds; adds up to nodes * (horizon - begin)."""
        lengths = self.lengths_us
        return {pool: int((count * lengths).sum()) for pool, count in self.pools.items()}


def timeline(record: RunRecord) -> Timeline:
    """The step functions of a record.

    OD_RESERVE and DOWN come from the moves, OA_BUSY from the runs of batch jobs, OA_IDLE is the rest.
    OD_ALLOC comes from the moves too, or, when a mechanism runs leases without moving their nodes (no move to
    OD_ALLOC in the whole record), from the runs of leases. Raises InconsistentRecordError where the rest is
    negative, that is, where a node was given away under a running job.
    """
    nodes = len(record.node_names)
    changes = [*_move_changes(record), *_run_changes(record), *_queue_changes(record)]
    at_us, curves = _accumulate(changes, record.begin_us, record.horizon_us)
    reserve, allocated, busy, down, queued_jobs, queued_nodes = (curves[curve] for curve in _CURVES)
    idle = nodes - reserve - allocated - busy - down
    if (idle < 0).any():
        step = int(np.argmax(idle < 0))
        raise InconsistentRecordError(
            f"at {at_us[step]} us of cluster time {nodes - idle[step]} of {nodes} nodes are taken: "
            f"{busy[step]} busy with batch jobs, {allocated[step]} leased, {reserve[step]} in reserve, "
            f"{down[step]} down"
        )
    return Timeline(
        at_us=at_us,
        horizon_us=record.horizon_us,
        nodes=nodes,
        pools={
            NodePool.OD_RESERVE: reserve,
            NodePool.OD_ALLOC: allocated,
            NodePool.OA_IDLE: idle,
            NodePool.OA_BUSY: busy,
            NodePool.DOWN: down,
        },
        queued_jobs=queued_jobs,
        queued_nodes=queued_nodes,
    )


_BACK_TO_QUEUE = (RunOutcome.REQUEUED, RunOutcome.PREEMPTED)
_STILL_RUNS = (RunOutcome.RESIZED, RunOutcome.SUSPENDED)
_QUEUED_JOBS, _QUEUED_NODES = "queued_jobs", "queued_nodes"
_CURVES = (
    NodePool.OD_RESERVE,
    NodePool.OD_ALLOC,
    NodePool.OA_BUSY,
    NodePool.DOWN,
    _QUEUED_JOBS,
    _QUEUED_NODES,
)


def _accumulate(changes: list[_Change], begin_us: int, horizon_us: int) -> tuple[Steps, dict[str, Steps]]:
    """Changes of counts, in any order, as step functions on one common time axis.

    What happened before the begin holds at the begin; what happens at the horizon is not seen.
    """
    at_us = np.concatenate([[begin_us], *(change.at_us for change in changes)])
    np.maximum(at_us, begin_us, out=at_us)
    at_us.sort()
    at_us = at_us[np.diff(at_us, prepend=begin_us - 1) > 0]
    at_us = at_us[: np.searchsorted(at_us, max(horizon_us, begin_us + 1))]
    counts = {curve: np.zeros(len(at_us) + 1, np.int64) for curve in _CURVES}
    for change in changes:
        step = np.searchsorted(at_us, np.maximum(change.at_us, begin_us))
        for curve, by in change.by.items():
            np.add.at(counts[curve], step, by)
    return at_us, {curve: np.cumsum(count[:-1], out=count[:-1]) for curve, count in counts.items()}


@dataclass(frozen=True, slots=True)
class _Change:
    """At each time some of the curves change by some amount (negative: fall)."""

    at_us: Steps
    by: dict[str, Steps]


def _move_changes(record: RunRecord) -> list[_Change]:
    """A node that moves leaves one pool and enters another; before its first move it is in the batch pool."""
    at_us, change = MoveTable.of(record.moves).changes()
    given = (NodePool.OD_RESERVE, NodePool.OD_ALLOC, NodePool.DOWN)
    return [_Change(at_us, {str(pool): change[:, CODE[pool]] for pool in given})]


def _run_changes(record: RunRecord) -> list[_Change]:
    """A run takes its nodes at its start and gives them back at its end."""
    runs, widths = record.runs, run_figures.widths(record)
    of_batch = record.jobs.kind[runs.job] == Kind.BATCH
    moves_tell = MoveTable.of(record.moves).has(NodePool.OD_ALLOC)
    busy = np.where(of_batch, widths, 0)
    leased = np.where(of_batch | moves_tell, 0, widths)
    return [
        _Change(runs.start_us, {NodePool.OA_BUSY: busy, NodePool.OD_ALLOC: leased}),
        _Change(run_figures.ends_us(record), {NodePool.OA_BUSY: -busy, NodePool.OD_ALLOC: -leased}),
    ]


def _queue_changes(record: RunRecord) -> list[_Change]:
    """A batch job enters the queue by its submit, a requeue or a preemption and leaves it by its start or a cancel."""
    jobs, runs = record.jobs, record.runs
    is_batch = jobs.kind == Kind.BATCH
    submitted = np.flatnonzero(is_batch & (record.state != JobState.FUTURE))
    of_batch = is_batch[runs.job]
    from_queue = of_batch.copy()
    from_queue[rows_after(runs, *_STILL_RUNS)[:, 1]] = False
    to_queue = of_batch & np.isin(runs.outcome, _BACK_TO_QUEUE)
    started, requeued, requeued_us = runs.job[from_queue], runs.job[to_queue], runs.end_us[to_queue]
    entries = np.bincount(np.concatenate((submitted, requeued)), minlength=len(jobs))
    waits = entries - np.bincount(started, minlength=len(jobs)) > 0
    gone = np.flatnonzero(waits & np.isin(record.state, (JobState.CANCELLED, JobState.REJECTED)))
    # A job that was cancelled at an unknown time leaves at once, rather than never.
    gone_us = np.maximum(record.end_us[gone], jobs.submit_us[gone])

    def change(at_us: Steps, row: NDArray[np.integer[Any]], sign: int) -> _Change:
        return _Change(
            at_us,
            {
                _QUEUED_JOBS: np.full(len(row), sign, np.int64),
                _QUEUED_NODES: sign * jobs.nodes[row].astype(np.int64),
            },
        )

    return [
        change(jobs.submit_us[submitted], submitted, 1),
        change(requeued_us, requeued, 1),
        change(runs.start_us[from_queue], started, -1),
        change(gone_us, gone, -1),
    ]


def sampled(line: Timeline, values: Steps, edges_us: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of a step function between consecutive edges (one less than edges); keeps the area."""
    area = np.concatenate(([0], np.cumsum(values * line.lengths_us)))
    corners_us = np.concatenate((line.at_us, [line.horizon_us]))
    at_edges = np.interp(edges_us, corners_us, area)
    return np.asarray(np.diff(at_edges) / np.diff(edges_us))
