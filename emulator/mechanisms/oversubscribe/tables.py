"""The tables of the shared machine: which column means what, beside those of `emulator/kernel/tables.py`.

A *unit* is a core or a GPU of a node: units `0..cores-1` are its cores, the rest its GPUs. A unit has as many
*slots* as jobs may share it. Work is counted in `FULL` parts of a microsecond, so that every speed is a whole number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from emulator.kernel import tables as t

if TYPE_CHECKING:
    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Ints, Ints32, Runs
    from emulator.kernel.tables import Registers as ClusterRegisters


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


BLOCK = 32
ONLY_SLOT = 0
"""Of a unit that jobs do not share."""


class Nodes(NamedTuple):
    """What is known of the nodes, a place for each."""

    occupied: Ints
    """Slots that jobs have."""
    open: Ints
    """Cores that can take one more job that bears any number."""
    free_memory_kib: Ints
    ready_us: Ints
    """When the head of the queue could use the node."""
    dirty: Ints
    """1 if that is to be computed anew."""
    is_pinned: Ints
    """1 if the head is planned on it."""
    then: Ints
    """Free cores when the head is planned to start, without it."""
    changed: Ints
    """A list of the nodes that are dirty."""
    most_open: Ints
    """Of each BLOCK of nodes, the most that is open on one of them."""


class Units(NamedTuple):
    """What is known of the units: `taken[node, unit]` and so on."""

    taken: Ints32
    """Slots."""
    active: Ints32
    """Jobs that compute now."""
    cap: Ints32
    """The least limit of the jobs on it."""


class Failed(NamedTuple):
    """Candidates that failed: `stamp[nodes - 1, cores - 1]` and so on."""

    stamp: Ints
    """The pass's."""
    estimate_us: Ints
    """The least that failed."""


class Scratch(NamedTuple):
    """Room for whoever needs it."""

    of_nodes: Ints
    by_occupied: Ints
    of_units: Ints


class Registers:
    """The machine's registers beside those of the harness."""

    node_cores: int
    """Units that are cores."""
    core_slots: int
    """Of one unit, as the next one."""
    gpu_slots: int
    full: int
    """Speed of a job alone."""
    head: int
    """Whose `ready_us` are kept, -1 for nobody's."""
    touched_n: int
    stamp: int
    has_memory: int
    chosen_n: int
    pause_at: int
    """Nothing later happens."""
    program: int
    """1: the rules of the authors' program."""
    changed_n: int
    enough_at: int
    """When the head has its nodes by `ready_us`, -1 if that is to be computed."""


Jobs: TypeAlias = "Rows[Job]"


class State(NamedTuple):
    """The kernel's tables."""

    job: Jobs
    node: Nodes
    slot_job: Ints32
    """`slot_job[node, unit, slot]`: the job in a slot, -1 for none."""
    slot_next: Ints32
    """`slot_next[flat slot]`: the next slot of the same job."""
    unit: Units
    shared_by: Ints32
    """`shared_by[job, gpu * (slots + 1) + m]`: units of the job on which m jobs compute."""
    rate: Ints
    """`rate[gpu, m]`: speed on a unit that m jobs use."""
    phases: Ints
    """Lengths in us, every other one idle."""
    heap: Ints32
    queue: Ints32
    touched: Ints32
    chosen: Ints32
    runs: Runs
    log: Ints32
    failed: Failed
    open_nodes: Ints32
    """`open_nodes[k]`: nodes with exactly k open cores."""
    scratch: Scratch
    registers: ClusterRegisters
    """The registers of the harness."""
    core_registers: Registers
