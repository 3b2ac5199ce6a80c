"""The events of on-demand jobs in a compiled run: what `mechanism.py` does at each, on the same tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import inner
from emulator.harness.occupancy import end_job, set_online
from emulator.harness.structures import heap_push
from emulator.harness.tables import (
    FINISHED,
    FREE,
    FUTURE,
    HEAP_N,
    NEVER,
)
from emulator.mechanisms.hybrid.claims import (
    CHANGED,
    CLAIMS_N,
    GIVERS_N,
    MALLEABLE,
    pop_idle,
)
from emulator.mechanisms.hybrid.compiled_actions import (
    ARRIVING,
    CHOICE,
    HANDLING,
    IDLE_AGAIN,
    IS_NEW,
    KEEP_ALL,
    KEEP_SAVED,
    NEXT_CLAIM,
    NOTICE_BY,
    PREEMPTIONS_N,
    QUEUED_N,
    RELEASE_US,
    RESERVE,
    SERIALS_N,
    SHRINKS_N,
    WARNED_NODE_US,
    WARNING_US,
    arrives,
    begin_save,
    change_last,
    claim_of,
    enqueue_first,
    hold_run,
    leaves_for,
    lend,
    nodes_of,
    note_move,
    note_time,
    start_lease,
    stop,
    wake,
    wall_us,
)
from emulator.mechanisms.hybrid.compiled_strategies import (
    BY_CUP,
    BY_N,
    FEWER,
    FOUND,
    NOBODY,
    ORDER,
    PAIR_SHIFT,
    PICKED,
    SHRINKS,
    WIDE,
    make_room,
    prepare_by_prediction,
    promise_picked,
)
from emulator.mechanisms.hybrid.lenders import GIVER, PROMISED_TO, enter, leave
from emulator.mechanisms.hybrid.loan_return import ANY, DID_NOT_START, WAITS, lent_nodes, settle
from emulator.mechanisms.hybrid.reserved import (
    close,
    collect,
    expect_nothing,
    left,
    on_demand_waits,
    promise,
    take_free,
)

if TYPE_CHECKING:
    from emulator.harness.tables import State
    from emulator.harness.work import Work
    from emulator.mechanisms.hybrid.claims import Claims
    from emulator.mechanisms.hybrid.compiled_actions import More


@inner
def open_claim(state: State, claims: Claims, more: More, who: int, deadline: int, collects: int) -> int:  # noqa: PLR0917
    """A new claim, behind all others, without nodes. There must be a row for it."""
    claim, order, _, _, _, count, _, _ = claims
    slot: int = order[count[CLAIMS_N]]
    count[CLAIMS_N] += 1
    one = claim[slot]
    one.job = who
    one.need = state[0][who].nodes
    one.idle = 0
    one.head = -1
    one.deadline_us = deadline
    one.collects = collects
    one.hosts = 0
    one.promises = 0
    one.arrived = 0
    one.leavers = 0
    one.leaving_nodes = 0
    one.serial = more[11][SERIALS_N]
    more[11][SERIALS_N] += 1
    more[0][who].claim = slot
    return slot


@inner
def close_claim(state: State, work: Work, claims: Claims, more: More, slot: int, now: int) -> None:  # noqa: PLR0917
    """Nothing is held for the on-demand job any more; its lenders get back what they can."""
    free, reg = state[2], state[11]
    given = more[9][FOUND]
    who = claims[0][slot].job
    more[0][who].claim = -1
    end_claim(state, work, claims, slot, now)
    many = min(lent_nodes(more, who), reg[FREE])
    for k in range(many):
        given[k] = free[reg[FREE] - 1 - k]
    settle(state, work, claims, more, who, given[:many], DID_NOT_START, now)


# What jobs give.


@inner
def take_back_promises(claims: Claims, slot: int) -> None:
    """As `unpromise`: whoever is promised may give nodes, and was among those when the claim was promised it."""
    claim, count, givers = claims[0], claims[5], claims[7]
    for place in range(count[GIVERS_N] if claim[slot].promises else 0):
        if givers[PROMISED_TO, place] == slot:
            promise(claims, givers[GIVER, place], -1)


@inner
def end_claim(state: State, work: Work, claims: Claims, slot: int, now: int) -> None:
    """The claim is over; guests are found by their ends, but for those that write their last checkpoint (`close`)."""
    job, heap, runs, log, reg = state[0], state[6], state[7], state[8], state[11]
    claim, held, attr = claims[0], claims[2], claims[3]
    claim[slot].serial = -1
    take_back_promises(claims, slot)
    for k in range(reg[HEAP_N] if claim[slot].hosts else 0):
        who = heap[k].key
        if attr[who].guest == slot:
            attr[who].guest = -1
            enter(job, work, attr, claims[5], claims[7], who, now)
            claim[slot].hosts -= 1
            first = runs[job[who].run_row].first
            for at in range(first, first + job[who].nodes):
                held[log[at]].holder = -1
                set_online(state, log[at], now)
    close(state, claims, slot, now)


@inner
def receive(  # noqa: PLR0917
    state: State, claims: Claims, more: More, slot: int, who: int, first: int, many: int, now: int
) -> None:
    """What a preempted job left goes to the claim, as much as it wants."""
    held = hold_run(state, claims, slot, first, many, now)
    lend(more, claims[0][slot].job, who, held, -1)


@inner
def preempt(state: State, work: Work, claims: Claims, more: More, slot: int, who: int, now: int) -> None:  # noqa: PLR0917
    """A running job goes for the claim: at once, or when a warning is over."""
    job, runs = state[0], state[7]
    claim, attr = claims[0], claims[3]
    own, reg = more[0], more[11]
    promise(claims, who, -1)
    reg[PREEMPTIONS_N] += 1
    is_guest = attr[who].guest >= 0
    if is_guest:
        own[who].noted += 1
    malleable = attr[who].job_class == MALLEABLE
    many = job[who].nodes
    if malleable and reg[WARNING_US] > 0:
        wanted = claim[slot].need - claim[slot].leaving_nodes
        attr[who].leaving = 1
        leave(attr, claims[5], claims[7], who)
        leaves_for(claims, more, who, slot)
        own[who].owes = 0 if is_guest else max(0, min(wanted, many))
        claim[slot].leavers += 1
        claim[slot].leaving_nodes += own[who].owes
        reg[WARNED_NODE_US] += many * reg[WARNING_US]
        begin_save(state, work, more, who, now)
        return
    first = runs[job[who].run_row].first
    stop(state, work, claims, more, who, KEEP_ALL if malleable else KEEP_SAVED, now)
    receive(state, claims, more, slot, who, first, many, now)


@inner
def shrink(  # noqa: PLR0917
    state: State, work: Work, claims: Claims, more: More, slot: int, who: int, fewer: int, now: int
) -> None:
    """A running malleable job gives its last nodes to the claim."""
    job, runs = state[0], state[7]
    more[11][SHRINKS_N] += 1
    first = runs[job[who].run_row].first
    many = job[who].nodes
    change_last(state, work, more, who, many - fewer, more[9][WIDE][:0], now)
    hold_run(state, claims, slot, first + many - fewer, fewer, now)
    lend(more, claims[0][slot].job, who, fewer, job[who].start_us)


# The events.


@inner
def on_notice(state: State, work: Work, claims: Claims, more: More, who: int, now: int) -> None:  # noqa: PLR0917
    """An on-demand job is announced: nodes are held for it."""
    job, reg = state[0], state[11]
    own, timers, mine = more[0], more[3], more[11]
    if own[who].claim >= 0 or job[who].state != FUTURE:
        return
    began = wall_us(more)
    collect(state, claims, now)  # an earlier notice comes first
    predicted = own[who].known
    at_most = 0 if on_demand_waits(state) else reg[FREE]
    chose = wall_us(more)
    missing = job[who].nodes - at_most
    promised = 0
    stops = 0
    if mine[NOTICE_BY] == BY_CUP and missing > 0:
        promised, stops = prepare_by_prediction(state, work, claims, more, missing, predicted, now)
    note_time(more, CHOICE, chose)
    if mine[NOTICE_BY] != BY_N:
        collects = 0 if mine[NOTICE_BY] == BY_CUP else 1
        slot = open_claim(state, claims, more, who, predicted, collects)
        take_free(state, claims, slot, at_most, now)
        promise_picked(claims, more, slot, who, promised, stops, now)
        heap_push(timers, more[4], predicted + mine[RELEASE_US], who << PAIR_SHIFT)
        wake(more, now)
    note_time(more, HANDLING, began)


@inner
def has_started(state: State, work: Work, claims: Claims, more: More, slot: int, now: int) -> bool:  # noqa: PLR0917
    """Start the claim's job if it is there and has its nodes. False: it needs others than it was to have."""
    claim, held = claims[0], claims[2]
    own, nodes = more[0], more[9][WIDE]
    if claim[slot].arrived == 0 or claim[slot].leavers:
        return True
    if claim[slot].need:
        return False
    who = claim[slot].job
    own[who].claim = -1
    many = claim[slot].idle
    for k in range(many):
        nodes[k] = pop_idle(claims, slot, now)
        held[nodes[k]].holder = -1
    end_claim(state, work, claims, slot, now)
    start_lease(state, work, more, who, nodes[:many], now)
    return True


