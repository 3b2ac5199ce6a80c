"""Nodes that are held for announced on-demand jobs, compiled: who collects freed nodes, who may run there meanwhile.

A *claim* is the hold of one on-demand job. A node it holds is out of the batch pool (`OFFLINE`), has the claim's slot
as `OWNER`, and is idle or runs a *guest*: a batch job that goes when the on-demand job comes (hybrid-fan-2021, section
III-B.1). Idle held nodes of a claim are a list linked by `BEHIND`. Claims are kept in order of notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from emulator.harness import passes
from emulator.harness import work as w
from emulator.harness.compiled import compiled, inlined
from emulator.harness.kernel import has_room_inline, submit_due
from emulator.harness.occupancy import end_job, set_offline, set_online
from emulator.harness.reshape import occupy
from emulator.harness.stepping import next_submit, step_to
from emulator.harness.structures import heap_pop, queue_remove_at
from emulator.harness.tables import (
    AT,
    AT_ENDS,
    AT_UNTIL,
    BATCH,
    ESTIMATE,
    FINISHED,
    FREE,
    GOES_ON,
    HEAP_N,
    JOB,
    KEPT_HEAD,
    KIND,
    NEEDS_ROOM,
    NEVER,
    NEXT_SUBMIT,
    NODES,
    NOW,
    OFFLINE,
    QUEUE_HI,
    QUEUE_LO,
    R_FIRST,
    RUN,
    RUN_ROW,
    STOP_ON_END,
)
from emulator.mechanisms.hybrid.deep_queue import (
    CLASSES,
    DEEP,
    OF_MALLEABLE,
    class_of,
    first_indexed,
    next_within,
    place_of,
)
from emulator.mechanisms.hybrid.easy import easy_pass, first_new
from emulator.mechanisms.hybrid.givers import PLACE, PROMISED_TO, leave

if TYPE_CHECKING:
    from emulator.harness.tables import Ints, State
    from emulator.harness.work import Work

# Columns of the claims. NEED: nodes that are still wanted; IDLE: held and idle; HEAD: the first of those, -1 for none;
# DEADLINE: guests should end by then (-1: no guests); COLLECTS: takes any node that becomes free, not only promised;
# HOSTS: guests that run on its nodes; PROMISES: running jobs whose nodes it gets when they end. Of compiled runs only
# (`whole.py`): ARRIVED, whether the on-demand job is there; LEAVERS, jobs that write their last checkpoint for it, and
# LEAVING_NODES, so many nodes it will have of them; SERIAL, a number that no other claim has, -1 when it is over.
C_JOB, NEED, IDLE, HEAD, DEADLINE, COLLECTS, HOSTS, PROMISES, ARRIVED, LEAVERS, LEAVING_NODES, SERIAL = range(
    12
)
CLAIM_COLUMNS = 12
# Columns of the held nodes.
OWNER, BEHIND = range(2)
NODE_COLUMNS = 2
# Columns of the jobs, -1 for none. GUEST: the claim on whose nodes it runs; PROMISED: the claim that gets its nodes
# when it ends; LEAVING: it writes its last checkpoint and goes. The last one is of compiled runs (`givers.PLACE`); step
# by step it is a mark of loops that meet a job on many nodes (`view.py`).
CLASS, LEAST, GUEST, PROMISED, LEAVING = range(5)
JOB_COLUMNS = 6
MALLEABLE = 2
# Counters. CLAIMS_N active claims; IDLE_N idle held nodes in all; CHANGED: the queue has to be looked through, for
# somebody may have become able to run as a guest; IDLE_NODE_US up to IDLE_AT_US; GUESTS_N: starts of guests;
# IN_ORDER: the last submitted is the last of the queue. Then those of `easy.py`, and whether passes are its (EASY).
# GUESTS_SEEN: jobs from this row on, which stand at the end, were not looked at as guests; GUESTS_RESCAN: somebody
# stands elsewhere who was not. To run as a guest one of the others would have to have this: GUEST_WIDE, so many nodes
# of one claim; GUEST_LONG, so much time until an on-demand job is due; GUEST_LEAST, so many nodes of one claim
# (malleable).
CLAIMS_N, IDLE_N, CHANGED, IDLE_NODE_US, IDLE_AT_US, GUESTS_N, IN_ORDER = range(7)
EASY, GUESTS_SEEN, GUESTS_RESCAN, GUEST_WIDE, GUEST_LONG, GUEST_LEAST = range(12, 18)
# Then those of `deep_queue.py` and of `givers.py`.
# SATED: so many of the earliest claims collect nothing, or need no node any more. MOST_HELD and LATEST_HELD: what
# `best_hosts` says, if it is KNOWN_HELD.
SATED, MOST_HELD, LATEST_HELD, KNOWN_HELD = range(23, 27)
COUNTERS = 27

Claims: TypeAlias = "tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints]"
"""(claim, order, held, attr, scratch, count, index, givers)"""


@inlined
def account(count: Ints, now: int, change: int) -> None:
    """The number of idle held nodes changes."""
    count[IDLE_NODE_US] += count[IDLE_N] * (now - count[IDLE_AT_US])
    count[IDLE_AT_US] = now
    count[IDLE_N] += change


@inlined
def push_idle(claims: Claims, slot: int, which: int, now: int) -> None:
    """A node of the claim is idle from now on."""
    claim, _, held, _, _, count, _, _ = claims
    held[which, OWNER] = slot
    held[which, BEHIND] = claim[slot, HEAD]
    claim[slot, HEAD] = which
    claim[slot, IDLE] += 1
    account(count, now, 1)
    count[CHANGED] = 1
    count[KNOWN_HELD] = 0


@inlined
def pop_idle(claims: Claims, slot: int, now: int) -> int:
    """Take an idle node from the claim's list; it still belongs to the claim."""
    claim, _, held, _, _, count, _, _ = claims
    which: int = claim[slot, HEAD]
    claim[slot, HEAD] = held[which, BEHIND]
    claim[slot, IDLE] -= 1
    account(count, now, -1)
    count[KNOWN_HELD] = 0
    return which


