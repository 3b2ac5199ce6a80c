"""The out-of-band predictor in virtual time: it counts what is requested and says what to reserve at slot begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from balancer.plugins import PREDICTORS
from balancer.predictors.interface import Slots
from balancer.predictors.planner import Keep, reservation
from emulator.mechanisms.balancer.tally import Tally
from emulator.plugins import make_plugin

if TYPE_CHECKING:
    from balancer.predictors.interface import Predictor
    from balancer.predictors.planner import Reservation


@dataclass(frozen=True, slots=True)
class PredictorSettings:
    """A predictor and what it works with. `predictor`: as it is written, a name or `{NAME: {PARAMETER: VALUE}}`."""

    predictor: str | dict[str, Any]
    slots: Slots
    keep: Keep
    history: tuple[int, ...] = ()

    @classmethod
    def checked(cls, predictor: str | dict[str, Any], slots_per_day: int, keep: str, history: object) -> Self:
        """Raises ValueError."""
        if not isinstance(history, list | tuple) or not all(
            type(each) is int and each >= 0 for each in history
        ):
            raise ValueError(
                "balancer: history is a list of whole numbers: nodes requested in each past slot"
            )
        if keep not in tuple(Keep):
            raise ValueError(f"balancer: keep must be one of {', '.join(Keep)}, not {keep!r}")
        return cls(predictor, Slots(slots_per_day), Keep(keep), tuple(history))

    def begin(self, nodes: int = 0, last_submit_us: int = 0) -> Forecast:
        """Ready to run on a machine of so many nodes. Raises ValueError."""
        predictor: Predictor = make_plugin(PREDICTORS, self.predictor)
        return Forecast(predictor, self.slots, self.keep, self.history, nodes, last_submit_us)


@dataclass(slots=True)
class Forecast:
    """A predictor, what it knows, and when it acts next."""

    predictor: Predictor
    slots: Slots
    keep: Keep
    before: tuple[int, ...]
    most: int
    last_submit_us: int
    next_us: int | None = 0
    """Begin of the next slot; None: the run has no further submits, and a predictor must not keep it going."""
    _tally: Tally = field(init=False)

    def __post_init__(self) -> None:
        self._tally = Tally(self.slots, self.before)

    def requested(self, now_us: int, nodes: int) -> None:
        self._tally.add(now_us, nodes)

    def due(self, now_us: int) -> Reservation | None:
        """What to reserve now; None if no slot begins."""
        if self.next_us is None or now_us < self.next_us:
            return None
        following_us = self.slots.begin_us(self.slots.at(now_us) + 1)
        self.next_us = following_us if following_us <= self.last_submit_us else None
        history = self._tally.history(now_us)
        return reservation(self.predictor, history, now_us, most=self.most, keep=self.keep)
