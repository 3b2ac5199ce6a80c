"""What the hybrid mechanism shows first: what it did to batch jobs, and whose nodes on-demand jobs had."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from emulator.harness.record import RunOutcome
from emulator.harness.shown import Picture, Series, Tile, intervals, mean_over
from emulator.metrics.runs import ends_us
from emulator.workload.hybrid_kinds import JobClass
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.harness.record import RunRecord

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


def lenders(record: RunRecord) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Of each node of a run of an on-demand job: the run, and who had the node before (a `Lender`)."""
    runs, jobs = record.runs, record.jobs
    run = np.repeat(np.arange(len(runs.job)), np.diff(runs.first))
    order = np.lexsort((runs.start_us[run], runs.node))
    run, node = run[order], runs.node[order]
    before = np.append(-1, run[:-1])
    before[np.append(True, node[1:] != node[:-1])] = -1
    job, outcome = runs.job[before], runs.outcome[before]
    is_malleable = jobs.column("job_class", 0)[job] == JobClass.MALLEABLE
    stopped = np.where(is_malleable, Lender.MALLEABLE, Lender.RIGID)
    lender = np.where(
        outcome == RunOutcome.PREEMPTED,
        stopped,
        np.where(outcome == RunOutcome.RESIZED, Lender.NARROWED, Lender.IDLE),
    )
    lender[(before < 0) | (jobs.kind[job] == Kind.ON_DEMAND)] = Lender.IDLE
    asked = jobs.kind[runs.job[run]] == Kind.ON_DEMAND
    return run[asked], lender[asked]


def picture(record: RunRecord) -> Picture | None:
    """Nodes of on-demand jobs over time, by who had them before."""
    if not len(record.runs.node):
        return None
    edges_us, (run, lender) = intervals(record), lenders(record)
    start_us, end_us = record.runs.start_us[run], ends_us(record)[run]
    series = []
    for which, name in _NAMES.items():
        mine = lender == which
        ones = np.ones(int(mine.sum()))
        series.append(Series(name, mean_over(edges_us, start_us[mine], end_us[mine], ones)))
    return Picture(
        "Who lent nodes to on-demand jobs",
        "Nodes of on-demand jobs over time, by who had each node before.",
        "nodes of on-demand jobs",
        edges_us,
        tuple(series),
    )
