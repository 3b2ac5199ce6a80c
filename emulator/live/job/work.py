"""What a running job has done and still owes, exactly. No clock, no I/O.

Work is counted in node-microseconds. A job that owes W makes `dt x nodes x rate` of it in dt; the end is the first
whole microsecond at which nothing is owed. A rate may be any fraction, so that progress is one, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from balancer.clock import NEVER_US


@dataclass(slots=True)
class Work:
    """`done` of `total` node-microseconds were done by `since_us`; from then on by `nodes` nodes at `rate`.

    Before `stalled_until_us` there is no progress: the job sets up, or writes a checkpoint.
    """

    total: int
    done: Fraction
    since_us: int
    nodes: int
    rate: Fraction = Fraction(1)
    stalled_until_us: int = 0

    def at(self, now_us: int) -> Fraction:
        """What is done by `now_us`, which must not be before `since_us`; never more than `total`."""
        if now_us < self.since_us:
            raise ValueError(f"work was counted up to {self.since_us} us and cannot be told for {now_us} us")
        lasted_us = max(0, now_us - max(self.since_us, self.stalled_until_us))
        return min(Fraction(self.total), self.done + lasted_us * self.nodes * self.rate)

    def advance(self, now_us: int) -> None:
        """Count what was done up to now, so that nodes, rate or stall may change."""
        self.done = self.at(now_us)
        self.since_us = now_us

    def when_us(self, done: Fraction | int) -> int:
        """The first whole microsecond at which `done` is done; NEVER_US if that does not come like this."""
        missing = done - self.done
        if missing <= 0:
            return self.since_us
        speed = self.nodes * self.rate
        if speed == 0:
            return NEVER_US
        lasts = missing / speed
        return max(self.since_us, self.stalled_until_us) + -(-lasts.numerator // lasts.denominator)


def as_text(amount: Fraction | int) -> int | str:
    """An exact amount for JSON: a whole number, or `numerator/denominator`."""
    exact = Fraction(amount)
    return exact.numerator if exact.denominator == 1 else f"{exact.numerator}/{exact.denominator}"


def from_text(value: object) -> Fraction:
    """The amount that `as_text` wrote. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"expected a whole number or a fraction, not {value!r}")  # noqa: TRY004 - bad data
    return Fraction(value)
