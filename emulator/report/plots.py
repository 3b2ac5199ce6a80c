"""The plots of the report. Same record, same bytes; a bounded number of points, however long the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.metrics import jobs as job_figures
from emulator.metrics import ondemand as ondemand_figures
from emulator.metrics.timeline import sampled
from emulator.record.run_record import NodePool
from emulator.report.drawing import ACCENT, BAD, Plot, draw, lines_beside
from emulator.report.pairs import LENGTH_NAMES, SIZE_NAMES
from emulator.report.text_room import LINE, ranges, width_of
from emulator.simulation.tiles import DAY_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from emulator.metrics.timeline import Timeline
    from emulator.record.run_record import RunRecord
    from emulator.report.drawing import Axes
    from emulator.report.pairs import HeatMap
    from emulator.simulation.tiles import Picture

# In the order in which they are stacked, from the ground.
POOL_COLOURS = {
    pool: f"var(--{pool.value.lower().replace('_', '-')})"
    for pool in (NodePool.DOWN, NodePool.OD_ALLOC, NodePool.OD_RESERVE, NodePool.OA_BUSY, NodePool.OA_IDLE)
}
_BANDS = (
    "var(--oa-busy)", "var(--od-alloc)", "var(--down)", "var(--faint)", "var(--od-reserve)", "var(--bad)",
    "var(--accent)",
)  # fmt: skip
"""Colours of a mechanism's series, in their order."""
_POINTS = {True: 480, False: 200}
_MOST_MARKERS = 300
_PLACES = {True: 40, False: 18}
"""Counts that stand beside each other."""
_MOST_NUMBERED_MARKS = 25
_MARK_PLACES = 150
_ROW, _NARROW_PLOT = 30.0, 180.0
"""Points: the least height of a heat map's row, and the width of a narrow plot beside its longest names."""
_STRONGEST_LOG2 = 3
"""A ratio of 8 or 1/8 has the strongest colour of a heat map."""


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Cluster time from begin to horizon in the unit that suits its length."""

    begin_us: int
    horizon_us: int
    is_linked: bool = True
    """Whether it is the run's time, which is zoomed in all plots of a page at once."""

    @property
    def unit(self) -> tuple[str, int]:
        span = self.horizon_us - self.begin_us
        for name, unit_us, least in (("days", 86_400, 4), ("hours", 3_600, 3), ("minutes", 60, 3)):
            if span >= least * unit_us * US:
                return name, unit_us * US
        return "seconds", US

    def of(self, at_us: NDArray[np.integer[Any]] | NDArray[np.float64] | int) -> NDArray[np.float64]:
        return np.asarray(at_us, np.float64) / self.unit[1]

    def edges(self, points: int) -> NDArray[np.float64]:
        return np.linspace(self.begin_us, max(self.horizon_us, self.begin_us + 1), points + 1)

    def dress(self, axes: Axes) -> None:
        begin, end = self.of(self.begin_us), self.of(max(self.horizon_us, self.begin_us + 1))
        axes.show(x=(float(begin), float(end)))
        axes.x_steps(8, (1, 2, 3, 6) if self.unit[0] == "hours" else (1, 2, 5))
        axes.label(x=f"cluster time ({self.unit[0]})")
        if self.is_linked:
            axes.link_time(self.unit[0], self.unit[1] / US)


def _draw_shaded(
    axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64], record: RunRecord, axis: TimeAxis
) -> None:
    """One figure over time, with the marks of the run."""
    axes.area(x, y, ACCENT, alpha=0.18)
    axes.line(x, y, ACCENT)
    axis.dress(axes)
    _draw_marks(axes, record, axis)


