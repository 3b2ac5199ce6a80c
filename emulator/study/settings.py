"""What a study of a merger tries: the split of today, the bounds, and the Balancer in many settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

SPLIT, BATCH_ONLY = "split", "batch only"
_SHARES = (0.0, 0.09, 0.18, 0.35, 0.5)
"""Static reserves that are tried unless said otherwise, as shares of today's on-demand nodes."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to run the machine. `algorithm`: `split`, `batch only`, `basic`, `hint` or a predictor's name.

    `reserve` is R in nodes, `wait_min` W and `notice_min` H in minutes.
    """

    algorithm: str
    reserve: int = 0
    wait_min: float = 0
    notice_min: float = 0
    is_predictive: bool = field(default=False, compare=False)

    @property
    def label(self) -> str:
        if self.algorithm == "basic":
            return f"basic R={self.reserve} W={self.wait_min:g}"
        if self.algorithm == "hint":
            return f"hint H={self.notice_min:g}"
        return self.algorithm

    @property
    def words(self) -> str:
        """What it asks of the site, to go on from `with`; `label` is the name in tables."""
        if self.algorithm == "hint":
            return f"{self.notice_min:g} min of notice from users"
        if self.algorithm != "basic":
            return f"a reserve that {self.algorithm} predicts"
        nodes = f"{self.reserve} node{'' if self.reserve == 1 else 's'}"
        reserve = f"a reserve of {nodes}" if self.reserve else "no reserve"
        return reserve + (f" and requests that wait up to {self.wait_min:g} min" if self.wait_min else "")

    @property
    def is_merger(self) -> bool:
        """Of both clusters; the others are what it is measured against."""
        return self.algorithm not in (SPLIT, BATCH_ONLY)

    def mechanism(self, ondemand_nodes: int, history: Sequence[int]) -> dict[str, Any] | None:
        """As in a scenario. `history`: nodes requested in the slots before time 0, for predictors."""
        if self.algorithm == BATCH_ONLY:
            return None
        if self.algorithm == SPLIT:
            return {"static_partition": {"ondemand_nodes": ondemand_nodes}}
        if self.is_predictive:
            return {"balancer": {"algorithm": "hint", "predictor": self.algorithm, "history": list(history)}}
        if self.algorithm == "hint":
            return {"balancer": {"algorithm": "hint", "notice_s": 60 * self.notice_min}}
        return {
            "balancer": {
                "static_reserve": self.reserve,
                "reserve_rule": "refilled",  # which keeps more for requests: the advice is about nodes, not the paper
                "wait_s": 60 * self.wait_min,
            }
        }


def default_reserves(ondemand_nodes: int) -> list[int]:
    """A tenth to a half of today's on-demand nodes, and none."""
    return sorted({round(share * ondemand_nodes) for share in _SHARES})


def settings(
    reserves: Sequence[int],
    waits_min: Sequence[float],
    notices_min: Sequence[float],
    predictors: Sequence[str],
) -> list[Setting]:
    """All that is tried, in the order of the table."""
    return [
        Setting(SPLIT),
        Setting(BATCH_ONLY),
        *(Setting("basic", reserve, wait_min) for reserve in reserves for wait_min in waits_min),
        *(Setting("hint", notice_min=notice_min) for notice_min in notices_min),
        *(Setting(name, is_predictive=True) for name in predictors),
    ]