@inner
def guests_go(state: State, work: Work, claims: Claims, more: More, slot: int, now: int) -> None:  # noqa: PLR0917
    """Guests of the claim leave, in order of their rows, but those that do already."""
    heap, reg = state[6], state[11]
    found = more[9][ORDER]
    if claims[0][slot].hosts == 0:
        return
    count = 0
    for k in range(reg[HEAP_N]):  # who leaves already has no end to come
        if claims[3][heap[k].key].guest == slot:
            found[count] = heap[k].key
            count += 1
    for last in range(count - 1, 0, -1):  # they are few
        for k in range(last):
            if found[k] > found[k + 1]:
                found[k], found[k + 1] = found[k + 1], found[k]
    for k in range(count):
        if claim_of(claims, more, found[k]) != slot:
            preempt(state, work, claims, more, slot, found[k], now)


@inner
def arrive(state: State, work: Work, claims: Claims, more: More, who: int, now: int) -> bool:  # noqa: PLR0917
    """Start the job, now or when the last of its nodes are free. False: it waits at the head of the queue.

    One that was there already may have all its nodes by now, or need others than it was to have.
    """
    claim = claims[0]
    own, room, mine = more[0], more[9], more[11]
    is_new = mine[IS_NEW] != 0
    while True:
        slot = own[who].claim
        if not is_new and has_started(state, work, claims, more, slot, now):
            return True
        is_new = False
        if slot < 0:
            slot = open_claim(state, claims, more, who, -1, 0)
        claim[slot].arrived = 1
        expect_nothing(claims, slot)
        take_back_promises(claims, slot)
        missing = claim[slot].need - claim[slot].leaving_nodes - state[11][FREE]
        how = SHRINKS
        picked = 0
        chose = wall_us(more)
        if missing > 0:
            how, picked = make_room(state, work, claims, more, missing, now)
        note_time(more, CHOICE, chose)
        if how == NOBODY:
            close_claim(state, work, claims, more, slot, now)
            enqueue_first(state, claims, who, now)
            mine[QUEUED_N] += 1
            own[who].noted = 0
            return False
        guests_go(state, work, claims, more, slot, now)
        take_free(state, claims, slot, NEVER, now)
        for k in range(picked):
            if how == SHRINKS:
                shrink(state, work, claims, more, slot, room[PICKED, k], room[FEWER, k], now)
            else:
                preempt(state, work, claims, more, slot, room[PICKED, k], now)


