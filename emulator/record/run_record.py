"""What a run leaves behind: the one thing that results, laws and comparisons are computed from.

A virtual run and a live run fill the same record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.kernel.job_states import RunOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from emulator.workload.table import JobTable


class NodePool(StrEnum):
    """To whom a node belongs, for reports: the Balancer's states and the batch pool's two."""

    OD_RESERVE = "OD_RESERVE"
    OD_ALLOC = "OD_ALLOC"
    OA_IDLE = "OA_IDLE"
    OA_BUSY = "OA_BUSY"
    DOWN = "DOWN"


def _nothing() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class RunTable:
    """Every time a job had nodes, in order of start; a requeued job has several rows.

    Row r ran job row `job[r]` on the nodes `node[first[r]:first[r + 1]]` (indices into the node table) from
    `start_us[r]` to `end_us[r]` (-1: still running). `first` is one longer than the others. `node` is empty
    and `first` all zero when node identities were not recorded.

    `done_node_us` and `lost_node_us` account for the work of each row where something was done to running jobs, and are
    empty elsewhere: a job's rows do, less what they lose (they may lose what an earlier row did), what it owes.
    """

    job: NDArray[np.int32]
    start_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    outcome: NDArray[np.int8]
    first: NDArray[np.int64]
    node: NDArray[np.int32]
    done_node_us: NDArray[np.int64] = field(default_factory=_nothing)
    lost_node_us: NDArray[np.int64] = field(default_factory=_nothing)

    @property
    def has_work(self) -> bool:
        return len(self.done_node_us) == len(self.job) > 0


def first_start_us(runs: RunTable) -> NDArray[np.int64]:
    """Of each row the start of its run: rows that follow a resize or a suspension belong to the run before."""
    if not np.any((runs.outcome == RunOutcome.RESIZED) | (runs.outcome == RunOutcome.SUSPENDED)):
        return runs.start_us
    order = np.argsort(runs.job, kind="stable")  # rows are in order of start
    job, outcome = runs.job[order], runs.outcome[order]
    goes_on = np.zeros(len(order), np.bool_)
    goes_on[1:] = (job[1:] == job[:-1]) & np.isin(outcome[:-1], (RunOutcome.RESIZED, RunOutcome.SUSPENDED))
    begin = np.maximum.accumulate(np.where(goes_on, 0, np.arange(len(order))))
    starts_us = np.empty_like(runs.start_us)
    starts_us[order] = runs.start_us[order][begin]
    return starts_us


def resumed_rows(runs: RunTable) -> NDArray[np.intp]:
    """Rows in which a job goes on that had left its nodes with its memory there, each with the row before it.

    An array (n, 2): the row that ended suspended, and the next row of its job.
    """
    return rows_after(runs, RunOutcome.SUSPENDED)


def rows_after(runs: RunTable, *outcomes: RunOutcome) -> NDArray[np.intp]:
    """An array (n, 2): each row that ended so, and the next row of its job."""
    if not np.isin(runs.outcome, outcomes).any():
        return np.empty((0, 2), np.intp)
    order = np.argsort(runs.job, kind="stable")  # rows are in order of start
    pairs = np.stack((order[:-1], order[1:]), axis=1)
    goes_on = (runs.job[pairs[:, 0]] == runs.job[pairs[:, 1]]) & np.isin(runs.outcome[pairs[:, 0]], outcomes)
    found: NDArray[np.intp] = pairs[goes_on]
    return found


@dataclass(frozen=True, slots=True)
class PoolMove:
    """Nodes changed their owner: `pool` is what they are from `at_us` on.

    Only moves between the batch pool and OD_RESERVE / OD_ALLOC / DOWN are listed; a node nobody listed is in
    the batch pool, where `RunTable` tells idle from busy (a move back to batch is listed as OA_IDLE).
    """

    at_us: int
    nodes: tuple[int, ...]
    pool: NodePool


@dataclass(frozen=True, slots=True)
class LeaseOutcome:
    """How an on-demand request ended; `decided_us` is when it was granted or rejected."""

    job: int
    granted: bool
    decided_us: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something a reader of the report should see at this time (a fault, a restart, an interruption)."""

    at_us: int
    text: str


UNDER_WAY = "under way"
"""`interrupted` in the record of a run that goes on: why it is not whole."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run. `start_us`/`end_us` are per job row (first start of the run that finished; -1: none).

    `begin_us` and `horizon_us` bound the time in which node-time is accounted: every node is in exactly one
    pool at every moment between them. `left_out` counts jobs of the input that were not run, by reason.
    `interrupted` says why the run ended early, empty if it did not. `clock` is `virtual` or `live`;
    `pace` holds the live clock's figures (see `balancer.clock.Pace`), empty for virtual runs. `figures` are the
    mechanism's own. `recorded`: waits that the log of the run has beside those of the run
    (`emulator.metrics.wait_comparison`), empty without any. `contradictions`: sentences about what processes of jobs
    said of their work and their account does not, on a live clock that waits for them. `not_followed`: sentences
    about what the configuration of the scheduler says and the run does not do. `traceback`: where a plug-in failed,
    if that ended the run; not kept.
    """

    jobs: JobTable
    node_names: tuple[str, ...]
    state: NDArray[np.int8]
    start_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    runs: RunTable
    begin_us: int
    horizon_us: int
    moves: Sequence[PoolMove] = ()
    leases: Sequence[LeaseOutcome] = ()
    marks: tuple[Mark, ...] = ()
    left_out: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    scenario: dict[str, object] = field(default_factory=dict)
    seed: int = 0
    clock: str = "virtual"
    pace: dict[str, float] = field(default_factory=dict)
    wall_s: float = 0.0
    interrupted: str = ""
    traceback: str = ""
    figures: dict[str, object] = field(default_factory=dict)
    recorded: dict[str, Any] = field(default_factory=dict)
    contradictions: tuple[str, ...] = ()
    not_followed: tuple[str, ...] = ()
