"""A failure model: which nodes are down when."""

from dataclasses import dataclass
from itertools import count

from emulator.events.node_failures import Outage

HOUR_US = 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class OneByOne:
    """Every `every_h` hours the next node is down for an hour, from the first to the last and again."""

    every_h: int = 24

    def outages(self, rng, node_names):
        for turn in count(1):
            begin_us = turn * self.every_h * HOUR_US
            yield Outage(begin_us, begin_us + HOUR_US, (turn - 1) % len(node_names))
