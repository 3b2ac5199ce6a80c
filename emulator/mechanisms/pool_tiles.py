"""What mechanisms that move nodes between batch and on-demand show first: answers, and the pools over the day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.record.run_record import NodePool
from emulator.simulation.tiles import DAY_US, Picture, Series, Tile, intervals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

TILES = (
    Tile("requests refused", "ondemand_rejected", of="ondemand_requests"),
    Tile("slowest answer", "max_ondemand_wait_s", "s"),
    Tile("lent on demand", "node_time_h.OD_ALLOC", "node-h"),
    Tile("reserve, idle", "reserve_idle_node_h", "node-h"),
)
_HOURS = 24
_NAMES = {
    NodePool.DOWN: "down",
    NodePool.OD_ALLOC: "on demand",
    NodePool.OD_RESERVE: "reserve",
    NodePool.OA_BUSY: "batch, busy",
    NodePool.OA_IDLE: "batch, idle",
}


def picture(record: RunRecord) -> Picture | None:
    """Mean nodes in each pool by hour of the day, and the requests that were refused in each."""
    from emulator.metrics import ondemand  # noqa: PLC0415 - services, and live runs, go without
    from emulator.metrics.timeline import InconsistentRecordError, sampled, timeline  # noqa: PLC0415

    try:
        line = timeline(record)
    except InconsistentRecordError:
        return None
    hour_us = DAY_US // _HOURS
    first, last = record.begin_us // hour_us, -(-max(record.horizon_us, record.begin_us + 1) // hour_us)
    edges_us: NDArray[np.float64] = np.arange(first, last + 1).astype(np.float64) * hour_us
    edges_us[0], edges_us[-1] = intervals(record, 1)
    hour, length_us = np.arange(first, last) % _HOURS, np.diff(edges_us)
    whole = np.bincount(hour, length_us, _HOURS)

    def by_hour(values: NDArray[np.int64]) -> NDArray[np.float64]:
        area = np.bincount(hour, sampled(line, values, edges_us) * length_us, _HOURS)
        return np.divide(area, whole, out=np.zeros(_HOURS), where=whole > 0)

    asked = ondemand.requests(record)
    refused = record.jobs.submit_us[asked.row[asked.answer == ondemand.REJECTED]]
    count = np.bincount(refused // hour_us % _HOURS, minlength=_HOURS).astype(np.float64)
    return Picture(
        "Pools over the day",
        "Mean nodes in each pool by hour of cluster time; above, the requests that were refused.",
        "nodes",
        np.arange(_HOURS + 1).astype(np.float64) * hour_us,
        tuple(
            Series(name, by_hour(line.pools[pool]), pool.value.lower().replace("_", "-"))
            for pool, name in _NAMES.items()
            if line.pools[pool].any()
        ),
        is_day=True,
        counts=Series("refused", count),
    )  # fmt: skip