@compiled
def hold(state: State, claims: Claims, slot: int, which: int, now: int) -> None:
    """An idle node of the pool goes to the claim."""
    set_offline(state, which)
    claims[0][slot, NEED] -= 1
    push_idle(claims, slot, which, now)


@compiled
def take_free(state: State, claims: Claims, slot: int, at_most: int, now: int) -> None:
    """Idle nodes of the pool go to the claim: as many as it needs, there are, and are allowed."""
    claim = claims[0]
    free, reg = state[2], state[11]
    while claim[slot, NEED] > 0 and reg[FREE] > 0 and at_most > 0:
        hold(state, claims, slot, free[reg[FREE] - 1], now)
        at_most -= 1


@compiled
def hold_given(state: State, claims: Claims, slot: int, nodes: Ints, now: int) -> None:
    """Of these nodes those that are idle in the pool go to the claim, until it needs no more."""
    claim = claims[0]
    node = state[1]
    for k in range(nodes.shape[0]):
        if claim[slot, NEED] > 0 and node[nodes[k], JOB] < 0 and node[nodes[k], OFFLINE] == 0:
            hold(state, claims, slot, nodes[k], now)


@compiled
def pop_all(claims: Claims, slot: int, nodes: Ints, now: int) -> None:
    """Take the claim's idle nodes from it; they stay out of the pool."""
    held = claims[2]
    for k in range(nodes.shape[0]):
        nodes[k] = pop_idle(claims, slot, now)
        held[nodes[k], OWNER] = -1


