"""A predictor of our own: the usual of this slot of the day and week."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from balancer.predictors.quantiles import check_quantile, weighted_quantile

if TYPE_CHECKING:
    from balancer.predictors.interface import History

_WEEK = 7


@dataclass(frozen=True, slots=True)
class SeasonalQuantile:
    """A quantile of the nodes requested in the same slot of the day in the last weeks.

    The same day of the week counts `weekday_weight` times, yesterday `yesterday_weight` times. Unlike a peak
    it does not pay for one burst for a month: `quantile` says which share of slots is to be covered.
    """

    quantile: float = 0.9
    weeks: int = 4
    weekday_weight: float = 3.0
    yesterday_weight: float = 3.0

    def __post_init__(self) -> None:
        check_quantile(self.quantile)
        if not isinstance(self.weeks, int) or self.weeks < 1:
            raise ValueError(f"weeks must be a whole number of at least 1, not {self.weeks!r}")
        for name in ("weekday_weight", "yesterday_weight"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)!r}")

    def predict(self, history: History, slot: int) -> int:
        samples = []
        for day in range(1, _WEEK * self.weeks + 1):
            nodes = history.days_before(slot, day)
            if nodes is not None:
                weight = self.weekday_weight if day % _WEEK == 0 else 1.0
                samples.append((nodes, max(weight, self.yesterday_weight) if day == 1 else weight))
        return weighted_quantile(samples, self.quantile)
