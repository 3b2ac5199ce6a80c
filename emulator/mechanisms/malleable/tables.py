"""The planner's tables: which column means what. Compiled loops and Python see the same memory."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from emulator.kernel import tables as t

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from emulator.kernel.rows import Rows

NEVER = t.NEVER


class Job(t.EveryJob):
    """A row of the job table. Work is in units of the speed table; widths are numbers of nodes."""

    job_class: int
    """`JobClass`."""
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


class Registers(t.EveryRegisters):
    """The registers. Of what is remembered of the last plan: `memory.py`."""

    running_n: int
    malleable_n: int
    queue_n: int
    started_n: int
    free_n: int
    steps: int
    """Of the profile."""
    planned: int
    """Jobs at the front of the queue that are in it."""
    kept: int
    """1 if it holds still."""
    changed: int
    tick_us: int
    penalty: int
    minimum: int
    """`MinimumRule`."""
    at_minimum: int
    loose: int
    """Nodes that malleable jobs kept which have just ended."""
    penalty_is_work: int
    bounded: int
    """1 if the plan is so long that its bounds are used."""
    remembered: int
    """Of how many jobs at the front of the queue the places are."""
    freed: int
    """Until when there is more room since; from when on."""
    moved: int
    far_freed: int
    """As these two, for jobs behind those that the last plans reached."""
    far_moved: int
    measured: int
    """When rooms were measured, and at how many widths they end."""
    corners: int
    long_plan: int
    """Jobs and steps from which on looking for what is known already is worth while."""
    long_profile: int


CLASSES = 16


class Notes(NamedTuple):
    """Rooms at the beginning of a plan (`memory.py`), by number of nodes up to one more than there are."""

    longest: Ints
    corner: Ints
    stack_level: Ints
    stack_at: Ints


class Bounds(NamedTuple):
    """What no job of a class can be before (`bounds.py`)."""

    flexible: Ints
    """`flexible[work]`: complete."""
    rigid: Ints
    """`rigid[length, width]`: start."""


class JobClass(IntEnum):
    """Values of `job_class`, and of the extra column `job_class`."""

    RIGID = 0
    MOLDABLE = 1
    MALLEABLE = 2


class MinimumRule(IntEnum):
    """What a malleable job may not shrink below."""

    LEAST = 0
    PLACED = 1
    SHARED = 2
    POOL = 3
    WAITING_FIRST = 4


Ints: TypeAlias = "NDArray[np.int64]"
Ints32: TypeAlias = "NDArray[np.int32]"
Jobs: TypeAlias = "Rows[Job]"
Runs: TypeAlias = "Rows[Segment]"


class State(NamedTuple):
    """The kernel's tables."""

    job: Jobs
    speed: Ints
    """`speed[speed_row, nodes]`."""
    running: Ints32
    """Rows of the running jobs in order of start, and by expected end."""
    by_end: Ints32
    queue: Ints32
    started: Ints32
    at: Ints
    """The profile: from when on how many nodes are vacant."""
    level: Ints
    free: Ints32
    """The idle nodes: a stack."""
    below: Ints32
    """`below[node]`: the node that its job got before it."""
    runs: Runs
    log: Ints32
    registers: Registers
    notes: Notes
    bounds: Bounds
