"""A clock: the time that the Balancer goes by. Any class with the methods of `balancer.clock.Clock`."""

from balancer.clock import SystemClock, micros


class ShiftedClock(SystemClock):
    """The wall clock, `ahead_s` seconds ahead."""

    name = "shifted"

    def __init__(self, ahead_s: float = 0) -> None:
        super().__init__()
        self._ahead_us = micros(ahead_s)

    def now_us(self) -> int:
        return super().now_us() + self._ahead_us
