"""What the Balancer decides after each event, compiled: `Lifecycle.handle` with the algorithms `basic` and `hint`.

As there, a plan is made and carried out after each event, and again after each lease that is rejected. A command to the
batch pool is reported by an event of its own, before anything else happens. There is one at a time: a plan takes idle
nodes only where no free one is left, and gives free ones back only where none is wanted. So no node is on its way when
a plan is made, and a lease that is rejected has reserved nodes only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import emulator.mechanisms.balancer.tables as b
from emulator.harness.compiled import inner
from emulator.harness.structures import free_push, free_remove
from emulator.harness.tables import NEVER

if TYPE_CHECKING:
    from emulator.harness.tables import State
    from emulator.mechanisms.balancer.tables import More

LEAVES = -2
"""Instead of a node's LINK: it leaves the list of idle nodes."""

# Leases that wait.


@inner
def leave_queue(more: More, lease: int, before: int, what: int, now: int) -> None:
    """A lease does not wait any more; `before`: who stands before it, -1 for nobody.

    Its answer is given when all events of this call are over.
    """
    leases, answers, reg = more[2], more[9], more[10]
    behind = leases[lease, b.BEHIND]
    if before < 0:
        reg[b.FIRST_WAITING] = behind
    else:
        leases[before, b.BEHIND] = behind
    if behind < 0:
        reg[b.LAST_WAITING] = before
    one = answers[reg[b.ANSWERS_N]]
    one[b.LEASE] = lease
    one[b.ANSWERED_US] = now
    one[b.ANSWER] = what
    one[b.FOUND] = leases[lease, b.HELD]
    reg[b.ANSWERS_N] += 1


@inner
def reject(more: More, lease: int, before: int, now: int) -> None:
    """A lease gets nothing; the nodes that were held for it are free."""
    own, leases, reg = more[0], more[2], more[10]
    which = leases[lease, b.FIRST_HELD]
    while which >= 0:
        own[which, b.HOLDER] = -1
        own[which, b.SINCE_US] = now
        b.list_node(more, b.FREE, which)
        which = own[which, b.LINK]
    leave_queue(more, lease, before, b.NOT_IN_TIME if reg[b.WAIT_US] else b.NOT_AT_ONCE, now)


@inner
def hold(more: More, lease: int, which: int) -> None:
    own, leases = more[0], more[2]
    own[which, b.HOLDER] = lease
    own[which, b.LINK] = -1
    if leases[lease, b.HELD]:
        own[leases[lease, b.LAST_HELD], b.LINK] = which
    else:
        leases[lease, b.FIRST_HELD] = which
    leases[lease, b.LAST_HELD] = which
    leases[lease, b.HELD] += 1


@inner
def grant_ready(more: More, now: int) -> int:
    """Leases of which all nodes are reserved have them. Nodes that the others are short of."""
    leases, reg = more[2], more[10]
    short = 0
    before = -1
    lease = reg[b.FIRST_WAITING]
    while lease >= 0:
        count = leases[lease, b.COUNT]
        if leases[lease, b.READY] == count:
            reg[b.GRANTED_NODES] += count
            b.use_hints(more, count, now)
            leave_queue(more, lease, before, b.GRANTED, now)
        else:
            short += count - leases[lease, b.HELD]
            before = lease
        lease = leases[lease, b.BEHIND]
    return short


# A plan, and what is done by it.


@inner
def settle(state: State, more: More, is_timer: int, now: int) -> None:
    """Plan and carry out, again after each rejection, because that frees nodes for others.

    A lease is due when it may not wait; at the end of its wait it waits for the other events of that time.
    """
    leases, reg = more[2], more[10]
    while True:
        free = reg[b.FREE_N]
        idle = reg[b.IDLE_N]
        unmet = 0
        promised = 0
        lent = reg[b.GRANTED_NODES]
        before = -1
        lease = reg[b.FIRST_WAITING]
        while lease >= 0:
            count = leases[lease, b.COUNT]
            short = count - leases[lease, b.HELD]
            missing = max(0, short - free - idle)
            if missing == 0:
                promised += count
            elif reg[b.WAIT_US] == 0 or (is_timer and now >= leases[lease, b.END_US]):
                break
            lent += count - missing
            unmet += missing
            taken = min(short - missing, free)
            free -= taken
            idle -= short - missing - taken
            before = lease
            lease = leases[lease, b.BEHIND]
        if lease < 0:
            break
        reject(more, lease, before, now)
    kept = reg[b.RESERVE] if reg[b.REFILLED] else max(0, reg[b.RESERVE] - lent)
    kept += b.hinted(more, promised, now)
    lacking = max(0, kept - free)
    collected = min(lacking, idle)
    carry_out(state, more, collected, kept, now)
    reg[b.UNMET] = max(unmet + lacking - collected, grant_ready(more, now))
    b.end_hints(more, now)


@inner
def carry_out(state: State, more: More, collected: int, kept: int, now: int) -> None:
    """Hold nodes, free ones first; collect so many idle ones; and give back what is over."""
    leases, reserved, reg = more[2], more[1][b.FREE], more[10]
    taken = 0
    lease = reg[b.FIRST_WAITING]
    while lease >= 0:
        short = leases[lease, b.COUNT] - leases[lease, b.HELD]
        held = min(short, reg[b.FREE_N])
        for k in range(held):
            hold(more, lease, reserved[k])
        b.unlist(more, b.FREE, 0, held)
        leases[lease, b.READY] += held
        held = min(short - held, reg[b.IDLE_N])
        reclaim(state, more, lease, held)
        taken += held
        lease = leases[lease, b.BEHIND]
    reclaim(state, more, -1, collected)
    taken += collected
    if taken:
        b.note_move(more, now, b.TO_RESERVE, taken)
        reg[b.COMMANDED] = 1
    restore_over(state, more, kept, now)


