"""What a predictor sees (`History`) and what it answers: how many nodes to reserve in a slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from balancer.clock import micros

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Slots:
    """Time cut into equal slots, a whole number of them a day; slot 0 begins at time 0 (UTC midnight).

    The paper has four slots of six hours (balancer-liu-2018, II-C.3).
    """

    a_day: int = 4

    def __post_init__(self) -> None:
        if isinstance(self.a_day, bool) or not isinstance(self.a_day, int) or not 1 <= self.a_day <= DAY_S:
            raise ValueError(f"slots_per_day must be a whole number from 1 to {DAY_S}, not {self.a_day!r}")

    @property
    def length_s(self) -> float:
        return DAY_S / self.a_day

    @property
    def length_us(self) -> int:
        return micros(self.length_s)

    def at(self, now_us: int) -> int:
        """The number of the slot that this time lies in."""
        return now_us // self.length_us

    def begin_us(self, slot: int) -> int:
        return slot * self.length_us


@dataclass(frozen=True, slots=True)
class History:
    """Nodes requested in each past slot: `nodes[i]` is the sum over the requests of slot `first + i`."""

    first: int
    nodes: Sequence[int]
    slots_per_day: int = 4

    def requested(self, slot: int) -> int | None:
        """Nodes requested in this slot; None where nothing is known."""
        at = slot - self.first
        return self.nodes[at] if 0 <= at < len(self.nodes) else None

    def days_before(self, slot: int, days: int) -> int | None:
        """Nodes requested in the same slot of the day, this many days earlier."""
        return self.requested(slot - days * self.slots_per_day)

    def until(self, slot: int) -> History:
        """Only what was known when this slot began."""
        return History(self.first, self.nodes[: max(0, slot - self.first)], self.slots_per_day)


class Predictor(Protocol):
    """Pure: the same history, the same answer. A dataclass whose fields are its parameters."""

    def predict(self, history: History, slot: int) -> int:
        """How many nodes to reserve for this slot, 0 or more. `history` ends before the slot begins."""
