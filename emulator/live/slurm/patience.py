"""When to give up on a Slurm in which nothing happens any more, and what it says of the jobs that wait then."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from balancer.clock import micros

if TYPE_CHECKING:
    from collections.abc import Sequence

_ASK_WALL_S = 1.0
_STILL_S = 3 * 3600.0
"""Cluster time. Slurm's own pauses are shorter: a requeued job waits two minutes, backfill looks every half."""
_STILL_WALL_S = 15.0
_NO_ANSWER_WALL_S = 90.0
_MOST_NAMED = 3


class QueuedJob(NamedTuple):
    """A job that is not over, in the words of squeue."""

    job_id: str
    state: str
    reason: str

    @classmethod
    def of(cls, line: str) -> QueuedJob:
        """By a line of `squeue --format=QUEUE_FORMAT`."""
        job_id, state, *_, reason = line.split("|", 5)
        return cls(job_id, state, reason)


class Patience:
    """Looks at the queue after the last submit, at `speed` times the wall clock; times in us of cluster time."""

    def __init__(self, speed: float) -> None:
        self._ask_us = micros(_ASK_WALL_S * speed)
        self._still_us = max(micros(_STILL_S), micros(_STILL_WALL_S * speed))
        self._no_answer_us = micros(_NO_ANSWER_WALL_S * speed)
        self._next_us = 0
        self._still_since_us: int | None = None
        self._unanswered_since_us: int | None = None

    def is_due(self, now_us: int) -> bool:
        """Time to ask again: each question costs Slurm something."""
        if now_us < self._next_us:
            return False
        self._next_us = now_us + self._ask_us
        return True

    def look(self, now_us: int, queue: Sequence[QueuedJob] | None) -> str | None:
        """Why to give up, if so. `queue`: the jobs that are not over; None: Slurm did not answer."""
        if queue is None:
            self._still_since_us = None
            self._unanswered_since_us = _earlier(self._unanswered_since_us, now_us)
            is_up = now_us - self._unanswered_since_us < self._no_answer_us
            return None if is_up else "slurmctld does not answer any more"
        self._unanswered_since_us = None
        if any(job.state != "PENDING" for job in queue):
            self._still_since_us = None
            return None
        self._still_since_us = _earlier(self._still_since_us, now_us)
        if now_us - self._still_since_us < self._still_us:
            return None
        if not queue:
            return "Slurm has forgotten jobs that it had accepted"
        reasons = "; ".join(f"job {job.job_id}: {job.reason}" for job in islice(queue, _MOST_NAMED))
        return f"{len(queue)} jobs wait in Slurm's queue, and nothing has run for hours ({reasons})"


def _earlier(since_us: int | None, now_us: int) -> int:
    return now_us if since_us is None else since_us
