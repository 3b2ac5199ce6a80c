"""What is done to jobs and nodes: the actions of `actions.py` and `running.py`, compiled, with their accounts.

Nothing is checked here: the laws of every run and the slow reference of the tests are (`tests/oracle`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from emulator.kernel import occupancy, reshape
from emulator.kernel.callbacks import call_hook
from emulator.kernel.compiled import inner
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.kernel.occupancy import begin_run
from emulator.kernel.plan import plan_insert, plan_remove
from emulator.kernel.structures import (
    free_push,
    free_remove,
    heap_push,
    heap_remove,
    queue_insert,
    queue_remove,
)
from emulator.kernel.tables import FRONT, NEVER
from emulator.machine import work as w
from emulator.machine.points import Point
from emulator.mechanisms.agenda import point_key, push
from emulator.mechanisms.hybrid.backfill_on_held import ends_of, ends_of_start
from emulator.mechanisms.hybrid.deep_queue import waits_here
from emulator.mechanisms.hybrid.holds import hold, left
from emulator.mechanisms.move_log import To, note_move

if TYPE_CHECKING:
    from emulator.kernel.tables import Ints, Jobs, State
    from emulator.machine.work import Work
    from emulator.mechanisms.hybrid.claims import Claims
    from emulator.mechanisms.hybrid.state import HybridState


class Keeps(IntEnum):
    """What a job that is stopped keeps of its work."""

    NOTHING = 0
    SAVED = 1
    ALL = 2


_SLOT_BITS = 24


@inner
def wall_us(hybrid: HybridState) -> int:
    """As `balancer.clock.wall_us`, from the same clock."""
    clock, hybrid_registers = hybrid.room.clock, hybrid.registers
    call_hook(hybrid_registers.clock_hook, hybrid_registers.clock_context, hybrid_registers.clock_address)
    return int(clock[0] * 1_000_000 + clock[1] // 1000)


@inner
def wake(hybrid: HybridState, now: int) -> None:
    """The mechanism is woken at its first timer or the next outage."""
    timers, hybrid_registers, outages = hybrid.timers, hybrid.registers, hybrid.outages
    at = NEVER
    if timers.size.entries:
        at = timers.heap[0].at_us
    if hybrid_registers.next_outage < outages.shape[0]:
        at = min(at, outages[hybrid_registers.next_outage].at_us)
    at = max(at, now)
    if NEVER != at != hybrid_registers.wake_us:
        hybrid_registers.wake_us = at
        push(hybrid.agenda, at, point_key(Point.TIMER, -1))


@inner
def note_time(hybrid: HybridState, which: int, began: int) -> None:
    times, hybrid_registers = hybrid.times, hybrid.registers
    times[hybrid_registers.times_n].which = which
    times[hybrid_registers.times_n].took_us = wall_us(hybrid) - began
    hybrid_registers.times_n += 1


@inner
def note_row(hybrid: HybridState, row: int, did: int, lost: int, in_all: int) -> None:
    rows, hybrid_registers = hybrid.rows, hybrid.registers
    entry = rows[hybrid_registers.rows_n]
    entry.row = row
    entry.did = did
    entry.lost = lost
    entry.in_all = in_all
    hybrid_registers.rows_n += 1


@inner
def arrives(hybrid: HybridState, row: int, is_new: int) -> None:
    """An on-demand job is to start next (`on_arrival`)."""
    hybrid.registers.arriving = row
    hybrid.registers.is_new = is_new


@inner
def leaves_for(claims: Claims, hybrid: HybridState, row: int, slot: int) -> None:
    """The batch job is about to leave its nodes for this claim."""
    hybrid.job_ext[row].claim = (claims.claim[slot].serial << _SLOT_BITS) + slot


@inner
def claim_of(claims: Claims, hybrid: HybridState, row: int) -> int:
    """The claim for which the batch job leaves; -1: none, or one that is over."""
    kept = hybrid.job_ext[row].claim
    slot = kept & ((1 << _SLOT_BITS) - 1)
    if kept < 0 or claims.claim[slot].serial != kept >> _SLOT_BITS:
        return -1
    return int(slot)


@inner
def set_phase(job: Jobs, work: Work, row: int, done: int, saved: int, since: int, num: int, den: int) -> None:
    """The present run of a job goes on like this (`work.py`)."""
    work[row].row = job[row].run_row + 1
    work[row].done = done
    work[row].saved = saved
    work[row].since_us = since
    work[row].num = num
    work[row].den = den


@inner
def stop(
    state: State, work: Work, claims: Claims, hybrid: HybridState, row: int, keeps: int, now: int
) -> None:
    """A running job leaves its nodes and waits again; `keeps`: what of its work."""
    job, node, free, queue, plan = state.job, state.node, state.free, state.queue, state.plan
    blocks, heap, runs, log, registers = state.blocks, state.heap, state.runs, state.log, state.registers
    done, saved = w.done_at(job, work, row, now)
    kept = done if keeps == Keeps.ALL else saved if keeps == Keeps.SAVED else 0
    note_row(hybrid, job[row].run_row, done - w.phase_of(job, work, row)[0], done - kept, done)
    work[row].row = 0
    work[row].saved = kept
    if job[row].expected_end_us:
        heap_remove(heap, registers, row)
    occupancy.end_job(job, node, free, plan, blocks, runs, log, registers, row, now, RunOutcome.PREEMPTED)
    left(state, claims, row, now)
    claims.counters.changed = 1
    claims.counters.pass_rescan = 1
    claims.counters.guests_rescan = 1
    job[row].state = JobState.QUEUED
    job[row].start_us = -1
    job[row].end_us = -1
    queue_insert(job, queue, registers, row)
    run, estimate = w.next_run(work, row)
    job[row].run_us = run
    job[row].estimate_us = estimate
    job[row].nodes = work[row].width
    waits_here(job, claims.attr, claims.counters, claims.queue_index, row)


@inner
def begin_save(state: State, work: Work, hybrid: HybridState, row: int, now: int) -> None:
    """A running job computes no more and leaves its nodes when it has written everything down."""
    job = state.job
    job_ext, hybrid_registers = hybrid.job_ext, hybrid.registers
    begun, _, _, num, den = w.phase_of(job, work, row)
    done, saved = w.done_at(job, work, row, now)
    work[row].begun = begun
    set_phase(job, work, row, done, saved, w.STILL, num, den)
    written = now + hybrid_registers.warning_us
    reshape.retime(state, row, w.STILL, max(written, now + 1))
    job_ext[row].when_us = written
    push(hybrid.agenda, written, point_key(Point.CHECKPOINT, row))


@inner
def resize(state: State, work: Work, hybrid: HybridState, row: int, nodes: Ints, now: int) -> None:
    """A running job has exactly these nodes from now on."""
    end, expected = begin_phase(state, work, hybrid, row, nodes.shape[0], now)
    reshape.change_nodes(state, row, nodes, now, end, expected)
    end_phase(state, work, row)


@inner
def begin_phase(
    state: State, work: Work, hybrid: HybridState, row: int, many: int, now: int
) -> tuple[int, int]:
    """The present run of a job is broken off: it will have so many nodes. When it ends, and is expected to."""
    job = state.job
    begun, _, since, num, den = w.phase_of(job, work, row)
    done, saved = w.done_at(job, work, row, now)
    note_row(hybrid, job[row].run_row, done - begun, 0, done)
    since = max(since, now)
    work[row].begun = done
    set_phase(job, work, row, done, saved, since, num, den)
    end, guess = ends_of(work, row, done, since, many, num, den)
    return end, max(guess, since + 1)


@inner
def end_phase(state: State, work: Work, row: int) -> None:
    """The job runs on in a new row of the run table."""
    work[row].row = state.job[row].run_row + 1


@inner
def change_last(
    state: State, work: Work, hybrid: HybridState, row: int, keeps: int, fresh: Ints, now: int
) -> None:
    """As `resize` to its first `keeps` nodes and these idle ones; all its nodes are in the pool.

    Only nodes that change are touched, and the free stack is afterwards as if the job had left all its nodes first.
    """
    job, node, free, plan, blocks = state.job, state.node, state.free, state.plan, state.blocks
    heap, runs, log, registers = state.heap, state.runs, state.log, state.registers
    had = job[row].nodes
    many = keeps + fresh.shape[0]
    end, expected = begin_phase(state, work, hybrid, row, many, now)
    run_row = job[row].run_row
    first = runs[run_row].first
    start = job[row].start_us
    runs[run_row].end_us = now
    runs[run_row].outcome = RunOutcome.RESIZED
    plan_remove(plan, blocks, registers, job[row].expected_end_us, job[row].returns)
    heap_remove(heap, registers, row)
    for k in range(had - keeps):
        at = had - 1 - k if k < keeps else k
        which = log[first + at]
        node[which].job = -1
        node[which].since_us = now
        free_push(node, free, registers, which)
    begin_run(job, runs, registers, row, now)
    for k in range(keeps):
        log[registers.log_n + k] = log[first + k]
    for k in range(fresh.shape[0]):
        free_remove(node, free, registers, fresh[k])
        node[fresh[k]].job = row
        log[registers.log_n + keeps + k] = fresh[k]
    registers.log_n += many
    job[row].start_us = start
    job[row].nodes = many
    job[row].returns = many
    job[row].expected_end_us = expected
    plan_insert(plan, blocks, registers, job[row].expected_end_us, many)
    if end < NEVER:
        heap_push(heap, registers, end, row)
    end_phase(state, work, row)


@inner
def start_lease(state: State, work: Work, hybrid: HybridState, row: int, nodes: Ints, now: int) -> None:
    """An on-demand job that has just come runs on these nodes, which are out of the pool."""
    many = nodes.shape[0]
    end, _ = ends_of_start(work, row, many, now)
    occupancy.start_on(state, row, nodes, now)
    hybrid.job_ext[row].when_us = end
    push(hybrid.agenda, end, point_key(Point.COMPLETION, row))
    note_move(hybrid.moves, now, To.ALLOC, state.registers.log_n - many, many)
    hybrid.registers.granted_n += 1


@inner
def start_waiting(state: State, work: Work, row: int, nodes: Ints, now: int) -> None:
    """A job of the queue runs on these idle nodes of the pool."""
    queue, registers = state.queue, state.registers
    end, expected = ends_of_start(work, row, nodes.shape[0], now)
    queue_remove(queue, registers, row)
    if registers.kept_head == row:
        registers.kept_head = -1
    reshape.occupy(state, row, nodes, now, end, expected)


@inner
def enqueue_first(state: State, claims: Claims, row: int, now: int) -> None:
    """An on-demand job that cannot start waits before all others."""
    claims.counters.pass_rescan = 1
    claims.counters.guests_rescan = 1
    job, queue, registers = state.job, state.queue, state.registers
    job[row].state = JobState.QUEUED
    job[row].key = FRONT
    registers.now = now
    queue_insert(job, queue, registers, row)


@inner
def hold_run(state: State, claims: Claims, slot: int, first: int, many: int, now: int) -> int:
    """Nodes of the log that are idle in the pool go to the claim, until it needs no more. How many of them it has."""
    node, log = state.node, state.log
    claim, held = claims.claim, claims.held
    for k in range(first, first + many):
        which = log[k]
        if claim[slot].need > 0 and node[which].job < 0 and node[which].offline == 0:
            hold(state, claims, slot, which, now)
    count = 0
    for k in range(first, first + many):
        count += held[log[k]].holder == slot
    return count


@inner
def nodes_of(state: State, row: int, into: Ints) -> int:
    """Copy the nodes of a job's present or last run. How many."""
    job, runs, log = state.job, state.runs, state.log
    first = runs[job[row].run_row].first
    many: int = job[row].nodes
    for k in range(many):
        into[k] = log[first + k]
    return many


