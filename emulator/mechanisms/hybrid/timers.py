"""What is due by the clock in a compiled run: timers, and nodes that fail and are repaired, as in `mechanism.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import emulator.mechanisms.hybrid.compiled_actions as d
from emulator.harness.compiled import inner
from emulator.harness.occupancy import set_offline, set_online
from emulator.harness.structures import heap_pop
from emulator.harness.tables import BATCH, FRONT, HEAP_N
from emulator.mechanisms.hybrid.claims import (
    CLAIMS_N,
    MALLEABLE,
)
from emulator.mechanisms.hybrid.compiled_actions import claim_of, move_apart, note_move, resize, stop, wake
from emulator.mechanisms.hybrid.compiled_strategies import FOUND, PAIR_SHIFT, WIDE
from emulator.mechanisms.hybrid.events import close_claim, preempt, receive
from emulator.mechanisms.hybrid.loan_return import LEASE_BROKE, settle
from emulator.mechanisms.hybrid.reserved import drop, promise

if TYPE_CHECKING:
    from emulator.harness.tables import State
    from emulator.harness.work import Work
    from emulator.mechanisms.hybrid.claims import Claims
    from emulator.mechanisms.hybrid.compiled_actions import More


@inner
def lease_breaks(  # noqa: PLR0917
    state: State, work: Work, claims: Claims, more: More, who: int, which: int, now: int
) -> None:
    """A node of an on-demand job breaks: the job begins anew, before all others, and its lenders have nodes back."""
    job, runs, log = state[0], state[7], state[8]
    own, given, mine = more[0], more[9][FOUND], more[11]
    first = runs[job[who].run_row].first
    many = job[who].nodes
    own[who].noted = 0
    job[who].key = FRONT
    stop(state, work, claims, more, who, d.KEEP_NOTHING, now)
    if own[who].when_us >= 0:
        own[who].when_us = -1
        note_move(more, now, d.RESERVE, first, many)
    others = 0
    for k in range(first, first + many):
        if log[k] != which:
            given[others] = log[k]
            others += 1
            set_online(state, log[k], now)
            move_apart(more, log[k])
    if others:
        note_move(more, now, d.IDLE_AGAIN, ~(mine[d.APART_N] - others), others)
    settle(state, work, claims, more, who, given[:others], LEASE_BROKE, now)


@inner
def job_breaks(  # noqa: PLR0917
    state: State, work: Work, claims: Claims, more: More, who: int, which: int, now: int
) -> None:
    """A node of a batch job breaks: a malleable job goes on with one node less if it can, others restart."""
    job, runs, log = state[0], state[7], state[8]
    claim, attr = claims[0], claims[3]
    own, keeps = more[0], more[9][WIDE]
    first = runs[job[who].run_row].first
    many = job[who].nodes
    is_leaving = attr[who].leaving >= 0
    malleable = attr[who].job_class == MALLEABLE and not is_leaving
    if malleable and many > attr[who].least and attr[who].guest < 0:
        others = 0
        for k in range(first, first + many):
            if log[k] != which:
                keeps[others] = log[k]
                others += 1
        resize(state, work, more, who, keeps[:others], now)
        return
    stop(state, work, claims, more, who, d.KEEP_ALL if malleable else d.KEEP_SAVED, now)
    own[who].when_us = -1
    slot = claim_of(claims, more, who)
    own[who].claim = -1
    if slot >= 0:
        claim[slot].leavers -= 1
        claim[slot].leaving_nodes -= own[who].owes
        receive(state, claims, more, slot, who, first, many, now)


@inner
def on_outage(state: State, work: Work, claims: Claims, more: More, now: int) -> None:
    """Nodes that are up again, or else the node that fails now: then claims are to be looked at (NEXT_CLAIM)."""
    job, node = state[0], state[1]
    mine, outages = more[11], more[13]
    begin = mine[d.APART_N]
    while (
        mine[d.NEXT_OUTAGE] < outages.shape[0]
        and outages[mine[d.NEXT_OUTAGE]].at_us <= now
        and outages[mine[d.NEXT_OUTAGE]].fails == 0
        and mine[d.APART_N] - begin < node.shape[0]
    ):
        which = outages[mine[d.NEXT_OUTAGE]].node
        set_online(state, which, now)
        move_apart(more, which)
        mine[d.NEXT_OUTAGE] += 1
    if mine[d.APART_N] > begin:
        note_move(more, now, d.IDLE_AGAIN, ~begin, mine[d.APART_N] - begin)
        return
    which = outages[mine[d.NEXT_OUTAGE]].node
    mine[d.NEXT_OUTAGE] += 1
    mine[d.FAILED_N] += 1
    who = node[which].job
    if who >= 0:
        if job[who].kind == BATCH:
            job_breaks(state, work, claims, more, who, which, now)
        else:
            lease_breaks(state, work, claims, more, who, which, now)
    if claims[2][which].holder >= 0:
        drop(claims, claims[2][which].holder, which, now)
    set_offline(state, which)
    move_apart(more, which)
    note_move(more, now, d.DOWN, ~(mine[d.APART_N] - 1), 1)
    mine[d.NEXT_CLAIM] = 0


@inner
def start_next(claims: Claims, more: More) -> None:
    """After a failure: start the on-demand job of the next claim, if it is there and has what it needs now."""
    claim, order, count = claims[0], claims[1], claims[5]
    mine = more[11]
    if mine[d.NEXT_CLAIM] >= count[CLAIMS_N]:
        mine[d.NEXT_CLAIM] = -1
        return
    d.arrives(more, claim[order[mine[d.NEXT_CLAIM]]].job, 0)
    mine[d.NEXT_CLAIM] += 1


@inner
def on_timer(state: State, work: Work, claims: Claims, more: More, now: int) -> None:
    """One step of what is due: outages, claims after a failure, a timer. After the last, the next is waited for."""
    claim, attr = claims[0], claims[3]
    own, timers, counts, mine, outages = more[0], more[3], more[4], more[11], more[13]
    if mine[d.NEXT_CLAIM] >= 0:
        start_next(claims, more)
        return
    if mine[d.NEXT_OUTAGE] < outages.shape[0] and outages[mine[d.NEXT_OUTAGE]].at_us <= now:
        on_outage(state, work, claims, more, now)
        return
    if counts[HEAP_N] == 0 or timers[0].at_us > now:
        mine[d.AT_TIMER] = 0
        wake(more, now)
        return
    pair = heap_pop(timers, counts)
    slot = own[pair >> PAIR_SHIFT].claim
    who = (pair & ((1 << PAIR_SHIFT) - 1)) - 1
    if slot < 0 or claim[slot].arrived:
        return
    if who < 0:
        close_claim(state, work, claims, more, slot, now)
        mine[d.LAPSED_N] += 1
    elif attr[who].promised == slot and attr[who].leaving < 0:
        if claim[slot].need <= claim[slot].leaving_nodes:
            promise(claims, who, -1)
        else:
            preempt(state, work, claims, more, slot, who, now)
