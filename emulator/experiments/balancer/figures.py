"""Figures 2 to 5 of the paper as plots of our runs: lines are medians over the seeds, bars their ends."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from emulator.experiments.balancer.measures import RATE, USED, WAIT
from emulator.experiments.balancer.runs import MAINSTREAM, RHO, STATIC_RESERVES
from emulator.experiments.balancer.workloads import BATCH_LOAD, FACTORS
from emulator.experiments.claims import MissingRunError
from emulator.record.run_record import NodePool
from emulator.report.drawing import ACCENT, FAINT, INK, draw
from emulator.report.plots import POOL_COLOURS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from emulator.experiments.claims import World
    from emulator.report.drawing import Axes, Plot

_COLOURS = (ACCENT, POOL_COLOURS[NodePool.OD_ALLOC], POOL_COLOURS[NodePool.DOWN], INK, FAINT)
_MEASURES = (
    # figure, factor, name, what it is
    (RATE, 100.0, "rejected", "Rejected requests, per cent."),
    (WAIT, 1 / 60, "wait", "Mean wait of batch jobs, minutes."),
    (USED, 100.0, "used", "Combined utilisation, per cent."),
)


@dataclass(frozen=True, slots=True)
class _Figure:
    """One of the paper's figures: three plots over the same x. `label(batch, x)` names the run of a point."""

    number: int
    title: str
    over: str
    xs: tuple[float, ...]
    batches: tuple[str, ...]
    label: Callable[[str, float], str]


def _by_load(name: str) -> Callable[[str, float], str]:
    return lambda batch, rho: f"{name}/{batch}/{rho:g}"


def _by_reserve(batch: str, reserve: float) -> str:
    return f"R{reserve:g}/{batch}" if reserve else f"basic/{batch}/{RHO:g}"


_LOAD = "on-demand load, per cent"
_FIGURES = (
    _Figure(2, "basic, R=0, W=0", _LOAD, tuple(FACTORS), tuple(BATCH_LOAD), _by_load("basic")),
    _Figure(3, f"static reserve, {RHO:g} %", "R, nodes", STATIC_RESERVES, MAINSTREAM, _by_reserve),
    _Figure(4, "hint, H=30 min", _LOAD, tuple(FACTORS), tuple(BATCH_LOAD), _by_load("H30")),
    _Figure(5, "predictive", _LOAD, tuple(FACTORS), tuple(BATCH_LOAD), _by_load("predictive")),
)


def figures(found: Sequence[World]) -> list[tuple[str, str, Plot]]:
    """(title, caption, plot) of each; what was run at one x alone is in the tables, as one point is no picture."""
    return [
        (f"Figure {figure.number}: {figure.title}", text, _plot(figure, name, measure, factor, found))
        for figure in _FIGURES
        if len(_xs(figure, found)) > 1
        for measure, factor, name, text in _MEASURES
    ]


def _xs(figure: _Figure, found: Sequence[World]) -> list[float]:
    """Where the figure was run."""
    labels = {x: [figure.label(batch, x) for batch in figure.batches] for x in figure.xs}
    return [x for x in figure.xs if any(world.has(label) for world in found for label in labels[x])]


def _plot(figure: _Figure, name: str, measure: str, factor: float, found: Sequence[World]) -> Plot:
    def paint(axes: Axes, _: bool) -> None:
        for batch, colour in zip(figure.batches, _COLOURS, strict=False):
            points = [(x, _values(found, figure.label(batch, x), measure, factor)) for x in figure.xs]
            points = [(x, values) for x, values in points if values]
            if not points:
                continue
            xs = [x for x, _ in points]
            middle = [median(values) for _, values in points]
            low, high = zip(*((min(values), max(values)) for _, values in points), strict=True)
            axes.line(xs, middle, colour)
            axes.dots(xs, middle, colour, size=4)
            axes.stems(xs, low, high, colour, width=0.8)
            axes.legend(batch, colour)
        axes.show(y=(0, None))
        axes.label(x=figure.over)

    return draw(f"figure-{figure.number}-{name}", f"Figure {figure.number}: {name}", paint)


def _values(found: Sequence[World], label: str, figure: str, factor: float) -> list[float]:
    values = []
    for world in found:
        try:
            values.append(factor * world(label, figure))
        except MissingRunError:
            continue
    return values
