"""The planner's tables: which column means what. Compiled loops and Python see the same memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from emulator.harness import tables as t

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from emulator.harness.rows import Rows

NEVER = t.NEVER


class Job(t.EveryJob):
    """A row of the job table. Work is in units of the speed table; widths are numbers of nodes."""

    job_class: int
    """RIGID, MOLDABLE or MALLEABLE."""
    min_nodes: int
    max_nodes: int
    speed_row: int
    """Its row of the speed table."""
    owed: int
    """Its work by the run time."""
    guessed: int
    """Its work by the estimate."""
    width: int
    """What it has now."""
    target: int
    """What it will have at the end of this instant."""
    floor: int
    """What it may not shrink below."""
    done: int
    """Work at `since_us`."""
    begun: int
    """Work at the beginning of the present segment."""
    overhead_us: int
    """Time from `since_us` on without work."""
    since_us: int
    """When it last began, changed its width, or was looked at."""
    ends_us: int
    """When it is over at this width."""
    expected_end_us: int
    """As `ends_us`, by the estimate."""
    top_node: int
    """The node that it got last; `below` has the others."""
    length_class: int
    """What it is among jobs by its length, or work (`bounds.py`)."""
    width_class: int
    length_from: int
    """The first class that it speaks for."""
    width_from: int
    placed_at_us: int
    """Its place in the last plan (`memory.py`): from when, until when, how wide."""
    placed_until_us: int
    placed_on: int


class Segment(t.Run):
    """A row of the run table: a job on a fixed set of nodes."""

    done: int
    """Node-us of work."""


# Registers. STEPS: of the profile; PLANNED: jobs at the front of the queue that are in it; KEPT: it holds still; LOOSE:
# nodes that malleable jobs kept which have just ended; BOUNDED: the plan is so long that its bounds are used. What is
# remembered of the last plan (`memory.py`): REMEMBERED, of how many jobs at the front of the queue; FREED, MOVED, where
# there is more room since; FAR_...: for jobs behind those that the last plans reached; MEASURED, CORNERS: rooms;
# LONG_PLAN, LONG_PROFILE: jobs and steps from which on looking for what is known already is worth while.
NOW, NEXT_SUBMIT, JOBS_N, RUNS_N, LOG_N, ENDED_N, STOP_ON_END, INSTANTS_LEFT = t.EVERY_REGISTER
(
    RUNNING_N, MALLEABLE_N, QUEUE_N, STARTED_N, FREE_N, STEPS, PLANNED, KEPT, CHANGED, TICK, PENALTY, MINIMUM,
    AT_MINIMUM, LOOSE, PENALTY_IS_WORK, BOUNDED, REMEMBERED, FREED, MOVED, FAR_FREED, FAR_MOVED, MEASURED, CORNERS,
    LONG_PLAN, LONG_PROFILE,
) = range(8, 33)  # fmt: skip
REGISTERS = 33
# Rows of the planner's notes, each as long as a number of nodes and two, and not shorter than CLASSES: the rooms at the
# beginning of a plan (`memory.py`) and its bounds, of flexible jobs and of rigid ones, a row a class (`bounds.py`).
LONGEST, CORNER, STACK_LEVEL, STACK_AT, FLEXIBLE_BOUND, RIGID_BOUND = range(6)
CLASSES = 16
NOTES = RIGID_BOUND + CLASSES

RIGID, MOLDABLE, MALLEABLE = range(3)
"""Values of `job_class`, and of the extra column `job_class`."""
LEAST, PLACED, SHARED, POOL, WAITING_FIRST = range(5)
"""Values of the register MINIMUM: what a malleable job may not shrink below."""
FUTURE, QUEUED, RUNNING, ENDED = t.FUTURE, t.QUEUED, t.RUNNING, t.ENDED
FINISHED, RESIZED = t.FINISHED, t.RESIZED
AT_UNTIL, AT_ENDS, NEEDS_ROOM, GOES_ON = t.AT_UNTIL, t.AT_ENDS, t.NEEDS_ROOM, t.GOES_ON

Ints: TypeAlias = "NDArray[np.int64]"
Ints32: TypeAlias = "NDArray[np.int32]"
Jobs: TypeAlias = "Rows[Job]"
Runs: TypeAlias = "Rows[Segment]"
State: TypeAlias = (
    "tuple[Jobs, Ints, Ints32, Ints32, Ints32, Ints32, Ints, Ints, Ints32, Ints32, Runs, Ints32, Ints, Ints]"
)
"""(job, speed, running, by_end, queue, started, at, level, free, below, runs, log, reg, notes)"""
