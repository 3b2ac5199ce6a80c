"""What sharing of cores shows first: slowdowns, waits, and how many jobs each core has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.metrics.runs import core_of_slot, ends_us
from emulator.simulation.tiles import Picture, Series, Tile, intervals, mean_over

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord

TILES = (
    Tile(
        "slowdown, responsive jobs",
        "mechanism.mean_slowdown_responsive",
        "",
        beside=(("largest", "mechanism.max_slowdown_responsive"),),
    ),
    Tile(
        "slowdown, normal jobs",
        "mechanism.mean_slowdown_normal",
        "",
        beside=(("largest", "mechanism.max_slowdown_normal"),),
    ),
    Tile("responsive jobs that waited", "mechanism.waiting_responsive", of="mechanism.jobs_responsive"),
    Tile("normal jobs that waited", "mechanism.waiting_normal", of="mechanism.jobs_normal"),
)


def picture(record: RunRecord) -> Picture | None:
    """Cores with one job, two jobs and so on, over time."""
    core, runs = core_of_slot(record), record.runs
    if core is None or not len(runs.node):
        return None
    edges_us = intervals(record)
    run = np.repeat(np.arange(len(runs.job)), np.diff(runs.first))
    at = np.tile(core[runs.node], 2)
    time_us = np.concatenate((runs.start_us[run], ends_us(record)[run]))
    change = np.repeat((1, -1), len(run))
    order = np.lexsort((change, time_us, at))
    at, time_us = at[order], time_us[order]
    jobs = np.cumsum(change[order])  # all jobs have left a core before the first event of the next one
    lasts = (at[1:] == at[:-1]) & (time_us[1:] > time_us[:-1])
    begin_us, end_us, jobs = time_us[:-1][lasts], time_us[1:][lasts], jobs[:-1][lasts]
    series = []
    for count in range(1, int(jobs.max(initial=1)) + 1):
        selected = jobs == count
        ones = np.ones(int(selected.sum()))
        name = "1 job" if count == 1 else f"{count} jobs"
        series.append(Series(name, mean_over(edges_us, begin_us[selected], end_us[selected], ones)))
    return Picture(
        "Cores by how many jobs share them",
        "Cores in use over time, by how many jobs each has.",
        "cores",
        edges_us,
        tuple(series),
    )
