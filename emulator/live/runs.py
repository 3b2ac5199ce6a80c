"""A run of a job as its node's agent keeps it, and the server's account of its work. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from balancer.clock import NEVER_US
from emulator.clock.event_priority import EventPriority
from emulator.live.torque.jobs import sleep_us

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.live.hooks import HookInputs
    from emulator.live.job_port import JobLine
    from emulator.live.processes import JobProcess

Key = tuple[int, int]
"""A run of a job: its number and which start it is."""


@dataclass(frozen=True, slots=True)
class Phase:
    """How a job computes from now on, by the account of a server that keeps one; times in us, NEVER_US for not at all.

    It computes from `since_us` on, at `num / den` of what its nodes can do, and is over at `end_us`. Of its own
    it writes a checkpoint after each `interval_us` of computing, which costs `cost_us`. `begun`: so much work
    of earlier runs counts. `rank`: its place among what happens at one time. `total`: how much work there is, where the
    account counts it in its own units (else None); `told_end`: the job is not over before it is told.
    """

    since_us: int
    end_us: int
    num: int = 1
    den: int = 1
    interval_us: int = 0
    cost_us: int = 0
    suspended: bool = False
    begun: int = 0
    rank: EventPriority = EventPriority.JOB_END
    total: int | None = None
    told_end: bool = False


def phase_of(message: dict[str, Any]) -> Phase | None:
    """The phase in a message of the server."""
    found = message.get("phase")
    return None if found is None else Phase(**found | {"rank": EventPriority(found["rank"])})


@dataclass(slots=True)
class Run:
    """A job on its mother superior. `plan` counts its phases, so that an alarm of an earlier one is recognised."""

    key: Key
    message: dict[str, Any]
    inputs: HookInputs
    session: int = 0
    process: JobProcess | None = None
    line: JobLine | None = None
    phase: Phase | None = None
    plan: int = 0
    begun: bool = False
    kill_why: str = ""
    over_walltime: bool = False
    report: dict[str, Any] | None = None
    finishing: bool = False
    acknowledgements: list[Callable[[], None]] = field(default_factory=list)
    """To be called when its process has heard all that it was told."""
    _heard_us: int = 0

    @property
    def start_us(self) -> int:
        return int(self.message["start_us"])

    @property
    def rank(self) -> EventPriority:
        return EventPriority.JOB_END if self.phase is None else self.phase.rank

    @property
    def done(self) -> int | None:
        """The work that its process says it has done, if it says so."""
        return None if self.line is None else self.line.done

    @property
    def sleeps_us(self) -> int | None:
        """How long the job sleeps, if that is all that it does."""
        return sleep_us(self.message["script"])

    def not_before(self, now_us: int) -> int:
        """Now, for a process that must never hear of an earlier time than before."""
        self._heard_us = max(self._heard_us, now_us)
        return self._heard_us

    def first_word(self) -> dict[str, Any]:
        """What an `emulator-job` hears first: a job computes since its start, however long its process took."""
        word = self.word("begin", self.not_before(self.start_us)) | {"run": self.key[1]}
        if self.phase is not None:
            phase = self.phase
            word |= {"begun": phase.begun, "interval_us": phase.interval_us, "cost_us": phase.cost_us}
            word |= {"total": phase.total, "told_end": phase.told_end}
        return word

    def word(self, what: str, at_us: int, save_us: int = NEVER_US) -> dict[str, Any]:
        word: dict[str, Any] = {"what": what, "at_us": at_us, "nodes": len(self.message["hosts"])}
        if self.phase is not None:
            phase = self.phase
            word |= {"num": phase.num, "den": phase.den, "since_us": phase.since_us, "save_us": save_us}
        return word
