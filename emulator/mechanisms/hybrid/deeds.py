"""What is done to jobs and nodes in a compiled run: the deeds of `actions.py` and `running.py`, with their accounts.

`More` is what a run keeps beside the cluster's tables: what the harness and the mechanism keep in Python otherwise.
Nothing is checked here: the same run step by step (`Loop.run(by_steps=True)`) checks it all, and must be equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from emulator.harness import occupancy, reshape
from emulator.harness import work as w
from emulator.harness.callbacks import call_hook
from emulator.harness.compiled import inner
from emulator.harness.points import Point
from emulator.harness.record import RunOutcome
from emulator.harness.structures import heap_push, heap_remove, queue_insert, queue_remove
from emulator.harness.tables import (
    AT,
    END,
    ESTIMATE,
    EXPECTED,
    FRONT,
    HEAP_N,
    JOB,
    KEPT_HEAD,
    KEY,
    NODES,
    NOW,
    OFFLINE,
    QUEUED,
    R_FIRST,
    REGISTERS,
    RUN,
    RUN_ROW,
    START,
    STATE,
)
from emulator.mechanisms.hybrid.reserved import CHANGED, NEED, OWNER, hold, left

if TYPE_CHECKING:
    from emulator.harness.tables import Ints, State
    from emulator.harness.work import Work
    from emulator.mechanisms.hybrid.reserved import Claims

# Columns of `own`, one row a job. Of an on-demand job: CLAIM, its claim; WHEN its lease ends; OWES, the last of its
# loans; NOTED, whether it got its nodes when it came; KNOWN, when it is predicted. Of a batch job: CLAIM that it leaves
# for; WHEN its last checkpoint is written; OWES, nodes that the claim will have of it; NOTED, how often it had to leave
# held nodes; KNOWN, its most nodes. -1 for none.
CLAIM, WHEN, OWES, NOTED, KNOWN = range(5)
OWN_COLUMNS = 5
# Columns of the loans, a ring for each on-demand job. SHRUNK_US: the start of the run that was shrunk, else -1.
LENDER, LENT, SHRUNK_US, NEXT = range(4)
LOAN_COLUMNS = 4
# Columns of what is told of afterwards: moves of a lease's nodes (OF: its row in the run table), rows of the run table
# that were broken off (work done in them, thrown away, and done in all), and wall times (which: `CHOICE`, `HANDLING`).
MOVED_US, TO, OF = range(3)
ROW, DID, LOST, IN_ALL = range(4)
ALLOC, RESERVE, IDLE_AGAIN = range(3)
CHOICE, HANDLING = range(2)
# Registers of a compiled run, behind those of the table for the agenda's heap, which is like the cluster's.
# WAKE: when the mechanism is woken; NEXT_POINT: of those known from the begin; AT_POINT, AT_TIMER: what goes on now.
(
    WAKE, NEXT_POINT, AT_POINT, AT_TIMER, MOVES_N, ROWS_N, TIMES_N, LOAN_FREE, LOANS_LEFT, LENT_N, OPEN_N, RESUMED_N,
    EXPANDED_N, PREEMPTIONS_N, SHRINKS_N, QUEUED_N, LAPSED_N, WARNED_NODE_US, GRANTED_N, RELEASE_US, WARNING_US,
    NOTICE_BY, ARRIVAL_BY, CLOCK, CLOCK_ID, CLOCK_ADDRESS, NOT_RETURNED,
) = range(REGISTERS, REGISTERS + 27)  # fmt: skip
REASONS = (
    "the on-demand job did not start",
    "an on-demand job waits",
    "the lender does not run any more",
    "the lender has all its nodes",
    "a lent node broke",
    "the lender does not wait any more",
    "too few nodes for the lender to resume",
)
"""Why lent nodes did not return, in the order of the registers from NOT_RETURNED on."""
MORE_REGISTERS = NOT_RETURNED + len(REASONS)
BY_CHECKPOINT, BY_TIMER, BY_COMPLETION = int(Point.CHECKPOINT), int(Point.TIMER), int(Point.COMPLETION)
BY_ARRIVAL, BY_NOTICE = int(Point.ARRIVAL), int(Point.NOTICE)
_PREEMPTED = int(RunOutcome.PREEMPTED)
POINT_SHIFT = 40
"""A point's key: what it is, then the job plus 1; in order at one time."""

More: TypeAlias = "tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints]"
"""(own, points, agenda, timers, timer registers, loans, moves, rows, times, room, mark, registers, digits)

`points`: (time, key) of what is known from the begin; `agenda`: a heap of those that follow; `timers`: a heap of the
mechanism's; `room`: rows of one entry a node (two at least), the last for the clock; `mark`: of each node; `digits`: to
sort with.
"""
ROOM_ROWS = 7


