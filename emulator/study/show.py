"""A study's answer for people: a table for the terminal, sentences, and one self-contained page."""

from __future__ import annotations

import csv
import io
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from emulator.report.drawing import ACCENT, FAINT, INK, draw
from emulator.report.templates import environment
from emulator.study import first_screen
from emulator.study.answer_document import figures_document
from emulator.study.plausible import sentence, trust
from emulator.study.settings import BATCH_ONLY
from emulator.study.wording import assumed, growth, proofs, recommendations
from emulator.text.number_text import grouped, number_of, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from emulator.report.drawing import Axes, Plot
    from emulator.study.answer import Answer
    from emulator.study.growth import GrowthOutcome
    from emulator.study.judge import Figures

HEADINGS = (
    "setting",
    "rejected",
    "worst run",
    "batch wait",
    "least to most",
    "of today's",
    "idle reserve",
    "utilisation",
)
GROWTH_HEADINGS = (
    ("load", "load"),
    ("asked of the machine", "asked"),
    ("today: rejected", "today\nrejects"),
    ("kept: rejected", "kept\nrejects"),
    ("kept: batch wait, min", "wait,\nmin"),
    ("best then", "then\ntake"),
    ("best then: nodes given up", "gives\nup"),
    ("best then: batch wait, min", "wait,\nmin"),
)
"""Of what `growth_cells` tells: on the page, and in 80 columns."""
_environment = environment(Path(__file__).parent)


def cells(each: Figures) -> tuple[str, ...]:
    """A setting's line of the table."""
    has_requests = each.setting.algorithm != BATCH_ONLY
    return (
        each.setting.label,
        f"{grouped(each.rejected)} of {grouped(each.requests)} ({percent(each.reject_rate)})"
        if has_requests
        else "all",
        percent(each.worst_rejected) if has_requests else "",
        f"{each.wait_min:.1f} min",
        f"{each.least_wait_min:.1f} to {each.most_wait_min:.1f}",
        "" if each.wait_ratio is None else percent(each.wait_ratio, 0),
        f"{grouped(each.idle_node_h)} node-h",
        percent(each.utilisation),
    )


LEGEND = (
    "Split: today's two machines. Batch only: all nodes for batch jobs. Basic R=3 W=5: 3 nodes kept in reserve, a"
    " request waits up to 5 min for nodes. Hint H=15: users give notice 15 min before. Others: a predictor of that name"
    " says how many nodes to keep. Worst: the largest share of a run's requests rejected. Means over all weeks and"
    " pairings; waits of batch jobs submitted in the week, without those that ran when it began."
)
"""What the tables of settings mean."""


def terminal_table(answer: Answer) -> Table:
    """All settings in 80 columns; the recommended ones with a star. The page has spread and utilisation too."""
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("setting", no_wrap=True)
    for heading in ("rejected", "worst", "wait, min", "of today's", "idle, node-h"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in answer.found:
        label, is_best = each.setting.label, each.setting.label in answer.best
        has_requests = each.setting.algorithm != BATCH_ONLY
        table.add_row(
            f"{label} *" if is_best else label,
            f"{grouped(each.rejected)} ({percent(each.reject_rate)})" if has_requests else "all",
            percent(each.worst_rejected) if has_requests else "",
            grouped(each.wait_min, 1),
            "" if each.wait_ratio is None else percent(each.wait_ratio, 0),
            grouped(each.idle_node_h),
            style="bold" if is_best else None,
        )
    return table


def tables(answer: Answer) -> dict[str, str]:
    """The figures as CSV, by the file's name."""
    settings = [figures_document(answer, each) for each in answer.found]
    found = {"settings.csv": _csv(list(settings[0]), (each.values() for each in settings))}
    if answer.wait_changes is not None:
        groups = (("nodes", answer.wait_changes.by_size), ("run time", answer.wait_changes.by_run_time))
        found["who.csv"] = _csv(
            ["by", "group", "jobs", "today_min", "then_min"],
            (
                (by, each.name, each.jobs, each.today_min, each.then_min)
                for by, kind in groups
                for each in kind
            ),
        )
    if answer.growth:
        found["growth.csv"] = _csv(_GROWTH_COLUMNS, (_growth_line(each) for each in answer.growth))
    return found


_GROWTH_COLUMNS = (
    "load", "grown_percent", "reached_percent", "load_of_machine",
    *(f"{which}_{name}" for which in ("today", "kept", "best")
      for name in ("setting", "given_up", "requests", "rejected", "wait_min", "wait_ratio")),
)  # fmt: skip


def _growth_line(each: GrowthOutcome) -> list[Any]:
    best = [""] * 6 if each.best is None else astuple(each.best)
    known = (each.load or "as it is", each.percent, each.reached, each.used)
    return [*known, *astuple(each.today), *astuple(each.kept), *best]


def growth_cells(each: GrowthOutcome) -> tuple[str, ...]:
    """A line of the table of growths."""
    unchanged, best = each.kept, each.best
    return (
        f"{each.load} +{each.percent:g} %" if each.load else "as it is",
        percent(each.used, 0),
        grouped(each.today.rejected),
        grouped(unchanged.rejected),
        grouped(unchanged.wait_min),
        "none tried" if best is None else best.setting,
        "" if best is None else str(best.given_up),
        "" if best is None else grouped(best.wait_min),
    )


def growth_table(answer: Answer) -> Table:
    """For the terminal, in 80 columns."""
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for _, heading in GROWTH_HEADINGS:
        is_text = heading in {"load", "then\ntake"}
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=True)
    for each in answer.growth:
        table.add_row(*growth_cells(each))
    return table


