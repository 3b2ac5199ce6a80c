"""The paper's figures of one run: equations 21 to 23, by kind of job and by narrow/wide x short/long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.mechanisms.realtime.equations import eq22, eq23
from emulator.metrics.jobs import bounded_slowdown_wang

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.mechanisms.realtime.machine import RealtimeMachine

HOUR_US = 3600 * US
SHORT_US = 120 * 60 * US
"""Short: a run time of at most 120 minutes (section 7.4)."""
CLASSES = ("narrow_short", "narrow_long", "wide_short", "wide_long")
_AT_ONCE_US = 60 * US


def figures(
    machine: RealtimeMachine, *, narrow_nodes: int = 4096, threshold_s: float = 600
) -> dict[str, Any]:
    """Flat names; a figure that does not exist (no such job) is None.

    `realtime_*` and `batch_*`: mean bounded slowdown (eq. 21), mean turnaround time in seconds, and number, over
    the jobs that ended; the same with `_narrow_short` and so on. Wait time is all of the turnaround that is not the
    job's run time: rework and checkpoints count as waiting, else a preempted job would look better served.
    """
    jobs = machine.job_table()
    done = machine.state == JobState.ENDED
    turnaround_us = machine.end_us - jobs.submit_us
    slowdown = bounded_slowdown_wang(turnaround_us - jobs.run_us, jobs.run_us, threshold_s=threshold_s)
    narrow, short = jobs.nodes <= narrow_nodes, jobs.run_us <= SHORT_US
    members = {
        "": np.ones(len(jobs), np.bool_),
        "_narrow_short": narrow & short,
        "_narrow_long": narrow & ~short,
        "_wide_short": ~narrow & short,
        "_wide_long": ~narrow & ~short,
    }
    found: dict[str, Any] = {"slowdown_threshold_s": threshold_s}
    for kind, of_kind in (("realtime", machine.realtime), ("batch", ~machine.realtime)):
        for name, of_class in members.items():
            rows = done & of_kind & of_class
            found[f"{kind}_jobs{name}"] = int(rows.sum())
            found[f"{kind}_slowdown{name}"] = _mean(slowdown[rows])
            found[f"{kind}_turnaround_s{name}"] = _mean(turnaround_us[rows] / US)
    return found | _at_once(machine, done) | _system(machine)


def _at_once(machine: RealtimeMachine, done: NDArray[np.bool_]) -> dict[str, Any]:
    """The share of real-time jobs that wait at most a minute, and the longest wait."""
    rows = done & machine.realtime
    wait_us = (machine.start_us - machine.job_table().submit_us)[rows]
    return {
        "realtime_within_a_minute": _mean((wait_us <= _AT_ONCE_US).astype(np.float64)),
        "realtime_longest_wait_s": float(wait_us.max()) / US if len(wait_us) else None,
    }


def _system(machine: RealtimeMachine) -> dict[str, Any]:
    """Utilisation (eqs 22, 23) with the overheads that were measured, and what they are made of."""
    jobs, rows = machine.job_table(), machine.segments
    ended = rows[rows["end_us"] >= 0]
    nodes = jobs.nodes[ended["job"]].astype(np.float64)
    useful = float(((ended["work_us"] - ended["lost_us"]) * nodes).sum())
    writes, redo = (float((ended[column] * nodes).sum()) for column in ("writes_us", "redo_us"))
    makespan_us = int(ended["end_us"].max(initial=0) - jobs.submit_us.min(initial=0))
    available = float(makespan_us) * machine.node_count
    own, of_system = (writes, 0.0) if machine.scheme == "pre_ckpt_app" else (0.0, writes)
    preempted = ended["outcome"] != RunOutcome.FINISHED
    return {
        "system_utilization": eq22(useful, own, redo, of_system, available) if available else None,
        "productive_utilization": eq23(useful, available) if available else None,
        "preemptions": int(preempted.sum()),
        "preempted_jobs": len(np.unique(ended["job"][preempted])),
        "checkpoints": int(ended["checkpoints"].sum()),
        "useful_node_h": useful / HOUR_US,
        "checkpoint_node_h": writes / HOUR_US,
        "redone_node_h": redo / HOUR_US,
    }


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None
