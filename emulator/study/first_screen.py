"""What a study of a merger shows first: the verdict, three tiles, how far to trust it, and one chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.report.drawing import ACCENT, BAD, FAINT, INK, draw
from emulator.study.plausible import trust
from emulator.study.settings import SPLIT
from emulator.study.verdict import MERGE
from emulator.text.number_text import duration, grouped, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.report.drawing import Axes, Plot
    from emulator.study.answer import Answer
    from emulator.study.judge import Figures

_COLOURS = (ACCENT, "var(--od-alloc)", "var(--down)", FAINT)
"""Of the lines, one a wait; from the fourth on all alike."""


def tiles(answer: Answer) -> list[tuple[str, str, str]]:
    """(name, value, remark) of nodes kept, batch wait and refused requests with the first advice; none without any."""
    if not answer.advice:
        return []
    advice = answer.advice[0][1]
    each, today = advice.figures, _today(answer)
    kept = f"{each.setting.reserve} of {answer.ondemand_nodes}"
    if each.setting.algorithm not in ("basic", "hint"):
        kept = "as predicted"
    merged = "" if answer.verdicts[0].value == MERGE else ", if merged"  # else they read as advice
    wait, refused_today = f"{duration(60 * each.wait_min)}", ""
    if today is not None:
        wait = f"{duration(60 * today.wait_min)} → {wait}"
        refused_today = f"today {grouped(today.rejected)} of {grouped(today.requests)}"
        if answer.pairings > 1:
            refused_today += f"; {answer.pairings} pairings, so requests count more than once"
    between = ""
    if advice.wait_ratio is not None:
        low, high = advice.wait_ratio
        between = f"95 %: {100 * low:.0f} to {percent(high, 0)} of today's"
    return [
        (
            f"On-demand nodes kept{merged}",
            kept,
            f"{each.setting.label} in the tables",
        ),
        ("Mean batch wait, today to merged", wait, between),
        (f"Requests refused{merged}", f"{grouped(each.rejected)} of {grouped(each.requests)}", refused_today),
    ]


def light(answer: Answer) -> tuple[str, str]:
    """Colour (`green` or `amber`; a red study has no page) and words of how far to trust the answer."""
    text = trust(answer.today)
    return ("green" if "(green)" in text else "amber"), text


def chart(answer: Answer) -> Plot | None:
    """Batch wait by nodes kept, a line a wait W, today as a point; with what is refused beside each point."""
    lines: dict[float, list[Figures]] = {}
    for each in answer.found:
        if each.setting.algorithm == "basic":
            lines.setdefault(each.setting.wait_min, []).append(each)
    today = _today(answer)
    if not lines:
        return None

    def paint(axes: Axes, is_wide: bool) -> None:
        for place, (wait_min, found) in enumerate(sorted(lines.items())):
            colour = _COLOURS[min(place, len(_COLOURS) - 1)]
            found.sort(key=lambda each: each.setting.reserve)
            reserves, waits = [each.setting.reserve for each in found], [each.wait_min for each in found]
            axes.line(reserves, waits, colour, width=1.6)
            axes.dots(reserves, waits, colour, size=6)
            axes.legend(f"requests wait up to {wait_min:g} min" if wait_min else "no request waits", colour)
            if is_wide and len(lines) == 1:
                axes.texts_apart(reserves, waits, [each.reject_rate for each in found], _refused)
            refused = [each for each in found if each.rejected]
            axes.dots(
                [each.setting.reserve for each in refused],
                [each.wait_min for each in refused],
                BAD,
                size=8,
                crossed=True,
            )
        if any(each.rejected for found in lines.values() for each in found):
            axes.legend("some requests refused", BAD, mark="cross")
        if today is not None:
            axes.dots([answer.ondemand_nodes], [today.wait_min], INK, size=9)
            axes.legend("today, two machines", INK, mark="dot")
        axes.label(x="on-demand nodes kept", y="mean batch wait, min")
        axes.show(x=(-0.02 * answer.ondemand_nodes, 1.02 * answer.ondemand_nodes), y=(0, None))

    return draw("first", "Batch wait by on-demand nodes kept, with refusals and today", paint, height=3.4)


def _refused(rates: Sequence[float]) -> str:
    low, high = (percent(end(rates)) if end(rates) else "none" for end in (min, max))
    return f"{low if low == high else f'{low} to {high}'} refused"


def _today(answer: Answer) -> Figures | None:
    return next((each for each in answer.found if each.setting.algorithm == SPLIT), None)