@inner
def lend(hybrid: HybridState, borrower: int, lender: int, nodes: int, shrunk_us: int) -> None:
    """A batch job gave nodes to an on-demand job; `shrunk_us`: the start of the run that was shrunk, else -1."""
    job_ext, loans, hybrid_registers = hybrid.job_ext, hybrid.loans, hybrid.registers
    if nodes == 0:
        return
    loan = hybrid_registers.loan_free
    hybrid_registers.loan_free = loans[loan].next
    hybrid_registers.loans_left -= 1
    loans[loan].lender = lender
    loans[loan].lent = nodes
    loans[loan].shrunk_us = shrunk_us
    last = job_ext[borrower].owes
    loans[loan].next = loans[last].next if last >= 0 else loan
    if last >= 0:
        loans[last].next = loan
    job_ext[borrower].owes = loan
    hybrid_registers.lent_n += nodes
    hybrid_registers.open_n += nodes


@inner
def settle_one(hybrid: HybridState, loan: int, back: int, why: int) -> None:
    """The loan is over: `back` of its nodes went back to the lender, the rest did not for the reason `why`."""
    loans, hybrid_registers = hybrid.loans, hybrid.registers
    nodes = loans[loan].lent
    hybrid_registers.open_n -= nodes
    if loans[loan].shrunk_us >= 0:
        hybrid_registers.expanded_n += back
    else:
        hybrid_registers.resumed_n += back
    if back < nodes:
        hybrid.not_returned[why] += nodes - back
