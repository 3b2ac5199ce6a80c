"""The record of a run on Slurm in which jobs shared nodes: in cores, as the twin's in virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import NEVER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from emulator.record.run_record import PoolMove, RunRecord, RunTable
    from emulator.schedulers.slurm.select import SharedNodes
    from emulator.workload.table import JobTable


def in_cores(record: RunRecord, shared: SharedNodes) -> RunRecord:
    """The record with a core where it has a node (`n001/c03`), and as many of them for a job as it asked for.

    Which cores a job had Slurm is not asked: it gets the first that are free on each of its nodes. Where there are too
    few, it gets some that are not, and the law on nodes booked twice says so.
    """
    jobs = shared.in_cores(record.jobs)
    return replace(
        record,
        jobs=jobs,
        node_names=shared.core_names(record.node_names),
        runs=_runs_in_cores(record.runs, jobs, shared),
        moves=tuple(_all_cores(move, shared.node_of_core) for move in record.moves),
    )


def in_nodes(jobs: JobTable) -> JobTable:
    """The jobs of such a record as they were submitted; those of another one as they are."""
    whole = jobs.extra.get("whole_nodes")
    return jobs if whole is None else replace(jobs, nodes=whole.astype(np.int32))


def count_nodes(names: Sequence[str]) -> int:
    """How many nodes the cores, or the nodes, of these names are."""
    return len({name.partition("/")[0] for name in names})


def _runs_in_cores(runs: RunTable, jobs: JobTable, shared: SharedNodes) -> RunTable:
    """Runs are in order of start, so a core is free if its last run is over."""
    cores_of = np.split(np.arange(len(shared.node_of_core)), shared.first_core[1:])
    free_us = np.full(len(shared.node_of_core), -NEVER_US)
    ends_us = np.where(runs.end_us < 0, NEVER_US, runs.end_us)
    wanted = jobs.column("cores")
    given: list[NDArray[np.int64]] = []
    for row, job in enumerate(runs.job):
        for node in runs.node[runs.first[row] : runs.first[row + 1]]:
            is_taken = free_us[cores_of[node]] > runs.start_us[row]
            chosen = cores_of[node][np.argsort(is_taken, kind="stable")[: wanted[job]]]
            free_us[chosen] = ends_us[row]
            given.append(chosen)
    widths = np.diff(runs.first) * wanted[runs.job]
    return replace(
        runs,
        first=np.concatenate(([0], np.cumsum(widths))).astype(np.int64),
        node=np.concatenate([np.empty(0, np.int64), *given]).astype(np.int32),
    )


def _all_cores(move: PoolMove, node_of_core: NDArray[np.int64]) -> PoolMove:
    return replace(move, nodes=tuple(np.flatnonzero(np.isin(node_of_core, move.nodes)).tolist()))
