"""All that a study found, for those who print it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from emulator.study.longer_limits import as_dict, if_they_wait
from emulator.study.plausible import trust
from emulator.study.verdict import MERGE
from emulator.study.wording import sentences

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.study.attribution import Who
    from emulator.study.growth import Grown
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
    draws of weeks have its batch wait over today's. `held_out` is None with few weeks, `who` where two machines are
    kept. `price` is of a node-hour, in whatever money. `growth` is empty unless it was asked for.
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
    who: Who | None
    price: float | None
    growth: tuple[Grown, ...] = ()

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

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "verdict": self.verdicts[0].value,
            "reason": self.verdicts[0].reason,
            "batch_nodes": self.logs.batch_nodes,
            "ondemand_nodes": self.ondemand_nodes,
            "wishes": asdict(self.wishes),
            "weeks": [self.logs.weeks[week].as_dict() for week in self.weeks],
            "notes": list(self.logs.notes),
            "settings": [self._figures(each) for each in self.found],
            "advice": [
                {
                    **asdict(each),
                    "figures": self._figures(each.figures),
                    "with_notice": bool(prefix),
                    "verdict": self.verdict_of(each).value,
                    "reason": self.verdict_of(each).reason,
                    "text": " ".join(sentences(self, each)),
                }
                for prefix, each in self.advice
            ],
            "if_requests_wait": None if self.waiting is None else as_dict(self.waiting),
            "held_out": None
            if self.held_out is None
            else {
                **asdict(self.held_out),
                "setting": self.held_out.setting.label,
                "best": self.held_out.best.label,
            },
            "who": None if self.who is None else asdict(self.who),
            "today": [asdict(each) for each in self.today],
            "trust": trust(self.today),
            **({"growth": [asdict(each) for each in self.growth]} if self.growth else {}),
        }

    def _figures(self, each: Figures) -> dict[str, Any]:
        low, high = self.ratios.get(each.setting.label, (None, None))
        return {
            **asdict(each),
            "setting": each.setting.label,
            "algorithm": each.setting.algorithm,
            "reserve": each.setting.reserve,
            "wait_limit_min": each.setting.wait_min,
            "notice_min": each.setting.notice_min,
            "reject_rate": each.reject_rate,
            "wait_ratio_low": low,
            "wait_ratio_high": high,
        }
