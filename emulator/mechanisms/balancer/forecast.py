"""The out-of-band predictor in virtual time: it counts what is requested and says what to reserve at slot begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from balancer.predictors.interface import Slots
from balancer.predictors.loader import parse_predictor
from balancer.predictors.planner import Keep, reservation
from emulator.mechanisms.balancer.tally import Tally

if TYPE_CHECKING:
    from balancer.predictors.interface import Predictor
    from balancer.predictors.planner import Reservation

_OURS = ("name", "slots_per_day", "keep", "history")


@dataclass(frozen=True, slots=True)
class PredictorSettings:
    """The mechanism's parameter `predictor`: a name, or a mapping.

    A mapping has `name`, the predictor's own parameters,
    `slots_per_day` (4), `keep` (`slot`: a reserve lasts as long as its slot; `hold`: for I, as in the paper's
    text) and `history` (nodes requested in the slots before time 0, oldest first; what a service remembers).
    """

    name: str
    parameters: dict[str, Any]
    slots_per_day: int = 4
    keep: Keep = Keep.SLOT
    history: tuple[int, ...] = ()

    @classmethod
    def parse(cls, item: object) -> PredictorSettings:
        """Raises ValueError."""
        if isinstance(item, str):
            return cls(item, {})
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise ValueError(f"a predictor is written as its name or as {{name: NAME, ...}}, not {item!r}")  # noqa: TRY004 - a border: one kind of error
        own = {str(key): value for key, value in item.items() if key not in _OURS}
        history, keep = item.get("history", ()), item.get("keep", "slot")
        if not isinstance(history, list | tuple) or not all(
            type(each) is int and each >= 0 for each in history
        ):
            raise ValueError(
                "predictor: history is a list of whole numbers: nodes requested in each past slot"
            )
        if keep not in tuple(Keep):
            raise ValueError(f"predictor: keep must be one of {', '.join(Keep)}, not {keep!r}")
        slots = Slots(item.get("slots_per_day", 4))
        return cls(item["name"], own, slots.a_day, Keep(keep), tuple(history))


def parse_forecast(item: object) -> Forecast:
    """The predictor with its parameters, ready to run. Raises ValueError."""
    settings = PredictorSettings.parse(item)
    predictor = parse_predictor({"name": settings.name, **settings.parameters})
    return Forecast(predictor, Slots(settings.slots_per_day), settings.keep, settings.history)


@dataclass(slots=True)
class Forecast:
    """A predictor, what it knows, and when it acts next."""

    predictor: Predictor
    slots: Slots
    keep: Keep
    before: tuple[int, ...]
    next_us: int | None = 0
    """Begin of the next slot; None: the run has no further submits, and a predictor must not keep it going."""
    _most: int = 0
    _last_submit_us: int = 0
    _tally: Tally = field(init=False)

    def __post_init__(self) -> None:
        self._tally = Tally(self.slots, self.before)

    def begin(self, nodes: int, last_submit_us: int) -> None:
        self._most, self._last_submit_us = nodes, last_submit_us

    def requested(self, now_us: int, nodes: int) -> None:
        self._tally.add(now_us, nodes)

    def due(self, now_us: int) -> Reservation | None:
        """What to reserve now; None if no slot begins."""
        if self.next_us is None or now_us < self.next_us:
            return None
        following_us = self.slots.begin_us(self.slots.at(now_us) + 1)
        self.next_us = following_us if following_us <= self._last_submit_us else None
        history = self._tally.history(now_us)
        return reservation(self.predictor, history, now_us, most=self._most, keep=self.keep)