@inner
def reclaim(state: State, more: More, lease: int, many: int) -> None:
    """The first idle nodes leave the batch pool, for a lease that waits or for the reserve (-1)."""
    own, listed = more[0], more[1][b.IDLE]
    node, free, reg = state[1], state[2], state[11]
    for k in range(many):
        which = listed[k]
        node[which].offline = 1
        free_remove(node, free, reg, which)
        b.note_node(more, which)
        if lease >= 0:
            hold(more, lease, which)
        else:
            own[which, b.HOLDER] = -1
    b.unlist(more, b.IDLE, 0, many)


@inner
def restore_over(state: State, more: More, kept: int, now: int) -> None:
    """Free nodes beyond those reserved longest, which are kept, go back to the batch pool after I."""
    own, reserved, mine = more[0], more[1][b.FREE], more[10]
    node, free, reg = state[1], state[2], state[11]
    mine[b.PLAN_WAKE] = NEVER
    place = kept
    while place < mine[b.FREE_N]:
        which = reserved[place]
        over = own[which, b.SINCE_US] + mine[b.HOLD_US]
        if over > now:
            mine[b.PLAN_WAKE] = over
            break
        node[which].offline = 0
        node[which].since_us = now
        free_push(node, free, reg, which)
        b.note_node(more, which)
        place += 1
    if place > kept:
        b.unlist(more, b.FREE, kept, place)
        b.note_move(more, now, b.TO_BATCH, place - kept)
        mine[b.COMMANDED] = 1
        mine[b.RETURNS_N] += 1


# Events: what they change, before it is settled.


@inner
def report(more: More, now: int) -> None:
    """The batch pool has done what it was told."""
    own, leases, moves, moved, reg = more[0], more[2], more[7], more[8], more[10]
    reg[b.COMMANDED] = 0
    latest = moves[reg[b.MOVES_N] - 1]
    for k in range(latest[b.FIRST], latest[b.FIRST] + latest[b.MANY]):
        which = moved[k]
        own[which, b.SINCE_US] = now
        if latest[b.TO] == b.TO_BATCH:
            b.list_node(more, b.IDLE, which)
        elif own[which, b.HOLDER] >= 0:
            leases[own[which, b.HOLDER], b.READY] += 1
        else:
            b.list_node(more, b.FREE, which)


@inner
def request(more: More, who: int, count: int, now: int) -> None:
    """A lease wants nodes."""
    leases, reg = more[2], more[10]
    lease = reg[b.ARRIVED_N]
    reg[b.ARRIVED_N] += 1
    one = leases[lease]
    one[b.JOB_ROW] = who
    one[b.COUNT] = count
    one[b.END_US] = now + reg[b.WAIT_US]
    one[b.FIRST_HELD] = one[b.LAST_HELD] = one[b.BEHIND] = -1
    if reg[b.FIRST_WAITING] < 0:
        reg[b.FIRST_WAITING] = lease
    else:
        leases[reg[b.LAST_WAITING], b.BEHIND] = lease
    reg[b.LAST_WAITING] = lease


@inner
def release(state: State, more: More, first: int, count: int, now: int) -> None:
    """The nodes of a lease that is over, which stand in the node log from `first` on, are free."""
    own, log, reg = more[0], state[8], more[10]
    for k in range(first, first + count):
        own[log[k], b.HOLDER] = -1
        own[log[k], b.SINCE_US] = now
        b.list_node(more, b.FREE, log[k])
    reg[b.GRANTED_NODES] -= count


@inner
def look(state: State, more: More) -> bool:
    """What has changed in the batch pool since the latest look (`BalancerMechanism._look`); whether something has."""
    own, back, node = more[0], more[1][b.ROOM], state[1]
    is_news = False
    left = 0
    came = 0
    for which in range(node.shape[0]):
        if node[which].offline:
            continue
        busy = 1 if node[which].job >= 0 else 0
        since = node[which].since_us
        one = own[which]
        if busy == one[b.WAS_BUSY] and (busy or since == one[b.SEEN_US]):
            continue
        is_news = True
        one[b.SEEN_US] = since
        is_new_there = one[b.WAS_BUSY] == 1 or since > one[b.SINCE_US]
        if one[b.WAS_BUSY] == 0 and (busy or is_new_there):
            one[b.LINK] = LEAVES
            left += 1
        if not busy and is_new_there:
            back[came] = which
            came += 1
        one[b.WAS_BUSY] = busy
    if left:
        unlist_leaving(more)
    for k in range(came):
        own[back[k], b.SINCE_US] = node[back[k]].since_us
        b.list_node(more, b.IDLE, back[k])
    return is_news


@inner
def unlist_leaving(more: More) -> None:
    """Nodes that are idle no longer, or since another time, leave the list, all of them in one go."""
    own, idle, reg = more[0], more[1][b.IDLE], more[10]
    kept = 0
    for k in range(reg[b.IDLE_N]):
        which = idle[k]
        if own[which, b.LINK] == LEAVES:
            own[which, b.LINK] = -1
        else:
            idle[kept] = which
            kept += 1
    reg[b.IDLE_N] = kept
