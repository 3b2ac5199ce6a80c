"""A predictor of our own: what was asked lately counts most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from balancer.predictors.quantiles import check_quantile, weighted_quantile

if TYPE_CHECKING:
    from balancer.predictors.interface import History

_LONGEST_HALF_LIVES = 10


@dataclass(frozen=True, slots=True)
class RecencyWeighted:
    """A quantile of all recent slots, each weighing half as much every `half_life_days`.

    An experiment lasts for days and then is over, so the last slots say more than last month. Slots of
    another time of day count `other_slot_weight` of one at the same time.
    """

    quantile: float = 0.9
    half_life_days: float = 2.0
    other_slot_weight: float = 0.25

    def __post_init__(self) -> None:
        check_quantile(self.quantile)
        if not self.half_life_days > 0:
            raise ValueError(f"half_life_days must be more than 0, not {self.half_life_days!r}")
        if not 0 <= self.other_slot_weight <= 1:
            raise ValueError(f"other_slot_weight must lie from 0 to 1, not {self.other_slot_weight!r}")

    def predict(self, history: History, slot: int) -> int:
        samples = []
        reach = int(_LONGEST_HALF_LIVES * self.half_life_days * history.slots_per_day) + 1
        for back in range(1, reach + 1):
            nodes = history.requested(slot - back)
            if nodes is None:
                continue
            weight = 0.5 ** (back / history.slots_per_day / self.half_life_days)
            same_time = back % history.slots_per_day == 0
            samples.append((nodes, weight if same_time else weight * self.other_slot_weight))
        return weighted_quantile(samples, self.quantile)
