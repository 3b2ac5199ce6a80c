"""What a compiled run of the Balancer keeps beside the cluster's tables, and the smallest steps on it.

It is the state of `balancer/lifecycle/` with a batch pool that obeys at once, as arrays: nodes are indices, leases are
rows. Nothing is checked here: the same run step by step (`Loop.run(by_steps=True)`) checks it all, and must be equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from emulator.harness.compiled import inner
from emulator.harness.tables import NEVER, REGISTERS

if TYPE_CHECKING:
    from emulator.harness.tables import Ints

IDLE, BUSY, RECLAIMING, RESERVED, ALLOCATED, RESTORING = range(6)
"""`NodeState` of a node that is not down."""
# Columns of `own`, one row a node. POOL: one of those; SINCE_US: as in `NodeRecord`; HOLDER: the waiting lease that has
# it held, -1 for none; LINK: the next node held for the same lease, -1 for none; RANK: its place by name; WAS_BUSY and
# SEEN_US: what the latest look at the batch pool saw, if it runs a job and when it last became idle.
POOL, SINCE_US, HOLDER, LINK, RANK, WAS_BUSY, SEEN_US = range(7)
OWN_COLUMNS = 7
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
# Rows of `lists`: nodes in the order in which they are taken (`NodeIndex`); a ring of those that batch was told
# to give or to take back; one of commands (one of the next two), and of how many nodes each is; room for a lease's.
IDLE_LIST, FREE_LIST, COMING_LIST, ON_THE_WAY, COMMAND, HOW_MANY, ROOM = range(7)
LIST_ROWS = 7
RECLAIMED, RESTORED = range(2)
# Registers, behind those of the table for the agenda's heap, which is like the cluster's. First settings: RESERVE (R),
# REFILLED, WAIT_US (W), HOLD_US (I), SIGN of the order in which idle nodes are taken.
(
    RESERVE, REFILLED, WAIT_US, HOLD_US, SIGN, WAKE, NEXT_POINT, PHASE, NEXT_DEED, AFTER_LOOK, DEED_JOB, NEXT_SLOT,
    PLAN_WAKE, UNMET, HINTS_N, HINTS_END, ARRIVED_N, FIRST_WAITING, LAST_WAITING, GRANTED_NODES, WAY_LO, WAY_N,
    COMMAND_LO, COMMANDS_N, RETURNS_N, OWN_N, SEEN_N, MOVES_N, MOVED_N, ANSWERS_N, ANSWERED_N, GRANTED_N, REJECTED_N,
) = range(REGISTERS, REGISTERS + 33)  # fmt: skip
# One for each list, in the order of its rows.
LISTED_N = REGISTERS + 33
MORE_REGISTERS = LISTED_N + 3

More: TypeAlias = "tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints]"
"""(own, lists, leases, hints, slots, points, agenda, moves, moved, answers, registers)

`points`: (time, key) of what is known from the begin; `agenda`: a heap of (end of a lease, job); `moved`: the nodes of
the moves.
"""


@inner
def place_of(own: Ints, listed: Ints, many: int, sign: int, which: int) -> int:
    """Where a node stands, or belongs, among the `many` that are listed by (time, name), time with this sign."""
    since = sign * own[which, SINCE_US]
    rank = own[which, RANK]
    lo = 0
    hi = many
    while lo < hi:
        middle = (lo + hi) >> 1
        other = listed[middle]
        its = sign * own[other, SINCE_US]
        if its < since or (its == since and own[other, RANK] < rank):
            lo = middle + 1
        else:
            hi = middle
    return lo


@inner
def list_node(more: More, row: int, which: int) -> None:
    """A node that nobody holds goes to where it belongs in one of the lists."""
    own, reg, listed = more[0], more[10], more[1][row]
    many = reg[LISTED_N + row]
    place = place_of(own, listed, many, reg[SIGN] if row == IDLE_LIST else 1, which)
    for k in range(many, place, -1):
        listed[k] = listed[k - 1]
    listed[place] = which
    reg[LISTED_N + row] = many + 1


@inner
def unlist_node(more: More, row: int, which: int) -> None:
    """A node leaves its list; nothing of it has changed yet."""
    own, reg, listed = more[0], more[10], more[1][row]
    place = place_of(own, listed, reg[LISTED_N + row], reg[SIGN] if row == IDLE_LIST else 1, which)
    unlist_some(more, row, place, place + 1)


@inner
def unlist_some(more: More, row: int, lo: int, hi: int) -> None:
    """Those from `lo` to before `hi` leave a list."""
    reg, listed = more[10], more[1][row]
    many = reg[LISTED_N + row]
    for k in range(hi, many):
        listed[lo + k - hi] = listed[k]
    reg[LISTED_N + row] = many - (hi - lo)


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


@inner
def send(more: More, which: int) -> None:
    """The batch pool is told of a node; the next noted command is of it."""
    ring, reg = more[1][ON_THE_WAY], more[10]
    ring[(reg[WAY_LO] + reg[WAY_N]) % ring.shape[0]] = which
    reg[WAY_N] += 1


@inner
def note_command(more: More, command: int, many: int) -> None:
    """What the last `many` nodes that were sent are told; it is reported after what was told before."""
    lists, reg = more[1], more[10]
    place = (reg[COMMAND_LO] + reg[COMMANDS_N]) % lists.shape[1]
    lists[COMMAND, place] = command
    lists[HOW_MANY, place] = many
    reg[COMMANDS_N] += 1


@inner
def next_sent(more: More) -> int:
    """The next node that is reported."""
    ring, reg = more[1][ON_THE_WAY], more[10]
    which: int = ring[reg[WAY_LO]]
    reg[WAY_LO] = (reg[WAY_LO] + 1) % ring.shape[0]
    reg[WAY_N] -= 1
    return which


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
