"""What a machine tells of a running job's work, so that live a process can do that work and be held to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from balancer.clock import NEVER_US


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A running job in a time in which nothing changes. Work is counted in units: node-us where speed-up is linear.

    Of the `total` that it owes, `done` was done when this time began. From `since_us` on (NEVER_US: not until told
    otherwise) it does `nodes * num / den` in a microsecond. Of its own it writes a checkpoint after each `interval_us`
    of computing (0: none), which costs `cost_us`. `saved`: what a stop would have left it when this time began;
    `save_us`: when `done` is a whole checkpoint (NEVER_US: none is being written). `end_us`: when it is over if all
    stays as it is, NEVER_US where that is for the machine to say.
    """

    total: int
    done: int
    since_us: int
    num: int = 1
    den: int = 1
    interval_us: int = 0
    cost_us: int = 0
    saved: int = 0
    save_us: int = NEVER_US
    end_us: int = NEVER_US
    suspended: bool = False

    def whole_us(self, now_us: int) -> int:
        """When all that is done by now is a whole checkpoint: NEVER_US, if it is neither one nor being written."""
        if now_us < self.save_us < NEVER_US:
            return self.save_us
        return now_us if self.saved == self.done else NEVER_US


@runtime_checkable
class HasAccounts(Protocol):
    """A machine on which live jobs can be processes that do their work (`emulator-job`); others let jobs sleep."""

    def account(self, job: int) -> Account:
        """Of a running job. Equal to the one before as long as nothing changes."""

    def left(self, job: int, row: int) -> tuple[int, int]:
        """(done, saved) units of a job whose run in this row of the run table was broken off."""
