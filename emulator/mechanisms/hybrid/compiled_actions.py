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
from emulator.harness.occupancy import begin_run
from emulator.harness.plan import plan_insert, plan_remove
from emulator.harness.points import Point
from emulator.harness.record import RunOutcome
from emulator.harness.structures import (
    free_push,
    free_remove,
    heap_push,
    heap_remove,
    queue_insert,
    queue_remove,
)
from emulator.harness.tables import (
    FRONT,
    HEAP_N,
    KEPT_HEAD,
    LOG_N,
    NEVER,
    NOW,
    QUEUED,
    REGISTERS,
    RESIZED,
)
from emulator.mechanisms.hybrid.claims import CHANGED, GUESTS_RESCAN, PASS_RESCAN
from emulator.mechanisms.hybrid.deep_queue import waits_here
from emulator.mechanisms.hybrid.reserved import hold, left

if TYPE_CHECKING:
    from emulator.harness.rows import Rows
    from emulator.harness.running import BrokenOff
    from emulator.harness.tables import Heap, Ints, Jobs, State
    from emulator.harness.work import Work
    from emulator.mechanisms.hybrid.claims import Claims


class OwnJob:
    """What a compiled run keeps of a job, -1 for none: of an on-demand job, and of a batch job."""

    claim: int
    """Its claim; the claim that it leaves for (`claim_of`)."""
    when_us: int
    """When its lease ends; when its last checkpoint is written."""
    owes: int
    """The last of its loans; nodes that the claim will have of it."""
    noted: int
    """1 if it got its nodes when it came; how often it had to leave held nodes."""
    known: int
    """When it is predicted, in us; its most nodes."""


class Loan:
    """Nodes lent to an on-demand job: a ring for each of these."""

    lender: int
    lent: int
    """How many."""
    shrunk_us: int
    """The start of the run that was shrunk, else -1."""
    next: int


class Move:
    """Nodes that moved to another pool, to be told of afterwards."""

    at_us: int
    to: int
    """ALLOC, RESERVE, IDLE_AGAIN or DOWN."""
    first: int
    """Where they begin in the node log; negative: from ~first on in `apart`."""
    many: int


class WallTime:
    """How long something took by the wall clock."""

    which: int
    """CHOICE or HANDLING."""
    took_us: int


class Outage:
    """A node that fails, or is up again. In order of time; of one time those that are up again come first."""

    at_us: int
    node: int
    fails: int
    """1 if it fails."""


ALLOC, RESERVE, IDLE_AGAIN, DOWN = range(4)
CHOICE, HANDLING = range(2)
# Registers of a compiled run, behind those of the table for the agenda's heap, which is like the cluster's.
# WAKE: when the mechanism is woken; NEXT_POINT: of those known from the begin; AT_POINT, AT_TIMER: what goes on now;
# NEXT_CLAIM: the next to look at after a failure; FAILED_N: failures so far; SERIALS_N: claims so far; ARRIVING: the
# on-demand job that is to start next, -1 for none, and whether it comes just now (IS_NEW) or was there already.
(
    WAKE, NEXT_POINT, AT_POINT, AT_TIMER, MOVES_N, ROWS_N, TIMES_N, LOAN_FREE, LOANS_LEFT, LENT_N, OPEN_N, RESUMED_N,
    EXPANDED_N, PREEMPTIONS_N, SHRINKS_N, QUEUED_N, LAPSED_N, WARNED_NODE_US, GRANTED_N, RELEASE_US, WARNING_US,
    NOTICE_BY, ARRIVAL_BY, CLOCK, CLOCK_ID, CLOCK_ADDRESS, NEXT_OUTAGE, NEXT_CLAIM, FAILED_N, APART_N, SERIALS_N,
    ARRIVING, IS_NEW, NEXT_END, NEXT_GUESS, NOT_RETURNED,
) = range(REGISTERS, REGISTERS + 36)  # fmt: skip
REASONS = (
    "the on-demand job did not start",
    "an on-demand job waits",
    "the lender does not run any more",
    "the lender has all its nodes",
    "a lent node broke",
    "the lender does not wait any more",
    "too few nodes for the lender to resume",
    "a node of the on-demand job broke",
)
"""Why lent nodes did not return, in the order of the registers from NOT_RETURNED on."""
MORE_REGISTERS = NOT_RETURNED + len(REASONS)
BY_CHECKPOINT, BY_TIMER, BY_COMPLETION = int(Point.CHECKPOINT), int(Point.TIMER), int(Point.COMPLETION)
BY_ARRIVAL, BY_NOTICE = int(Point.ARRIVAL), int(Point.NOTICE)
_PREEMPTED = int(RunOutcome.PREEMPTED)
KEEP_NOTHING, KEEP_SAVED, KEEP_ALL = range(3)
"""What a job that is stopped keeps of its work."""
SLOT_BITS = 24
POINT_SHIFT = 40
"""A point's key: what it is, then the job plus 1; in order at one time."""

