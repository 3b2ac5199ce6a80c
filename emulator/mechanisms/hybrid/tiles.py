"""What the hybrid mechanism shows first: what it did to batch jobs, and whose nodes on-demand jobs had."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from emulator.kernel.job_states import RunOutcome
from emulator.metrics.runs import ends_us
from emulator.simulation.tiles import Picture, Series, Tile, intervals, mean_over
from emulator.workload.hybrid_kinds import JobClass
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

TILES = (
    Tile("preempted", "preemptions", beside=(("of guests", "mechanism.guest_evictions"),)),
    Tile("resized", "resizes", beside=(("made narrower", "mechanism.shrinks"),)),
    Tile(
        "nodes lent",
        "mechanism.nodes_lent",
        beside=(
            ("back by resuming", "mechanism.nodes_returned_resumed"),
            ("by expanding", "mechanism.nodes_returned_expanded"),
        ),
    ),
    Tile("instant starts", "mechanism.instant_start_ratio", "share"),
)


class Lender(IntEnum):
    """Who had a node of an on-demand job before."""

    IDLE = 0
    RIGID = 1
    MALLEABLE = 2
    NARROWED = 3


_NAMES = {
    Lender.IDLE: "idle or held",
    Lender.RIGID: "preempted rigid jobs",
    Lender.MALLEABLE: "preempted malleable jobs",
    Lender.NARROWED: "narrowed malleable jobs",
}


def lenders(record: RunRecord) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Of each node of a run of an on-demand job: the run, and who had the node before (a `Lender`)."""
    runs, jobs = record.runs, record.jobs
    run = np.repeat(np.arange(len(runs.job), dtype=np.int32), np.diff(runs.first))
    # Rows are in order of start, so that of each node they stay so. Of 16 bits NumPy sorts far faster.
    small = runs.node.astype(np.uint16) if len(record.node_names) <= 1 << 16 else runs.node
    order = np.argsort(small, kind="stable")
    run, node = run[order], small[order]
    is_on_demand = jobs.kind[runs.job] == Kind.ON_DEMAND
    asked = np.flatnonzero(is_on_demand[run])
    before = run[asked - 1]
    lender = _as_lender(record)[before]
    lender[(asked == 0) | (node[asked] != node[asked - 1])] = Lender.IDLE
    return run[asked], lender


def _as_lender(record: RunRecord) -> NDArray[np.int64]:
    """What each run is to an on-demand job that has one of its nodes next."""
    runs, jobs = record.runs, record.jobs
    is_malleable = jobs.column("job_class", 0)[runs.job] == JobClass.MALLEABLE
    stopped = np.where(is_malleable, Lender.MALLEABLE, Lender.RIGID)
    found = np.where(
        runs.outcome == RunOutcome.PREEMPTED,
        stopped,
        np.where(runs.outcome == RunOutcome.RESIZED, Lender.NARROWED, Lender.IDLE),
    )
    found[jobs.kind[runs.job] == Kind.ON_DEMAND] = Lender.IDLE
    return found


def picture(record: RunRecord) -> Picture | None:
    """Nodes of on-demand jobs over time, by who had them before."""
    if not len(record.runs.node):
        return None
    edges_us, (run, lender) = intervals(record), lenders(record)
    start_us, end_us = record.runs.start_us[run], ends_us(record)[run]
    series = []
    for which, name in _NAMES.items():
        selected = lender == which
        ones = np.ones(int(selected.sum()))
        series.append(Series(name, mean_over(edges_us, start_us[selected], end_us[selected], ones)))
    return Picture(
        "Who lent nodes to on-demand jobs",
        "Nodes of on-demand jobs over time, by who had each node before.",
        "nodes of on-demand jobs",
        edges_us,
        tuple(series),
    )
