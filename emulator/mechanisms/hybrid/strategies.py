"""Who gives nodes to on-demand jobs: the strategies that come with the mechanism, over the running jobs. Compiled.

N, CUA and CUP at the notice, PAA and SPAA at the arrival (hybrid-fan-2021, section III-B). One's own are asked in
Python (`own_strategies.py`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from emulator.kernel.callbacks import call_hook
from emulator.kernel.compiled import inlined, inner
from emulator.kernel.tables import NEVER
from emulator.mechanisms.agenda import push
from emulator.mechanisms.hybrid.holds import promise
from emulator.mechanisms.hybrid.lenders import (
    catch_up,
    costs_before,
    costs_now,
    ends_of_unpromised,
    nodes_until,
    pick_least,
    total_of,
)
from emulator.mechanisms.hybrid.view import stop_at

if TYPE_CHECKING:
    from emulator.kernel.tables import Ints, State
    from emulator.machine.work import Work
    from emulator.mechanisms.hybrid.claims import Claims, Lenders
    from emulator.mechanisms.hybrid.state import HybridState

_PAIR_SHIFT = 31
_DIGITS, _DIGIT_BITS = 2048, 11
_FEW = 64


class NoticeBy(IntEnum):
    """Who is asked for nodes at a notice, and when they go."""

    N = 0
    CUA = 1
    CUP = 2
    OWN = 3
    """One of one's own."""


class ArrivalBy(IntEnum):
    """Who gives nodes at an arrival."""

    PAA = 0
    SPAA = 1
    OWN = 2


NOBODY = -1
"""In the place of a number of jobs that shrink: those that could give nodes are too few."""


@inlined
def pair_key(row: int, lender: int) -> int:
    """The key of a timer: of an on-demand job, and of a job that is stopped for it; -1: of none."""
    return (row << _PAIR_SHIFT) + lender + 1


@inlined
def pair_of(key: int) -> tuple[int, int]:
    """(on-demand job, lender) of a timer's key."""
    return key >> _PAIR_SHIFT, (key & ((1 << _PAIR_SHIFT) - 1)) - 1


@inner
def sort_few(values: Ints, count: int) -> None:
    """Sort the first values, of which there are few."""
    for k in range(1, count):
        value = values[k]
        place = k
        while place > 0 and values[place - 1] > value:
            values[place] = values[place - 1]
            place -= 1
        values[place] = value


@inner
def sort(values: Ints, count: int, other: Ints, tally: Ints) -> None:
    """Sort the first values, which are not negative, digit by digit: one-node jobs give nodes by the thousand."""
    most = 0
    for k in range(count):
        most = max(most, values[k])
    shift = 0
    while most >> shift:
        for digit in range(_DIGITS):
            tally[digit] = 0
        for k in range(count):
            tally[(values[k] >> shift) & (_DIGITS - 1)] += 1
        place = 0
        for digit in range(_DIGITS):
            many = tally[digit]
            tally[digit] = place
            place += many
        for k in range(count):
            digit = (values[k] >> shift) & (_DIGITS - 1)
            other[tally[digit]] = values[k]
            tally[digit] += 1
        for k in range(count):
            values[k] = other[k]
        shift += _DIGIT_BITS


@inner
def give_evenly(most: Ints, needed: int, given: Ints) -> None:
    """`given`: as even as possible, at most `most` each, `needed` in all (which is not more than there is)."""
    low = 0  # everybody gives at least so much (or all it has) and it is not enough, or just enough
    high = needed
    while low < high:  # the highest level that does not give too much
        level = (low + high + 1) // 2
        total = 0
        for k in range(most.shape[0]):
            total += min(most[k], level)
        if total <= needed:
            low = level
        else:
            high = level - 1
    rest = needed
    for k in range(most.shape[0]):
        given[k] = min(most[k], low)
        rest -= given[k]
    for k in range(most.shape[0]):
        if rest > 0 and most[k] > low:
            given[k] += 1
            rest -= 1


@inner
def shrink_evenly(state: State, claims: Claims, hybrid: HybridState, many: int, needed: int) -> int:
    """SPAA's first choice: `picked` give `fewer` nodes, in order of rows.

    How many jobs do; -1 if malleable ones are too few.
    """
    job, attr, lenders = state.job, claims.attr, claims.lenders
    room = hybrid.room
    found = room.found
    spare = room.key
    if total_of(lenders.spare, many) < needed:
        return -1
    kept = 0
    for place in range(many):
        if lenders.spare[place] > 0:
            found[kept] = lenders.job[place]
            kept += 1
    if kept <= _FEW:
        sort_few(found, kept)
    else:
        sort(found, kept, room.wide, hybrid.digits)
    for k in range(kept):
        spare[k] = job[found[k]].nodes - attr[found[k]].least
    give_evenly(spare[:kept], needed, room.wide)
    giving = 0
    for k in range(kept):
        if room.wide[k] > 0:
            room.picked[giving] = found[k]
            room.fewer[giving] = room.wide[k]
            giving += 1
    return giving


