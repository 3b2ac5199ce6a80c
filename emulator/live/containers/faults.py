"""Faults of a fleet: what a scenario's step says, and how far the controller has come with the steps. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from balancer.clock import NEVER_US, micros, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.scenario import FaultPart


class Deed(StrEnum):
    """What is done to a container; the second of each pair undoes the first."""

    KILL = "kill"
    START = "start"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    DISCONNECT = "disconnect"
    CONNECT = "connect"
    SLOW = "slow"
    UNSLOW = "unslow"


UNDO = {
    Deed.KILL: Deed.START,
    Deed.PAUSE: Deed.UNPAUSE,
    Deed.DISCONNECT: Deed.CONNECT,
    Deed.SLOW: Deed.UNSLOW,
}
STILL = {Deed.PAUSE, Deed.DISCONNECT}
"""A paced clock must not wait for who cannot answer; a killed party is noticed by itself."""


@dataclass(frozen=True, slots=True)
class Step:
    """One deed at one time. `rate_kbit_s`: of `slow`."""

    number: int
    at_us: int
    deed: Deed
    target: str
    rate_kbit_s: int

    def text(self) -> str:
        rate = f" to {self.rate_kbit_s} kbit/s" if self.deed == Deed.SLOW else ""
        return f"{self.deed} {self.target}{rate}"

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "at_s": seconds(self.at_us),
            "do": str(self.deed),
            "target": self.target,
            "rate_kbit_s": self.rate_kbit_s,
        }


def steps_of(faults: Iterable[FaultPart]) -> list[Step]:
    """The steps in order of time; a fault that lasts `for_s` is two of them."""
    found = []
    for fault in faults:
        deed = Deed(fault.do)
        found.append((micros(fault.at_s), deed, fault))
        if fault.for_s is not None:
            found.append((micros(fault.at_s + fault.for_s), UNDO[deed], fault))
    found.sort(key=lambda step: step[0])
    return [
        Step(number, at_us, deed, fault.target, fault.rate_kbit_s)
        for number, (at_us, deed, fault) in enumerate(found)
    ]


class Steps:
    """Steps that are still to be done; `done` is how many have been."""

    def __init__(self, steps: list[Step], done: int = 0) -> None:
        self._steps = steps
        self.done = done

    def next_us(self) -> int:
        return self._steps[self.done].at_us if self.done < len(self._steps) else NEVER_US

    def due(self, now_us: int) -> Step | None:
        """The step that has to be done now, one at a time."""
        return self._steps[self.done] if self.next_us() <= now_us else None

    def finish(self, number: int) -> bool:
        """Take note that a step has been done; False if it was not the one that is due."""
        if number != self.done:
            return False
        self.done += 1
        return True