def _csv(heading: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)
    return text.getvalue()


def page(answer: Answer) -> str:
    """The HTML page. The same figures give the same bytes."""
    logs, pairings = answer.logs, answer.pairings
    return _environment.get_template("study.html.j2").render(
        title=f"One machine of {logs.batch_nodes} + {answer.ondemand_nodes} nodes?",
        lead=(
            f"{len(answer.found)} settings on {number_of(len(answer.weeks), 'week')}, each with"
            f" {number_of(pairings, 'pairing')} of batch jobs and leases"
        ),
        verdict=answer.verdicts[0],
        tiles=first_screen.tiles(answer),
        light=first_screen.light(answer),
        chart=first_screen.chart(answer),
        advice=[each for paragraph in recommendations(answer) for each in paragraph],
        proofs=[*proofs(answer), assumed(answer)],
        trade_off=_trade_off(answer),
        wait_headings=("batch jobs", "jobs", "today, min", "then, min"),
        wait_rows=_wait_rows(answer),
        growth=growth(answer),
        growth_headings=[heading for heading, _ in GROWTH_HEADINGS],
        growth_rows=[growth_cells(each) for each in answer.growth],
        plots=_plots(answer.found),
        headings=HEADINGS,
        legend=LEGEND,
        rows=[(cells(each), each.setting.label in answer.best) for each in answer.found],
        week_headings=("week", "jobs", "free nodes", "on-demand core-hours", "score"),
        weeks=[
            (
                logs.weeks[week].begin.isoformat(),
                grouped(logs.weeks[week].jobs),
                f"{logs.weeks[week].free_nodes:.1f}",
                grouped(logs.weeks[week].core_hours),
                f"{logs.weeks[week].score:.3f}",
            )
            for week in answer.weeks
        ],
        today=f"{sentence(answer.today)} {trust(answer.today)}",
        today_headings=(
            "week",
            "wait by the log, min",
            "wait simulated, min",
            "in use by the log",
            "in use simulated",
            "most nodes at once",
            "leases",
            "refused",
        ),
        today_rows=[
            (
                each.week,
                _or_blank(grouped, each.recorded_wait_min),
                _or_blank(grouped, each.simulated_wait_min),
                _or_blank(_whole_percent, each.recorded_used),
                _or_blank(_whole_percent, each.simulated_used),
                _or_blank(grouped, each.most_in_use),
                _or_blank(grouped, each.requests),
                _or_blank(grouped, each.refused),
            )
            for each in answer.today
        ],
        notes=logs.notes,
    )


def _wait_rows(answer: Answer) -> list[tuple[str, str, str, str]]:
    """Waits of batch jobs by size and by run time, today and then."""
    changes = answer.wait_changes
    return [
        (each.name, grouped(each.jobs), grouped(each.today_min, 1), grouped(each.then_min, 1))
        for kind in ((changes.by_size, changes.by_run_time) if changes else ())
        for each in kind
    ]


