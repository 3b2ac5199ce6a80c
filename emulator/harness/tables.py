"""The kernel's tables: which row means what. Compiled loops and Python see the same memory.

The state is a plain tuple of arrays (`State`). Tables have named columns: `job[j, START]` is the start of
job j. Times are integer microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from emulator.harness.rows import Rows

NEVER = (1 << 63) - 1

# What the tables of every machine begin with: columns of the job table and of the run table, registers. What is
# common to all of them (`views.py`, `stepping.py`) looks at nothing else.
EVERY_JOB, EVERY_RUN, EVERY_REGISTER = range(8), range(5), range(8)

# Columns of the job table: one row a job, so that a start or an end touches one place in memory.
# RUN, ESTIMATE and NODES are those of the present run, else of the next one. KEY: place in the queue order; RETURNS:
# nodes that go back to the pool at its end; EXPECTED: where it stands in the plan, 0 if it does not; RUN_ROW: its
# present run; ENDED_BEFORE: the job that left its nodes before this one.
SUBMIT, RUN, ESTIMATE, NODES, KEY, STATE, START, END = EVERY_JOB
RETURNS, RUN_ROW, KIND, EXPECTED, ENDED_BEFORE = range(8, 13)
JOB_COLUMNS = 13


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
# Columns of the run table. R_FIRST: where the run's nodes begin in the node log.
R_JOB, R_START, R_END, R_OUTCOME, R_FIRST = EVERY_RUN
RUN_COLUMNS = 5
# Registers. CYCLE: passes happen at multiples of it, 0 for whenever something happens; NEXT_CYCLE: when one is due.
# HEAD_WAITS: a blocked head starts at its reservation, not before; BEFORE_SHADOW: who is not spare ends before it.
# EXACT_FIRST: jobs that end when they were expected to give their nodes back before the first pass of an instant.
# SUBMITS_FIRST: submits come before ends of the same instant; ENDS_BY_START: such ends go in order of the starts.
# CORRECT: address of the hook that corrects expected ends before EXACT_FIRST looks at them, 0 for none.
# COUNTS_ONLY: nodes are only counted; the free stack and what is in the node log are not kept up.
# COMMIT: a head that does not fit stays the head until it starts.
# ASK: address of the hook that puts the queue in order before a pass (`callbacks.py`), 0 for a static order.
NOW, NEXT_SUBMIT, JOBS_N, RUNS_N, LOG_N, ENDED_N, STOP_ON_END, INSTANTS_LEFT = EVERY_REGISTER
(
    FREE, QUEUE_LO, QUEUE_HI, BLOCKS_N, HEAP_N, STARTED_N, BACKFILL, CHOICE, QUEUED_ESTIMATES, EVERY_EVENT,
    KEEP_RESERVATION, SPARE_NODES, PROTECT_HEAD, KEPT_HEAD, KEPT_SHADOW, KEPT_SPARE, SIMULATED, NODES_KEPT,
    LAST_ENDED, STOP_ON_PASS, ASK, ASK_CONTEXT, ASK_ALWAYS, ORDER_FAILED, CYCLE, NEXT_CYCLE, HEAD_WAITS, BEFORE_SHADOW,
    EXACT_FIRST, COUNTS_ONLY, SUBMITS_FIRST, ENDS_BY_START, CORRECT, COMMIT,
) = range(8, 42)  # fmt: skip
REGISTERS = 42
# Key of a job that was put before all others: less than any that an order gives.
FRONT = -(1 << 62)
# Why an order that is asked at each pass failed (ORDER_FAILED): it raised something, or gave a NaN.
RAISED, NOT_A_NUMBER = 1, 2

# Values of the registers and tables (the enums of record.py and config.py, as the compiled loops see them).
FUTURE, QUEUED, RUNNING, ENDED, REJECTED, CANCELLED, HELD = range(7)
FINISHED, KILLED, REQUEUED, WITHDRAWN, RESIZED = 1, 2, 3, 4, 5
BACKFILL_NONE, BACKFILL_EASY, BACKFILL_CONSERVATIVE, BACKFILL_CHOSEN = range(4)
# CHOSEN: the hook (ASK) has chosen whoever starts.
FIRST_FIT, BEST_FIT, SHORTEST_FIRST = range(3)
BATCH = 0
# Why `advance` came back; GOES_ON: it does not yet.
AT_UNTIL, AT_ENDS, PAUSED, NEEDS_ROOM, AT_PASS, GOES_ON = range(6)

Ints: TypeAlias = "NDArray[np.int64]"
Ints32: TypeAlias = "NDArray[np.int32]"
Heap: TypeAlias = "Rows[Due]"
Plan: TypeAlias = "Rows[PlanEntry]"
Blocks: TypeAlias = "Rows[PlanBlock]"
Nodes: TypeAlias = "Rows[Node]"
State: TypeAlias = "tuple[Ints, Nodes, Ints32, Ints32, Plan, Blocks, Heap, Ints, Ints32, Ints32, Ints, Ints]"
"""(job, node, free, queue, plan, blocks, heap, runs, log, started, scratch, reg)"""


def clear_nodes(node: Nodes) -> None:
    """Every node is idle since the beginning and in the pool."""
    for field, value in (("job", -1), ("offline", 0), ("since_us", 0), ("place", -1)):
        node[field][:] = value


def node_array(nodes: Iterable[int]) -> Ints:
    """Nodes as an array, however they come; an array is not gone through one by one."""
    if isinstance(nodes, np.ndarray):
        return nodes.astype(np.int64)
    return np.fromiter(nodes, np.int64)
