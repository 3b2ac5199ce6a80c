"""Token buckets: how often each caller may call."""

from __future__ import annotations

import threading
from collections import OrderedDict

from balancer.clock import US

_MOST_BUCKETS = 20_000


class Rates:
    """A bucket for each name: `burst` calls at once, `per_s` in the long run. 0: no limit.

    Of the names only the newest are kept: one that comes back after so many others starts with a full bucket.
    """

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = float(max(burst, 1))
        self._buckets: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, name: str, now_us: int) -> float:
        """0: go on. Otherwise the seconds until the next call of this name is let through."""
        if self._per_s <= 0:
            return 0.0
        with self._lock:
            left, at_us = self._buckets.pop(name, (self._burst, now_us))
            left = min(self._burst, left + max(0, now_us - at_us) / US * self._per_s)
            granted = left >= 1.0
            self._buckets[name] = (left - 1.0 if granted else left, now_us)
            if len(self._buckets) > _MOST_BUCKETS:
                self._buckets.popitem(last=False)
        return 0.0 if granted else (1.0 - left) / self._per_s
