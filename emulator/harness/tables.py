"""The kernel's tables: which row means what. Compiled loops and Python see the same memory.

The state is a plain tuple of arrays (`State`). Tables have named rows: `job[START, j]` is the start of job j.
Times are integer microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEVER = (1 << 63) - 1

# Rows of the job table.
SUBMIT, RUN, ESTIMATE, NODES, KEY, STATE, START, END, RETURNS, RUN_ROW, FIRST, KIND = range(12)
JOB_ROWS = 12
# Rows of the node table. NEXT: the following node of the same job; PLACE: in the free stack, -1 if not there;
# SINCE: when the node last became idle or busy.
JOB, NEXT, OFFLINE, SINCE, PLACE = range(5)
NODE_ROWS = 5
# Rows of the plan (running jobs by expected end) and of the end heap.
AT, WHO, HOW_MANY = range(3)
# Rows of the run table.
R_JOB, R_START, R_END, R_OUTCOME, R_FIRST = range(5)
RUN_ROWS = 5
# Registers.
(
    NOW, FREE, QUEUE_LO, QUEUE_HI, PLAN_LO, PLAN_HI, HEAP_N, NEXT_SUBMIT, JOBS_N, RUNS_N, LOG_N, STARTED_N,
    BACKFILL, CHOICE, QUEUED_ESTIMATES, EVERY_EVENT, KEEP_RESERVATION, SPARE_NODES, PROTECT_HEAD,
    KEPT_HEAD, KEPT_SHADOW, KEPT_SPARE, SIMULATED, STOP_ON_END, ENDED_N, LOG_NODES,
) = range(26)  # fmt: skip
REGISTERS = 26

# Values of the registers and tables (the enums of record.py and config.py, as the compiled loops see them).
FUTURE, QUEUED, RUNNING, ENDED, REJECTED, CANCELLED, HELD = range(7)
FINISHED, KILLED, REQUEUED, WITHDRAWN = 1, 2, 3, 4
BACKFILL_NONE, BACKFILL_EASY, BACKFILL_CONSERVATIVE = range(3)
FIRST_FIT, BEST_FIT, SHORTEST_FIRST = range(3)
BATCH = 0
# Why `advance` came back.
AT_UNTIL, AT_ENDS, NEEDS_ROOM = range(3)

Ints: TypeAlias = "NDArray[np.int64]"
Ints32: TypeAlias = "NDArray[np.int32]"
State: TypeAlias = "tuple[Ints, Ints, Ints32, Ints32, Ints, Ints, Ints, Ints32, Ints32, Ints]"
"""(job, node, free, queue, plan, heap, runs, log, started, reg)"""
