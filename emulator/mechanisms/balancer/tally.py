"""What a service keeps as its history, where there is none: in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from balancer.predictors.interface import History

if TYPE_CHECKING:
    from collections.abc import Sequence

    from balancer.predictors.interface import Slots


@dataclass(slots=True)
class Tally:
    """Counts requested nodes by slot."""

    slots: Slots
    before: Sequence[int] = ()
    """Nodes requested in the slots before slot 0, oldest first."""
    _counts: list[int] = field(default_factory=list)

    def add(self, now_us: int, nodes: int) -> None:
        """`nodes` were requested now."""
        self._reach(self.slots.at(now_us))
        self._counts[-1] += nodes

    def history(self, now_us: int) -> History:
        """All slots up to the present one, which is not over."""
        self._reach(self.slots.at(now_us))
        return History(-len(self.before), (*self.before, *self._counts), self.slots.a_day)

    def _reach(self, slot: int) -> None:
        self._counts.extend([0] * (slot + 1 - len(self._counts)))
