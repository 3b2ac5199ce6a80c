"""What the planning scheduler shows first: how wide jobs were, and how often that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.metrics.classes import CLASSES, COLUMN
from emulator.metrics.runs import ends_us, widths
from emulator.simulation.tiles import Picture, Series, Tile, intervals, mean_over

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord

TILES = (
    Tile("mean response", "mean_response_s", "s"),
    Tile(
        "mean width",
        "job_classes.mean_width",
        "nodes",
        beside=(("malleable", "job_classes.malleable_mean_width"),),
    ),
    Tile("changes of width", "resizes", beside=(("most of a job", "job_classes.max_changes"),)),
    Tile("slowdown by area", "slowdown_weighted_by_area", ""),
)


def picture(record: RunRecord) -> Picture:
    """Mean nodes of a running job over time, by class."""
    edges_us, runs = intervals(record), record.runs
    kind, width, end_us = record.jobs.column(COLUMN, 0)[runs.job], widths(record), ends_us(record)
    series = []
    for number, name in enumerate(CLASSES):
        selected = kind == number
        if selected.any():
            span = runs.start_us[selected], end_us[selected]
            nodes = mean_over(edges_us, *span, width[selected])
            jobs = mean_over(edges_us, *span, np.ones(int(selected.sum())))
            values = np.divide(nodes, jobs, out=np.full(len(nodes), np.nan), where=jobs > 0)
            series.append(Series(name, values))
    return Picture(
        "Width over time",
        "Mean nodes of the jobs that run, by class.",
        "nodes of a job",
        edges_us,
        tuple(series),
        is_stacked=False,
    )
