"""What a running job has done and still owes, exactly, as `emulator/machine/work.py` counts it. No clock, no I/O.

Work is counted in whole node-microseconds. This is the job's own account, in plain Python because a job must start
quickly; a test holds the two against each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from balancer.clock import NEVER_US


@dataclass(frozen=True, slots=True)
class Phase:
    """A time in which nothing changes: from `since_us` on (NEVER_US: not at all) the job computes on top of `done`.

    `nodes` nodes at the rate `num / den` do `nodes * num / den` in a microsecond. After every `interval_us` of
    computing (0: never) the job writes a checkpoint for `cost_us`, unless it would be over before.
    """

    total: int
    done: int
    since_us: int
    nodes: int
    num: int = 1
    den: int = 1
    interval_us: int = 0
    cost_us: int = 0

    def at(self, now_us: int) -> int:
        """What is done by now, at most `total`."""
        computing_us = max(0, now_us - self.since_us)
        if self.interval_us:
            whole, rest = divmod(computing_us, self.interval_us + self.cost_us)
            computing_us = whole * self.interval_us + min(rest, self.interval_us)
        return min(self._after(computing_us), self.total)

    def when_us(self, done: int) -> int:
        """The first whole microsecond at which so much is done; NEVER_US if that does not come like this."""
        if done <= self.done:
            return self.since_us
        if self.since_us == NEVER_US:
            return NEVER_US
        speed = self.nodes * self.num
        computing_us = -(-(done - self.done) * self.den // speed)
        written = (computing_us - 1) // self.interval_us if self.interval_us else 0
        return self.since_us + computing_us + written * self.cost_us

    def checkpoint(self, number: int) -> tuple[int, int] | None:
        """(when it is whole, what it keeps) of the phase's own checkpoint `number`, from 1; None: there is none."""
        if not self.interval_us or self.since_us == NEVER_US:
            return None
        whole_us = self.since_us + number * (self.interval_us + self.cost_us)
        return (
            (whole_us, self._after(number * self.interval_us))
            if self.when_us(self.total) > whole_us
            else None
        )

    def _after(self, computing_us: int) -> int:
        return self.done + computing_us * self.nodes * self.num // self.den
