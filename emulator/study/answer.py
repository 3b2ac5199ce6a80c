"""All that a study found, for those who print it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.study.longer_limits import if_they_wait
from emulator.study.verdict import MERGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.study.attribution import WaitChanges
    from emulator.study.growth import GrowthOutcome
    from emulator.study.held_out import HeldOut
    from emulator.study.judge import Advice, Figures, Wishes
    from emulator.study.logs import Logs
    from emulator.study.plausible import Today
    from emulator.study.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found and what it rests on.

    `verdicts`: of each advice, the first that of the study; it is there without any advice too. `advice`: each with
    the words before it, none without a notice from users. `ratios`: by a setting's label, between what 95 % of the
    draws of weeks have its batch wait over today's. `held_out` is None with few weeks, `wait_changes` where two
    machines are kept. `price` is of a node-hour, in whatever money. `growth` is empty unless it was asked for.
    """

    verdicts: tuple[Verdict, ...]
    found: tuple[Figures, ...]
    advice: tuple[tuple[str, Advice], ...]
    wishes: Wishes
    logs: Logs
    weeks: tuple[int, ...]
    today: tuple[Today, ...]
    ondemand_nodes: int
    pairings: int
    scheduler: str
    ratios: Mapping[str, tuple[float, float]]
    held_out: HeldOut | None
    wait_changes: WaitChanges | None
    price: float | None
    growth: tuple[GrowthOutcome, ...] = ()

    @property
    def best(self) -> set[str]:
        """Labels of what is recommended."""
        return {each.figures.setting.label for _, each in self.advice if self.verdict_of(each).value == MERGE}

    def verdict_of(self, advice: Advice) -> Verdict:
        """Whether to take it."""
        numbered = (at for at, (_, each) in enumerate(self.advice) if each is advice)
        return self.verdicts[next(numbered) - len(self.advice)]  # the last ones are those of the advice

    @property
    def waiting(self) -> Figures | None:
        """A setting with a longer W than is accepted that needs less; None if a wait would not help."""
        without_notice = next((each for prefix, each in self.advice if not prefix), None)
        return if_they_wait(self.found, self.wishes, without_notice)

    def given_up(self, each: Advice) -> int:
        """On-demand nodes that need not be set aside."""
        return self.ondemand_nodes - each.figures.setting.reserve
