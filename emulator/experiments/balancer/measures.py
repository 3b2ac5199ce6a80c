"""The figures that claims look at, and what the paper leaves open about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.experiments.claims import World

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT, REJECTED, RATE = (
    "window.mean_wait_after_begin_s",
    "window.ondemand_rejected",
    "window.ondemand_reject_rate",
)
WAIT_OF_ALL = "window.mean_wait_s"
"""With the jobs that ran when the week began, which waited 0."""
USED, IDLE, ONDEMAND = "window.utilization", "window.reserve_idle_node_h", "window.ondemand_utilization"

REFILLED = "idle nodes fill the reserve again"

SCHEDULER = (
    "The paper names Maui and Torque and none of their settings. On its own log a queue without"
    " backfilling waits 119 minutes on 372 nodes and 1 065 on 304, close to the paper's figures; EASY backfilling"
    " waits 80 and 361, so merging has less to gain. The stand-in's jobs differ, and near capacity so do waits."
)
LEASES = (
    "The leases of the paper's week are not published; ours have their number, load and burstiness, but their nodes"
    " may come at other hours, and a lease of several nodes is met as a whole or not at all. Their bursts overlap: 14"
    " to 22 leases at once, where the eight real weeks with experiments have 9 to 11."
)
AT_ONCE = "never more than 11 leases at once"
COUNTED = "preloaded jobs counted"
HISTORY = (
    "The paper's predictor knew two years of real requests with a moderate correlation between weeks; the generated"
    " weeks share working hours and nothing else, so a peak of the past says little about where a burst will come."
)


def all_jobs(measure: Callable[[World], float]) -> Callable[[World], float]:
    """The same measure with waits of all jobs, the preloaded ones included."""

    def counted(world: World) -> float:
        rows = {label: {**row, WAIT: row.get(WAIT_OF_ALL)} for label, row in world.rows.items()}
        return measure(World(world.seed, rows))

    return counted