@inner
def ask(hybrid: HybridState, hook: int, many: int, needed: int, now: int) -> None:
    """Have a strategy of one's own choose among the first `many` of the table of lenders."""
    query = hybrid.query
    query.lenders_n = many
    query.needed = needed
    query.is_none = 0
    query.first_n = 0
    query.then_n = 0
    call_hook(hook, 0, now)


@inner
def make_room(
    state: State, work: Work, claims: Claims, hybrid: HybridState, needed: int, now: int
) -> tuple[int, int]:
    """Who gives so many nodes to an on-demand job that is there: how many of `picked` shrink, and how many go then.

    NOBODY shrinks if those that run are too few.
    """
    lenders = claims.lenders
    room, hybrid_registers, query = hybrid.room, hybrid.registers, hybrid.query
    many = catch_up(state, work, claims, now)
    if hybrid_registers.arrival_by == ArrivalBy.OWN:
        ask(hybrid, query.arrival_hook, many, needed, now)
        return NOBODY if query.is_none else query.first_n, query.then_n
    if hybrid_registers.arrival_by == ArrivalBy.SPAA:
        giving = shrink_evenly(state, claims, hybrid, many, needed)
        if giving >= 0:
            return giving, 0
    if total_of(lenders.nodes, many) < needed:
        return NOBODY, 0
    costs_now(lenders, many, now, room.key)
    return 0, pick_least(lenders, many, needed, room.key, room.order, room.picked)


@inner
def prepare(
    state: State, work: Work, claims: Claims, hybrid: HybridState, free: int, row: int, now: int
) -> tuple[int, int]:
    """Who is to give nodes to an announced on-demand job that can have so many idle ones at once.

    How many of `picked` are promised to it, and how many are stopped then, each at a time of its own (`fewer`).
    `query` says whether nothing is held at all, and whether it collects.
    """
    hybrid_registers, query = hybrid.registers, hybrid.query
    wanted = state.job[row].nodes
    predicted = hybrid.job_ext[row].known
    query.is_none = 1 if hybrid_registers.notice_by == NoticeBy.N else 0
    query.collects = 1 if hybrid_registers.notice_by == NoticeBy.CUA else 0
    if hybrid_registers.notice_by == NoticeBy.OWN:
        query.job = row
        query.idle_nodes = free
        query.predicted_us = predicted
        ask(hybrid, query.notice_hook, catch_up(state, work, claims, now), wanted, now)
        return query.first_n, query.then_n
    if hybrid_registers.notice_by == NoticeBy.CUP and wanted > free:
        return prepare_by_prediction(state, work, claims, hybrid, wanted - free, predicted, now)
    return 0, 0


@inner
def prepare_by_prediction(
    state: State, work: Work, claims: Claims, hybrid: HybridState, missing: int, predicted: int, now: int
) -> tuple[int, int]:
    """CUP: those picked are promised first, then stopped at a time of their own (`fewer`). How many of each."""
    job, attr, lenders = state.job, claims.attr, claims.lenders
    room, hybrid_registers = hybrid.room, hybrid.registers
    key = room.key
    picked = room.picked
    many = catch_up(state, work, claims, now)
    ends_of_unpromised(lenders, many, key)
    in_time = nodes_until(lenders, many, key, predicted)
    if in_time >= missing:
        return pick_least(lenders, many, missing, key, room.order, picked), 0
    first = 0
    for k in range(many):
        picked[first] = lenders.job[k]
        first += key[k] <= predicted
    costs_before(lenders, many, max(predicted, now), predicted, key)
    stops = count_stops(lenders, hybrid, first, many, missing - in_time)
    for k in range(first, first + stops):
        room.fewer[k] = stop_at(job, work, attr, picked[k], now, predicted, hybrid_registers.warning_us)
    return first, stops


@inner
def count_stops(lenders: Lenders, hybrid: HybridState, first: int, many: int, missing: int) -> int:
    """The rest of CUP, picked from `first` on: those that lose least by a stop (`key`), all if they are too few."""
    room = hybrid.room
    key = room.key
    picked = room.picked[first:]
    if nodes_until(lenders, many, key, NEVER - 1) >= missing:
        return pick_least(lenders, many, missing, key, room.order, picked)
    stops = 0
    for k in range(many):
        if key[k] < NEVER:
            picked[stops] = lenders.job[k]
            stops += 1
    return stops


@inner
def promise_picked(
    claims: Claims, hybrid: HybridState, slot: int, row: int, promised: int, stops: int, now: int
) -> None:
    """The claim gets the nodes of those picked when they end; the later ones are stopped in time."""
    room, timers = hybrid.room, hybrid.timers
    for k in range(promised + stops):
        promise(claims, room.picked[k], slot)
    for k in range(promised, promised + stops):
        push(timers, max(room.fewer[k], now), pair_key(row, room.picked[k]))
