"""Decision points, in the order in which they are handled at one time, whatever the clock."""

from __future__ import annotations

from enum import IntEnum

from emulator.clock.event_priority import EventPriority


class Point(IntEnum):
    """What a mechanism decides at (the same order as `EventPriority`, by which processes of a live run take turns)."""

    CHECKPOINT = EventPriority.CHECKPOINT
    TIMER = EventPriority.TIMER
    COMPLETION = EventPriority.COMPLETION
    ARRIVAL = EventPriority.ARRIVAL
    PREDICTED = EventPriority.PREDICTED
    NOTICE = EventPriority.NOTICE


# Members as plain names: points are compared all the time, and a look into the class costs more than that.
CHECKPOINT, TIMER, COMPLETION, ARRIVAL, PREDICTED, NOTICE = Point
