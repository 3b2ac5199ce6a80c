"""What the real-time mechanism shows first: slowdowns of both classes, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.clock import US
from emulator.kernel.job_states import JobState
from emulator.metrics.jobs import bounded_slowdown_wang
from emulator.simulation.tiles import Picture, Series, Tile, intervals, mean_by

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord

TILES = (
    Tile(
        "real-time slowdown", "mechanism.realtime_slowdown", "",
        beside=(("batch", "mechanism.batch_slowdown"), ("threshold", "mechanism.slowdown_threshold_s")),
    ),
    Tile("real-time starts within 1 min", "mechanism.realtime_within_a_minute", "share"),
    Tile("preemptions", "mechanism.preemptions", beside=(("jobs", "mechanism.preempted_jobs"),)),
    Tile("checkpoints", "mechanism.checkpoint_node_h", "node-h", beside=(("redone", "mechanism.redone_node_h"),)),
)  # fmt: skip
_INTERVALS = 48
_SHORT_US = 7200 * US


def picture(record: RunRecord) -> Picture | None:
    """Mean bounded slowdown (equation 21) of real-time jobs and of short and long batch jobs, by their submit."""
    if "real_time" not in record.jobs.extra:
        return None
    jobs, edges_us = record.jobs, intervals(record, _INTERVALS)
    done, urgent = record.state == JobState.ENDED, jobs.extra["real_time"] != 0
    response_us = record.end_us - jobs.submit_us
    slowdown = bounded_slowdown_wang(response_us - jobs.run_us, jobs.run_us)
    short = jobs.run_us <= _SHORT_US
    classes = (
        ("real-time", urgent),
        ("batch, run time up to 2 h", ~urgent & short),
        ("batch, longer", ~urgent & ~short),
    )
    return Picture(
        "Slowdown by class over time",
        "Mean bounded slowdown (10 min) of the jobs that were submitted in each interval.",
        "bounded slowdown",
        edges_us,
        tuple(
            Series(name, mean_by(edges_us, jobs.submit_us[done & rows], slowdown[done & rows]))
            for name, rows in classes
        ),
        is_stacked=False,
    )
