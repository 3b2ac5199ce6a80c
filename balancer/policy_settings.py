"""The parameters of the paper (balancer-liu-2018, II-B and II-C)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from balancer.clock import US


class PickOrder(StrEnum):
    """Which idle node is taken first."""

    LONGEST_IDLE = "longest_idle"
    """A node that just became free, and that batch would fill next, is left alone."""
    SHORTEST_IDLE = "shortest_idle"
    NAME = "name"


class ReserveRule(StrEnum):
    """What the static reserve is when requests have taken nodes of it."""

    FIXED = "fixed"
    """R nodes are on-demand, granted ones included: Algorithm 1 has no line that takes others in their place."""
    REFILLED = "refilled"
    """R nodes are reserved besides those that are granted: idle nodes fill it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How much the Balancer keeps and how long it waits. Raises ValueError naming the bad field."""

    static_reserve: int = 0
    """R: nodes that stay in the on-demand pool."""
    reserve_rule: ReserveRule = ReserveRule.FIXED
    wait_us: int = 0
    """W: how long a request may wait for jobs to end; 0: it is met at once or rejected."""
    idle_reserve_us: int = 600 * US
    """I: how long a node beyond the reserve stays reserved before it goes back to batch. The paper names
    no value; 600 s covers the gaps within its bursts of requests and costs a node ten minutes at most."""
    pick: PickOrder = PickOrder.LONGEST_IDLE
    at_once_us: int = 0
    """How long a request that does not wait for jobs (W = 0) may wait for the batch system to obey."""
    confirm_us: int = 0
    """How long a grant stays without the word of its owner; 0: none is needed."""
    lease_us: int | None = None
    """The lease of a request that names none; None: no end."""
    fresh_us: int | None = None
    """A grant needs a look at each of its nodes that is at most this old, or began when nothing else was missing;
    None: what is known is known to be true."""
    has_cloud: bool = False
    """Somebody can tell whether a server runs on a node: a grant that is past its end is not cut before they did."""

    def __post_init__(self) -> None:
        numbers = (
            "static_reserve",
            "wait_us",
            "idle_reserve_us",
            "at_once_us",
            "confirm_us",
            "lease_us",
            "fresh_us",
        )
        for name in numbers:
            value = getattr(self, name)
            if value is None and name in ("lease_us", "fresh_us"):
                continue
            if type(value) is not int or value < 0:
                raise ValueError(f"{name} must be a whole number of at least 0, not {value!r}")
        if self.reserve_rule not in tuple(ReserveRule):
            raise ValueError(
                f"reserve_rule must be one of {', '.join(ReserveRule)}, not {self.reserve_rule!r}"
            )
        if self.pick not in tuple(PickOrder):
            raise ValueError(f"pick must be one of {', '.join(PickOrder)}, not {self.pick!r}")
