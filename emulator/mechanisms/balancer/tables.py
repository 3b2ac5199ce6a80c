"""What a compiled run of the Balancer keeps beside the cluster's tables, and the smallest steps on it.

It is the state of `balancer/lifecycle/` with a batch pool that obeys at once, as arrays: nodes are indices, leases are
rows. Nothing is checked here: the same run step by step (`Loop.run(by_steps=True)`) checks it all, and must be equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from emulator.harness.compiled import inner
from emulator.harness.tables import NEVER, REGISTERS

if TYPE_CHECKING:
    from emulator.harness.tables import Heap, Ints

# Columns of `own`, one row a node. SINCE_US: as in `NodeRecord`; HOLDER: the waiting lease that has it held, -1: none;
# LINK: the next node held for the same lease, -1: none; RANK: its place by name; WAS_BUSY and SEEN_US: what the latest
# look at the batch pool saw, if it runs a job and when it last became idle.
SINCE_US, HOLDER, LINK, RANK, WAS_BUSY, SEEN_US = range(6)
OWN_COLUMNS = 6
# Columns of the leases, one row each in order of arrival. END_US: until when it waits; HELD: nodes that it has, READY:
# those that are reserved already; FIRST_HELD and LAST_HELD: the chain of them; BEHIND: who waits next, -1 for none.
JOB_ROW, COUNT, END_US, HELD, READY, FIRST_HELD, LAST_HELD, BEHIND = range(8)
LEASE_COLUMNS = 8
# Columns of the hints, in order of their time; of what a predictor reserves at slot begins; of what is told of
# afterwards: moves of nodes (MANY from FIRST on in `moved`), and answers to leases (FOUND: nodes it had got).
BY_US, ENDS_US, WANTED, USED = range(4)
SLOT_US, SLOT_NODES, KEEP_US = range(3)
MOVED_US, TO, FIRST, MANY = range(4)
TO_RESERVE, TO_ALLOC, TO_BATCH = range(3)
LEASE, ANSWERED_US, ANSWER, FOUND = range(4)
GRANTED, NOT_AT_ONCE, NOT_IN_TIME = range(3)
# Rows of `lists`: idle nodes of the batch pool and free ones of the reserve, in the order in which they are taken
# (`NodeIndex`); room for the nodes of a lease.
IDLE, FREE, ROOM = range(3)
LIST_ROWS = 3
# Registers, behind those of the table for the agenda's heap, which is like the cluster's. First settings: RESERVE (R),
# REFILLED, WAIT_US (W), HOLD_US (I), SIGN of the order in which idle nodes are taken. COMMANDED: the latest move is a
# command to the batch pool that it has not reported; IDLE_N and FREE_N: how many are listed.
(
    RESERVE, REFILLED, WAIT_US, HOLD_US, SIGN, WAKE, NEXT_POINT, PHASE, NEXT_DEED, AFTER_LOOK, DEED_JOB, NEXT_SLOT,
    PLAN_WAKE, UNMET, HINTS_N, HINTS_END, ARRIVED_N, FIRST_WAITING, LAST_WAITING, GRANTED_NODES, COMMANDED, RETURNS_N,
    OWN_N, SEEN_N, MOVES_N, MOVED_N, ANSWERS_N, ANSWERED_N, GRANTED_N, REJECTED_N, IDLE_N, FREE_N,
) = range(REGISTERS, REGISTERS + 32)  # fmt: skip
MORE_REGISTERS = REGISTERS + 32

More: TypeAlias = "tuple[Ints, Ints, Ints, Ints, Ints, Heap, Heap, Ints, Ints, Ints, Ints]"
"""(own, lists, leases, hints, slots, points, agenda, moves, moved, answers, registers)

`points`: what is known from the begin, in order; `agenda`: a heap of (end of a lease, job); `moved`: the nodes of
the moves.
"""


@inner
def list_node(more: More, row: int, which: int) -> None:
    """A node goes to where it belongs in a list: by (time, name), of idle nodes by what their order makes of it."""
    own, listed, reg = more[0], more[1][row], more[10]
    sign = reg[SIGN] if row == IDLE else 1
    since = sign * own[which, SINCE_US]
    rank = own[which, RANK]
    place = reg[IDLE_N + row]
    reg[IDLE_N + row] = place + 1
    while place > 0:
        other = listed[place - 1]
        its = sign * own[other, SINCE_US]
        if its < since or (its == since and own[other, RANK] < rank):
            break
        listed[place] = other
        place -= 1
    listed[place] = which


@inner
def unlist(more: More, row: int, lo: int, hi: int) -> None:
    """Those from `lo` to before `hi` leave a list."""
    listed, reg = more[1][row], more[10]
    many = reg[IDLE_N + row]
    for k in range(hi, many):
        listed[lo + k - hi] = listed[k]
    reg[IDLE_N + row] = many - (hi - lo)


@inner
def note_node(more: More, which: int) -> None:
    """A node that the next noted move is of."""
    moved, reg = more[8], more[10]
    moved[reg[MOVED_N]] = which
    reg[MOVED_N] += 1


@inner
def note_move(more: More, now: int, to: int, many: int) -> None:
    """The last `many` noted nodes changed their pool."""
    moves, reg = more[7], more[10]
    one = moves[reg[MOVES_N]]
    one[MOVED_US] = now
    one[TO] = to
    one[FIRST] = reg[MOVED_N] - many
    one[MANY] = many
    reg[MOVES_N] += 1


# Hints (`HintBook`).


@inner
def add_hint(more: More, by: int, ends: int, wanted: int) -> None:
    """Behind all whose time is not later."""
    hints, reg = more[3], more[10]
    place = reg[HINTS_N]
    while place > 0 and hints[place - 1, BY_US] > by:
        for column in range(4):
            hints[place, column] = hints[place - 1, column]
        place -= 1
    one = hints[place]
    one[BY_US] = by
    one[ENDS_US] = ends
    one[WANTED] = wanted
    one[USED] = 0
    reg[HINTS_N] += 1
    reg[HINTS_END] = min(reg[HINTS_END], ends)


@inner
def use_hints(more: More, many: int, now: int) -> None:
    """So many nodes were granted: take them off the hints whose time has come, the earliest first."""
    hints, reg = more[3], more[10]
    for k in range(reg[HINTS_N]):
        one = hints[k]
        if many == 0 or one[BY_US] > now:
            return
        taken = min(many, one[WANTED] - one[USED])
        one[USED] += taken
        many -= taken


@inner
def end_hints(more: More, now: int) -> None:
    """Forget those whose time is over."""
    hints, reg = more[3], more[10]
    if reg[HINTS_END] > now:
        return
    kept = 0
    first = NEVER
    for k in range(reg[HINTS_N]):
        if hints[k, ENDS_US] > now:
            for column in range(4):
                hints[kept, column] = hints[k, column]
            first = min(first, hints[kept, ENDS_US])
            kept += 1
    reg[HINTS_N] = kept
    reg[HINTS_END] = first


@inner
def hinted(more: More, promised: int, now: int) -> int:
    """Nodes that the hints want reserved, besides those promised to leases (`basic.py`)."""
    hints, reg = more[3], more[10]
    ahead = 0
    arrived = 0
    for k in range(reg[HINTS_N]):
        one = hints[k]
        if one[ENDS_US] <= now:
            continue
        if one[BY_US] > now:
            ahead += one[WANTED]
        else:
            arrived += one[WANTED] - one[USED]
    return ahead + max(0, arrived - promised)
