"""The kernel's tables: which column means what. Times are integer microseconds, jobs are rows, units are indices."""

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
    """`Phase` of the present segment, as all that follows; OUT where there is none."""
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


class Phase(IntEnum):
    """What a segment does."""

    OUT = 0
    CLAIMED = 1
    """A real-time job waits for its victims to write."""
    READING = 2
    WORKING = 3
    WRITING = 4
    LEAVING = 5
    """A victim that writes."""


class Unit:
    """Who is on a unit, and for whom it is kept; -1: nobody."""

    owner: int
    claim: int


class Partition:
    """A row of the partition table."""

    first: int
    """Where its units begin in `part_units`, and how many they are."""
    units: int
    hard: int
    """How many real-time jobs (claims included) and batch jobs overlap it."""
    soft: int


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


class Registers(t.EveryRegisters):
    """The registers."""

    free_n: int
    """Units that nobody has, and those that real-time jobs have or claim."""
    hard_n: int
    last_io_us: int
    """Up to when transfers are accounted for."""
    readers: int
    """Nodes of jobs that read, and of those that write."""
    writers: int
    unit_nodes: int
    data_owed: int
    node_rate: int
    read_cap: int
    write_cap: int
    scheme: int
    """`Scheme`."""
    backfill: int
    choice: int
    classes: int
    """Sizes of partitions; 0 in a flat machine."""
    to_the_back: int
    dirty: int
    """1 if a pass is due."""
    shared: int


class Scheme(IntEnum):
    """From RESTART on, real-time jobs preempt."""

    BASELINE = 0
    HIGH_PRIORITY = 1
    RESTART = 2
    CKPT_SYS = 3
    CKPT_APP = 4
    CKPT = 5


NOWHERE = -1
ANYWHERE = -2
"""Of a place: no room; room on any units (flat)."""

Ints: TypeAlias = "NDArray[np.int64]"
Ints32: TypeAlias = "NDArray[np.int32]"
Bytes: TypeAlias = "NDArray[np.int8]"
Jobs: TypeAlias = "Rows[Job]"
Runs: TypeAlias = "Rows[Segment]"


class ListSize:
    """The register of a list."""

    jobs: int


class JobList(NamedTuple):
    """Rows of jobs in order."""

    rows: Ints32
    size: ListSize


class State(NamedTuple):
    """The kernel's tables."""

    job: Jobs
    unit: Rows[Unit]
    parts: Rows[Partition]
    part_units: Ints32
    conflicts: Ints32
    """`conflicts[conflict_first[p]:conflict_first[p + 1]]` overlap p (p too)."""
    conflict_first: Ints
    overlap: Bytes
    queue: JobList
    """The waiting batch jobs by (key, queued_us, row), and the waiting real-time jobs."""
    urgent: JobList
    running: JobList
    """All that have units or a claim, by (planned_us, row)."""
    runs: Runs
    log: Ints32
    class_first: Ints
    """The first partition of each size class."""
    values: Ints
    """Scratch, as the next two."""
    take: Bytes
    tried: Bytes
    registers: Registers