@inner
def on_arrival(state: State, work: Work, claims: Claims, more: More, now: int) -> None:
    """The job that is ARRIVING starts, or waits. Events only name it: so this stands in one place, which is large."""
    count, mine = claims[5], more[11]
    who = mine[ARRIVING]
    mine[ARRIVING] = -1
    before = count[CLAIMS_N]
    began = wall_us(more)
    has_nodes = arrive(state, work, claims, more, who, now)
    if mine[IS_NEW]:
        more[0][who].noted = 1 if has_nodes else 0
        note_time(more, HANDLING, began)
    elif mine[NEXT_CLAIM] > 0:
        mine[NEXT_CLAIM] -= before - count[CLAIMS_N]


@inner
def on_completion(state: State, work: Work, claims: Claims, more: More, who: int, now: int) -> None:  # noqa: PLR0917
    """An on-demand job is over: its nodes go to its lenders, the others to the pool."""
    job, node, free, _, plan, blocks, _, runs, log, _, _, reg = state
    own, given = more[0], more[9][FOUND]
    own[who].when_us = -1
    end_job(job, node, free, plan, blocks, runs, log, reg, who, now, FINISHED)
    left(state, claims, who, now)
    claims[5][CHANGED] = 1
    first = runs[job[who].run_row].first
    note_move(more, now, RESERVE, first, job[who].nodes)
    began = wall_us(more)
    many = nodes_of(state, who, given)
    for k in range(many):
        set_online(state, given[k], now)
    note_move(more, now, IDLE_AGAIN, first, many)
    why = WAITS if on_demand_waits(state) else ANY
    settle(state, work, claims, more, who, given[:many], why, now)
    note_time(more, HANDLING, began)


@inner
def on_checkpoint(state: State, work: Work, claims: Claims, more: More, who: int, now: int) -> None:  # noqa: PLR0917
    """A malleable job has written down where it is and leaves its nodes."""
    job, runs = state[0], state[7]
    claim = claims[0]
    own = more[0]
    first = runs[job[who].run_row].first
    many = job[who].nodes
    own[who].when_us = -1
    stop(state, work, claims, more, who, KEEP_ALL, now)
    slot = claim_of(claims, more, who)
    own[who].claim = -1
    if slot < 0:  # the on-demand job was put back meanwhile
        return
    claim[slot].leavers -= 1
    claim[slot].leaving_nodes -= own[who].owes
    receive(state, claims, more, slot, who, first, many, now)
    arrives(more, claim[slot].job, 0)
