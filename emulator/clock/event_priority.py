"""The order of events at one time, the same in virtual time and on the clock that the processes of a live run share."""

from __future__ import annotations

from enum import IntEnum


class EventPriority(IntEnum):
    """Who goes first among those that are due at the same time (design: order of events)."""

    JOB_END = 0
    """Also everything that is being worked on at this moment (`Clock.paused`)."""
    CHECKPOINT = 1
    FORECAST = 2
    """A predictor: a new slot's reserve comes before the timers that end the old one's."""
    TIMER = 3
    COMPLETION = 4
    ARRIVAL = 5
    PREDICTED = 6
    NOTICE = 7
    SUBMIT = 8
    SCHEDULE = 9
    WATCH = 10
