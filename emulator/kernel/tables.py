"""The kernel's tables: which row means what. Compiled loops and Python see the same memory.

The state is a tuple of arrays with names (`State`). Rows have names: `job[j].start_us` is the start of job j,
`job["start_us"]` the column. Times are integer microseconds.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from emulator.kernel.rows import Rows

NEVER = (1 << 63) - 1


class EveryRegisters:
    """The registers that every machine has.

    What is common to all machines (`views.py`, `stepping.py`) looks at nothing else, at `EveryJob` of the job table
    and at `Run` of the run table.
    """

    now: int
    next_submit: int
    """The first job of the table that is still to come."""
    jobs_n: int
    runs_n: int
    """Rows of the run table that are used."""
    log_n: int
    """Entries of the node log that are used."""
    ended_n: int
    stop_on_end: int
    instants_left: int
    """How many instants until a pause; -1 for no pause."""


class Registers(EveryRegisters):
    """The registers of a cluster: one record, which compiled loops and Python see. Switches are 0 or 1."""

    idle_nodes: int
    """Idle nodes of the batch pool."""
    queue_lo: int
    """The waiting jobs are `queue[queue_lo:queue_hi]`."""
    queue_hi: int
    blocks_n: int
    """Blocks of the plan that are used."""
    heap_n: int
    started_n: int
    """Jobs that the present pass starts."""
    backfill: int
    """`BackfillRule`."""
    choice: int
    """`BackfillChoice`."""
    queued_estimates: int
    """Expected ends go by the estimates of jobs that have not started yet, not by the user's."""
    every_event: int
    """A pass follows each event, not each instant."""
    keep_reservation: int
    """The head keeps the reservation that it got first."""
    spare_nodes: int
    protect_head: int
    kept_head: int
    """The job that has a kept reservation, -1 for none."""
    kept_shadow: int
    kept_spare: int
    simulated: int
    """Ends come from the heap; in a live run somebody else tells them."""
    nodes_kept: int
    """Each run's nodes stay in the log."""
    last_ended: int
    """The job that ended last, -1 for none; `Job.ended_before` leads on."""
    stop_on_pass: int
    ask: int
    """Address of the hook that puts the queue in order before a pass (`callbacks.py`), 0 for a static order."""
    ask_context: int
    ask_always: int
    """The hook is asked even where nobody can start."""
    order_failed: int
    """`OrderFailure`, 0 for none."""
    cycle: int
    """Passes happen at multiples of it, 0 for whenever something happens."""
    next_cycle: int
    """When a pass is due, NEVER for none."""
    start_delay: int
    """How long a start takes: the job that a pass picks starts that much later, and then comes the next pass."""
    picked: int
    """The job whose start is under way, which is in the queue until then; -1 for none."""
    head_waits: int
    """A blocked head starts at its reservation, not before."""
    before_shadow: int
    """A job that is not spare ends before the head's reservation, not at it."""
    exact_first: int
    """Jobs that end when they were expected to give their nodes back before the first pass of an instant."""
    counts_only: int
    """Nodes are only counted; the free stack and the nodes in the log are not kept up."""
    submits_first: int
    """Submits come before ends of the same instant."""
    ends_by: int
    """`EndOrder` of the ends of one instant."""
    kept_runs: int
    """Rows of the run table before it had started when the last kept reservation was made."""
    kept_submits: int
    """Jobs before it had been submitted when the last kept reservation was made."""
    correct: int
    """Address of the hook that corrects expected ends before a pass looks at them, 0 for none."""
    commit: int
    """A head that does not fit stays the head until it starts."""
    fitting_submits: int
    """There is a pass after a submit only if its job fits the free nodes."""


class EveryJob:
    """What a row of the job table has on every machine; one row a job, so that a start touches one place in memory."""

    submit_us: int
    run_us: int
    """How long its present run takes, else its next one."""
    estimate_us: int
    """How long the user thinks that it takes."""
    nodes: int
    """How many its present run has, else its next one; units of nodes, where a machine gives those."""
    key: int
    """Its place in the queue order."""
    state: int
    """`JobState`."""
    start_us: int
    """When its last run started, -1 for never."""
    end_us: int
    """When it was over, -1 before."""
    run_row: int
    """Its present or last run in the run table, -1 for none."""


class Job(EveryJob):
    """A row of a cluster's job table."""

    returns: int
    """Nodes that go back to the pool at its end."""
    kind: int
    """`Kind`."""
    expected_end_us: int
    """Its end by the estimate: where it stands in the plan; 0 if it does not."""
    ended_before: int
    """The job that left its nodes before this one did."""


