"""Decision points, in the order in which they are handled at one time, whatever the clock."""

from __future__ import annotations

from enum import IntEnum

from emulator.ranks import Rank


class Point(IntEnum):
    """What a mechanism decides at (the same order as `Rank`, by which processes of a live run take turns)."""

    CHECKPOINT = Rank.CHECKPOINT
    TIMER = Rank.TIMER
    COMPLETION = Rank.COMPLETION
    ARRIVAL = Rank.ARRIVAL
    PREDICTED = Rank.PREDICTED
    NOTICE = Rank.NOTICE


# Members as plain names: points are compared all the time, and a look into the class costs more than that.
CHECKPOINT, TIMER, COMPLETION, ARRIVAL, PREDICTED, NOTICE = Point
