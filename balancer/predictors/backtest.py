"""How a predictor would have done: pinball loss, shortfall, and node-hours reserved for nothing."""

from __future__ import annotations

from dataclasses import dataclass

from balancer.predictors.interface import DAY_S, History, Predictor
from balancer.predictors.planner import predicted

_HOUR_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Figures over the slots that were predicted. Nodes are nodes requested in a slot."""

    slots: int
    pinball_loss: float
    """Mean pinball (quantile) loss, nodes: quantile * shortfall + (1 - quantile) * excess."""
    slots_short: int
    """Slots in which more was requested than predicted."""
    nodes_requested: int
    nodes_short: int
    """Nodes requested beyond the prediction, in all slots together."""
    wasted_node_h: float
    """Node-hours held until the end of their slot without having been requested in it."""

    @property
    def covered(self) -> float:
        """Share of the requested nodes that the prediction covered; 1 if none was requested."""
        return 1 - self.nodes_short / self.nodes_requested if self.nodes_requested else 1.0


def pinball(quantile: float, actual: float, predicted: float) -> float:
    """Pinball loss of one prediction (Koenker and Bassett 1978)."""
    miss = actual - predicted
    return quantile * miss if miss >= 0 else (quantile - 1) * miss


def backtest(
    predictor: Predictor, history: History, *, quantile: float = 0.9, warmup_days: int = 28
) -> Score:
    """Predict each slot after the warm-up from what was known before it. Raises ValueError if none is left."""
    first = history.first + warmup_days * history.slots_per_day
    slots = range(first, history.first + len(history.nodes))
    if not slots:
        days = len(history.nodes) / history.slots_per_day
        raise ValueError(f"the history has {days:g} days: fewer than the warm-up of {warmup_days}")
    loss = 0.0
    requested = short = excess = slots_short = 0
    for slot in slots:
        wanted = max(0, predicted(predictor, history.until(slot), slot))
        actual = history.requested(slot) or 0
        loss += pinball(quantile, actual, wanted)
        requested += actual
        short += max(0, actual - wanted)
        excess += max(0, wanted - actual)
        slots_short += actual > wanted
    return Score(
        slots=len(slots),
        pinball_loss=loss / len(slots),
        slots_short=slots_short,
        nodes_requested=requested,
        nodes_short=short,
        wasted_node_h=excess * DAY_S / history.slots_per_day / _HOUR_S,
    )
