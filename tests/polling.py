"""Wait in real time for what other threads and processes bring about."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from balancer.clock import micros, wall_us

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_PAUSE_S = 0.1


def until(
    condition: Callable[[], Any], wanted: str | Callable[[], str] = "it comes true", limit_s: float = 180.0
) -> Any:
    """What the condition gives, once it is something. `wanted` is what a failure names, a function if it costs much."""
    limit_us, pause, pause_s = wall_us() + micros(limit_s), threading.Event(), 0.001
    while not (found := condition()):
        assert wall_us() < limit_us, f"not in {limit_s:g} s: {wanted() if callable(wanted) else wanted}"
        pause.wait(pause_s)
        pause_s = min(1.2 * pause_s, _LONGEST_PAUSE_S)
    return found
