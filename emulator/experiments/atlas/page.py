"""The atlas as one self-contained page: a strip of all claims, and a small map of the worlds for each."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.experiments.atlas.verdict import MOST, AtlasOutcome
from emulator.report.drawing import ACCENT, BAD, FAINT, INK, draw, lines_beside
from emulator.report.templates import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from emulator.experiments.atlas.answer import Atlas
    from emulator.experiments.atlas.prior import Parameter, Value
    from emulator.experiments.atlas.verdict import AtlasVerdict
    from emulator.experiments.atlas.worlds import Sample, SampledWorld
    from emulator.report.drawing import Axes, Plot

_environment = environment(Path(__file__).parent)
_ROW_IN = 0.17
_TICKS = (1, 2, 5)
_MOST_TICKS = 5
_COLOURS = {AtlasOutcome.HOLDS: ACCENT, AtlasOutcome.FAILS: BAD, AtlasOutcome.CONTRADICTED: BAD}


def render(atlas: Atlas) -> str:
    """The page. The same worlds give the same bytes."""
    parameters = {each.name: each for each in atlas.parameters}
    worlds = {each.draw.id: each for each in atlas.sample.worlds}
    judged = [each for each in atlas.verdicts if each.values]
    return _environment.get_template("atlas.html.j2").render(
        atlas=atlas,
        strip=_strip(judged),
        verdicts=atlas.verdicts,
        maps={each.claim.id: _map(each, parameters, worlds) for each in judged},
        ranges=_ranges(atlas.sample, atlas.parameters),
        worlds=[(each, atlas.replicas.get(place)) for place, each in enumerate(atlas.sample.worlds)],
    )


def _ranges(sample: Sample, parameters: Sequence[Parameter]) -> list[tuple[Parameter, str]]:
    """Each parameter, and the values that it has in the worlds that agree."""
    lines = []
    for each in parameters:
        values = [world.value(each.name) for world in sample.worlds]
        if each.is_ordered:
            numbers = [float(value) for value in values]
            lines.append((each, f"{each.text(min(numbers))} to {each.text(max(numbers))}"))
        else:
            lines.append((each, ", ".join(f"{value}: {values.count(value)}" for value in each.values)))
    return lines


def _strip(verdicts: Sequence[AtlasVerdict]) -> Plot:
    """A bar for each claim: in how many of the worlds it holds, with the interval."""
    rows = sorted(verdicts, key=lambda each: each.share)
    names = [each.claim.id for each in rows]

    def paint(axes: Axes, is_wide: bool) -> None:  # noqa: ARG001 - it is the same
        axes.show(x=(0, 100), y=(-0.5, len(rows) - 0.5))
        for row, each in enumerate(rows):
            low, high = (100 * end for end in each.interval)
            axes.line([low, high], [row, row], FAINT, width=3)
            axes.dots([100 * each.share], [row], _COLOURS.get(each.outcome, INK), size=7)
        axes.y_names(range(len(rows)), names)
        for bound in (100 * (1 - MOST), 100 * MOST):
            axes.upright(bound, FAINT, dashed=True)
        axes.label(x="worlds in which the claim holds, per cent")

    label = "For each claim the share of the worlds in which it holds, with its interval"
    return draw("strip", label, paint, height=0.8 + _ROW_IN * lines_beside(names) * len(rows))


def _map(
    verdict: AtlasVerdict, parameters: Mapping[str, Parameter], worlds: Mapping[str, SampledWorld]
) -> Plot:
    """The worlds by the two parameters that decide most: dots where the claim holds, crosses where it does not."""
    names = [*verdict.axes, *parameters][:2]
    x, y = (parameters[name] for name in names)

    def paint(axes: Axes, is_wide: bool) -> None:  # noqa: ARG001 - it is the same
        for holds, colour in ((True, ACCENT), (False, BAD)):
            some = [worlds[each.world] for each in verdict.values if each.holds is holds]
            xs, ys = ([_place(of, world.value(of.name)) for world in some] for of in (x, y))
            axes.dots(xs, ys, colour, size=5, crossed=not holds)
            axes.legend("holds" if holds else "does not", colour, mark="dot" if holds else "cross")
        _dress(x, axes.x_names)
        _dress(y, axes.y_names)
        axes.label(x=_title(x), y=_title(y))

    label = f"{verdict.claim.id}: in which worlds it holds, by {x.name} and {y.name}"
    return draw(f"map-{verdict.claim.id}", label, paint, height=2.4)


def _place(parameter: Parameter, value: Value) -> float:
    """Where a value stands on an axis: one of a list by its place there, of a logarithmic range by its logarithm."""
    if parameter.values:
        return float(parameter.values.index(value))
    return math.log10(float(value)) if parameter.scale == "log" else float(value)


def _dress(parameter: Parameter, names: Callable[[Sequence[float], Sequence[str]], None]) -> None:
    if parameter.values:
        names([float(n) for n in range(len(parameter.values))], [str(value) for value in parameter.values])
    elif parameter.scale == "log" and parameter.low and parameter.high:
        powers = range(math.floor(math.log10(parameter.low)), math.ceil(math.log10(parameter.high)) + 1)
        at = [step * 10.0**power for power in powers for step in _TICKS]
        at = [value for value in at if parameter.low <= value <= parameter.high]
        at = [value for value in at if len(at) <= _MOST_TICKS or f"{value:e}".startswith("1")]
        names([math.log10(value) for value in at], [f"{value:g}" for value in at])


def _title(parameter: Parameter) -> str:
    return f"{parameter.name}, {parameter.unit}" if parameter.unit else parameter.name