@inner
def wall_us(more: More) -> int:
    """As `balancer.clock.wall_us`, from the same clock."""
    room, reg = more[9], more[11]
    call_hook(reg[CLOCK], reg[CLOCK_ID], reg[CLOCK_ADDRESS])
    clock = room[ROOM_ROWS - 1]
    return int(clock[0] * 1_000_000 + clock[1] // 1000)


@inner
def wake(more: More, now: int) -> None:
    """The mechanism is woken at its first timer."""
    agenda, timers, counts, reg = more[2], more[3], more[4], more[11]
    if counts[HEAP_N]:
        at = max(timers[0, AT], now)
        if at != reg[WAKE]:
            reg[WAKE] = at
            heap_push(agenda, reg, at, BY_TIMER << POINT_SHIFT)


@inner
def note_time(more: More, which: int, began: int) -> None:
    times, reg = more[8], more[11]
    times[reg[TIMES_N], 0] = which
    times[reg[TIMES_N], 1] = wall_us(more) - began
    reg[TIMES_N] += 1


@inner
def note_move(more: More, now: int, pool: int, row: int) -> None:
    moves, reg = more[6], more[11]
    moves[reg[MOVES_N], MOVED_US] = now
    moves[reg[MOVES_N], TO] = pool
    moves[reg[MOVES_N], OF] = row
    reg[MOVES_N] += 1


@inner
def note_row(more: More, row: int, did: int, lost: int, in_all: int) -> None:
    rows, reg = more[7], more[11]
    one = rows[reg[ROWS_N]]
    one[ROW] = row
    one[DID] = did
    one[LOST] = lost
    one[IN_ALL] = in_all
    reg[ROWS_N] += 1


@inner
def set_phase(job: Ints, work: Work, who: int, done: int, saved: int, since: int, num: int, den: int) -> None:  # noqa: PLR0917
    """As `RunningJobs._set_phase`."""
    work[who, w.ROW] = job[who, RUN_ROW] + 1
    work[who, w.DONE] = done
    work[who, w.SAVED] = saved
    work[who, w.SINCE] = since
    work[who, w.NUM] = num
    work[who, w.DEN] = den


@inner
def stop(state: State, work: Work, claims: Claims, more: More, who: int, saves: int, now: int) -> None:  # noqa: PLR0917
    """A running job leaves its nodes and waits again, with all that it did (`saves`) or what it had saved."""
    job, node, free, queue, plan, blocks, heap, runs, log, _, _, reg = state
    done, saved = w.done_at(job, work, who, now)
    kept = done if saves else saved
    note_row(more, job[who, RUN_ROW], done - w.phase_of(job, work, who)[0], done - kept, done)
    work[who, w.ROW] = 0
    work[who, w.SAVED] = kept
    if job[who, EXPECTED]:
        heap_remove(heap, reg, who)
    occupancy.end_job(job, node, free, plan, blocks, runs, log, reg, who, now, _PREEMPTED)
    left(state, claims, who, now)
    claims[5][CHANGED] = 1
    job[who, STATE] = QUEUED
    job[who, START] = -1
    job[who, END] = -1
    queue_insert(job, queue, reg, who)
    run, estimate = w.next_run(work, who)
    job[who, RUN] = run
    job[who, ESTIMATE] = estimate
    job[who, NODES] = work[who, w.WIDTH]


@inner
def begin_save(state: State, work: Work, more: More, who: int, now: int) -> None:
    """A running job computes no more and leaves its nodes when it has written everything down."""
    job = state[0]
    own, agenda, reg = more[0], more[2], more[11]
    begun, _, _, num, den = w.phase_of(job, work, who)
    done, saved = w.done_at(job, work, who, now)
    work[who, w.BEGUN] = begun
    set_phase(job, work, who, done, saved, w.STILL, num, den)
    written = now + reg[WARNING_US]
    reshape.retime(state, who, w.STILL, max(written, now + 1))
    own[who, WHEN] = written
    heap_push(agenda, reg, written, (BY_CHECKPOINT << POINT_SHIFT) + who + 1)


@inner
def resize(state: State, work: Work, more: More, who: int, nodes: Ints, now: int) -> None:  # noqa: PLR0917
    """A running job has exactly these nodes from now on."""
    job = state[0]
    begun, _, since, num, den = w.phase_of(job, work, who)
    done, saved = w.done_at(job, work, who, now)
    note_row(more, job[who, RUN_ROW], done - begun, 0, done)
    since = max(since, now)
    width = work[who, w.WIDTH]
    many = nodes.shape[0]
    end = since + w.length_us(work, who, work[who, w.RUN_US] * width - done, many, num, den)
    guess = since + w.length_us(work, who, work[who, w.ESTIMATE_US] * width - done, many, num, den)
    reshape.change_nodes(state, who, nodes, now, end, max(guess, since + 1))
    work[who, w.BEGUN] = done
    set_phase(job, work, who, done, saved, since, num, den)


@inner
def start_lease(state: State, work: Work, more: More, who: int, nodes: Ints, now: int) -> None:  # noqa: PLR0917
    """An on-demand job that has just come runs on these nodes, which are out of the pool."""
    own, agenda, reg = more[0], more[2], more[11]
    many = nodes.shape[0]
    owed = work[who, w.RUN_US] * work[who, w.WIDTH] - work[who, w.SAVED]
    length = work[who, w.SETUP] + w.length_us(work, who, owed, many, 1, 1)
    occupancy.start_on(state, who, nodes, now)
    own[who, WHEN] = now + length
    heap_push(agenda, reg, now + length, (BY_COMPLETION << POINT_SHIFT) + who + 1)
    note_move(more, now, ALLOC, state[0][who, RUN_ROW])
    reg[GRANTED_N] += 1


@inner
def start_waiting(state: State, work: Work, who: int, nodes: Ints, now: int) -> None:
    """A job of the queue runs on these idle nodes of the pool."""
    queue, reg = state[3], state[11]
    many = nodes.shape[0]
    saved = work[who, w.SAVED]
    begin = now + work[who, w.SETUP]
    owed = work[who, w.RUN_US] * work[who, w.WIDTH] - saved
    guess = work[who, w.ESTIMATE_US] * work[who, w.WIDTH] - saved
    end = begin + w.length_us(work, who, owed, many, 1, 1)
    expected = begin + w.length_us(work, who, guess, many, 1, 1)
    queue_remove(queue, reg, who)
    if reg[KEPT_HEAD] == who:
        reg[KEPT_HEAD] = -1
    reshape.occupy(state, who, nodes, now, end, max(expected, now + 1))


@inner
def enqueue_first(state: State, who: int, now: int) -> None:
    """An on-demand job that cannot start waits before all others."""
    job, queue, reg = state[0], state[3], state[11]
    job[who, STATE] = QUEUED
    job[who, KEY] = FRONT
    reg[NOW] = now
    queue_insert(job, queue, reg, who)


@inner
def hold_run(state: State, claims: Claims, slot: int, first: int, many: int, now: int) -> int:  # noqa: PLR0917
    """Nodes of the log that are idle in the pool go to the claim, until it needs no more. How many of them it has."""
    node, log = state[1], state[8]
    claim, held = claims[0], claims[2]
    for k in range(first, first + many):
        which = log[k]
        if claim[slot, NEED] > 0 and node[which, JOB] < 0 and node[which, OFFLINE] == 0:
            hold(state, claims, slot, which, now)
    count = 0
    for k in range(first, first + many):
        count += held[log[k], OWNER] == slot
    return count


@inner
def nodes_of(state: State, who: int, into: Ints) -> int:
    """Copy the nodes of a job's present or last run. How many."""
    job, runs, log = state[0], state[7], state[8]
    first = runs[job[who, RUN_ROW], R_FIRST]
    many: int = job[who, NODES]
    for k in range(many):
        into[k] = log[first + k]
    return many


@inner
def lend(more: More, borrower: int, lender: int, nodes: int, shrunk_us: int) -> None:
    """As `LoanBook.lend`."""
    own, loans, reg = more[0], more[5], more[11]
    if nodes == 0:
        return
    one = reg[LOAN_FREE]
    reg[LOAN_FREE] = loans[one, NEXT]
    reg[LOANS_LEFT] -= 1
    loans[one, LENDER] = lender
    loans[one, LENT] = nodes
    loans[one, SHRUNK_US] = shrunk_us
    last = own[borrower, OWES]
    loans[one, NEXT] = loans[last, NEXT] if last >= 0 else one
    if last >= 0:
        loans[last, NEXT] = one
    own[borrower, OWES] = one
    reg[LENT_N] += nodes
    reg[OPEN_N] += nodes


@inner
def settle_one(more: More, one: int, back: int, how: int, why: int) -> None:
    """As `LoanBook.settle`; the loan is over."""
    loans, reg = more[5], more[11]
    nodes = loans[one, LENT]
    reg[OPEN_N] -= nodes
    reg[how] += back
    if back < nodes:
        reg[NOT_RETURNED + why] += nodes - back
