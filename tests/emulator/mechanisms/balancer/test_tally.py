"""The history that virtual time keeps for a predictor."""

from __future__ import annotations

from balancer.clock import micros
from balancer.predictors.interface import History, Slots
from emulator.mechanisms.balancer.tally import Tally

HOUR_US = micros(3600)


def test_what_is_requested_is_counted_in_its_slot_after_what_was_before():
    tally = Tally(Slots(), before=(5,) * 4)
    tally.add(HOUR_US, 2)
    tally.add(2 * HOUR_US, 1)
    tally.add(13 * HOUR_US, 7)
    assert tally.history(14 * HOUR_US) == History(-4, (5, 5, 5, 5, 3, 0, 7))


def test_slots_in_which_nothing_is_requested_count_as_well():
    assert Tally(Slots()).history(20 * HOUR_US) == History(0, (0, 0, 0, 0))
