"""Who gives nodes in a compiled run: the strategies that come with the mechanism, over the running jobs.

N, CUA and CUP at the notice, PAA and SPAA at the arrival: they choose as `notice_*.py` and `arrival_*.py` do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import inner
from emulator.harness.structures import heap_push
from emulator.harness.tables import BATCH, EXPECTED, HEAP_N, KIND, NODES, WHO
from emulator.mechanisms.hybrid.decisions import choose_least, give_evenly
from emulator.mechanisms.hybrid.deeds import ARRIVAL_BY, WARNING_US
from emulator.mechanisms.hybrid.reserved import CLASS, GUEST, LEAST, LEAVING, MALLEABLE, PROMISED, promise
from emulator.mechanisms.hybrid.view import overhead_at, stop_at

if TYPE_CHECKING:
    from emulator.harness.tables import Ints, State
    from emulator.harness.work import Work
    from emulator.mechanisms.hybrid.deeds import More
    from emulator.mechanisms.hybrid.reserved import Claims

BY_N, BY_CUA, BY_CUP = range(3)
BY_PAA, BY_SPAA = range(2)
NOBODY, PREEMPTS, SHRINKS = range(3)
# Rows of `room`. Three are free for whoever needs them; PICKED: who was chosen, FEWER: how many nodes each gives.
FOUND, KEY, WIDE, ORDER, PICKED, FEWER = range(6)
PAIR_SHIFT = 31
_DIGITS, _DIGIT_BITS = 2048, 11


@inner
def running_jobs(state: State, claims: Claims, unpromised: int, found: Ints) -> int:
    """Batch jobs on nodes of the pool that are not about to leave them, in no order. How many.

    Each stands once in the heap of ends; who writes a last checkpoint has no end.
    """
    job, heap, reg = state[0], state[6], state[11]
    attr = claims[3]
    count = 0
    for k in range(reg[HEAP_N]):
        who = heap[k, WHO]
        if job[who, KIND] != BATCH or attr[who, GUEST] >= 0 or attr[who, LEAVING] >= 0:
            continue
        if unpromised == 0 or attr[who, PROMISED] < 0:
            found[count] = who
            count += 1
    return count


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
def pick_least(more: More, count: int, needed: int) -> int:
    """PICKED: jobs of FOUND with the least KEY that have so many nodes (WIDE). How many; -1 if all are too few."""
    room = more[9]
    found = room[FOUND]
    picked = room[PICKED]
    taken: int = choose_least(room[KEY][:count], found, room[WIDE], needed, room[ORDER], picked)
    for k in range(taken):
        picked[k] = found[picked[k]]
    return taken


@inner
def shrink_evenly(state: State, claims: Claims, more: More, needed: int) -> int:
    """SPAA's first choice: PICKED gives FEWER, in order of rows. How many jobs do; -1 if malleable ones are too few."""
    job, attr = state[0], claims[3]
    room = more[9]
    found = room[FOUND]
    spare = room[KEY]
    count = running_jobs(state, claims, 0, found)
    kept = 0
    total = 0
    for k in range(count):
        who = found[k]
        if attr[who, CLASS] == MALLEABLE and job[who, NODES] > attr[who, LEAST]:
            found[kept] = who
            kept += 1
            total += job[who, NODES] - attr[who, LEAST]
    if total < needed:
        return -1
    sort(found, kept, room[WIDE], more[12])
    for k in range(kept):
        spare[k] = job[found[k], NODES] - attr[found[k], LEAST]
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
    job, attr = state[0], claims[3]
    room, reg = more[9], more[11]
    if reg[ARRIVAL_BY] == BY_SPAA:
        giving = shrink_evenly(state, claims, more, needed)
        if giving >= 0:
            return SHRINKS, giving
    found = room[FOUND]
    count = running_jobs(state, claims, 0, found)
    for k in range(count):
        room[WIDE, k] = job[found[k], NODES]
        room[KEY, k] = overhead_at(job, work, attr, found[k], now)
    picked = pick_least(more, count, needed)
    return (PREEMPTS, picked) if picked >= 0 else (NOBODY, 0)


@inner
def prepare_by_prediction(  # noqa: PLR0917
    state: State, work: Work, claims: Claims, more: More, missing: int, predicted: int, now: int
) -> tuple[int, int]:
    """CUP: PICKED are promised first, then stopped at a time of their own (FEWER). How many of each."""
    job, attr = state[0], claims[3]
    room, reg = more[9], more[11]
    found = room[FOUND]
    count = running_jobs(state, claims, 1, found)
    later = count  # those that should end in time go to the front
    first = 0
    while first < later:
        if job[found[first], EXPECTED] <= predicted:
            first += 1
        else:
            later -= 1
            found[first], found[later] = found[later], found[first]
    for k in range(count):
        room[WIDE, k] = job[found[k], NODES]
        room[KEY, k] = job[found[k], EXPECTED]
    promised = pick_least(more, first, missing)
    if promised >= 0:
        return promised, 0
    for k in range(first):
        room[PICKED, k] = found[k]
        missing -= room[WIDE, k]
    count -= first
    for k in range(count):
        who = found[first + k]
        stop = stop_at(job, work, attr, who, now, predicted, reg[WARNING_US])
        room[KEY, k] = overhead_at(job, work, attr, who, stop)
        room[WIDE, k] = job[who, NODES]
    return first, count_stops(state, work, claims, more, first, count, missing, predicted, now)


@inner
def count_stops(  # noqa: PLR0917
    state: State,
    work: Work,
    claims: Claims,
    more: More,
    first: int,
    count: int,
    missing: int,
    predicted: int,
    now: int,
) -> int:
    """The rest of CUP: of FOUND from `first` on those that lose least by a stop, all if they are too few."""
    job, attr = state[0], claims[3]
    room, reg = more[9], more[11]
    found = room[FOUND][first:]
    picked = room[PICKED][first:]
    stops: int = choose_least(room[KEY][:count], found, room[WIDE], missing, room[ORDER], picked)
    for k in range(count if stops < 0 else stops):
        who = found[k] if stops < 0 else found[picked[k]]
        picked[k] = who
        room[FEWER, first + k] = stop_at(job, work, attr, who, now, predicted, reg[WARNING_US])
    return count if stops < 0 else stops


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