@compiled
def drop(claims: Claims, slot: int, which: int, now: int) -> None:
    """An idle held node breaks: the claim needs another one."""
    claim, _, held, _, _, count, _, _ = claims
    if claim[slot, HEAD] == which:
        claim[slot, HEAD] = held[which, BEHIND]
    else:
        before = claim[slot, HEAD]
        while held[before, BEHIND] != which:
            before = held[before, BEHIND]
        held[before, BEHIND] = held[which, BEHIND]
    held[which, OWNER] = -1
    claim[slot, IDLE] -= 1
    claim[slot, NEED] += 1
    account(count, now, -1)
    count[KNOWN_HELD] = 0
    count[SATED] = 0


@compiled
def on_demand_waits(state: State) -> bool:
    """An on-demand job stands at the head of the queue: free nodes are for it."""
    job, queue, reg = state[0], state[3], state[11]
    return bool(reg[QUEUE_LO] < reg[QUEUE_HI] and job[queue[reg[QUEUE_LO]], KIND] != BATCH)


@compiled
def collect(state: State, claims: Claims, now: int) -> None:
    """Free nodes go to the claims that collect, the earliest notice first."""
    claim, order, _, _, _, count, _, _ = claims
    reg = state[11]
    if reg[FREE] == 0 or count[SATED] == count[CLAIMS_N] or on_demand_waits(state):
        return
    while count[SATED] < count[CLAIMS_N]:
        slot = order[count[SATED]]
        if claim[slot, COLLECTS]:
            take_free(state, claims, slot, NEVER, now)
            if reg[FREE] == 0:
                return
        count[SATED] += 1


@compiled
def left(state: State, claims: Claims, who: int, now: int) -> None:
    """A job has just left the nodes of its last run: a guest's go back to its claim, promised ones to theirs."""
    claim, _, held, attr, _, count, _, givers = claims
    job, node, runs, log = state[0], state[1], state[7], state[8]
    leave(attr, count, givers, who)
    guest = attr[who, GUEST]
    promised = attr[who, PROMISED]
    attr[who, GUEST] = -1
    attr[who, PROMISED] = -1
    attr[who, LEAVING] = -1
    if guest < 0 and promised < 0:
        return
    if guest >= 0:
        claim[guest, HOSTS] -= 1
    if promised >= 0:
        claim[promised, PROMISES] -= 1
    first = runs[job[who, RUN_ROW], R_FIRST]
    for k in range(first, first + job[who, NODES]):
        which = log[k]
        if guest >= 0 and held[which, OWNER] == guest:
            push_idle(claims, guest, which, now)
        elif promised >= 0 and claim[promised, NEED] > 0 and node[which, OFFLINE] == 0:
            hold(state, claims, promised, which, now)


@compiled
def start_guest(state: State, work: Work, claims: Claims, who: int, slot: int, width: int, now: int) -> None:
    """Start a job, which is out of the queue, on idle nodes of the claim."""
    job, reg = state[0], state[11]
    attr, scratch, count = claims[3], claims[4], claims[5]
    for k in range(width):
        scratch[k] = pop_idle(claims, slot, now)
    end = now + job[who, RUN]
    expected = now + job[who, ESTIMATE]
    if width != job[who, NODES]:
        saved = work[who, w.SAVED]
        begin = now + work[who, w.SETUP]
        owed = work[who, w.RUN_US] * work[who, w.WIDTH] - saved
        guess = work[who, w.ESTIMATE_US] * work[who, w.WIDTH] - saved
        end = begin + w.length_us(work, who, owed, width, 1, 1)
        expected = max(begin + w.length_us(work, who, guess, width, 1, 1), now + 1)
    if reg[KEPT_HEAD] == who:
        reg[KEPT_HEAD] = -1
    occupy(state, who, scratch[:width], now, end, expected)
    attr[who, GUEST] = slot
    claims[0][slot, HOSTS] += 1
    count[GUESTS_N] += 1


