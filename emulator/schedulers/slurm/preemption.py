"""Preemption, compiled: which jobs leave their nodes to another, and what becomes of them.

The rules: `docs/slurm-twin.md`; the slow truth: `tests/oracle/slurm_preemption.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inner
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.kernel.occupancy import end_job
from emulator.kernel.reshape import retime
from emulator.kernel.structures import heap_remove
from emulator.kernel.tables import NEVER
from emulator.schedulers.slurm.cycles import note_change, note_pass
from emulator.schedulers.slurm.limits import count_running
from emulator.schedulers.slurm.node_choice import pick
from emulator.schedulers.slurm.node_sharing import is_on
from emulator.schedulers.slurm.nodes import next_check
from emulator.schedulers.slurm.tables import HOLD, SECOND, PreemptMode

if TYPE_CHECKING:
    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import State
    from emulator.schedulers.slurm.tables import Bytes, Candidate, Twin


@inner
def may_preempt(state: State, twin: Twin, row: int, other: int, now: int) -> bool:
    """Whether a job may take the nodes of another that runs, and has run for long enough."""
    job_ext = twin.job_ext
    if not twin.may_preempt[job_ext[row].preempt_class, job_ext[other].preempt_class]:
        return False
    return bool(now >= state.job[other].start_us + job_ext[other].exempt_us)


@inner
def mark_leavers(state: State, twin: Twin, row: int, now: int) -> None:
    """Mark who of those that run on nodes of a job's partition may be preempted for it. Jobs share nodes."""
    partition = twin.parts[twin.job_ext[row].partition]
    for k in range(twin.registers.running_n):
        other = twin.running[k]
        is_there = is_on(state, twin, other, partition)
        twin.job_ext[other].may_leave = is_there and may_preempt(state, twin, row, other, now)


@inner
def list_candidates(state: State, twin: Twin, row: int, now: int) -> int:
    """List who runs on nodes of a job's partition and may be preempted for it. Returns how many.

    Those of the lowest tier, or priority of QOS, and the fewest nodes come first.
    """
    node = state.node
    twin_registers, job_ext, parts, candidates = twin.registers, twin.job_ext, twin.parts, twin.candidates
    partition = job_ext[row].partition
    twin_registers.preempt_looks += 1
    count = 0
    for core in range(node.shape[0]):
        other = node[core].job
        is_there = other >= 0 and parts[partition, twin.node_of_core[core]]
        if not is_there or not may_preempt(state, twin, row, other, now):
            continue
        if job_ext[other].preempt_look == twin_registers.preempt_looks:
            continue
        job_ext[other].preempt_look = twin_registers.preempt_looks
        key = (job_ext[other].preempt_place, job_ext[other].nodes, other)
        place = count
        while place > 0:
            before = candidates[place - 1].row
            if (job_ext[before].preempt_place, job_ext[before].nodes, before) < key:
                break
            candidates[place].row = before
            place -= 1
        candidates[place].row = other
        count += 1
    return count


@inner
def open_nodes_of(state: State, twin: Twin, row: int, mask: Bytes) -> int:
    """How many nodes of a mask a running job has."""
    runs, log = state.runs, state.log
    first = runs[state.job[row].run_row].first
    count = 0
    for k in range(first, first + state.job[row].nodes, twin.job_ext[row].cores):
        count += mask[twin.node_of_core[log[k]]]
    return count


@inner
def move_to(candidates: Rows[Candidate], place: int, to: int) -> None:
    """Put a candidate before those from `to` on."""
    row, usable = candidates[place].row, candidates[place].usable
    for k in range(place, to, -1):
        candidates[k].row = candidates[k - 1].row
        candidates[k].usable = candidates[k - 1].usable
    candidates[to].row = row
    candidates[to].usable = usable


@inner
def put_last_first(candidates: Rows[Candidate], taken: int) -> None:
    """Of so many candidates the last one comes first, the others by how many of their nodes are of use."""
    move_to(candidates, taken - 1, 0)
    for k in range(2, taken):
        place = k
        while place > 1 and candidates[place - 1].usable < candidates[k].usable:
            place -= 1
        move_to(candidates, k, place)


@inner
def enough_candidates(state: State, twin: Twin, row: int, idle: int, now: int) -> int:
    """How many of the candidates have to leave, from the first on; 0 if all of them are not enough.

    They are taken in their order until there are enough nodes. Then the last one taken comes first, the others by how
    many nodes of `open_mask` they have, and they are taken anew.
    """
    candidates, open_mask = twin.candidates, twin.open_mask
    needed = twin.job_ext[row].nodes
    listed = list_candidates(state, twin, row, now)
    found, taken = idle, 0
    while taken < listed and found < needed:
        candidates[taken].usable = open_nodes_of(state, twin, candidates[taken].row, open_mask)
        found += candidates[taken].usable
        taken += 1
    if found < needed:
        return 0
    if listed == 1:
        return 1
    put_last_first(candidates, taken)
    found, taken = idle, 0
    while found < needed:
        found += candidates[taken].usable
        taken += 1
    return taken


