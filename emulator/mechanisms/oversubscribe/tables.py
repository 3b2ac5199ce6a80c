"""The tables of the shared machine: which column means what, beside those of `emulator/harness/tables.py`.

A *unit* is a core or a GPU of a node: units `0..cores-1` are its cores, the rest its GPUs. A unit has as many
*slots* as jobs may share it. Work is counted in `FULL` parts of a microsecond, so that every speed is a whole number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from emulator.harness import tables as t

if TYPE_CHECKING:
    from emulator.harness.rows import Rows
    from emulator.harness.tables import Ints, Ints32, Runs


class Job(t.Job):
    """A row of the job table. `expected_end_us` is the end by the estimate at the present speed."""

    cores: int
    """On each of its nodes, as the next two."""
    gpus: int
    memory_kib: int
    limit: int
    """How many jobs, itself included, it bears on a unit."""
    phase: int
    """Its present phase, a row of all jobs' phases."""
    phase_end: int
    """The end of its phases, likewise."""
    phase_left: int
    """Work of the present phase at `settled_us`."""
    estimate_left: int
    """Work by the estimate at `settled_us`."""
    rate: int
    """Speed since `settled_us`."""
    settled_us: int
    event_us: int
    """End of the present phase at this speed."""
    heap_at: int
    """Its place in the heap of events, -1 for none."""
    first_slot: int
    """Where its slots begin."""
    is_idle: int
    """1 in a phase in which it does not compute."""
    mark: int
    """1 if its speed is to be computed anew."""
    seen: int
    """The stamp of the pass that looked at it last."""


# Rows of the node table, a column a node. OCCUPIED: slots; OPEN: cores that can take one more job that bears any
# number; FREE_MEMORY: KiB; READY: when the head of the queue could use the node; DIRTY: READY is to be computed anew;
# IS_PINNED: the head is planned on it; THEN: free cores when the head is planned to start, without it. Two are lists:
# CHANGED, of the nodes that are DIRTY; MOST_OPEN, of each BLOCK of nodes, the most that is OPEN on one of them.
OCCUPIED, OPEN, FREE_MEMORY, READY, DIRTY, IS_PINNED, THEN, CHANGED, MOST_OPEN = range(9)
NODE_ROWS = 9
BLOCK = 32
# Planes of the unit table. TAKEN: slots; ACTIVE: jobs on it that compute now; CAP: the least LIMIT of those on it.
TAKEN, ACTIVE, CAP = range(3)
PLANES = 3
# Registers behind the harness's own. NODE_CORES: units that are cores; CORE_SLOTS, GPU_SLOTS: of one unit;
# FULL: speed of a job alone; HEAD: whose READY times are kept; TOUCHED_N; STAMP; HAS_MEMORY;
# PAUSE_AT: nothing later happens; PROGRAM: the rules of the authors' program; CHANGED_N: DIRTY nodes; ENOUGH_AT: when
# the head has its nodes by READY, -1 if that is to be computed.
(
    NODE_CORES, CORE_SLOTS, GPU_SLOTS, FULL, HEAD, TOUCHED_N, STAMP, HAS_MEMORY, CHOSEN_N, PAUSE_AT, PROGRAM,
    CHANGED_N, ENOUGH_AT,
) = range(t.REGISTERS, t.REGISTERS + 13)  # fmt: skip
REGISTERS = t.REGISTERS + 13
# Planes of the memory of failed candidates: the pass's stamp and the least estimate that failed.
FAILED_STAMP, FAILED_ESTIMATE = range(2)

Jobs: TypeAlias = "Rows[Job]"
State: TypeAlias = (
    "tuple[Jobs, Ints, Ints32, Ints32, Ints32, Ints32, Ints, Ints, Ints32, Ints32, Ints32, Ints32, Runs, Ints32,"
    " Ints, Ints32, Ints, Ints]"
)
"""(job, node, slot_job, slot_next, unit, count, rate, phases, heap, queue, touched, chosen, runs, log, failed,
open_nodes, scratch, reg)

slot_job[node, unit, slot]: the job in a slot, -1 for none. slot_next[flat slot]: the next slot of the same job.
unit[plane, node, unit]. count[job, gpu * (slots + 1) + m]: units of the job on which m jobs compute.
rate[gpu, m]: speed on a unit that m jobs use. phases: lengths in us, every other one idle.
open_nodes[k]: nodes with exactly k OPEN cores. failed[plane, nodes - 1, cores - 1].
"""