@inlined
def best_hosts(claims: Claims) -> tuple[int, int]:
    """Of claims that take guests: the most idle nodes of one, and the latest time at which one with any is due."""
    claim, order, _, _, _, count, _, _ = claims
    if count[KNOWN_HELD]:
        return count[MOST_HELD], count[LATEST_HELD]
    most = 0
    latest = -1
    for k in range(count[CLAIMS_N]):
        slot = order[k]
        if claim[slot, IDLE] > 0 and claim[slot, DEADLINE] >= 0:
            most = max(most, claim[slot, IDLE])
            latest = max(latest, claim[slot, DEADLINE])
    count[MOST_HELD] = most
    count[LATEST_HELD] = latest
    count[KNOWN_HELD] = 1
    return most, latest


@inlined
def host_of(claims: Claims, nodes: int, expected: int) -> int:
    """The first claim with so many idle nodes whose on-demand job is not due before `expected`; -1 for none."""
    claim, order, _, _, _, count, _, _ = claims
    for k in range(count[CLAIMS_N]):
        slot = order[k]
        if claim[slot, IDLE] >= nodes and claim[slot, DEADLINE] >= expected:
            return int(slot)
    return -1


@inlined
def host_in_time(job: Ints, claims: Claims, who: int, most: int, latest: int, now: int) -> int:
    """The claim on whose idle nodes the job runs and should end in time, -1 for none: then what it lacks is kept."""
    count = claims[5]
    slot = -1
    if now + job[who, ESTIMATE] > latest:
        count[GUEST_LONG] = min(count[GUEST_LONG], job[who, ESTIMATE])
    elif job[who, NODES] > most:
        count[GUEST_WIDE] = min(count[GUEST_WIDE], job[who, NODES])
    else:
        slot = host_of(claims, job[who, NODES], now + job[who, ESTIMATE])
        if slot < 0:
            count[GUEST_WIDE] = 0
    return slot


@inlined
def host_of_malleable(claims: Claims, who: int, most: int) -> int:
    """The claim on whose idle nodes the job runs if it is malleable, -1 for none: then what it lacks is kept."""
    attr, count = claims[3], claims[5]
    slot = -1
    if attr[who, CLASS] == MALLEABLE:
        if attr[who, LEAST] <= most:
            slot = host_of(claims, attr[who, LEAST], 0)
        else:
            count[GUEST_LEAST] = min(count[GUEST_LEAST], attr[who, LEAST])
    return slot


@inlined
def host_for(
    job: Ints, claims: Claims, who: int, stage: int, most: int, latest: int, now: int
) -> tuple[int, int]:
    """The claim that hosts a job, -1 for none, and on how many nodes: in time (stage 0), or malleable (stage 1)."""
    slot = -1
    width = job[who, NODES]
    if job[who, KIND] == BATCH:
        if stage == 0:
            slot = host_in_time(job, claims, who, most, latest, now)
        else:
            slot = host_of_malleable(claims, who, most)
            width = min(width, claims[0][slot, IDLE])
    return slot, width


@compiled
def start_guests_from(
    state: State, work: Work, claims: Claims, first: int, most: int, latest: int, now: int
) -> None:
    """Look through the queue from place `first`: jobs that end in time, then malleable ones, in queue order."""
    job, queue, reg = state[0], state[3], state[11]
    count = claims[5]
    for stage in range(2):
        place = first
        while most > 0 and place < reg[QUEUE_HI]:
            who = queue[place]
            slot, width = host_for(job, claims, who, stage, most, latest, now)
            if slot < 0:
                place += 1
                continue
            before = reg[QUEUE_LO]
            place = queue_remove_at(queue, reg, place)
            first += reg[QUEUE_LO] - before
            start_guest(state, work, claims, who, slot, width, now)
            most, latest = best_hosts(claims)
        if place < reg[QUEUE_HI]:  # not looked at, for there was no node
            count[GUEST_WIDE] = 0


