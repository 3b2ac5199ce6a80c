"""A study's answer for people: a table for the terminal, sentences, and one self-contained page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from rich.table import Table

from emulator.report import drawing
from emulator.report.drawing import ACCENT, FAINT, INK, draw
from emulator.report.wording import duration
from emulator.study.plausible import sentence
from emulator.study.settings import BATCH_ONLY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from emulator.report.drawing import Axes, Plot
    from emulator.study.judge import Advice, Figures, Wishes
    from emulator.study.logs import Logs
    from emulator.study.plausible import Today

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
_templates = [Path(__file__).parent, Path(drawing.__file__).parent]
_environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_templates),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def cells(each: Figures) -> tuple[str, ...]:
    """A setting's line of the table."""
    asked = each.setting.algorithm != BATCH_ONLY
    return (
        each.setting.label,
        f"{each.rejected} of {each.requests} ({100 * each.reject_rate:.1f} %)" if asked else "all",
        f"{100 * each.worst_rejected:.1f} %" if asked else "",
        f"{each.wait_min:.1f} min",
        f"{each.least_wait_min:.1f} to {each.most_wait_min:.1f}",
        "" if each.wait_ratio is None else f"{100 * each.wait_ratio:.0f} %",
        f"{each.idle_node_h:,.0f} node-h",
        f"{100 * each.utilisation:.1f} %",
    )


def terminal_table(found: Sequence[Figures], best: Sequence[Advice]) -> Table:
    """All settings in 80 columns; the recommended ones in bold. The page has the spread too."""
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("setting", no_wrap=True)
    for heading in ("rejected", "worst", "wait, min", "of today's", "idle, node-h", "used"):
        table.add_column(heading, justify="right", no_wrap=True)
    labels = {advice.figures.setting.label for advice in best if advice.meets}
    for each in found:
        label, is_best = each.setting.label, each.setting.label in labels
        asked = each.setting.algorithm != BATCH_ONLY
        table.add_row(
            f"{label} *" if is_best else label,
            f"{each.rejected:,} ({100 * each.reject_rate:.1f} %)" if asked else "all",
            f"{100 * each.worst_rejected:.1f} %" if asked else "",
            f"{each.wait_min:,.1f}",
            "" if each.wait_ratio is None else f"{100 * each.wait_ratio:.0f} %",
            f"{each.idle_node_h:,.0f}",
            f"{100 * each.utilisation:.1f} %",
            style="bold" if is_best else None,
        )
    return table


def sentences(advice: Advice, wishes: Wishes, ondemand_nodes: int) -> list[str]:
    """The recommendation in words."""
    each = advice.figures
    limit = (
        f"at most {100 * wishes.most_rejected:g} % rejected" if wishes.most_rejected else "nothing rejected"
    )
    if not advice.meets:
        nearest = (
            f"No setting that was tried keeps to your wish ({limit}). {each.setting.label} comes nearest:"
            f" {each.rejected} of {each.requests} requests rejected. Try larger reserves, longer waits or a notice."
        )
        return [nearest]
    given_up = ondemand_nodes - each.setting.reserve
    first = (
        f"Take {each.setting.label}: of {each.requests} on-demand requests {each.rejected} are rejected, and"
        f" {given_up} of the {ondemand_nodes} on-demand nodes ({100 * given_up / ondemand_nodes:.0f} %) need not be"
        f" set aside ({each.idle_node_h:,.0f} node-hours a week stand idle in reserve)."
    )
    waits = f"Batch jobs wait {duration(60 * each.wait_min)} on average."
    if each.wait_ratio is not None and advice.wait_ratio is not None:
        low, high = advice.wait_ratio
        waits = (
            f"Batch jobs wait {duration(60 * each.wait_min)} on average, {100 * each.wait_ratio:.0f} % of what they"
            f" wait beside a cluster of their own (95 %: {100 * low:.0f} to {100 * high:.0f} %)."
        )
    sure = (
        f"Confidence: with weeks drawn anew from these {advice.weeks}, it keeps to your wish and batch jobs wait no"
        f" longer than today in {100 * advice.confidence:.0f} % of the draws, and it is the best choice in"
        f" {100 * advice.same_choice:.0f} %. {advice.weeks} weeks cannot show more than that at most"
        f" {100 * advice.unseen_weeks:.0f} % of such weeks reject anything (95 %)."
    )
    return [first, waits, sure]


def page(
    found: Sequence[Figures],
    advice: Sequence[tuple[str, Advice]],
    wishes: Wishes,
    logs: Logs,
    weeks: Sequence[int],
    *,
    today: Sequence[Today],
    ondemand_nodes: int,
    pairings: int,
) -> str:
    """The HTML page. The same figures give the same bytes."""
    best = {each.figures.setting.label for _, each in advice if each.meets}
    return _environment.get_template("study.html.j2").render(
        title=f"One machine of {logs.batch_nodes} + {ondemand_nodes} nodes?",
        lead=(
            f"{len(found)} settings on {len(weeks)} weeks, each with {pairings} pairing"
            f"{'s' if pairings > 1 else ''} of batch jobs and leases"
        ),
        advice=[
            f"{prefix}{sentence}" if first == 0 else sentence
            for prefix, each in advice
            for first, sentence in enumerate(sentences(each, wishes, ondemand_nodes))
        ],
        plots=_plots(found),
        headings=HEADINGS,
        rows=[(cells(each), each.setting.label in best) for each in found],
        week_headings=("week", "jobs", "free nodes", "on-demand core-hours", "score"),
        weeks=[
            (
                logs.weeks[week].begin.isoformat(),
                f"{logs.weeks[week].jobs:,}",
                f"{logs.weeks[week].free_nodes:.1f}",
                f"{logs.weeks[week].core_hours:,.0f}",
                f"{logs.weeks[week].score:.3f}",
            )
            for week in weeks
        ],
        today=sentence(today),
        today_headings=("week", "waited, min", "simulated", "in use", "simulated", "most nodes at once"),
        today_rows=[
            (
                each.week,
                _or_blank("{:,.0f}", each.recorded_wait_min),
                _or_blank("{:,.0f}", each.simulated_wait_min),
                _or_blank("{:.0%}", each.recorded_used),
                _or_blank("{:.0%}", each.simulated_used),
                _or_blank("{:,}", each.most_in_use),
            )
            for each in today
        ],
        notes=logs.notes,
    )


def _or_blank(form: str, value: float | None) -> str:
    return "" if value is None else form.format(value)


def _plots(found: Sequence[Figures]) -> list[tuple[str, str, Plot]]:
    asked = [each for each in found if each.setting.algorithm != BATCH_ONLY]
    return [
        (
            "Rejected requests",
            "Per cent of the on-demand requests, by setting.",
            _bars("rejected", "Rejected requests by setting", asked, lambda each: 100 * each.reject_rate),
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
            _bars("idle", "Idle reserve by setting", asked, lambda each: each.idle_node_h),
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
        axes.x_names(places, names, size=9 if is_wide else 7, upright=True)
        axes.show(y=(0, None))

    return draw(name, label, paint, height=4.2, bottom=1.75)
