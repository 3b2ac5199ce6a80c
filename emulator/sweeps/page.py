"""A sweep as a page: which setting is best, how sure that is, and what it costs in another figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.report.drawing import ACCENT, FAINT, Plot, draw
from emulator.report.plots import HeatCell, heat_map
from emulator.report.templates import environment
from emulator.report.text_room import ranges
from emulator.report.wording import headline_text, is_share, title
from emulator.runs.scenario import ScenarioError
from emulator.sweeps.grid import LABEL, REPEAT, SEED
from emulator.sweeps.ranking import rank, shown_names, texts
from emulator.sweeps.store import CONFIG_HASH
from emulator.text.number_text import number, number_of, numbers, percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from emulator.report.drawing import Axes
from emulator.sweeps.ranking import Ranked

WAIT = "mean_wait_s"
_FEW = 12
"""So many settings all have their rank in the picture; of more, those on the line."""
_SECOND = (("ondemand_rejected", False), ("utilization", True))
"""What a setting with a short wait may cost: the first that every run has; whether more of it is better."""
_environment = environment(Path(__file__).parent)


def page(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    varied: Sequence[str],
    figure: str = WAIT,
    *,
    highest: bool = False,
    links: Mapping[str, str] | None = None,
) -> str:
    """The page of a sweep's rows, ranked by `figure`, with `links` to reports of its runs by their hash.

    Raises ScenarioError where they cannot be ranked by it.
    """
    ranked = rank(rows, varied, figure, highest=highest)
    second = _second(rows, varied, figure)
    front = _front(ranked, second, highest=highest)
    return _environment.get_template("sweep.html.j2").render(
        title=name,
        opening=_opening(rows, ranked, figure),
        figure=title(figure),
        unit=title(figure, with_unit=True).removeprefix(title(figure)),
        second=title(second[0]) if second else "",
        names=[name.rpartition(".")[2] for name in shown_names(ranked)],
        rows=[
            {"rank": place + 1, "texts": row, "second": other, "is_front": place in front, "runs": runs}
            for place, (row, other, runs) in enumerate(
                zip(
                    texts(ranked),
                    _second_texts(ranked, second),
                    _runs_of(ranked, rows, varied, links or {}),
                    strict=True,
                )
            )
        ],
        has_links=bool(links),
        heat=_heat(ranked, figure),
        pareto=_pareto(ranked, second, front, figure),
    )


_Second = tuple[str, bool, dict[tuple[str, ...], float]]
"""A figure, whether more of it is better, and its mean by setting."""


def _key(setting: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(map(str, setting.values()))


def _second(rows: Sequence[Mapping[str, Any]], varied: Sequence[str], figure: str) -> _Second | None:
    for other, is_better in _SECOND:
        if other == figure or any(row.get(other) is None for row in rows):
            continue
        try:
            found = rank(rows, varied, other)
        except ScenarioError:
            continue
        means = {_key(each.setting): each.mean for each in found}
        if len(set(means.values())) > 1:
            return other, is_better, means
    return None


def _second_texts(ranked: Sequence[Ranked], second: _Second | None) -> list[str]:
    if second is None:
        return [""] * len(ranked)
    name, _, means = second
    values = [means[_key(each.setting)] for each in ranked]
    return [percent(value) for value in values] if is_share(name) else numbers(values)


def _runs_of(
    ranked: Sequence[Ranked],
    rows: Sequence[Mapping[str, Any]],
    varied: Sequence[str],
    links: Mapping[str, str],
) -> list[list[tuple[str, str]]]:
    """(seed, report) of the runs of each setting that have one."""
    found: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for row in rows:
        report = links.get(row.get(CONFIG_HASH, ""))
        if report is not None:
            setting = tuple(str(row[name]) for name in varied if name not in (SEED, REPEAT))
            found.setdefault(setting, []).append((str(row[SEED]), report))
    return [found.get(_key(each.setting), []) for each in ranked]


def _front(ranked: Sequence[Ranked], second: _Second | None, *, highest: bool) -> set[int]:
    """Places of the settings than which no other is better in one figure and as good in the other."""
    if second is None:
        return set()
    _, more_is_better, means = second
    best: float | None = None
    found, sign = set(), -1 if more_is_better else 1
    order = sorted(
        range(len(ranked)),
        key=lambda place: (
            -ranked[place].mean if highest else ranked[place].mean,
            sign * means[_key(ranked[place].setting)],
        ),
    )
    for place in order:  # the best first: each later one must be better in the second figure
        value = sign * means[_key(ranked[place].setting)]
        if best is None or value < best:
            best = value
            found.add(place)
    return found


def _opening(rows: Sequence[Mapping[str, Any]], ranked: Sequence[Ranked], figure: str) -> str:
    best = ", ".join(
        str(ranked[0].setting[name])
        if name == LABEL
        else f"{name.rpartition('.')[2]} {ranked[0].setting[name]}"
        for name in shown_names(ranked)
    )
    text = (
        f"{number_of(len(rows), 'run')} of {number_of(len(ranked), 'setting')},"
        f" {number_of(ranked[0].seeds, 'seed')} each."
    )
    if len(ranked) == 1:
        return text
    sure = [each for each in ranked[1:] if each.beyond_best is not None and each.beyond_best.is_sure]
    mean = headline_text(figure, ranked[0].mean)
    return f"{text} Best by {title(figure)}: {best} ({mean}), {_how_sure(len(sure), len(ranked) - 1)}."


def _how_sure(surely_worse: int, others: int) -> str:
    if surely_worse == others:
        return (
            "surely better than the other"
            if others == 1
            else f"surely better than all other {number(others)}"
        )
    if not surely_worse:
        return "which may be chance"
    return f"surely better than {number(surely_worse)} of the other {number(others)}"


def _heat(ranked: Sequence[Ranked], figure: str) -> Plot | None:
    """The figure by two settings; None unless two vary. A label stands for settings and is none."""
    values = {name: list(dict.fromkeys(each.setting[name] for each in ranked)) for name in ranked[0].setting}
    names = [name for name, found in values.items() if len(found) > 1]
    if len(names) != 2 or LABEL in names:  # noqa: PLR2004 - a map has two sides
        return None
    columns, lines = (sorted(values[name], key=_in_order) for name in names)
    low, high = min(each.mean for each in ranked), max(each.mean for each in ranked)
    cells = [
        HeatCell(
            lines.index(each.setting[names[1]]),
            columns.index(each.setting[names[0]]),
            mean,
            ACCENT,
            0.06 + 0.6 * ((each.mean - low) / (high - low) if high > low else 0),
        )
        for each, mean in zip(ranked, numbers(each.mean for each in ranked), strict=True)
    ]
    along, upwards = (name.rpartition(".")[2] for name in names)
    label = f"{title(figure, with_unit=True)}: {along} to the right, {upwards} upwards"
    rows, across = ([str(each) for each in found] for found in (lines, columns))
    return heat_map("heat", label, cells, rows, across, along=along, upwards=upwards)


def _in_order(value: object) -> tuple[bool, float, str]:
    is_number = isinstance(value, int | float)
    return (not is_number, float(value) if isinstance(value, int | float) else 0.0, str(value))


def _pareto(ranked: Sequence[Ranked], second: _Second | None, front: set[int], figure: str) -> Plot | None:
    """Each setting by both figures; the best trade-offs stand out, with their ranks."""
    if second is None:
        return None
    name, _, means = second
    scale, unit = (100, ", %") if is_share(name) else (1, "")
    x = [each.mean for each in ranked]
    y = [scale * means[_key(each.setting)] for each in ranked]

    def paint(axes: Axes, is_wide: bool) -> None:  # noqa: ARG001 - it is the same
        others = [place for place in range(len(ranked)) if place not in front]
        axes.dots([x[place] for place in others], [y[place] for place in others], FAINT, size=6)
        best = sorted(front, key=lambda place: x[place])
        axes.line([x[place] for place in best], [y[place] for place in best], ACCENT)
        axes.dots([x[place] for place in best], [y[place] for place in best], ACCENT, size=8)
        named = best if len(ranked) > _FEW else range(len(ranked))
        ranks = [place + 1 for place in named]
        axes.texts_apart([x[place] for place in named], [y[place] for place in named], ranks, ranges, size=10)
        axes.label(x=title(figure, with_unit=True), y=title(name, with_unit=True) + unit)

    return draw("pareto", f"{title(name)} by {title(figure)}, a dot a setting", paint, height=3.4)
