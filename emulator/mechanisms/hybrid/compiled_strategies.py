"""Who gives nodes in a compiled run: the strategies that come with the mechanism, over the running jobs.

N, CUA and CUP at the notice, PAA and SPAA at the arrival: they choose as `notice_*.py` and `arrival_*.py` do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import inner
from emulator.harness.structures import heap_push
from emulator.harness.tables import NEVER
from emulator.mechanisms.hybrid.compiled_actions import ARRIVAL_BY, WARNING_US
from emulator.mechanisms.hybrid.decisions import give_evenly
from emulator.mechanisms.hybrid.lenders import (
    GIVER,
    SPARE,
    WIDTH,
    catch_up,
    costs_before,
    costs_now,
    ends_of_unpromised,
    nodes_until,
    pick_least,
    total_of,
)
from emulator.mechanisms.hybrid.reserved import promise
from emulator.mechanisms.hybrid.view import stop_at

if TYPE_CHECKING:
    from emulator.harness.tables import Ints, State
    from emulator.harness.work import Work
    from emulator.mechanisms.hybrid.claims import Claims
    from emulator.mechanisms.hybrid.compiled_actions import More

BY_N, BY_CUA, BY_CUP = range(3)
BY_PAA, BY_SPAA = range(2)
NOBODY, PREEMPTS, SHRINKS = range(3)
# Rows of `room`. Three are free for whoever needs them; PICKED: who was chosen, FEWER: how many nodes each gives.
FOUND, KEY, WIDE, ORDER, PICKED, FEWER = range(6)
PAIR_SHIFT = 31
_DIGITS, _DIGIT_BITS = 2048, 11
_FEW = 64


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
def shrink_evenly(state: State, claims: Claims, more: More, many: int, needed: int) -> int:
    """SPAA's first choice: PICKED gives FEWER, in order of rows. How many jobs do; -1 if malleable ones are too few."""
    job, attr, givers = state[0], claims[3], claims[7]
    room = more[9]
    found = room[FOUND]
    spare = room[KEY]
    if total_of(givers[SPARE], many) < needed:
        return -1
    kept = 0
    for place in range(many):
        if givers[SPARE, place] > 0:
            found[kept] = givers[GIVER, place]
            kept += 1
    if kept <= _FEW:
        sort_few(found, kept)
    else:
        sort(found, kept, room[WIDE], more[12])
    for k in range(kept):
        spare[k] = job[found[k]].nodes - attr[found[k]].least
    give_evenly(spare[:kept], needed, room[WIDE])
    giving = 0
    for k in range(kept):
        if room[WIDE, k] > 0:
            room[PICKED, giving] = found[k]
            room[FEWER, giving] = room[WIDE, k]
            giving += 1
    return giving


@inner
def make_room(state: State, work: Work, claims: Claims, more: More, needed: int, now: int) -> tuple[int, int]:  # noqa: PLR0917
    """Who gives so many nodes to an on-demand job that is there: (how, how many jobs), NOBODY if they are too few."""
    givers = claims[7]
    room, reg = more[9], more[11]
    many = catch_up(state, work, claims[3], claims[5], givers, now)
    if reg[ARRIVAL_BY] == BY_SPAA:
        giving = shrink_evenly(state, claims, more, many, needed)
        if giving >= 0:
            return SHRINKS, giving
    if total_of(givers[WIDTH], many) < needed:
        return NOBODY, 0
    costs_now(givers, many, now, room[KEY])
    return PREEMPTS, pick_least(givers, many, needed, room[KEY], room[ORDER], room[PICKED])


@inner
def prepare_by_prediction(  # noqa: PLR0917
    state: State, work: Work, claims: Claims, more: More, missing: int, predicted: int, now: int
) -> tuple[int, int]:
    """CUP: PICKED are promised first, then stopped at a time of their own (FEWER). How many of each."""
    job, attr, givers = state[0], claims[3], claims[7]
    room, reg = more[9], more[11]
    key = room[KEY]
    picked = room[PICKED]
    many = catch_up(state, work, attr, claims[5], givers, now)
    ends_of_unpromised(givers, many, key)
    in_time = nodes_until(givers, many, key, predicted)
    if in_time >= missing:
        return pick_least(givers, many, missing, key, room[ORDER], picked), 0
    first = 0
    for k in range(many):
        picked[first] = givers[GIVER, k]
        first += key[k] <= predicted
    costs_before(givers, many, max(predicted, now), predicted, key)
    stops = count_stops(givers, more, first, many, missing - in_time)
    for k in range(first, first + stops):
        room[FEWER, k] = stop_at(job, work, attr, picked[k], now, predicted, reg[WARNING_US])
    return first, stops


@inner
def count_stops(givers: Ints, more: More, first: int, many: int, missing: int) -> int:
    """The rest of CUP, PICKED from `first` on: those that lose least by a stop (KEY), all if they are too few."""
    room = more[9]
    key = room[KEY]
    picked = room[PICKED][first:]
    if nodes_until(givers, many, key, NEVER - 1) >= missing:
        return pick_least(givers, many, missing, key, room[ORDER], picked)
    stops = 0
    for k in range(many):
        if key[k] < NEVER:
            picked[stops] = givers[GIVER, k]
            stops += 1
    return stops


@inner
def promise_picked(  # noqa: PLR0917
    claims: Claims, more: More, slot: int, who: int, promised: int, stops: int, now: int
) -> None:
    """The claim gets the nodes of PICKED when they end; the later ones are stopped in time."""
    room, timers = more[9], more[3]
    for k in range(promised + stops):
        promise(claims, room[PICKED, k], slot)
    for k in range(promised, promised + stops):
        key = (who << PAIR_SHIFT) + room[PICKED, k] + 1
        heap_push(timers, more[4], max(room[FEWER, k], now), key)