class Run:
    """A row of the run table: a stay of a job on its nodes."""

    job: int
    start_us: int
    end_us: int
    """-1 while it runs."""
    outcome: int
    """`RunOutcome`, once it is over."""
    first: int
    """Where its nodes begin in the node log."""


class Due:
    """An entry of the heap of actual ends, or of another one of what is due by the clock."""

    at_us: int
    """When."""
    key: int
    """The job that ends; which of those that are due at once comes first."""


class PlanEntry:
    """Nodes that come back."""

    at_us: int
    """When they are expected to."""
    nodes: int
    """How many."""


class PlanBlock:
    """A block of the plan, in order of time."""

    slot: int
    """Where its entries are: `plan[slot, k]`."""
    entries: int
    """How many it has."""
    last_us: int
    """None of them is later."""
    nodes: int
    """How many come back in all of them."""


class Node:
    """A row of the node table."""

    job: int
    """What runs on it, -1 for nothing."""
    offline: int
    """1 if it is out of the batch pool, or will be when its job ends; 0 otherwise."""
    since_us: int
    """When it last became idle."""
    place: int
    """Where an idle node of the pool stands in the free stack."""


BLOCK = 32
"""Entries that a block of the plan has room for."""
# Key of a job that was put before all others: less than any that an order gives.
FRONT = -(1 << 63)


class BackfillRule(IntEnum):
    """Who starts behind a head that waits, as the compiled loops see it."""

    NONE = 0
    EASY = 1
    CONSERVATIVE = 2
    CHOSEN = 3
    """The hook (ASK) has chosen whoever starts."""


class EndOrder(IntEnum):
    """In which order the ends of one instant come."""

    SUBMIT = 0
    START = 1
    EXPECTED_END = 2


class BackfillChoice(IntEnum):
    """Which of those that may start behind a head does first."""

    FIRST_FIT = 0
    BEST_FIT = 1
    SHORTEST_FIRST = 2
    FIRST_SUBMITTED = 3


class OrderFailure(IntEnum):
    """Why an order that is asked at each pass failed (ORDER_FAILED)."""

    RAISED = 1
    NOT_A_NUMBER = 2


class Stop(IntEnum):
    """Why a loop came back."""

    AT_UNTIL = 0
    """The time has come; `finish_instant` must follow (unless it was NEVER: all is over)."""
    AT_ENDS = 1
    """Jobs have ended now, and somebody wants to know; `finish_instant` must follow."""
    PAUSED = 2
    """Between two instants; nothing must follow."""
    NEEDS_ROOM = 3
    """The run table has to grow first."""
    AT_PASS = 4
    """A pass is over now, and somebody wants to know; nothing must follow."""
    GOES_ON = 5
    """It does not yet."""


BATCH = 0
"""`Kind.BATCH`, without the workload's modules."""

Ints: TypeAlias = "NDArray[np.int64]"
Ints32: TypeAlias = "NDArray[np.int32]"
Heap: TypeAlias = "Rows[Due]"
Plan: TypeAlias = "Rows[PlanEntry]"
Blocks: TypeAlias = "Rows[PlanBlock]"
Nodes: TypeAlias = "Rows[Node]"
EveryJobs: TypeAlias = "Rows[EveryJob]"
Jobs: TypeAlias = "Rows[Job]"
Runs: TypeAlias = "Rows[Run]"


class State(NamedTuple):
    """The tables of a cluster. Compiled loops and Python see the same memory."""

    job: Jobs
    node: Nodes
    free: Ints32
    """The idle nodes of the pool: a stack."""
    queue: Ints32
    """Rows of the waiting jobs, in the middle of the array."""
    plan: Plan
    blocks: Blocks
    heap: Heap
    """The ends of the running jobs."""
    runs: Runs
    log: Ints32
    """The nodes of all runs, one run after the other."""
    started: Ints32
    """Rows of the jobs that the last pass started."""
    scratch: Ints
    """Room for the profile of a conservative plan."""
    registers: Registers
    """The registers."""


def clear_nodes(node: Nodes) -> None:
    """Every node is idle since the beginning and in the pool."""
    for field, value in (("job", -1), ("offline", 0), ("since_us", 0), ("place", -1)):
        node[field][:] = value


def node_array(nodes: Iterable[int]) -> Ints:
    """Nodes as an array, however they come; an array is not gone through one by one."""
    if isinstance(nodes, np.ndarray):
        return nodes.astype(np.int64)
    return np.fromiter(nodes, np.int64)
