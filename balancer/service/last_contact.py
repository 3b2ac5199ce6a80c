"""When a system that we depend on answered last, and why it does not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Contact:
    """One system: the batch system, the cloud. Times are cluster time; written by whoever asks it."""

    name: str
    asked_us: int | None = None
    answered_us: int | None = None
    error: str | None = None
    """Why the last question had no answer; None: it had one, or none was asked yet."""

    def answered(self, at_us: int) -> None:
        self.asked_us = self.answered_us = at_us
        self.error = None

    def failed(self, at_us: int, error: str) -> None:
        self.asked_us, self.error = at_us, error

    def age_us(self, now_us: int) -> int | None:
        """How old the last answer is; None: there was none."""
        return None if self.answered_us is None else max(0, now_us - self.answered_us)
