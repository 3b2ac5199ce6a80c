"""The paper's predictor (balancer-liu-2018, II-C.3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from balancer.predictors.interface import History

_COMBINE = ("max", "mean", "last")


@dataclass(frozen=True, slots=True)
class Peak:
    """The largest of the nodes requested in the same slot a day, a week and a month ago.

    `month_days`: 28 keeps the day of the week. `window`: true takes the peak over all days up to a month
    ago, the other reading of "the peak during the same time slot of the last month, week, and day".
    `combine`: `max`, `mean`, or `last` (the latest that is known). What is not known yet does not count.
    """

    combine: str = "max"
    month_days: int = 28
    window: bool = False

    def __post_init__(self) -> None:
        if self.combine not in _COMBINE:
            raise ValueError(f"combine must be one of {', '.join(_COMBINE)}, not {self.combine!r}")
        if not isinstance(self.month_days, int) or self.month_days < 1:
            raise ValueError(f"month_days must be a whole number of at least 1, not {self.month_days!r}")

    def predict(self, history: History, slot: int) -> int:
        days = range(1, self.month_days + 1) if self.window else (1, 7, self.month_days)
        known = [nodes for nodes in (history.days_before(slot, day) for day in days) if nodes is not None]
        if not known:
            return 0
        if self.combine == "last":
            return known[0]
        return max(known) if self.combine == "max" else ceil(sum(known) / len(known))
