"""The kernel's tables: which column means what. Times are integer microseconds, jobs are rows, units are indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from emulator.harness import tables as t

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from emulator.harness.rows import Rows

NEVER = t.NEVER


class Job(t.EveryJob):
    """A row of the job table: its `nodes` are units. Work is time on all of them."""

    size_class: int
    """Which size of partition it needs, -1: any units."""
    queued_us: int
    """Since when it waits: of equal keys the earliest comes first."""
    realtime: int
    """1 for a real-time job."""
    interval_us: int
    """Work between two checkpoints, 0 for none."""
    phase: int
    """Of the present segment, as all that follows; OUT where there is none."""
    since_us: int
    """When the phase began."""
    base_us: int
    """Work done when the phase began."""
    saved_us: int
    """Work that a preemption leaves it."""
    place: int
    """Its partition, or ANYWHERE."""
    planned_us: int
    """When the scheduler expects it to end."""
    ready_us: int
    """When its stretch of work ends."""
    owed: int
    """Millionths of a byte that a transfer still has to move on each node."""


# Phases of a segment. CLAIMED: a real-time job waits for its victims to write; LEAVING: a victim that writes.
OUT, CLAIMED, READING, WORKING, WRITING, LEAVING = range(6)

# Columns of the unit table: who is on a unit, and for whom it is kept. -1: nobody.
OWNER, CLAIM = range(2)
# Columns of the partition table. HARD, SOFT: how many real-time jobs (claims included) and batch jobs overlap it.
FIRST, SIZE, HARD, SOFT = range(4)
PARTITION_COLUMNS = 4


class Segment(t.Run):
    """A row of the run table: a job on its units."""

    place: int
    """Its partition, or ANYWHERE."""
    work_us: int
    """Progress made."""
    lost_us: int
    """Progress thrown away at its end."""
    writes_us: int
    """Time for complete checkpoints."""
    redo_us: int
    """Time that preemption costs: restart reads, lost work, cut writes."""
    reads_us: int
    """The part of that which went into reads."""
    checkpoints: int
    """How many it completed."""


# Registers.
NOW, NEXT_SUBMIT, JOBS_N, RUNS_N, LOG_N, ENDED_N, _, INSTANTS_LEFT = t.EVERY_REGISTER
(
    RUNNING_N, FREE_N, HARD_N, QUEUE_N, URGENT_N, LAST_IO, READERS, WRITERS, UNIT_NODES, DATA_OWED, NODE_RATE,
    READ_CAP, WRITE_CAP, SCHEME, BACKFILL, CHOICE, CLASSES, TO_THE_BACK, DIRTY, SHARED,
) = range(8, 28)  # fmt: skip
REGISTERS = 28

BASELINE, HIGH_PRIORITY, RESTART, CKPT_SYS, CKPT_APP, CKPT = range(6)
"""Schemes: from RESTART on, real-time jobs preempt."""

FUTURE, QUEUED, RUNNING, ENDED = t.FUTURE, t.QUEUED, t.RUNNING, t.ENDED
FINISHED = t.FINISHED
FIRST_FIT, BEST_FIT, SHORTEST_FIRST = t.FIRST_FIT, t.BEST_FIT, t.SHORTEST_FIRST
NOWHERE = -1
ANYWHERE = -2
"""Of a place: no room; room on any units (flat)."""
AT_UNTIL, PAUSED, NEEDS_ROOM = t.AT_UNTIL, t.PAUSED, t.NEEDS_ROOM

Ints: TypeAlias = "NDArray[np.int64]"
Ints32: TypeAlias = "NDArray[np.int32]"
Bytes: TypeAlias = "NDArray[np.int8]"
Jobs: TypeAlias = "Rows[Job]"
Runs: TypeAlias = "Rows[Segment]"
State: TypeAlias = (
    "tuple[Jobs, Ints, Ints, Ints32, Ints32, Ints, Bytes, Ints32, Ints32, Ints32, Runs, Ints32, Ints, Ints,"
    " Bytes, Bytes, Ints]"
)
"""(job, unit, parts, part_units, conflicts, conflict_first, overlap, queue, urgent, running, runs, log,
class_first, values, take, tried, reg)

`conflicts[conflict_first[p]:conflict_first[p + 1]]` overlap p (p too); `class_first[c]` is the first partition of
size class c. `running` holds all that have units or a claim, by (planned_us, row); `queue` the waiting batch jobs and
`urgent` the waiting real-time jobs, by (key, queued_us, row). `values`, `take` and `tried` are scratch.
"""
