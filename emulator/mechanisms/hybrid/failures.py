"""When nodes fail and come back (hybrid-fan-2021, section V-C)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from balancer.clock import NEVER_US, micros

if TYPE_CHECKING:
    import numpy as np


@dataclass(slots=True)
class Failures:
    """Failures of the system at exponential intervals of mean `mtbf_s`, each of a random node that is up.

    A node is down for an exponential time of mean `repair_s`. Nothing fails after `until_us`.
    """

    rng: np.random.Generator
    nodes: int
    mtbf_s: float
    repair_s: float
    until_us: int
    count: int = 0
    _next_us: int = 0
    _down: list[tuple[int, int]] = field(default_factory=list)
    _is_down: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._draw(0)

    @property
    def next_us(self) -> int:
        """The next failure or repair."""
        return min(self._next_us, self._down[0][0] if self._down else NEVER_US)

    def repaired(self, now_us: int) -> list[int]:
        """Nodes that are up again now."""
        nodes = []
        while self._down and self._down[0][0] <= now_us:
            nodes.append(heapq.heappop(self._down)[1])
        self._is_down.difference_update(nodes)
        return nodes

    def failed(self, now_us: int) -> int | None:
        """The node that fails now, if one does."""
        if self._next_us > now_us:
            return None
        self._draw(now_us)
        if len(self._is_down) == self.nodes:
            return None
        node = int(self.rng.integers(self.nodes))
        while node in self._is_down:
            node = int(self.rng.integers(self.nodes))
        back_us = now_us + max(1, micros(self.rng.exponential(self.repair_s)))
        heapq.heappush(self._down, (back_us, node))
        self._is_down.add(node)
        self.count += 1
        return node

    def _draw(self, now_us: int) -> None:
        next_us = now_us + max(1, micros(self.rng.exponential(self.mtbf_s)))
        self._next_us = next_us if next_us <= self.until_us else NEVER_US
