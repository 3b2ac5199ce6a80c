"""What a run consumed: power by what each node did at each time, from its record and the scenario's `energy`.

A node is busy, idle, shutting down, asleep, booting or down. Nodes that a job got asleep shut down to the end, boot,
and wait for the others; then all of them are busy. All nodes are on at the begin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.events.power import SleepTimes
from emulator.metrics.runs import ends_us
from emulator.record.run_record import NodePool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord

_J_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class Energy:
    """In joules, by what the nodes did. `job_j`: of each job on its nodes, waking included; `boots`: how many."""

    busy_j: float
    idle_j: float
    shutdown_j: float
    sleep_j: float
    boot_j: float
    down_j: float
    boots: int
    job_j: NDArray[np.float64]
    lasted_s: float

    @property
    def total_j(self) -> float:
        return self.busy_j + self.idle_j + self.shutdown_j + self.sleep_j + self.boot_j + self.down_j

    def figures(self) -> dict[str, Any]:
        """For `summary.json`."""
        parts = ("busy", "idle", "shutdown", "sleep", "boot", "down")
        return {
            "total_kwh": self.total_j / _J_PER_KWH,
            **{f"{name}_kwh": getattr(self, f"{name}_j") / _J_PER_KWH for name in parts},
            "mean_power_w": self.total_j / self.lasted_s if self.lasted_s else None,
            "boots": self.boots,
        }


def energy_of(record: RunRecord) -> Energy | None:
    """What the run consumed; None if its scenario has no `energy`, or its nodes were not recorded."""
    said: Any = record.scenario.get("energy")
    runs = record.runs
    if not said or (len(runs.job) and not len(runs.node)):
        return None
    times = SleepTimes.of(said)
    power = {name: float(said[f"{name}_w"]) for name in ("busy", "idle", "sleep", "down")}
    power |= {
        "boot": float(said["busy_w"] if said["boot_w"] is None else said["boot_w"]),
        "shutdown": float(said["idle_w"] if said["shutdown_w"] is None else said["shutdown_w"]),
    }
    run, start_us, end_us, idle_us, ends_idle_us = _stays(record)
    works = run >= 0
    # Between the stays: idle, then shutting down, then asleep.
    gaps_us = np.concatenate((idle_us, ends_idle_us))
    awake_us = np.minimum(gaps_us, times.after_us)
    off_us = np.minimum(gaps_us - awake_us, times.shutdown_us)
    asleep_us = gaps_us - awake_us - off_us
    # Within a run: the rest of a shutdown, a boot, and the wait for its slowest node.
    wake_us = np.where(works, times.wake_us(idle_us), 0)
    boot_us = np.where(wake_us > 0, times.boot_us, 0)
    longest_us = np.zeros(len(runs.job), np.int64)
    np.maximum.at(longest_us, run[works], wake_us[works])
    length_us = end_us - start_us
    delay_us = np.where(works, longest_us[np.maximum(run, 0)] if len(runs.job) else 0, 0)
    # A run that was broken off may not have come so far.
    rest_us = np.minimum(wake_us - boot_us, length_us)
    boot_us = np.minimum(boot_us, length_us - rest_us)
    wait_us = np.minimum(delay_us, length_us) - rest_us - boot_us
    busy_us = np.where(works, length_us - rest_us - boot_us - wait_us, 0)
    of_stay = (
        rest_us * power["shutdown"]
        + boot_us * power["boot"]
        + wait_us * power["idle"]
        + busy_us * power["busy"]
    )
    job_j = np.zeros(len(record.jobs))
    np.add.at(job_j, runs.job[run[works]], of_stay[works] / US)

    def joules(spent_us: NDArray[np.int64], what: str) -> float:
        return float(int(spent_us.sum()) * power[what] / US)

    return Energy(
        busy_j=joules(busy_us, "busy"),
        idle_j=joules(np.append(awake_us, wait_us[works]), "idle"),
        shutdown_j=joules(np.append(off_us, rest_us[works]), "shutdown"),
        sleep_j=joules(asleep_us, "sleep"),
        boot_j=joules(boot_us[works], "boot"),
        down_j=joules(length_us[~works], "down"),
        boots=int((boot_us > 0).sum()),
        job_j=job_j,
        lasted_s=(record.horizon_us - record.begin_us) / US,
    )


def _stays(record: RunRecord) -> tuple[NDArray[np.int64], ...]:
    """What each node did but for being idle, by node and start: (run or -1 for down, start, end, idle before).

    The last array is how long each node was idle after the last of its stays.
    """
    runs = record.runs
    run = np.repeat(np.arange(len(runs.job)), np.diff(runs.first))
    down = _down(record)
    node = np.concatenate((runs.node.astype(np.int64), down[:, 0]))
    which = np.concatenate((run, np.full(len(down), -1)))
    start_us = np.concatenate((runs.start_us[run], down[:, 1]))
    end_us = np.concatenate((ends_us(record)[run], down[:, 2]))
    order = np.lexsort((end_us, start_us, node))
    node, which, start_us, end_us = node[order], which[order], start_us[order], end_us[order]
    before_us = np.full(len(node), record.begin_us, np.int64)
    same = node[1:] == node[:-1]
    before_us[1:][same] = end_us[:-1][same]
    last_us = np.full(len(record.node_names), record.begin_us, np.int64)
    np.maximum.at(last_us, node, end_us)
    return which, start_us, end_us, np.maximum(start_us - before_us, 0), record.horizon_us - last_us


def _down(record: RunRecord) -> NDArray[np.int64]:
    """(node, begin, end) of each time that a node was down."""
    since: dict[int, int] = {}
    found = []
    for move in record.moves:
        for node in move.nodes:
            if move.pool is NodePool.DOWN:
                since.setdefault(node, move.at_us)
            elif node in since:
                found.append((node, since.pop(node), move.at_us))
    found += [(node, begin_us, record.horizon_us) for node, begin_us in since.items()]
    return np.array(sorted(found), np.int64).reshape(-1, 3)