@inlined
def set_limits_of_hosts(claims: Claims, now: int) -> None:
    """Who may run as a guest and end in time, by classes of width."""
    claim, order, _, _, _, count, index, _ = claims
    limits = index.shape[0] - 1
    index[limits, :] = -1
    for k in range(count[CLAIMS_N]):
        slot = order[k]
        if claim[slot, IDLE] > 0 and claim[slot, DEADLINE] >= 0:
            which = class_of(claim[slot, IDLE])
            index[limits, which] = max(index[limits, which], claim[slot, DEADLINE] - now)
    for which in range(CLASSES - 2, -1, -1):
        index[limits, which] = max(index[limits, which], index[limits, which + 1])


@compiled
def start_guests_by_index(
    state: State, work: Work, claims: Claims, first: int, most: int, latest: int, now: int
) -> None:
    """As `start_guests_from`, of the jobs from row `first` on, where many wait."""
    job, queue, reg = state[0], state[3], state[11]
    attr, count, index = claims[3], claims[5], claims[6]
    limits = index.shape[0] - 1
    for stage in range(2):
        who = first
        while most > 0:
            if stage == 0:
                set_limits_of_hosts(claims, now)
            else:
                index[limits, :CLASSES] = -1
                index[limits, OF_MALLEABLE] = most
            who = next_within(job, attr, index, who, reg[NEXT_SUBMIT])
            if who < 0:
                break
            slot, width = host_for(job, claims, who, stage, most, latest, now)
            if slot >= 0:
                queue_remove_at(queue, reg, place_of(job, queue, reg, who))
                start_guest(state, work, claims, who, slot, width, now)
                most, latest = best_hosts(claims)
            who += 1
    count[GUESTS_RESCAN] = 1  # for whoever looks without the index again


@compiled
def start_guests(state: State, work: Work, claims: Claims, now: int) -> None:
    """After a pass: who can run on idle held nodes. Only those who were not seen, where no other one may."""
    reg, count = state[11], claims[5]
    if count[IDLE_N] == 0 or reg[QUEUE_LO] == reg[QUEUE_HI]:
        return
    most, latest = best_hosts(claims)
    if count[DEEP]:
        first = first_indexed(state[0], state[3], reg)
        if count[CHANGED] == 0:
            first = max(first, count[GUESTS_SEEN])
        start_guests_by_index(state, work, claims, first, most, latest, now)
        count[GUESTS_SEEN] = reg[NEXT_SUBMIT]
        count[CHANGED] = 0
        return
    may = (
        count[GUESTS_RESCAN]
        or most >= count[GUEST_WIDE]
        or latest >= now + count[GUEST_LONG]
        or most >= count[GUEST_LEAST]
    )
    if most > 0:
        first = reg[QUEUE_LO]
        if count[IN_ORDER] and (count[CHANGED] == 0 or not may):
            first = first_new(state, count[GUESTS_SEEN])
        else:
            count[GUESTS_RESCAN] = 0
            count[GUEST_WIDE] = NEVER
            count[GUEST_LONG] = NEVER >> 1
            count[GUEST_LEAST] = NEVER
        start_guests_from(state, work, claims, first, most, latest, now)
        count[GUESTS_SEEN] = reg[NEXT_SUBMIT]
    count[CHANGED] = 0


@compiled
def one_pass(state: State, claims: Claims, now: int) -> None:
    """What the scheduler starts from the queue on nodes of the pool."""
    if claims[5][EASY]:
        easy_pass(state, claims[3], claims[5], claims[6], now)
    else:
        passes.schedule_pass(state, now)


@compiled
def schedule_pass(state: State, work: Work, claims: Claims, now: int) -> None:
    """Collecting, one pass, guests."""
    collect(state, claims, now)
    one_pass(state, claims, now)
    start_guests(state, work, claims, now)


@compiled
def finish_instant(state: State, work: Work, claims: Claims, now: int) -> None:
    """What comes after the decision points of an instant: submits, collecting, one pass, guests."""
    job, queue, reg = state[0], state[3], state[11]
    reg[NOW] = now
    submit_due(job, queue, reg, now, NEVER)
    schedule_pass(state, work, claims, now)


