"""What the out-of-band predictor does at the beginning of a slot. Pure.

The paper calls `add_reserve(0, N)` at the beginning of each slot (balancer-liu-2018, II-C.3) and lets nodes go
that were reserved for more than I; it does not say how N nodes then last for six hours. `Keep` has both readings.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from operator import index

from balancer.plugins import PREDICTORS, PluginError, whose
from balancer.predictors.interface import History, Predictor, Slots


class Keep(StrEnum):
    """How long the nodes of a prediction are kept."""

    SLOT = "slot"
    """To the end of the slot; each node that is requested is taken off."""
    HOLD = "hold"
    """For I, as the paper's text has it."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """add_reserve(0, `nodes`), kept for `keep_us` (None: for I)."""

    nodes: int
    keep_us: int | None


def predicted(predictor: Predictor, history: History, slot: int) -> int:
    """How many nodes the predictor wants in the slot. Raises PluginError where it raises, or says no whole number."""
    try:
        nodes = predictor.predict(history, slot)
    except Exception as error:
        raise PluginError(
            f"{whose(PREDICTORS, predictor)} failed in predict: {type(error).__name__}: {error}"
        ) from error
    try:
        return index(nodes)
    except TypeError as error:
        raise PluginError(
            f"{whose(PREDICTORS, predictor)}: predict returned {nodes!r}; return a whole number of nodes"
        ) from error


def reservation(
    predictor: Predictor, history: History, now_us: int, *, most: int, keep: Keep = Keep.SLOT
) -> Reservation:
    """What to reserve for the slot that `now_us` lies in, of at most `most` nodes; 0 nodes: no call.

    Called late, in the middle of a slot, it takes off what was requested in the slot before.
    """
    slots = Slots(history.slots_per_day)
    slot = slots.at(now_us)
    estimate = predicted(predictor, history.until(slot), slot) - (history.requested(slot) or 0)
    keep_us = slots.begin_us(slot + 1) - now_us if keep is Keep.SLOT else None
    return Reservation(min(most, max(0, estimate)), keep_us)
