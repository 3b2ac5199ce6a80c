"""Jobs that share cores, compiled: who runs where, how fast, until when, and who may start.

The rules: `docs/oversubscribe.md`; the slow truth: `tests/oracle/oversubscribe.py`. All of it is in one module, because
the cache of machine code looks at the module of a function only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled, inlined
from emulator.harness.kernel import submit_due
from emulator.harness.structures import queue_insert, queue_remove_at
from emulator.harness.tables import (
    AT_ENDS,
    AT_UNTIL,
    BACKFILL,
    BACKFILL_EASY,
    END,
    ENDED,
    ENDED_N,
    ESTIMATE,
    EVERY_EVENT,
    FINISHED,
    HEAP_N,
    INSTANTS_LEFT,
    JOBS_N,
    LOG_N,
    NEVER,
    NEXT_SUBMIT,
    NODES,
    NOW,
    PAUSED,
    QUEUE_HI,
    QUEUE_LO,
    R_END,
    R_FIRST,
    R_JOB,
    R_OUTCOME,
    R_START,
    RUN_ROW,
    RUNNING,
    RUNS_N,
    START,
    STARTED_N,
    STATE,
    STOP_ON_END,
    SUBMIT,
)  # fmt: skip
from emulator.mechanisms.oversubscribe.tables import (
    ACTIVE,
    CAP,
    CHOSEN_N,
    CORE_SLOTS,
    CORES,
    DIRTY,
    ESTIMATE_LEFT,
    EVENT,
    EXPECTED,
    FAILED_ESTIMATE,
    FAILED_STAMP,
    FIRST_SLOT,
    FREE_MEMORY,
    FULL,
    GPU_SLOTS,
    GPUS,
    HAS_MEMORY,
    HEAD,
    HEAP_AT,
    IS_IDLE,
    LIMIT,
    MARK,
    MEMORY,
    NODE_CORES,
    OCCUPIED,
    OPEN,
    PAUSE_AT,
    PHASE,
    PHASE_END,
    PHASE_LEFT,
    RATE,
    READY,
    SEEN,
    SETTLED,
    STAMP,
    TAKEN,
    TOUCHED_N,
)  # fmt: skip

if TYPE_CHECKING:
    from emulator.harness.tables import Ints, Ints32
    from emulator.mechanisms.oversubscribe.tables import State


# The heap of events: jobs by (EVENT, job), each knowing its place.


@inlined
def comes_before(job: Ints, one: int, other: int) -> bool:
    return bool(job[one, EVENT] < job[other, EVENT] or (job[one, EVENT] == job[other, EVENT] and one < other))


@compiled
def heap_settle(job: Ints, heap: Ints32, reg: Ints, place: int) -> None:
    """Move the entry at `place`, whose event has changed, to where it belongs."""
    who = heap[place]
    while place > 0:
        parent = (place - 1) >> 1
        if comes_before(job, heap[parent], who):
            break
        heap[place] = heap[parent]
        job[heap[place], HEAP_AT] = place
        place = parent
    while True:
        child = 2 * place + 1
        if child >= reg[HEAP_N]:
            break
        if child + 1 < reg[HEAP_N] and comes_before(job, heap[child + 1], heap[child]):
            child += 1
        if comes_before(job, who, heap[child]):
            break
        heap[place] = heap[child]
        job[heap[place], HEAP_AT] = place
        place = child
    heap[place] = who
    job[who, HEAP_AT] = place


@compiled
def heap_set(job: Ints, heap: Ints32, reg: Ints, who: int) -> None:
    """The job has a new event: put it in, or to its new place."""
    place = job[who, HEAP_AT]
    if place < 0:
        place = reg[HEAP_N]
        reg[HEAP_N] = place + 1
        heap[place] = who
    heap_settle(job, heap, reg, place)


@compiled
def heap_drop(job: Ints, heap: Ints32, reg: Ints, who: int) -> None:
    place = job[who, HEAP_AT]
    job[who, HEAP_AT] = -1
    reg[HEAP_N] -= 1
    if place < reg[HEAP_N]:
        heap[place] = heap[reg[HEAP_N]]
        heap_settle(job, heap, reg, place)


# Speeds.


@inlined
def whole_us(work: int, rate: int) -> int:
    """The whole microseconds after which so much work is done at this speed."""
    return 0 if work <= 0 else (work + rate - 1) // rate


@inlined
def settle(job: Ints, who: int, now: int) -> None:
    """Book the work done since the last change of speed."""
    done = (now - job[who, SETTLED]) * job[who, RATE]
    job[who, PHASE_LEFT] -= done
    job[who, ESTIMATE_LEFT] -= done
    job[who, SETTLED] = now


@inlined
def speed_of(job: Ints, count: Ints32, rate: Ints, reg: Ints, who: int) -> int:
    """Speed of a running job: that of its most shared unit; full while it is idle."""
    speed = reg[FULL]
    if job[who, IS_IDLE] == 0:
        half = rate.shape[1]
        for gpu in range(2):
            for m in range(half - 1, 1, -1):
                if count[who, gpu * half + m] > 0:
                    speed = min(speed, rate[gpu, m])
                    break
    return int(speed)


@compiled
def change_active(state: State, node_: int, unit_: int, by: int) -> None:
    """One job more or fewer computes on a unit: note it with everybody there."""
    job, _, slot_job, _, unit, count, rate, _, _, _, touched, _, _, _, _, _, _, reg = state
    before = unit[ACTIVE, node_, unit_]
    unit[ACTIVE, node_, unit_] = before + by
    base = rate.shape[1] if unit_ >= reg[NODE_CORES] else 0
    for k in range(slot_job.shape[2]):
        who = slot_job[node_, unit_, k]
        if who >= 0:
            count[who, base + before] -= 1
            count[who, base + before + by] += 1
            if job[who, MARK] == 0:
                job[who, MARK] = 1
                touched[reg[TOUCHED_N]] = who
                reg[TOUCHED_N] += 1


@compiled
def mark_nodes(job: Ints, node: Ints, slot_job: Ints32, slot_next: Ints32, who: int) -> None:
    """The expected end of a job has changed: so may what its nodes have to offer, and when."""
    on_node = slot_job.shape[1] * slot_job.shape[2]
    place = job[who, FIRST_SLOT]
    while place >= 0:
        node[place // on_node, DIRTY] = 1
        place = slot_next[place]


@compiled
def refresh(state: State, now: int) -> None:
    """Give everybody who was touched the speed that follows from who computes where."""
    job, node, slot_job, slot_next, _, count, rate, _, heap, _, touched, _, _, _, _, _, _, reg = state
    for k in range(reg[TOUCHED_N]):
        who = touched[k]
        job[who, MARK] = 0
        if job[who, FIRST_SLOT] < 0:
            continue
        speed = speed_of(job, count, rate, reg, who)
        if speed != job[who, RATE]:
            settle(job, who, now)
            job[who, RATE] = speed
            job[who, EVENT] = now + whole_us(job[who, PHASE_LEFT], speed)
            job[who, EXPECTED] = now + whole_us(job[who, ESTIMATE_LEFT], speed)
            heap_set(job, heap, reg, who)
            if reg[HEAD] >= 0:
                mark_nodes(job, node, slot_job, slot_next, who)
    reg[TOUCHED_N] = 0


# Places.


@compiled
def count_open(state: State, node_: int) -> None:
    """After a change on a node: how many of its cores can take one more job."""
    _, node, _, _, unit, _, _, _, _, _, _, _, _, _, _, open_nodes, _, reg = state
    open_ = 0
    for u in range(reg[NODE_CORES]):
        open_ += unit[TAKEN, node_, u] < unit[CAP, node_, u]
    open_nodes[node[node_, OPEN]] -= 1
    open_nodes[open_] += 1
    node[node_, OPEN] = open_
    node[node_, DIRTY] = 1


@compiled
def take_units(state: State, who: int, node_: int, first: int, last: int, wanted: int) -> None:
    """Put the job on the `wanted` least taken units of `first..last - 1`, the lower number first."""
    job, node, slot_job, slot_next, unit, count, rate, _, _, _, _, _, _, _, _, _, _, _ = state
    slots = slot_job.shape[2]
    base = rate.shape[1] if first > 0 else 0
    limit = job[who, LIMIT]
    level = 0
    while wanted > 0:
        for u in range(first, last):
            if unit[TAKEN, node_, u] == level and wanted > 0 and level < min(unit[CAP, node_, u], limit):
                if slot_holds(slot_job, node_, u, who):
                    continue
                k = 0
                while slot_job[node_, u, k] >= 0:
                    k += 1
                place = (node_ * slot_job.shape[1] + u) * slots + k
                slot_job[node_, u, k] = who
                slot_next[place] = job[who, FIRST_SLOT]
                job[who, FIRST_SLOT] = place
                unit[TAKEN, node_, u] += 1
                unit[CAP, node_, u] = min(unit[CAP, node_, u], limit)
                count[who, base + unit[ACTIVE, node_, u]] += 1
                node[node_, OCCUPIED] += 1
                change_active(state, node_, u, 1)
                wanted -= 1
        level += 1


@inlined
def slot_holds(slot_job: Ints32, node_: int, unit_: int, who: int) -> bool:
    holds = False
    for k in range(slot_job.shape[2]):
        holds |= slot_job[node_, unit_, k] == who
    return holds


@compiled
def occupy(state: State, who: int, now: int) -> None:
    """Put the job onto the nodes that were chosen for it, at the speed that it has there."""
    job, node, _, _, _, _, _, phases, _, _, _, chosen, _, _, _, _, _, reg = state
    cores = reg[NODE_CORES]
    job[who, FIRST_SLOT] = -1
    job[who, IS_IDLE] = 0
    job[who, RATE] = 0
    job[who, SETTLED] = now
    job[who, PHASE_LEFT] = phases[job[who, PHASE]] * reg[FULL]
    job[who, ESTIMATE_LEFT] = job[who, ESTIMATE] * reg[FULL]
    for k in range(reg[CHOSEN_N]):
        n = chosen[k]
        take_units(state, who, n, 0, cores, job[who, CORES])
        if job[who, GPUS] > 0:
            take_units(state, who, n, cores, state[2].shape[1], job[who, GPUS])
        node[n, FREE_MEMORY] -= job[who, MEMORY]
        count_open(state, n)
    refresh(state, now)


@compiled
def vacate(state: State, who: int, now: int) -> None:
    """Take the job off its nodes and give the neighbours the speed that follows."""
    job, node, slot_job, slot_next, unit, count, rate, _, heap, _, _, _, _, _, _, _, _, reg = state
    units = slot_job.shape[1]
    slots = slot_job.shape[2]
    heap_drop(job, heap, reg, who)
    place = job[who, FIRST_SLOT]
    job[who, FIRST_SLOT] = -1
    last = -1
    while place >= 0:
        n = place // (units * slots)
        u = (place // slots) % units
        if job[who, IS_IDLE] == 0:
            change_active(state, n, u, -1)
        count[who, (rate.shape[1] if u >= reg[NODE_CORES] else 0) + unit[ACTIVE, n, u]] -= 1
        slot_job[n, u, place % slots] = -1
        unit[TAKEN, n, u] -= 1
        cap = reg[GPU_SLOTS] if u >= reg[NODE_CORES] else reg[CORE_SLOTS]
        for k in range(slots):
            other = slot_job[n, u, k]
            if other >= 0:
                cap = min(cap, job[other, LIMIT])
        unit[CAP, n, u] = cap
        node[n, OCCUPIED] -= 1
        if n != last:
            if last >= 0:
                count_open(state, last)
            node[n, FREE_MEMORY] += job[who, MEMORY]
            last = n
        place = slot_next[place]
    count_open(state, last)
    refresh(state, now)


# Who fits where.


@compiled
def has_units(state: State, node_: int, who: int, first: int, last: int, wanted: int) -> bool:
    unit = state[4]
    limit = state[0][who, LIMIT]
    for u in range(first, last):
        wanted -= unit[TAKEN, node_, u] < min(unit[CAP, node_, u], limit)
    return bool(wanted <= 0)


@inlined
def suits(state: State, node_: int, who: int) -> bool:
    """Whether the node can take the job now."""
    job = state[0]
    node = state[1]
    reg = state[17]
    good = node[node_, OPEN] >= job[who, CORES]
    if good and reg[HAS_MEMORY]:
        good = node[node_, FREE_MEMORY] >= job[who, MEMORY]
    if good and job[who, LIMIT] < reg[CORE_SLOTS]:
        good = has_units(state, node_, who, 0, reg[NODE_CORES], job[who, CORES])
    if good and job[who, GPUS] > 0:
        good = has_units(state, node_, who, reg[NODE_CORES], state[2].shape[1], job[who, GPUS])
    return bool(good)


@compiled
def choose_nodes(state: State, who: int) -> bool:
    """The least occupied nodes that can take the job, the lower number first; False if there are too few."""
    job, node, _, _, _, _, _, _, _, _, _, chosen, _, _, _, open_nodes, scratch, reg = state
    wanted = job[who, NODES]
    enough = 0
    for k in range(job[who, CORES], reg[NODE_CORES] + 1):
        enough += open_nodes[k]
    if enough < wanted:
        return False
    by_occupied = scratch[1]
    most = state[2].shape[1] * state[2].shape[2]
    for k in range(most + 1):
        by_occupied[k] = 0
    good = scratch[0]
    suiting = 0
    for n in range(node.shape[0]):
        good[n] = suits(state, n, who)
        if good[n]:
            by_occupied[node[n, OCCUPIED]] += 1
            suiting += 1
    if suiting < wanted:
        return False
    edge = 0
    below = 0
    while below + by_occupied[edge] < wanted:
        below += by_occupied[edge]
        edge += 1
    at_edge = wanted - below
    found = 0
    for n in range(node.shape[0]):
        if good[n] and node[n, OCCUPIED] <= edge:
            if node[n, OCCUPIED] == edge:
                if at_edge == 0:
                    continue
                at_edge -= 1
            chosen[found] = n
            found += 1
    reg[CHOSEN_N] = found
    return True


# When the head could start.


@compiled
def unit_ready(state: State, node_: int, unit_: int, who: int) -> int:
    """When one more job fits onto a unit, as jobs leave it at their expected ends; 0: now."""
    job, _, slot_job, _, unit, _, _, _, _, _, _, _, _, _, _, _, _, reg = state
    limit = job[who, LIMIT]
    if unit[TAKEN, node_, unit_] < min(unit[CAP, node_, unit_], limit):
        return 0
    limit = min(limit, reg[GPU_SLOTS] if unit_ >= reg[NODE_CORES] else reg[CORE_SLOTS])
    at = -1
    while True:
        # One more has left: the next one by expected end.
        after = NEVER
        for k in range(slot_job.shape[2]):
            other = slot_job[node_, unit_, k]
            if other >= 0 and job[other, EXPECTED] > at:
                after = min(after, job[other, EXPECTED])
        at = after
        cap = limit
        staying = 0
        for k in range(slot_job.shape[2]):
            other = slot_job[node_, unit_, k]
            if other >= 0 and job[other, EXPECTED] > at:
                staying += 1
                cap = min(cap, job[other, LIMIT])
        if staying < cap:
            return int(at)


@compiled
def units_ready(state: State, node_: int, who: int, first: int, last: int, wanted: int) -> int:
    """When so many of these units can take the job."""
    times = state[16][2]
    for u in range(first, last):
        at = unit_ready(state, node_, u, who)
        place = u - first
        while place > 0 and times[place - 1] > at:
            times[place] = times[place - 1]
            place -= 1
        times[place] = at
    return int(times[wanted - 1])


@compiled
def memory_ready(state: State, node_: int, who: int) -> int:
    """When the node has the memory that the job wants."""
    job, node, slot_job, _, _, _, _, _, _, _, _, _, _, _, _, _, _, reg = state
    free = node[node_, FREE_MEMORY]
    at = 0
    while free < job[who, MEMORY]:
        after = NEVER
        for u in range(slot_job.shape[1]):
            for k in range(slot_job.shape[2]):
                other = slot_job[node_, u, k]
                if other >= 0 and job[other, EXPECTED] > at:
                    after = min(after, job[other, EXPECTED])
        at = after
        reg[STAMP] += 1
        for u in range(slot_job.shape[1]):
            for k in range(slot_job.shape[2]):
                other = slot_job[node_, u, k]
                if other >= 0 and job[other, EXPECTED] == at and job[other, SEEN] != reg[STAMP]:
                    job[other, SEEN] = reg[STAMP]
                    free += job[other, MEMORY]
    return at


@compiled
def update_ready(state: State, head: int) -> None:
    """READY of the nodes on which something has changed."""
    job, node, slot_job, _, _, _, _, _, _, _, _, _, _, _, _, _, _, reg = state
    everything = reg[HEAD] != head
    reg[HEAD] = head
    for n in range(node.shape[0]):
        if everything or node[n, DIRTY]:
            node[n, DIRTY] = 0
            ready = units_ready(state, n, head, 0, reg[NODE_CORES], job[head, CORES])
            if job[head, GPUS] > 0:
                gpus = units_ready(state, n, head, reg[NODE_CORES], slot_job.shape[1], job[head, GPUS])
                ready = max(ready, gpus)
            if reg[HAS_MEMORY]:
                ready = max(ready, memory_ready(state, n, head))
            node[n, READY] = ready


@compiled
def smallest(values: Ints, count: int, which: int) -> int:
    """The `which`-th smallest (from 0) of the first `count` values, which are moved about (quickselect)."""
    low = 0
    high = count - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        left = low
        right = high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if which <= right:
            high = right
        elif which >= left:
            low = left
        else:
            break
    return int(values[which])


@compiled
def planned_start(state: State, head: int, now: int) -> int:
    """When the head could start if nobody else began: by expected ends at the present speeds."""
    node = state[1]
    values = state[16][0]
    update_ready(state, head)
    for n in range(node.shape[0]):
        values[n] = node[n, READY]
    return max(now, smallest(values, node.shape[0], state[0][head, NODES] - 1))


@compiled
def still_starts(state: State, head: int, at: int) -> bool:
    """Whether the head could start at this time as things are now."""
    node = state[1]
    update_ready(state, head)
    wanted = state[0][head, NODES]
    for n in range(node.shape[0]):
        wanted -= node[n, READY] <= at
    return bool(wanted <= 0)


# The pass.


@compiled
def book(state: State, who: int, now: int) -> None:
    """The job runs: note it and its slots in the tables."""
    job, _, _, slot_next, _, _, _, _, _, _, _, _, runs, log, _, _, _, reg = state
    row = reg[RUNS_N]
    reg[RUNS_N] = row + 1
    runs[row, R_JOB] = who
    runs[row, R_START] = now
    runs[row, R_END] = -1
    runs[row, R_OUTCOME] = 0
    runs[row, R_FIRST] = reg[LOG_N]
    place = job[who, FIRST_SLOT]
    while place >= 0:
        log[reg[LOG_N]] = place
        reg[LOG_N] += 1
        place = slot_next[place]
    reg[STARTED_N] += 1
    job[who, RUN_ROW] = row
    job[who, START] = now
    job[who, STATE] = RUNNING


@compiled
def backfill(state: State, now: int) -> None:
    """Start whoever leaves the planned start of the head where it is, those that it slows down included.

    A candidate is put where it would run, so that it and its victims have the speeds and expected ends that they
    would have, and is taken off again if the head could no longer start as planned. Candidates of the same shape
    that last as long as one that failed, or longer, fail as well as long as nobody has started.
    """
    job, _, _, _, _, _, _, _, _, queue, _, _, _, _, failed, open_nodes, _, reg = state
    head = queue[reg[QUEUE_LO]]
    at = -1
    reg[STAMP] += 1
    stamp = reg[STAMP]
    place = reg[QUEUE_LO] + 1
    while place < reg[QUEUE_HI] and open_nodes[0] < state[1].shape[0]:
        who = queue[place]
        is_plain = job[who, GPUS] == 0 and job[who, LIMIT] >= reg[CORE_SLOTS] and reg[HAS_MEMORY] == 0
        n = job[who, NODES] - 1
        c = job[who, CORES] - 1
        if (
            is_plain
            and failed[FAILED_STAMP, n, c] == stamp
            and failed[FAILED_ESTIMATE, n, c] <= job[who, ESTIMATE]
        ):
            place += 1
            continue
        good = choose_nodes(state, who)
        if good:
            if at < 0:
                at = planned_start(state, head, now)
            occupy(state, who, now)
            good = still_starts(state, head, at)
            if good:
                book(state, who, now)
                place = queue_remove_at(queue, reg, place)
                reg[STAMP] += 1
                stamp = reg[STAMP]
                continue
            vacate(state, who, now)
        if is_plain:
            failed[FAILED_STAMP, n, c] = stamp
            failed[FAILED_ESTIMATE, n, c] = job[who, ESTIMATE] if enough_open(state, who) else 0
        place += 1


@compiled
def enough_open(state: State, who: int) -> bool:
    job = state[0]
    open_nodes = state[15]
    wanted = job[who, NODES]
    for k in range(job[who, CORES], open_nodes.shape[0]):
        wanted -= open_nodes[k]
    return bool(wanted <= 0)


@compiled
def schedule_pass(state: State, now: int) -> None:
    """Start what the scheduler starts now: heads in queue order, then (EASY) who delays no planned start."""
    _, _, _, _, _, _, _, _, _, queue, _, _, _, _, _, _, _, reg = state
    reg[STARTED_N] = 0
    while reg[QUEUE_LO] < reg[QUEUE_HI]:
        head = queue[reg[QUEUE_LO]]
        if not choose_nodes(state, head):
            break
        reg[QUEUE_LO] += 1
        occupy(state, head, now)
        book(state, head, now)
    if reg[BACKFILL] == BACKFILL_EASY and reg[QUEUE_HI] - reg[QUEUE_LO] > 1:
        backfill(state, now)


# The loop.


@compiled
def end_job(state: State, who: int, now: int, outcome: int) -> None:
    job, _, _, _, _, _, _, _, _, _, _, _, runs, _, _, _, _, reg = state
    vacate(state, who, now)
    job[who, STATE] = ENDED
    job[who, END] = now
    runs[job[who, RUN_ROW], R_END] = now
    runs[job[who, RUN_ROW], R_OUTCOME] = outcome
    reg[ENDED_N] += 1


@compiled
def next_phase(state: State, who: int, now: int) -> None:
    """An active job becomes idle or the other way round: its neighbours run faster or slower."""
    job, _, slot_job, slot_next, _, _, _, phases, _, _, _, _, _, _, _, _, _, reg = state
    settle(job, who, now)
    job[who, PHASE] += 1
    job[who, PHASE_LEFT] = phases[job[who, PHASE]] * reg[FULL]
    job[who, IS_IDLE] ^= 1
    job[who, RATE] = 0
    by = -1 if job[who, IS_IDLE] else 1
    units = slot_job.shape[1]
    slots = slot_job.shape[2]
    place = job[who, FIRST_SLOT]
    while place >= 0:
        change_active(state, place // (units * slots), (place // slots) % units, by)
        place = slot_next[place]
    refresh(state, now)


@compiled
def submit_one_by_one(state: State, now: int) -> None:
    """One pass after each submit (scheduler option `pass: event`)."""
    job, _, _, _, _, _, _, _, _, queue, _, _, _, _, _, _, _, reg = state
    while submit_due(job, queue, reg, now, 1):
        schedule_pass(state, now)


@compiled
def finish_instant(state: State, now: int) -> None:
    """What comes after the decision points of an instant: submits, then one pass."""
    job, _, _, _, _, _, _, _, _, queue, _, _, _, _, _, _, _, reg = state
    reg[NOW] = now
    if reg[EVERY_EVENT]:
        submit_one_by_one(state, now)
    else:
        submit_due(job, queue, reg, now, NEVER)
    schedule_pass(state, now)


@compiled
def enqueue(state: State, who: int) -> None:
    queue_insert(state[0], state[9], state[17], who)


@compiled
def advance(state: State, until: int) -> int:
    """Let ends, phases, submits and passes happen up to the decision point at `until`.

    Returns as `emulator.harness.kernel.advance` does; the tables never need to grow.
    """
    job, _, _, _, _, _, _, _, heap, _, _, _, _, _, _, _, _, reg = state
    while True:
        next_event = job[heap[0], EVENT] if reg[HEAP_N] else NEVER
        next_submit = job[reg[NEXT_SUBMIT], SUBMIT] if reg[NEXT_SUBMIT] < reg[JOBS_N] else NEVER
        now = min(next_event, next_submit)
        if now > until or now == NEVER:
            if until != NEVER:
                reg[NOW] = until
            return AT_UNTIL
        if reg[INSTANTS_LEFT] == 0 or now > reg[PAUSE_AT]:
            return PAUSED
        reg[INSTANTS_LEFT] -= 1
        reg[NOW] = now
        ended = reg[ENDED_N]
        while reg[HEAP_N] and job[heap[0], EVENT] == now:
            who = heap[0]
            if job[who, PHASE] + 1 < job[who, PHASE_END]:
                next_phase(state, who, now)
            else:
                end_job(state, who, now, FINISHED)
                if reg[EVERY_EVENT] and now != until:
                    schedule_pass(state, now)
        if now == until:
            return AT_UNTIL
        if reg[STOP_ON_END] and reg[ENDED_N] > ended:
            return AT_ENDS
        if ended == reg[ENDED_N] and next_submit > now:
            continue  # only phases: passes follow ends and submits, as everywhere
        finish_instant(state, now)
