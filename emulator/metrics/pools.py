"""Node-time by pool, without the steps of `timeline.py`: what the figures of a run need of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from emulator.kernel.columns import blocks
from emulator.metrics import runs as run_figures
from emulator.metrics.runs import AT_ONCE
from emulator.metrics.timeline import timeline
from emulator.record.moves import CODE, POOLS, MoveTable
from emulator.record.run_record import NodePool
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

_MOST = 1 << 62
_TAKEN = (NodePool.OD_RESERVE, NodePool.OD_ALLOC, NodePool.DOWN)
"""Pools that moves tell of."""


def node_us_by_pool(record: RunRecord) -> dict[NodePool, int]:
    """As `timeline(record).node_us()`. Raises InconsistentRecordError where that does.

    It costs one sort of the ends; the steps cost several of all times, and many times the memory.
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
    for rows in blocks(len(widths), AT_ONCE):
        used, batch = widths[rows] * (end_us[rows] - begin_us[rows]), of_batch[rows]
        spent[NodePool.OA_BUSY] += int(used.sum(where=batch))
        spent[NodePool.OD_ALLOC] += int(used.sum(where=~batch))
    spent[NodePool.OA_IDLE] = nodes * (record.horizon_us - record.begin_us) - sum(spent.values())
    taken = change[:, [CODE[pool] for pool in _TAKEN]].sum(axis=1)
    more = _Steps.of(begin_us, widths), _Steps.of(np.maximum(moved_us, record.begin_us), taken)
    if _most_at_once(more, _Steps.of(end_us, widths), record.horizon_us) > nodes:
        timeline(record)  # raises, and tells when
    return spent


def _area(at_us: NDArray[np.int64], change: NDArray[np.int64], record: RunRecord) -> int:
    """Node-time below a step function that begins at 0 and changes so, in order of time."""
    clipped_us = np.clip(at_us, record.begin_us, record.horizon_us)
    return int((np.cumsum(change) * np.diff(clipped_us, append=record.horizon_us)).sum())


@dataclass(frozen=True, slots=True)
class _Steps:
    """A step function: its value from `at_us[k]` to the next of them is `value[k + 1]`, and `value[0]` before."""

    at_us: NDArray[np.int64]
    value: NDArray[np.int64]

    @classmethod
    def of(cls, at_us: NDArray[np.int64], change: NDArray[np.int64]) -> Self:
        """From 0 on, with changes in any order of time."""
        at_us, change = _in_order(at_us, change)
        value = np.zeros(len(change) + 1, np.int64)
        np.cumsum(change, out=value[1:])
        return cls(at_us, value)

    def last_of_each(self, rows: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Times of these changes and its values then, each time once: with the last change at it."""
        at_us, value = self.at_us[rows], self.value[1:][rows]
        is_last = np.ones(len(at_us), np.bool_)
        behind_us = self.at_us[rows.start + 1 : rows.stop + 1]
        is_last[: len(behind_us)] = behind_us != at_us[: len(behind_us)]
        return at_us[is_last], value[is_last]

    def at(self, times_us: NDArray[np.int64]) -> NDArray[np.int64]:
        """Its values at these times, after all that changes at them."""
        return self.value[np.searchsorted(self.at_us, times_us, side="right")]


def _in_order(
    at_us: NDArray[np.int64], change: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Times and changes in order of time; those of one time in any order."""
    if not len(at_us) or bool((at_us[1:] >= at_us[:-1]).all()):
        return at_us, change
    least, span = int(change.min()), int(np.ptp(change)) + 1
    first_us, last_us = int(at_us.min()), int(at_us.max())
    if (last_us - first_us + 1) * span >= _MOST:
        order = np.argsort(at_us)
        return at_us[order], change[order]
    both = (at_us - first_us) * span  # in one number, which is sorted in a quarter of the time of an order
    both += change
    both -= least
    both.sort()
    at_us = both // span
    both -= at_us * span
    both += least
    at_us += first_us
    return at_us, both


def _most_at_once(more: tuple[_Steps, ...], less: _Steps, before_us: int) -> int:
    """The highest sum of `more` without `less` before a time, where it is 0 at first and `less` never falls."""
    most = 0
    for steps in more:
        others = [each for each in more if each is not steps]
        for rows in blocks(int(np.searchsorted(steps.at_us, before_us)), AT_ONCE):
            at_us, height = steps.last_of_each(rows)
            for each in others:
                height = height + each.at(at_us)
            most = max(most, int((height - less.at(at_us)).max(initial=0)))
    return most