@compiled
def advance(state: State, work: Work, claims: Claims, until: int) -> int:
    """As `kernel.advance`, with claims: freed nodes are collected before the pass, guests start after it."""
    job, node, free, queue, plan, blocks, heap, runs, log, _, _, reg = state
    while True:
        if not has_room_inline(state):
            return NEEDS_ROOM
        next_end = heap[0, AT] if reg[HEAP_N] else NEVER
        now = min(next_end, next_submit(job, reg))
        code = step_to(reg, now, until)
        if code != GOES_ON:
            return code
        while reg[HEAP_N] and heap[0, AT] == now:
            who = heap_pop(heap, reg)
            end_job(job, node, free, plan, blocks, runs, log, reg, who, now, FINISHED)
            left(state, claims, who, now)
        collect(state, claims, now)
        if now == until:
            return AT_UNTIL
        if reg[STOP_ON_END] and next_end == now:
            return AT_ENDS
        submit_due(job, queue, reg, now, NEVER)
        one_pass(state, claims, now)
        start_guests(state, work, claims, now)


@compiled
def close(state: State, claims: Claims, slot: int, now: int) -> None:
    """The claim is over: its idle nodes go back to the pool at once, those of guests when these end."""
    claim, order, held, attr, _, count, _, _ = claims
    node = state[1]
    while claim[slot, IDLE] > 0:
        which = pop_idle(claims, slot, now)
        held[which, OWNER] = -1
        set_online(state, which, now)
    for which in range(node.shape[0] if claim[slot, HOSTS] else 0):
        if held[which, OWNER] == slot:
            held[which, OWNER] = -1
            attr[node[which, JOB], GUEST] = -1
            set_online(state, which, now)
    claim[slot, HOSTS] = 0
    place = 0
    while order[place] != slot:
        place += 1
    count[SATED] -= place < count[SATED]
    count[CLAIMS_N] -= 1
    for k in range(place, count[CLAIMS_N]):
        order[k] = order[k + 1]
    order[count[CLAIMS_N]] = slot


@compiled
def expect_nothing(claims: Claims, slot: int) -> None:
    """The on-demand job is there: the claim takes only what it is given, and has no new guests."""
    claim, count = claims[0], claims[5]
    claim[slot, COLLECTS] = 0
    claim[slot, DEADLINE] = -1
    count[KNOWN_HELD] = 0


@compiled
def promise(claims: Claims, who: int, slot: int) -> None:
    """The claim gets the running job's nodes when it ends; -1: nobody."""
    claim, attr = claims[0], claims[3]
    if attr[who, PLACE] >= 0:
        claims[7][PROMISED_TO, attr[who, PLACE]] = slot
    before = attr[who, PROMISED]
    if before >= 0:
        claim[before, PROMISES] -= 1
    if slot >= 0:
        claim[slot, PROMISES] += 1
    attr[who, PROMISED] = slot


@compiled
def unpromise(state: State, claims: Claims, slot: int) -> None:
    """No running job's nodes are promised to the claim any more."""
    node = state[1]
    claim, attr = claims[0], claims[3]
    for which in range(node.shape[0] if claim[slot, PROMISES] else 0):
        who = node[which, JOB]
        if who >= 0 and attr[who, PROMISED] == slot:
            promise(claims, who, -1)


@compiled
def guests_of(state: State, claims: Claims, slot: int, found: Ints) -> int:
    """Guests of a claim, each once."""
    held = claims[2]
    node = state[1]
    count = 0
    for which in range(node.shape[0]):
        if held[which, OWNER] == slot and node[which, JOB] >= 0:
            who = node[which, JOB]
            known = False
            for k in range(count):
                known |= found[k] == who
            if not known:
                found[count] = who
                count += 1
    return count
