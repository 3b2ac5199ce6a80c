"""Node-time by pool, without the steps of `timeline.py`: what the figures of a run need of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.harness.moves import CODE, POOLS, MoveTable
from emulator.harness.record import NodePool
from emulator.metrics import runs as run_figures
from emulator.metrics.timeline import timeline
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.harness.record import RunRecord

_TAKEN = (NodePool.OD_RESERVE, NodePool.OD_ALLOC, NodePool.DOWN)
"""Pools that moves tell of."""


def node_us_by_pool(record: RunRecord) -> dict[NodePool, int]:
    """As `timeline(record).node_us()`. Raises InconsistentRecordError where that does.

    It costs one sort of starts and ends; the steps cost several, and many times the memory.
    """
    if record.horizon_us <= record.begin_us:
        return timeline(record).node_us()
    nodes = len(record.node_names)
    runs, widths = record.runs, run_figures.widths(record)
    moves = MoveTable.of(record.moves)
    moved_us, change = moves.changes()
    of_batch = record.jobs.kind[runs.job] == Kind.BATCH
    begin_us, end_us = (
        np.clip(times_us, record.begin_us, record.horizon_us)
        for times_us in (runs.start_us, run_figures.ends_us(record))
    )
    spent = dict.fromkeys(POOLS, 0) | {
        pool: _area(moved_us, change[:, CODE[pool]], record) for pool in _TAKEN
    }
    if moves.has(NodePool.OD_ALLOC):  # the moves tell of leases
        widths[~of_batch] = 0
    used = widths * (end_us - begin_us)
    spent[NodePool.OA_BUSY] = int(used[of_batch].sum())
    spent[NodePool.OD_ALLOC] += int(used[~of_batch].sum())
    spent[NodePool.OA_IDLE] = nodes * (record.horizon_us - record.begin_us) - sum(spent.values())
    taken = change[:, [CODE[pool] for pool in _TAKEN]].sum(axis=1)
    when_us = np.concatenate((begin_us, end_us, np.maximum(moved_us, record.begin_us)))
    if _most_at_once(when_us, np.concatenate((widths, -widths, taken)), record.horizon_us) > nodes:
        timeline(record)  # raises, and tells when
    return spent


def _area(at_us: NDArray[np.int64], change: NDArray[np.int64], record: RunRecord) -> int:
    """Node-time below a step function that begins at 0 and changes so, in order of time."""
    clipped_us = np.clip(at_us, record.begin_us, record.horizon_us)
    return int((np.cumsum(change) * np.diff(clipped_us, append=record.horizon_us)).sum())


def _most_at_once(when_us: NDArray[np.int64], change: NDArray[np.int64], before_us: int) -> int:
    """The highest step that begins before a time; changes of one time are one step."""
    order = np.argsort(when_us)
    when_us = when_us[order]
    seen = when_us < before_us
    seen[:-1] &= when_us[1:] != when_us[:-1]
    return int(np.cumsum(change[order])[seen].max(initial=0))