def _steps(
    line: Timeline, values: NDArray[np.int64], axis: TimeAxis, points: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A step function as corners of a line: exact when steps are few, else the mean of each interval."""
    if len(line.at_us) <= points:
        edges, heights = np.append(line.at_us, line.horizon_us).astype(float), values.astype(float)
    else:
        edges = axis.edges(points)
        heights = sampled(line, values, edges)
    return np.repeat(axis.of(edges), 2)[1:-1], np.repeat(heights, 2)


def drawn_marks(record: RunRecord, axis: TimeAxis) -> int:
    """How many lines stand for the record's marks."""
    at = axis.of(np.array([mark.at_us for mark in record.marks], np.int64))
    begin, end = axis.of(axis.edges(1))
    return len(_distinct(at, float(begin), float(end)))


def _distinct(at: NDArray[np.float64], low: float, high: float) -> NDArray[np.intp]:
    """Marks that would be drawn over each other are drawn once."""
    return np.unique(((at - low) / (high - low) * _MARK_PLACES).round(), return_index=True)[1]


def _draw_marks(axes: Axes, record: RunRecord, axis: TimeAxis) -> None:
    at = axis.of(np.array([mark.at_us for mark in record.marks], np.int64))
    for x in at[_distinct(at, *axes.x_ends)]:
        axes.upright(float(x), BAD, dashed=True)
    if len(record.marks) <= _MOST_NUMBERED_MARKS:
        axes.texts_apart(at, None, range(1, len(at) + 1), ranges, colour=BAD)
    if record.interrupted:
        axes.upright(float(axis.of(record.horizon_us)), BAD, width=2.5)


def node_states(record: RunRecord, line: Timeline, axis: TimeAxis) -> Plot:
    """Nodes in each pool over time, stacked."""

    def paint(axes: Axes, is_wide: bool) -> None:
        top = np.cumsum([line.pools[pool] for pool in POOL_COLOURS], axis=0)
        # From the tallest stack down, each to the ground: half the corners of bands, and no gaps between.
        for stack, (pool, colour) in reversed(list(zip(top, POOL_COLOURS.items(), strict=True))):
            if line.pools[pool].any():
                x, height = _steps(line, stack, axis, _POINTS[is_wide])
                axes.area(x, height, colour)
        axes.show(y=(0, max(line.nodes, 1)))
        axes.label(y="nodes")
        axis.dress(axes)
        _draw_marks(axes, record, axis)

    return draw("node-states", "Nodes in each pool over time", paint, height=3.6)


def utilization(record: RunRecord, line: Timeline, axis: TimeAxis) -> Plot:
    """Share of the nodes that are in use over time."""

    def paint(axes: Axes, is_wide: bool) -> None:
        x, height = _steps(line, line.used_nodes, axis, _POINTS[is_wide])
        axes.show(y=(0, 104))
        axes.y_names([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100"])
        axes.label(y="nodes in use (%)")
        _draw_shaded(axes, x, 100 * height / max(line.nodes, 1), record, axis)

    return draw("utilization", "Utilisation over time", paint, height=2.3)


def queue_length(record: RunRecord, line: Timeline, axis: TimeAxis) -> Plot:
    """Batch jobs that wait over time."""

    def paint(axes: Axes, is_wide: bool) -> None:
        x, height = _steps(line, line.queued_jobs, axis, _POINTS[is_wide])
        axes.show(y=(0, max(1, height.max(initial=0) * 1.08)))
        axes.y_counts()
        axes.label(y="jobs waiting")
        _draw_shaded(axes, x, height, record, axis)

    return draw("queue-length", "Length of the batch queue over time", paint, height=2.3)


def requests(record: RunRecord, axis: TimeAxis) -> Plot:
    """On-demand requests at their arrival, granted and rejected; counted by interval when there are many."""
    rows = ondemand_figures.requests(record)
    at = axis.of(record.jobs.submit_us[rows.row])
    width = record.jobs.nodes[rows.row]
    granted, rejected = (
        rows.answer == answer for answer in (ondemand_figures.GRANTED, ondemand_figures.REJECTED)
    )

    def paint(axes: Axes, is_wide: bool) -> None:
        if len(at) <= _MOST_MARKERS:
            colour = POOL_COLOURS[NodePool.OD_ALLOC]
            axes.stems(at[granted], 0, width[granted], colour)
            axes.dots(at[granted], width[granted], colour)
            axes.stems(at[rejected], 0, width[rejected], BAD)
            axes.dots(at[rejected], width[rejected], BAD, size=7, crossed=True)
            span = float(np.ptp(axis.of(axis.edges(1))))
            several = [each for each in crowds(at, width, span / _PLACES[is_wide]) if each[2] > 1]
            x, height, counts = np.array(several).reshape(-1, 3).T
            axes.texts_apart(x, height, counts.tolist(), lambda some: f"{sum(some):g}\u00d7")
            axes.show(y=(0, max(1, int(width.max(initial=0))) * 1.3))
            axes.label(y="nodes asked for")
        else:
            edges = axis.of(axis.edges(90 if is_wide else 40))
            yes, no = (np.histogram(at[which], edges)[0] for which in (granted, rejected))
            bar = np.diff(edges) * 0.9
            axes.bars(edges[:-1], yes, bar, POOL_COLOURS[NodePool.OD_ALLOC])
            axes.bars(edges[:-1], no, bar, BAD, yes)
            axes.show(y=(0, None))
            axes.label(y="requests")
        axes.y_counts()
        axis.dress(axes)
        _draw_marks(axes, record, axis)

    return draw("on-demand-requests", "On-demand requests, granted and rejected", paint, height=2.3)


def crowds(at: NDArray[np.float64], width: NDArray[np.int32], gap: float) -> list[tuple[float, int, int]]:
    """(mean time, nodes, how many) of requests for as many nodes, each within `gap` of the one before."""
    order = np.lexsort((at, width))
    x, nodes = at[order], width[order]
    first = np.flatnonzero(np.append(True, (np.diff(nodes) != 0) | (np.diff(x) > gap)))[: len(x)]
    count = np.diff(np.append(first, len(x)))
    means = np.add.reduceat(x, first) / count if len(x) else x
    return list(zip(means.tolist(), nodes[first].tolist(), count.tolist(), strict=True))


def of_mechanism(picture: Picture, axis: TimeAxis) -> Plot:
    """The picture that a mechanism declares: bands that are stacked, or lines, on the axis of the other plots."""
    axis = TimeAxis(0, DAY_US, is_linked=False) if picture.is_day else axis
    x = np.repeat(axis.of(picture.edges_us), 2)[1:-1]
    colours = {name: colour for colour, name in legend_of(picture)}

    def paint(axes: Axes, is_wide: bool) -> None:
        values = [each.values for each in picture.series]
        shown = np.cumsum(values, axis=0) if picture.is_stacked else np.array(values)
        for each, heights in reversed(list(zip(picture.series, shown, strict=True))):
            y = np.repeat(heights, 2)
            if picture.is_stacked:
                axes.area(x, y, colours[each.name])
                continue
            known = np.isfinite(y)
            for part in np.flatnonzero(np.diff(np.append(False, known).astype(np.int8)) == 1):
                end = part + int(np.argmin(np.append(known[part:], False)))
                axes.line(x[part:end], y[part:end], colours[each.name], width=1.8)
        top = float(np.nanmax(shown, initial=0.0)) or 1.0
        axes.show(y=(0, top * 1.12))
        axes.label(y=picture.y_label)
        axis.dress(axes)
        if picture.is_day:
            axes.label(x="hour of the day (cluster time)")
        if picture.counts is not None:
            middle = axis.of(picture.edges_us[:-1] + np.diff(picture.edges_us) / 2)
            for at_x, count in zip(middle, picture.counts.values, strict=True):
                if count and is_wide:
                    axes.text(float(at_x), top, f"{count:g}", size=9, above=True)

    return draw("of-mechanism", picture.title, paint, height=2.9)


def legend_of(picture: Picture) -> list[tuple[str, str]]:
    """(colour, name) of each band or line."""
    return [
        (f"var(--{each.colour})" if each.colour else _BANDS[place % len(_BANDS)], each.name)
        for place, each in enumerate(picture.series)
    ]


_WAITS = (
    ("none", 1),
    ("≤ 1 min", 60),
    ("≤ 5 min", 300),
    ("≤ 15 min", 900),
    ("≤ 1 h", 3600),
    ("≤ 4 h", 4 * 3600),
    ("≤ 12 h", 12 * 3600),
    ("≤ 1 d", 86_400),
    ("≤ 3 d", 3 * 86_400),
    ("longer", np.inf),
)


def wait_times(record: RunRecord) -> Plot:
    """How many batch jobs waited how long; waits under a second count as none."""
    rows = job_figures.batch_jobs_run(record)
    wait_s = (record.start_us[rows] - record.jobs.submit_us[rows]) / US
    place = np.searchsorted([limit for _, limit in _WAITS], wait_s)
    count = np.bincount(place, minlength=len(_WAITS))
    shown = len(_WAITS) - int(np.argmax(count[::-1] > 0)) if count.any() else 1
    share = 100 * count[:shown] / max(1, int(count.sum()))

    def paint(axes: Axes, is_wide: bool) -> None:
        axes.bars(np.arange(shown) - 0.36, share, 0.72, ACCENT)
        for x, value in enumerate(share):
            text = "" if value == 0 else "<1" if value < 1 else f"{value:.0f}"
            axes.text(x, value, text, size=9.5, above=True)
        axes.x_names(range(shown), [name for name, _ in _WAITS[:shown]], size=10 if is_wide else 8)
        axes.show(x=(-0.6, shown - 0.4), y=(0, max(1.0, share.max() * 1.12)))
        axes.label(y="% of batch jobs")

    return draw("wait-times", "Distribution of wait times", paint, height=2.5)


_SIZES = (1, 4, 16, 64, 256, 1024, np.inf)
_LENGTHS = (
    ("≤ 1 min", 60),
    ("≤ 10 min", 600),
    ("≤ 1 h", 3600),
    ("≤ 4 h", 4 * 3600),
    ("≤ 12 h", 12 * 3600),
    ("≤ 1 d", 86_400),
    ("> 1 d", np.inf),
)


def wait_by_size_and_length(record: RunRecord) -> Plot:
    """Mean wait of batch jobs by nodes and by run time (heat map as in Minami 2023, Figs 10 and 11)."""
    rows = job_figures.batch_jobs_run(record)
    wait_s = (record.start_us[rows] - record.jobs.submit_us[rows]) / US
    run_s = (record.end_us[rows] - record.start_us[rows]) / US
    size = np.searchsorted(_SIZES, record.jobs.nodes[rows])
    length = np.searchsorted([limit for _, limit in _LENGTHS], run_s)
    columns = len(_LENGTHS)
    cell = size * columns + length
    count = np.bincount(cell, minlength=len(_SIZES) * columns).reshape(-1, columns)
    total = np.bincount(cell, wait_s, minlength=len(_SIZES) * columns).reshape(-1, columns)
    used = int(np.flatnonzero(count.sum(axis=1)).max(initial=0)) + 1
    lengths = int(np.flatnonzero(count.sum(axis=0)).max(initial=0)) + 1
    mean = np.divide(total, count, out=np.zeros_like(total), where=count > 0)
    strongest = max(mean.max(), 60.0)
    cells = [
        HeatCell(
            y,
            x,
            short_duration(float(mean[y, x])),
            ACCENT,
            0.06 + 0.6 * float(np.sqrt(mean[y, x] / strongest)),
        )
        for (y, x), jobs in np.ndenumerate(count[:used])
        if jobs
    ]
    return heat_map(
        "wait-by-size",
        "Mean wait by job size and run time",
        cells,
        _size_names(used),
        [name for name, _ in _LENGTHS[:lengths]],
    )


def ratio_heat_map(heat: HeatMap) -> Plot:
    """The average of a metric in one run over that in another; the more they differ, the stronger the colour."""
    rows, columns = (int(np.flatnonzero(heat.jobs.sum(axis=axis)).max(initial=0)) + 1 for axis in (1, 0))
    cells = []
    for (row, column), jobs in np.ndenumerate(heat.jobs[:rows, :columns]):
        if jobs:
            ratio = float(heat.ratio[row, column])
            apart = 0.0 if np.isnan(ratio) else min(1.0, abs(np.log2(max(ratio, 1e-9))) / _STRONGEST_LOG2)
            colour = BAD if ratio > 1 else ACCENT
            cells.append(HeatCell(row, column, heat.text(row, column), colour, 0.06 + 0.6 * apart))
    return heat_map("ratio", heat.title, cells, SIZE_NAMES[:rows], LENGTH_NAMES[:columns])


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A cell of a heat map: its place, what is written in it, its colour and how strong that is (0-1)."""

    row: int
    column: int
    text: str
    colour: str
    alpha: float


def heat_map(
    name: str,
    label: str,
    cells: Sequence[HeatCell],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    along: str = "",
    upwards: str = "nodes",
) -> Plot:
    """Rows upwards, columns to the right; `along` and `upwards` say of what."""
    texts = [cell.text for cell in cells]
    longest = max(texts, key=len, default="")
    is_crowded = len(columns) * width_of(longest, 8) > _NARROW_PLOT
    row = max(_ROW, LINE * 11 * lines_beside(rows) + 6, width_of(longest, 10) + 6 if is_crowded else 0)
    height = max(row * len(rows), width_of(upwards, 10))

    def paint(axes: Axes, is_wide: bool) -> None:
        size = 10 if is_wide else 8
        for cell in cells:
            axes.bars(cell.column + 0.03, 0.94, 0.94, cell.colour, cell.row + 0.03, alpha=cell.alpha)
        middles = [(cell.column + 0.5, cell.row + 0.5) for cell in cells]
        axes.cell_texts([x for x, _ in middles], [y for _, y in middles], texts, 0.94, size=size)
        axes.show(x=(0, len(columns)), y=(0, len(rows)))
        axes.x_names([place + 0.5 for place in range(len(columns))], columns, size=size)
        axes.y_names([place + 0.5 for place in range(len(rows))], rows)
        axes.no_ticks()
        axes.label(x=along, y=upwards)

    return draw(name, label, paint, height=0.9 + height / 72)


def _size_names(count: int) -> Sequence[str]:
    lows = [1, *(int(limit) + 1 for limit in _SIZES[:-1])]
    highs = ["", *(f"-{int(limit)}" for limit in _SIZES[1:-1]), "+"]
    return [f"{low}{high}" for low, high in zip(lows, highs, strict=True)][:count]


def short_duration(time_s: float) -> str:
    """A duration in two or three figures: `45 s`, `12 min`, `3.4 h`, `2.1 d`."""
    if round(time_s) < 100:  # noqa: PLR2004 - up to here seconds read best
        return f"{time_s:.0f} s"
    for unit, unit_s, below in (("min", 60, 100), ("h", 3600, 48), ("d", 86_400, np.inf)):
        amount = time_s / unit_s
        if amount < below:
            return f"{amount:.0f} {unit}" if amount >= 10 or unit == "min" else f"{amount:.1f} {unit}"  # noqa: PLR2004
    raise ValueError(f"{time_s} is no duration")