@inner
def preempt(state: State, twin: Twin, row: int, now: int) -> bool:
    """Make running jobs leave the nodes of `open_mask` that a job gets, if that is enough. Returns whether it is.

    The job itself starts later: those nodes are not free at once. For `preempt_again_us` after it has made jobs leave,
    it makes no others leave.
    """
    node, job_ext = state.node, twin.job_ext
    nodes, candidates, open_mask = twin.nodes, twin.candidates, twin.open_mask
    idle = 0
    for which in range(node.shape[0]):
        is_idle = open_mask[which] and node[which].job < 0 and nodes[which].cleaned_us <= now
        twin.second_mask[which] = is_idle
        idle += is_idle
    taken = enough_candidates(state, twin, row, idle, now)
    if taken == 0:
        return False
    if job_ext[row].preempted_us > now - twin.registers.preempt_again_us:
        return True
    for k in range(taken):
        mark_nodes(state, twin, candidates[k].row)
    pick(twin.second_mask, nodes, 0, job_ext[row].nodes)
    for which in range(node.shape[0]):
        twin.second_mask[which] = 0
    for k in range(job_ext[row].nodes):
        twin.second_mask[nodes[k].chosen] = 1
    for k in range(taken):
        if open_nodes_of(state, twin, candidates[k].row, twin.second_mask):
            tell_to_leave(state, twin, candidates[k].row, now)
    job_ext[row].preempted_us = now
    count_running(state, twin)
    return True


@inner
def mark_nodes(state: State, twin: Twin, row: int) -> None:
    """Mark a running job's nodes of `open_mask` in the second mask."""
    runs, log = state.runs, state.log
    first = runs[state.job[row].run_row].first
    for k in range(first, first + state.job[row].nodes):
        twin.second_mask[log[k]] |= twin.open_mask[log[k]]


@inner
def tell_to_leave(state: State, twin: Twin, row: int, now: int) -> None:
    """A running job is preempted: it leaves its nodes, unless it has a grace that is not over."""
    job_ext = twin.job_ext
    if job_ext[row].in_grace == 0 and job_ext[row].grace_us > 0:
        begin_grace(state, twin, row, now)
    elif job_ext[row].in_grace == 0 or now >= state.job[row].expected_end_us:
        make_leave(state, twin, row, now)


@inner
def begin_grace(state: State, twin: Twin, row: int, now: int) -> None:
    """A running job goes on for its grace, or to its limit, and leaves when limits are looked at after that."""
    job, job_ext = state.job, twin.job_ext
    job_ext[row].in_grace = 1
    job_ext[row].runs_again = twin.registers.since_24_11
    expected = min(job[row].expected_end_us, now + job_ext[row].grace_us)
    done = job[row].start_us + job[row].run_us
    retime(state, row, min(done, next_check(max(expected, now + 1))), expected)
    note_change(twin.registers, now)


@inner
def make_leave(state: State, twin: Twin, row: int, now: int) -> None:
    """A running job leaves its nodes for another. They are free in the next second."""
    job, runs, log, registers = state.job, state.runs, state.log, state.registers
    twin_registers = twin.registers
    free_us = (now // SECOND + 1) * SECOND
    first = runs[job[row].run_row].first
    for k in range(first, first + job[row].nodes):
        twin.nodes[twin.node_of_core[log[k]]].cleaned_us = free_us
    if registers.simulated:
        heap_remove(state.heap, registers, row)
    leave(state, twin, row, now)
    note_change(twin_registers, now)
    note_pass(twin_registers, free_us, now)


@inner
def leave(state: State, twin: Twin, row: int, now: int) -> None:
    """A running job is off its nodes: it waits again, or is lost. It is out of the heap."""
    job, node, free, plan, blocks = state.job, state.node, state.free, state.plan, state.blocks
    runs, log, registers = state.runs, state.log, state.registers
    job_ext = twin.job_ext
    is_done = now == job[row].start_us + job[row].run_us
    waits = job_ext[row].preempt_mode == PreemptMode.REQUEUE
    outcome = RunOutcome.REQUEUED if waits else RunOutcome.CANCELLED
    end_job(job, node, free, plan, blocks, runs, log, registers, row, now, outcome)
    job_ext[row].in_grace = 0
    if is_done or twin.registers.since_26_05:
        job_ext[row].runs_again = 0
    if waits:
        job[row].state = JobState.HELD
        job[row].start_us = job[row].end_us = -1
        hold_back(twin, row, now)
    else:
        job[row].state = JobState.CANCELLED


@inner
def leaves_at_end(state: State, twin: Twin, row: int, now: int) -> bool:
    """Whether a job whose run is over now makes room for another: its grace is over, or it has to run again."""
    job_ext = twin.job_ext
    if now != state.job[row].start_us + state.job[row].run_us:
        return bool(job_ext[row].in_grace)
    return bool(job_ext[row].runs_again) and job_ext[row].preempt_mode == PreemptMode.REQUEUE


@inner
def changes_with_time(state: State, twin: Twin, now: int) -> bool:
    """Whether a running job is exempt or in grace: what another may take changes then though nothing happens."""
    job, node, job_ext, found = state.job, state.node, twin.job_ext, 0
    for which in range(node.shape[0]):
        row = node[which].job
        if row >= 0:
            found |= job_ext[row].in_grace
            found |= now < job[row].start_us + job_ext[row].exempt_us
    return found != 0


@inner
def is_cleaning(twin: Twin, now: int) -> bool:
    """Whether a node is cleaned up: nobody has it any more, and nobody may have it yet."""
    found = False
    for which in range(twin.nodes.shape[0]):
        found |= twin.nodes[which].cleaned_us > now
    return found


@compiled
def hold_back(twin: Twin, row: int, now: int) -> None:
    """A job that has just left its nodes may wait again after two minutes."""
    twin_registers, job_ext = twin.registers, twin.job_ext
    job_ext[row].eligible_us = now // SECOND * SECOND + HOLD
    job_ext[row].submitted_us = now
    job_ext[row].next_held = NEVER
    if twin_registers.release_at_us == NEVER:
        twin_registers.first_held = row
        twin_registers.release_at_us = job_ext[row].eligible_us
    else:
        job_ext[twin_registers.last_held].next_held = row
    twin_registers.last_held = row
    twin_registers.resubmits = twin_registers.by_submit
