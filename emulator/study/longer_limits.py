"""Where a wait that nobody offered would help: fewer nodes in reserve, or limits that are kept only so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.text.number_text import duration, grouped, number_of, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.study.judge import Advice, Figures, Wishes


def if_they_wait(found: Sequence[Figures], wishes: Wishes, advice: Advice | None) -> Figures | None:
    """Of what was tried with a longer W than is accepted, the setting with the least reserve; None if none helps.

    It keeps to the accepted rejections, and needs a smaller reserve, or makes batch jobs wait less, than `advice`, the
    best of the settings without a notice; where that one does not keep to the limits, keeping to them is enough.
    """
    longer = [
        each
        for each in found
        if each.setting.is_merger
        and each.setting.wait_min > wishes.longest_wait_min
        and wishes.accept(each.rejected, each.requests)
        and (advice is None or not advice.meets or _is_better(each, advice.figures))
    ]
    return min(
        longer,
        key=lambda each: (each.setting.reserve, each.setting.wait_min, each.wait_min),
        default=None,
    )


def _is_better(each: Figures, other: Figures) -> bool:
    return each.setting.reserve < other.setting.reserve or each.wait_min < other.wait_min


def sentence(each: Figures) -> str:
    """What becomes possible."""
    setting = each.setting
    reserve = (
        f"a reserve of {number_of(setting.reserve, 'node')} is enough"
        if setting.reserve
        else "no reserve is needed"
    )
    share = "" if each.wait_ratio is None else f", {percent(each.wait_ratio, 0)} of today's"
    return (
        f"If requests may wait {setting.wait_min:g} min, {reserve}: {setting.label} rejects {grouped(each.rejected)} of"
        f" {grouped(each.requests)}, and batch jobs wait {duration(60 * each.wait_min)}{share}. To have that judged:"
        f" --accept-wait-min {setting.wait_min:g}."
    )


def as_dict(each: Figures) -> dict[str, Any]:
    """For JSON."""
    return {
        "setting": each.setting.label,
        "reserve": each.setting.reserve,
        "wait_limit_min": each.setting.wait_min,
        "text": sentence(each),
    }
