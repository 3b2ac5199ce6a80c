"""The life of a job, and how its runs end: codes that compiled tables and the record share."""

from __future__ import annotations

from enum import IntEnum


class JobState(IntEnum):
    """Where a job is in its life."""

    FUTURE = 0
    """Not submitted yet."""
    QUEUED = 1
    RUNNING = 2
    ENDED = 3
    """Ran to its end, or to its walltime limit."""
    REJECTED = 4
    """An on-demand lease that got no nodes."""
    CANCELLED = 5
    HELD = 6
    SUSPENDED = 7
    """Stands still without nodes: its memory is on those of its last run, and only there it can go on."""


class RunOutcome(IntEnum):
    """Why a run of a job is over."""

    RUNNING = 0
    """It is not: the record was taken before."""
    FINISHED = 1
    KILLED = 2
    """Reached its walltime limit."""
    REQUEUED = 3
    """Sent back to the queue; its work is lost."""
    CANCELLED = 4
    RESIZED = 5
    """Goes on with other nodes at once: the next row of this job is the same run."""
    PREEMPTED = 6
    """Had to leave its nodes and waits again, with what it had saved."""
    SUSPENDED = 7
    """Left its nodes to others and keeps its memory there: the next row of this job is the same run."""