def _trade_off(answer: Answer) -> list[tuple[str, str, Plot]]:
    """Nodes given up against wait and rejections, of static reserves without a wait. Empty with fewer than two."""
    static = [
        each
        for each in answer.found
        if each.setting.algorithm == "basic"
        and not each.setting.wait_min
        and each.setting.label in answer.ratios
    ]
    static.sort(key=lambda each: each.setting.reserve, reverse=True)
    if len(static) < 2:  # noqa: PLR2004 - a line has two ends
        return []
    given_up = [answer.ondemand_nodes - each.setting.reserve for each in static]
    ranges = [answer.ratios[each.setting.label] for each in static]
    lows, highs = ([100 * end for end in ends] for ends in zip(*ranges, strict=True))

    def waits(axes: Axes, is_wide: bool) -> None:  # noqa: ARG001
        ratios = [100 * (each.wait_ratio or 0) for each in static]
        axes.stems(given_up, lows, highs, INK)
        axes.line(given_up, ratios, ACCENT)
        axes.dots(given_up, ratios, ACCENT, size=6)
        axes.label(x="on-demand nodes given up", y="% of today's wait")
        axes.show(x=(0, answer.ondemand_nodes), y=(0, None))

    def rejections(axes: Axes, is_wide: bool) -> None:  # noqa: ARG001
        axes.stems(given_up, 0, [100 * each.worst_rejected for each in static], INK)
        rates = [100 * each.reject_rate for each in static]
        axes.line(given_up, rates, ACCENT)
        axes.dots(given_up, rates, ACCENT, size=6)
        axes.label(x="on-demand nodes given up", y="% rejected")
        axes.show(x=(0, answer.ondemand_nodes), y=(0, None))

    return [
        (
            "What each node given up brings",
            "Batch wait of static reserves without a wait, as a share of today's; lines: 95 % of the draws of weeks.",
            draw("given-up-wait", "Batch wait by nodes given up", waits, height=3.0),
        ),
        (
            "And costs",
            "Rejected requests, by the same settings; lines go up to the worst run.",
            draw("given-up-rejected", "Rejected requests by nodes given up", rejections, height=3.0),
        ),
    ]


def _whole_percent(share: float) -> str:
    return percent(share, 0)


def _or_blank(form: Callable[[float], str], value: float | None) -> str:
    return "" if value is None else form(value)


def _plots(found: Sequence[Figures]) -> list[tuple[str, str, Plot]]:
    with_requests = [each for each in found if each.setting.algorithm != BATCH_ONLY]
    return [
        (
            "Rejected requests",
            "Per cent of the on-demand requests, by setting.",
            _bars(
                "rejected", "Rejected requests by setting", with_requests, lambda each: 100 * each.reject_rate
            ),
        ),
        (
            "Batch wait",
            "Mean wait of batch jobs in minutes; lines from the least to the most of the runs.",
            _bars(
                "wait",
                "Mean batch wait by setting",
                found,
                lambda each: each.wait_min,
                lambda each: (each.least_wait_min, each.most_wait_min),
            ),
        ),
        (
            "Idle reserve",
            "Node-hours a week that stand idle in reserve.",
            _bars("idle", "Idle reserve by setting", with_requests, lambda each: each.idle_node_h),
        ),
    ]


def _bars(
    name: str,
    label: str,
    found: Sequence[Figures],
    value: Callable[[Figures], float],
    spread: Callable[[Figures], tuple[float, float]] | None = None,
) -> Plot:
    def paint(axes: Axes, is_wide: bool) -> None:
        places = list(range(len(found)))
        colours = [ACCENT if each.setting.is_merger else FAINT for each in found]
        axes.bars([place - 0.35 for place in places], [value(each) for each in found], 0.7, colours)
        if spread is not None:
            low, high = zip(*(spread(each) for each in found), strict=True)
            axes.stems(places, low, high, INK, width=1.2)
        names = [each.setting.label for each in found]
        axes.x_names(places, names, size=9 if is_wide else 7)
        axes.show(y=(0, None))

    return draw(name, label, paint, height=2.97)
