"""What the twin of Slurm knows beside the tables of every machine: its registers and arrays. Times: microseconds.

`Twin` is a plain tuple of arrays, for compiled loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Settings, then what changes. DEPTH: jobs that a pass on an event tests; SCHED_EVERY: between two passes that test all,
# 0 for none; PASS_GAP: the least time between two passes; DEFER: a submit alone makes no pass; FILL_EVERY: between two
# backfill cycles, 0 for none; OVER: how long past its limit a job may run; CALC_EVERY: between two looks at priorities,
# 0 where they do not change. PASS_AT: when the next pass on an event is due; LAST_PASS; FULL_CHANGED:
# something happened since the last pass over all jobs. FILL_AT: when the next cycle is due, NEVER while nothing has
# happened since the last one; LAST_FILL; QUIET_WAIT: how long after a change it is due if none came for FILL_EVERY.
# LIMITS_N: limits of QOS that there are; LOOKS: how often what runs was counted for them. PER_NODE: cores of a node,
# 1 where jobs have whole ones; NODE_MEMORY: in MiB, 0 where nobody looks at it; RUNNING_N: jobs in `running`.
# NODES_MOVED: nodes went or came back since the last instant; RELEASE_AT: when the first of the jobs that are held
# back, FIRST_HELD to LAST_HELD, may wait again, NEVER if there is none; RESUBMITS: some job has another submit time
# than its row says, and submit times count.
(
    DEPTH, SCHED_EVERY, PASS_GAP, DEFER, FILL_EVERY, WINDOW, RESOLUTION, MAX_TEST, MAX_USER, MIN_AGE, OVER,
    CALC_EVERY, PASS_AT, LAST_PASS, FULL_CHANGED, SLOTS_N, PARTITIONS, LIMITS_N, LOOKS,
    FILL_AT, LAST_FILL, QUIET_WAIT, PER_NODE, NODE_MEMORY, RUNNING_N,
    NODES_MOVED, RELEASE_AT, FIRST_HELD, LAST_HELD, RESUBMITS,
) = range(30)  # fmt: skip
TWIN_REGISTERS = 30
# Columns of the jobs: partition, the partition's tier, the index of the user, the QOS whose limits count, first the
# partition's (-1: none), then the job's own; the last look at limits that counted it; the advance reservation that it
# asks for (-1: none); nodes it wants, cores and memory on each; whether it is in `running`. ELIGIBLE: since when it may
# wait; SUBMITTED: when it was submitted or, if it had to wait again, that; NEXT_HELD: who was held back after it.
(
    PARTITION, TIER, WHOSE, FIRST_QOS, OWN_QOS, COUNTED, RESERVATION, WIDTH, CORES, MEMORY, IS_LISTED,
    ELIGIBLE, SUBMITTED, NEXT_HELD,
) = range(14)  # fmt: skip
TWIN_COLUMNS = 14
# Limits of a QOS, -1 where there is none: of all its jobs together and of a user's. An even one is of jobs, the next
# one of their nodes.
GRP_JOBS, GRP_NODES, USER_JOBS, USER_NODES = range(4)
LIMITS = 4
# Numbers of the priorities.
AGE_WEIGHT, MAX_AGE, FAIR_WEIGHT, HALF_LIFE = range(4)
# Columns of the nodes: when each is free again by the limit of what runs on it, which is HOLDER (a job's row), the
# order of these times, and the nodes that were chosen for a job.
WHEN, HOLDER, ORDER, CHOSEN = range(4)
NODE_COLUMNS = 4
# What a node that jobs share has left: now, and at a time that is looked at.
CORES_NOW, MEMORY_NOW, CORES_THEN, MEMORY_THEN = range(4)
ROOM_COLUMNS = 4
# An advance reservation: from START_ to before END_.
START_, END_ = range(2)
# A slot of the plan of a cycle: from AT_ on the nodes of the row ROW are not reserved.
AT_, ROW = range(2)

Bytes: TypeAlias = "NDArray[np.int8]"
_I: TypeAlias = "NDArray[np.int64]"
_F: TypeAlias = "NDArray[np.float64]"
_Bounds: TypeAlias = "tuple[_I, _I, _I, Bytes, _I, _I, _I]"
Twin: TypeAlias = (
    "tuple[_I, _I, _F, Bytes, _I, _I, Bytes, Bytes, _I, _F, _F, _I, _I, _I, NDArray[np.int32], _Bounds]"
)
"""(reg, job, fixed, parts, nodes, slots, kept, masks, tests, weights, accounts, open, count, view, spare, bounds)

`fixed`: what of a job's priority never changes. `parts`: the nodes of each partition. `slots`, `kept`: the plan.
`masks`: two rows, the nodes that a job may be planned on (in a pass of the main loop: those that are kept from it), and
those it is put on. `tests`: jobs of each user in this cycle, then a mark for each partition and each reservation.
`accounts`, `open`, `count`, `view`: of `harness/reorder.py`. `spare`: to sort. `bounds`: limits of each QOS, and what
runs in it (jobs, nodes): a row for all of it, then one for each user; times of the advance reservations, and their
nodes; where jobs share nodes what each has left, the running jobs in order of ends, and the cores picked for one.
"""

SECOND, MINUTE = 1_000_000, 60_000_000
CHECK_EVERY = 30 * SECOND
"""Time limits are looked at so often (recorded: a limit of 60 s ended a job after 79 s)."""
HOLD = 121 * SECOND
"""A job that was requeued may start so long after the second in which it was (recorded)."""
TIER_STEP = 1 << 33
