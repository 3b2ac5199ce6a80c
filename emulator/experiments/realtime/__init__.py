"""realtime-wang-2017: what it costs to let some jobs start at once."""

from emulator.experiments.realtime.paper import PAPER

__all__ = ["PAPER"]
