"""Faults of a fleet: what a scenario's step says, and how far the controller has come with the steps. No I/O."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from balancer.clock import NEVER_US, micros, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.config.run_parts import FaultPart


class FaultAction(StrEnum):
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
    FaultAction.KILL: FaultAction.START,
    FaultAction.PAUSE: FaultAction.UNPAUSE,
    FaultAction.DISCONNECT: FaultAction.CONNECT,
    FaultAction.SLOW: FaultAction.UNSLOW,
}
STILL = {FaultAction.PAUSE, FaultAction.DISCONNECT}
"""A paced clock must not wait for who cannot answer; a killed process is noticed by itself."""


DEFAULT_RATE_KBIT_S = 1000


@dataclass(frozen=True, slots=True)
class Slow:
    """How `slow` slows what a container sends; without either number a rate of 1000 kbit/s."""

    rate_kbit_s: int | None = None
    delay_ms: int | None = None

    def discipline(self) -> list[str]:
        """For `tc qdisc`. A delay needs a kernel with netem."""
        if self.delay_ms is not None:
            rate = [] if self.rate_kbit_s is None else ["rate", f"{self.rate_kbit_s}kbit"]
            return ["netem", "delay", f"{self.delay_ms}ms", *rate]
        rate_kbit_s = self.rate_kbit_s or DEFAULT_RATE_KBIT_S
        return ["tbf", "rate", f"{rate_kbit_s}kbit", "burst", "16kb", "latency", "400ms"]

    def text(self) -> str:
        parts = [] if self.delay_ms is None else [f"by {self.delay_ms} ms"]
        if self.rate_kbit_s is not None or self.delay_ms is None:
            parts.append(f"to {self.rate_kbit_s or DEFAULT_RATE_KBIT_S} kbit/s")
        return " and ".join(parts)


def text_of(action: FaultAction, target: str, slow: Slow) -> str:
    """An action as people read it."""
    return f"{action} {target}" + (f" {slow.text()}" if action == FaultAction.SLOW else "")


@dataclass(frozen=True, slots=True)
class Step:
    """One action at one time. `slow`: of the action of that name."""

    number: int
    at_us: int
    action: FaultAction
    target: str
    slow: Slow

    def text(self) -> str:
        return text_of(self.action, self.target, self.slow)

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "at_s": seconds(self.at_us),
            "do": str(self.action),
            "target": self.target,
            "slow": asdict(self.slow),
        }


def steps_of(faults: Iterable[FaultPart]) -> list[Step]:
    """The steps in order of time; a fault that lasts `for_s` is two of them."""
    found = []
    for fault in faults:
        action = FaultAction(fault.do)
        found.append((micros(fault.at_s), action, fault))
        if fault.for_s is not None:
            found.append((micros(fault.at_s + fault.for_s), UNDO[action], fault))
    found.sort(key=lambda step: step[0])
    return [
        Step(number, at_us, action, fault.target, Slow(fault.rate_kbit_s, fault.delay_ms))
        for number, (at_us, action, fault) in enumerate(found)
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