More: TypeAlias = (
    "tuple[Rows[OwnJob], Heap, Heap, Heap, Ints, Rows[Loan], Rows[Move], Rows[BrokenOff], Rows[WallTime], Ints, Ints,"
    " Ints, Ints, Rows[Outage], Ints]"
)
"""(own, points, agenda, timers, timer registers, loans, moves, rows, times, room, mark, registers, digits, outages,
apart)

`points`: what is known from the begin, in order; `agenda`: a heap of those that follow; `timers`: a heap of the
mechanism's; `room`: rows of one entry a node (two at least), the last for the clock; `mark`: of each node; `digits`: to
sort with; `apart`: moved nodes that no run had as they were moved.
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
    """The mechanism is woken at its first timer or the next outage."""
    agenda, timers, counts, reg, outages = more[2], more[3], more[4], more[11], more[13]
    at = NEVER
    if counts[HEAP_N]:
        at = timers[0].at_us
    if reg[NEXT_OUTAGE] < outages.shape[0]:
        at = min(at, outages[reg[NEXT_OUTAGE]].at_us)
    at = max(at, now)
    if at != NEVER and at != reg[WAKE]:
        reg[WAKE] = at
        heap_push(agenda, reg, at, BY_TIMER << POINT_SHIFT)


@inner
def note_time(more: More, which: int, began: int) -> None:
    times, reg = more[8], more[11]
    times[reg[TIMES_N]].which = which
    times[reg[TIMES_N]].took_us = wall_us(more) - began
    reg[TIMES_N] += 1


@inner
def note_move(more: More, now: int, pool: int, first: int, many: int) -> None:
    moves, reg = more[6], more[11]
    one = moves[reg[MOVES_N]]
    one.at_us = now
    one.to = pool
    one.first = first
    one.many = many
    reg[MOVES_N] += 1


@inner
def move_apart(more: More, which: int) -> None:
    """A node that the next noted move is of; the first of them stands at ~FIRST."""
    apart, reg = more[14], more[11]
    apart[reg[APART_N]] = which
    reg[APART_N] += 1


@inner
def note_row(more: More, row: int, did: int, lost: int, in_all: int) -> None:
    rows, reg = more[7], more[11]
    one = rows[reg[ROWS_N]]
    one.row = row
    one.did = did
    one.lost = lost
    one.in_all = in_all
    reg[ROWS_N] += 1


@inner
def arrives(more: More, who: int, is_new: int) -> None:
    """An on-demand job is to start next (`on_arrival`)."""
    more[11][ARRIVING] = who
    more[11][IS_NEW] = is_new


@inner
def leaves_for(claims: Claims, more: More, who: int, slot: int) -> None:
    """The batch job is about to leave its nodes for this claim."""
    more[0][who].claim = (claims[0][slot].serial << SLOT_BITS) + slot


@inner
def claim_of(claims: Claims, more: More, who: int) -> int:
    """The claim for which the batch job leaves; -1: none, or one that is over."""
    kept = more[0][who].claim
    slot = kept & ((1 << SLOT_BITS) - 1)
    if kept < 0 or claims[0][slot].serial != kept >> SLOT_BITS:
        return -1
    return int(slot)


@inner
def set_phase(job: Jobs, work: Work, who: int, done: int, saved: int, since: int, num: int, den: int) -> None:  # noqa: PLR0917
    """As `RunningJobs._set_phase`."""
    work[who, w.ROW] = job[who].run_row + 1
    work[who, w.DONE] = done
    work[who, w.SAVED] = saved
    work[who, w.SINCE] = since
    work[who, w.NUM] = num
    work[who, w.DEN] = den


@inner
def stop(state: State, work: Work, claims: Claims, more: More, who: int, keeps: int, now: int) -> None:  # noqa: PLR0917
    """A running job leaves its nodes and waits again; `keeps`: what of its work."""
    job, node, free, queue, plan, blocks, heap, runs, log, _, _, reg = state
    done, saved = w.done_at(job, work, who, now)
    kept = done if keeps == KEEP_ALL else saved if keeps == KEEP_SAVED else 0
    note_row(more, job[who].run_row, done - w.phase_of(job, work, who)[0], done - kept, done)
    work[who, w.ROW] = 0
    work[who, w.SAVED] = kept
    if job[who].expected_end_us:
        heap_remove(heap, reg, who)
    occupancy.end_job(job, node, free, plan, blocks, runs, log, reg, who, now, _PREEMPTED)
    left(state, claims, who, now)
    claims[5][CHANGED] = 1
    claims[5][PASS_RESCAN] = 1
    claims[5][GUESTS_RESCAN] = 1
    job[who].state = QUEUED
    job[who].start_us = -1
    job[who].end_us = -1
    queue_insert(job, queue, reg, who)
    run, estimate = w.next_run(work, who)
    job[who].run_us = run
    job[who].estimate_us = estimate
    job[who].nodes = work[who, w.WIDTH]
    waits_here(job, claims[3], claims[5], claims[6], who)


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
    own[who].when_us = written
    heap_push(agenda, reg, written, (BY_CHECKPOINT << POINT_SHIFT) + who + 1)


@inner
def resize(state: State, work: Work, more: More, who: int, nodes: Ints, now: int) -> None:  # noqa: PLR0917
    """A running job has exactly these nodes from now on."""
    begin_phase(state, work, more, who, nodes.shape[0], now)
    reshape.change_nodes(state, who, nodes, now, more[11][NEXT_END], more[11][NEXT_GUESS])
    end_phase(state, work, who)


@inner
def begin_phase(state: State, work: Work, more: More, who: int, many: int, now: int) -> None:  # noqa: PLR0917
    """The present run of a job is broken off: it will have so many nodes, and NEXT_END and NEXT_GUESS for its ends."""
    job, reg = state[0], more[11]
    begun, _, since, num, den = w.phase_of(job, work, who)
    done, saved = w.done_at(job, work, who, now)
    note_row(more, job[who].run_row, done - begun, 0, done)
    since = max(since, now)
    width = work[who, w.WIDTH]
    guess = since + w.length_us(work, who, work[who, w.ESTIMATE_US] * width - done, many, num, den)
    reg[NEXT_END] = since + w.length_us(work, who, work[who, w.RUN_US] * width - done, many, num, den)
    reg[NEXT_GUESS] = max(guess, since + 1)
    work[who, w.BEGUN] = done
    set_phase(job, work, who, done, saved, since, num, den)


@inner
def end_phase(state: State, work: Work, who: int) -> None:
    """The job runs on in a new row of the run table."""
    work[who, w.ROW] = state[0][who].run_row + 1


@inner
def change_last(state: State, work: Work, more: More, who: int, keeps: int, fresh: Ints, now: int) -> None:  # noqa: PLR0917
    """As `resize` to its first `keeps` nodes and these idle ones; all its nodes are in the pool.

    Only nodes that change are touched, and the free stack is afterwards as if the job had left all its nodes first.
    """
    job, node, free, _, plan, blocks, heap, runs, log, _, _, reg = state
    had = job[who].nodes
    many = keeps + fresh.shape[0]
    begin_phase(state, work, more, who, many, now)
    row = job[who].run_row
    first = runs[row].first
    start = job[who].start_us
    runs[row].end_us = now
    runs[row].outcome = RESIZED
    plan_remove(plan, blocks, reg, job[who].expected_end_us, job[who].returns)
    heap_remove(heap, reg, who)
    for k in range(had - keeps):
        at = had - 1 - k if k < keeps else k
        which = log[first + at]
        node[which].job = -1
        node[which].since_us = now
        free_push(node, free, reg, which)
    begin_run(job, runs, reg, who, now)
    for k in range(keeps):
        log[reg[LOG_N] + k] = log[first + k]
    for k in range(fresh.shape[0]):
        free_remove(node, free, reg, fresh[k])
        node[fresh[k]].job = who
        log[reg[LOG_N] + keeps + k] = fresh[k]
    reg[LOG_N] += many
    job[who].start_us = start
    job[who].nodes = many
    job[who].returns = many
    job[who].expected_end_us = more[11][NEXT_GUESS]
    plan_insert(plan, blocks, reg, job[who].expected_end_us, many)
    if more[11][NEXT_END] < NEVER:
        heap_push(heap, reg, more[11][NEXT_END], who)
    end_phase(state, work, who)


@inner
def start_lease(state: State, work: Work, more: More, who: int, nodes: Ints, now: int) -> None:  # noqa: PLR0917
    """An on-demand job that has just come runs on these nodes, which are out of the pool."""
    own, agenda, reg = more[0], more[2], more[11]
    many = nodes.shape[0]
    owed = work[who, w.RUN_US] * work[who, w.WIDTH] - work[who, w.SAVED]
    length = work[who, w.SETUP] + w.length_us(work, who, owed, many, 1, 1)
    occupancy.start_on(state, who, nodes, now)
    own[who].when_us = now + length
    heap_push(agenda, reg, now + length, (BY_COMPLETION << POINT_SHIFT) + who + 1)
    note_move(more, now, ALLOC, state[11][LOG_N] - many, many)
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
def enqueue_first(state: State, claims: Claims, who: int, now: int) -> None:
    """An on-demand job that cannot start waits before all others."""
    claims[5][PASS_RESCAN] = 1
    claims[5][GUESTS_RESCAN] = 1
    job, queue, reg = state[0], state[3], state[11]
    job[who].state = QUEUED
    job[who].key = FRONT
    reg[NOW] = now
    queue_insert(job, queue, reg, who)


@inner
def hold_run(state: State, claims: Claims, slot: int, first: int, many: int, now: int) -> int:  # noqa: PLR0917
    """Nodes of the log that are idle in the pool go to the claim, until it needs no more. How many of them it has."""
    node, log = state[1], state[8]
    claim, held = claims[0], claims[2]
    for k in range(first, first + many):
        which = log[k]
        if claim[slot].need > 0 and node[which].job < 0 and node[which].offline == 0:
            hold(state, claims, slot, which, now)
    count = 0
    for k in range(first, first + many):
        count += held[log[k]].holder == slot
    return count


@inner
def nodes_of(state: State, who: int, into: Ints) -> int:
    """Copy the nodes of a job's present or last run. How many."""
    job, runs, log = state[0], state[7], state[8]
    first = runs[job[who].run_row].first
    many: int = job[who].nodes
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
    reg[LOAN_FREE] = loans[one].next
    reg[LOANS_LEFT] -= 1
    loans[one].lender = lender
    loans[one].lent = nodes
    loans[one].shrunk_us = shrunk_us
    last = own[borrower].owes
    loans[one].next = loans[last].next if last >= 0 else one
    if last >= 0:
        loans[last].next = one
    own[borrower].owes = one
    reg[LENT_N] += nodes
    reg[OPEN_N] += nodes


@inner
def settle_one(more: More, one: int, back: int, how: int, why: int) -> None:
    """As `LoanBook.settle`; the loan is over."""
    loans, reg = more[5], more[11]
    nodes = loans[one].lent
    reg[OPEN_N] -= nodes
    reg[how] += back
    if back < nodes:
        reg[NOT_RETURNED + why] += nodes - back
