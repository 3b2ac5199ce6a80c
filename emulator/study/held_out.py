"""A recommendation on trial: what the first half of the weeks alone recommends, tried on the second half."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emulator.study.judge import choice, sums
from emulator.study.merge import WEEK
from emulator.study.settings import SPLIT, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from emulator.study.judge import Wishes

_FEWEST_WEEKS = 4


@dataclass(frozen=True, slots=True)
class HeldOut:
    """How the `setting` of the `first_weeks` did in the `then_weeks` after them.

    `wait_ratio`: batch wait there over that of the split, None without one; `best`: what those weeks alone would have
    recommended.
    """

    setting: Setting
    first_weeks: int
    then_weeks: int
    requests: int
    rejected: int
    keeps: bool
    wait_ratio: float | None
    best: Setting


def on_trial(
    rows: Sequence[Mapping[str, Any]], settings: Sequence[Setting], wishes: Wishes
) -> HeldOut | None:
    """By date, the earlier half of the weeks against the later one. None with fewer than four weeks."""
    # `week 10` comes after `week 9`; dates are all of one length.
    weeks = sorted({str(row[WEEK]) for row in rows}, key=lambda name: (len(name), name))
    if len(weeks) < _FEWEST_WEEKS:
        return None
    half = len(weeks) // 2
    first, then = weeks[:half], weeks[half:]
    setting = choice(_of(rows, first), settings, wishes)
    best = choice(_of(rows, then), settings, wishes)
    if setting is None or best is None:
        return None
    later = _of(rows, then)
    requests, rejected, wait_s = sums(later, setting)
    today_s = sums(later, Setting(SPLIT))[2]
    return HeldOut(
        setting=setting,
        first_weeks=len(first),
        then_weeks=len(then),
        requests=requests,
        rejected=rejected,
        keeps=bool(wishes.accept(rejected, requests)),
        wait_ratio=wait_s / today_s if today_s else None,
        best=best,
    )


def _of(rows: Sequence[Mapping[str, Any]], weeks: Sequence[str]) -> list[Mapping[str, Any]]:
    return [row for row in rows if str(row[WEEK]) in weeks]
