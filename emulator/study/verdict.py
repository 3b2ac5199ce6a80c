"""Whether to merge at all: today's two machines are a candidate like any other, and doing nothing needs no proof.

A merger stands as `merge` only if it shortens the batch wait of today by the whole interval (95 % of the draws of
weeks), keeps to the wishes in as many of the draws, and did both on the half of the weeks that it was not chosen from;
and if there were enough requests to say that no more are rejected in the long run than is accepted, or than 3 %, since
no log shows that none ever is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.study.judge import at_most
from emulator.text.number_text import grouped, number_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.study.held_out import HeldOut
    from emulator.study.judge import Advice, Wishes

MERGE, KEEP, UNTOLD = "merge", "keep two machines", "cannot be told"
FEWEST_WEEKS = 4
"""Half of them choose, half of them try: with fewer a half is a single week."""
_SURE = 0.95
_FEW = 0.03
"""Of the requests: fewer rejections than these nobody can exclude who has hardly a hundred requests."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`value` is `merge`, `keep two machines` or `cannot be told`; `reason` ends with what would tell."""

    value: str
    reason: str

    @property
    def sentence(self) -> str:
        return f"{self.value[0].upper()}{self.value[1:]}: {self.reason}"


def verdict(  # noqa: PLR0911 - a reason each
    advice: Advice | None, trial: HeldOut | None, wishes: Wishes, doubts: Sequence[str] = ()
) -> Verdict:
    """Of one recommendation, made for these `wishes`. `doubts`: why the runs themselves are not to be built upon."""
    if doubts:
        return Verdict(UNTOLD, " ".join(doubts))
    if advice is None:
        return Verdict(
            UNTOLD,
            "no merger without a notice from users was tried in which requests wait as little as you accept; add"
            " such a W to --wait-min, or say --accept-wait-min.",
        )
    each, words = advice.figures, advice.figures.setting.words
    if not advice.meets:
        return Verdict(
            KEEP,
            f"no merger {advice.notice} that was tried keeps to your limits ({wishes.limits}); of those with such a"
            f" wait the one with {words} comes nearest: {grouped(each.rejected)} of {grouped(each.requests)} rejected.",
        )
    if each.wait_ratio is None or advice.wait_ratio is None:
        return Verdict(KEEP, "batch jobs do not wait today, so there is no wait that merging could shorten.")
    low, high = advice.wait_ratio
    waits = f"with {words}, batch jobs wait {_percent(each.wait_ratio)} % of today's"
    if low >= 1:
        return Verdict(
            KEEP,
            f"{waits}, and that is the best merger {advice.notice} within your limits ({wishes.limits}).",
        )
    between = f"{waits} (95 %: {_percent(low)} to {_percent(high)} %)"
    if advice.weeks < FEWEST_WEEKS:
        return Verdict(
            UNTOLD,
            f"{between}, but that is seen in {number_of(advice.weeks, 'week')} only; {FEWEST_WEEKS} or more would tell"
            " (--weeks, without --quick).",
        )
    if high >= 1 or advice.confidence < _SURE:
        return Verdict(
            UNTOLD,
            f"{between}, and it keeps to your limits without longer waits in {_percent(advice.confidence)} % of the"
            f" draws of weeks where {_percent(_SURE)} are asked for; more weeks would tell.",
        )
    if trial is None or not (trial.keeps and trial.wait_ratio is not None and trial.wait_ratio < 1):
        return Verdict(UNTOLD, f"{between}, but {_failed(trial)}; more weeks would tell.")
    most, limit = at_most(each.rejected, each.requests), max(wishes.most_rejected, _FEW)
    if most > limit:
        return Verdict(
            UNTOLD,
            f"{between}, but {grouped(each.rejected)} of {grouped(each.requests)} rejected"
            f" requests leave open whether in the long run up"
            f" to {_tenths(most)} % are, where {_tenths(limit)} % would do; more weeks would tell.",
        )
    return Verdict(
        MERGE, f"{between}, {grouped(each.rejected)} of {grouped(each.requests)} requests are rejected"
        f" (in the long run at most {_tenths(most)} %), and weeks that it was not chosen from say the same.",
    )  # fmt: skip


def _failed(trial: HeldOut | None) -> str:
    if trial is None or trial.wait_ratio is None:
        return "it could not be tried on weeks that it was not chosen from"
    if not trial.keeps:
        return (
            f"what half of the weeks recommend ({trial.setting.words}) rejects"
            f" {grouped(trial.rejected)} of {grouped(trial.requests)}"
            " requests in the other half"
        )
    return (
        f"what half of the weeks recommend ({trial.setting.words}) has batch jobs wait {_percent(trial.wait_ratio)} %"
        " of today's in the other half"
    )


def _tenths(share: float) -> str:
    return f"{100 * share:.1f}"


def _percent(share: float) -> str:
    """Never rounded onto 100 % from below or above."""
    text = f"{100 * share:.0f}"
    return f"{100 * share:.2f}" if text == "100" and share != 1 else text
