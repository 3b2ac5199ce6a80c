"""What the Balancer decides after each event, compiled: `Lifecycle.handle` with the algorithms `basic` and `hint`.

As there, a plan is made and carried out after each event, and again after each lease that is rejected. The batch pool
obeys at once, but its reports are events of their own, in the order of the commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import emulator.mechanisms.balancer.tables as b
from emulator.harness.compiled import inner
from emulator.harness.structures import free_push, free_remove
from emulator.harness.tables import JOB, NEVER, OFFLINE, SINCE

if TYPE_CHECKING:
    from emulator.harness.tables import State
    from emulator.mechanisms.balancer.tables import More


@inner
def is_due(more: More, lease: int, is_timer: int, now: int) -> bool:
    """Whether it may not wait for jobs any longer; at its last moment it waits for the other events of that time."""
    leases, reg = more[2], more[10]
    end = leases[lease, b.END_US]
    return bool(reg[b.WAIT_US] == 0 or now > end or (now == end and is_timer))


@inner
def leave_queue(more: More, lease: int, before: int) -> None:
    """A lease does not wait any more; `before`: who stands before it, -1 for nobody."""
    leases, reg = more[2], more[10]
    behind = leases[lease, b.BEHIND]
    if before < 0:
        reg[b.FIRST_WAITING] = behind
    else:
        leases[before, b.BEHIND] = behind
    if behind < 0:
        reg[b.LAST_WAITING] = before


@inner
def answer(more: More, lease: int, what: int, now: int) -> None:
    """An answer to a lease, which is given when all events of this call are over."""
    leases, answers, reg = more[2], more[9], more[10]
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
    answer(more, lease, b.NOT_IN_TIME if reg[b.WAIT_US] else b.NOT_AT_ONCE, now)
    which = leases[lease, b.FIRST_HELD]
    while which >= 0:
        following = own[which, b.LINK]
        own[which, b.HOLDER] = -1
        if own[which, b.POOL] == b.RESERVED:
            own[which, b.SINCE_US] = now
            b.list_node(more, b.FREE_LIST, which)
        else:
            b.list_node(more, b.COMING_LIST, which)
        which = following
    leave_queue(more, lease, before)


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
def reclaim(state: State, more: More, lease: int, many: int, now: int) -> None:
    """The first idle nodes leave the batch pool, for a lease that waits or for the reserve (-1)."""
    own, idle = more[0], more[1][b.IDLE_LIST]
    node, free, reg = state[1], state[2], state[11]
    for k in range(many):
        which = idle[k]
        own[which, b.POOL] = b.RECLAIMING
        own[which, b.SINCE_US] = now
        node[which, OFFLINE] = 1
        free_remove(node, free, reg, which)
        b.note_node(more, which)
        b.send(more, which)
        if lease >= 0:
            hold(more, lease, which)
        else:
            b.list_node(more, b.COMING_LIST, which)
    b.unlist_some(more, b.IDLE_LIST, 0, many)


@inner
def hold_first(state: State, more: More, lease: int, now: int) -> int:
    """A lease gets all that it is short of, or all there is: free nodes, coming ones, idle ones. How many were idle."""
    lists, leases, reg = more[1], more[2], more[10]
    short = leases[lease, b.COUNT] - leases[lease, b.HELD]
    for row in (b.FREE_LIST, b.COMING_LIST):
        held = min(short, reg[b.LISTED_N + row])
        for k in range(held):
            hold(more, lease, lists[row, k])
        b.unlist_some(more, row, 0, held)
        if row == b.FREE_LIST:
            leases[lease, b.READY] += held
        short -= held
    many: int = min(short, reg[b.LISTED_N + b.IDLE_LIST])
    reclaim(state, more, lease, many, now)
    return many


@inner
def restore_over(state: State, more: More, keep: int, now: int) -> int:
    """Free nodes beyond the `keep` longest reserved go back after I. How many did, and when the next one will."""
    own, reserved, mine = more[0], more[1][b.FREE_LIST], more[10]
    node, free, reg = state[1], state[2], state[11]
    mine[b.PLAN_WAKE] = NEVER
    place = keep
    while place < mine[b.LISTED_N + b.FREE_LIST]:
        which = reserved[place]
        over = own[which, b.SINCE_US] + mine[b.HOLD_US]
        if over > now:
            mine[b.PLAN_WAKE] = over
            break
        own[which, b.POOL] = b.RESTORING
        node[which, OFFLINE] = 0
        node[which, SINCE] = now
        free_push(node, free, reg, which)
        b.note_node(more, which)
        b.send(more, which)
        place += 1
    many = max(0, place - keep)
    b.unlist_some(more, b.FREE_LIST, keep, keep + many)
    return many


@inner
def grant_ready(more: More, now: int) -> int:
    """Leases of which all nodes are reserved have them. Nodes that the others are short of."""
    own, leases, reg = more[0], more[2], more[10]
    short = 0
    before = -1
    lease = reg[b.FIRST_WAITING]
    while lease >= 0:
        count = leases[lease, b.COUNT]
        if leases[lease, b.READY] == count:
            which = leases[lease, b.FIRST_HELD]
            while which >= 0:
                own[which, b.POOL] = b.ALLOCATED
                which = own[which, b.LINK]
            reg[b.GRANTED_NODES] += count
            b.use_hints(more, count, now)
            leave_queue(more, lease, before)
            answer(more, lease, b.GRANTED, now)
        else:
            short += count - leases[lease, b.HELD]
            before = lease
        lease = leases[lease, b.BEHIND]
    return short


@inner
def settle(state: State, more: More, is_timer: int, now: int) -> None:
    """Plan and carry out, again after each rejection, because that frees nodes for others."""
    leases, reg = more[2], more[10]
    while True:
        idle = reg[b.LISTED_N + b.IDLE_LIST]
        free = reg[b.LISTED_N + b.FREE_LIST]
        coming = reg[b.LISTED_N + b.COMING_LIST]
        unmet = 0
        promised = 0
        lent = reg[b.GRANTED_NODES]
        before = -1
        lease = reg[b.FIRST_WAITING]
        while lease >= 0:
            count = leases[lease, b.COUNT]
            short = count - leases[lease, b.HELD]
            missing = max(0, short - free - coming - idle)
            if missing == 0:
                promised += count
            elif is_due(more, lease, is_timer, now):
                break
            lent += count - missing
            unmet += missing
            left = short - missing
            taken = min(left, free)
            free -= taken
            left -= taken
            taken = min(left, coming)
            coming -= taken
            idle -= left - taken
            before = lease
            lease = leases[lease, b.BEHIND]
        if lease < 0:
            break
        reject(more, lease, before, now)
    kept = reg[b.RESERVE] if reg[b.REFILLED] else max(0, reg[b.RESERVE] - lent)
    kept += b.hinted(more, promised, now)
    lacking = max(0, kept - free - coming)
    collected = min(lacking, idle)
    carry_out(state, more, collected, max(0, kept - coming), now)
    reg[b.UNMET] = max(unmet + lacking - collected, grant_ready(more, now))
    b.end_hints(more, now)


@inner
def carry_out(state: State, more: More, collected: int, keep: int, now: int) -> None:
    """Hold, collect so many idle nodes, and give back what is beyond `keep`."""
    leases, reg = more[2], more[10]
    taken = 0
    lease = reg[b.FIRST_WAITING]
    while lease >= 0:
        if leases[lease, b.HELD] < leases[lease, b.COUNT]:
            taken += hold_first(state, more, lease, now)
        lease = leases[lease, b.BEHIND]
    reclaim(state, more, -1, collected, now)
    taken += collected
    if taken:
        b.note_move(more, now, b.TO_RESERVE, taken)
        b.note_command(more, b.RECLAIMED, taken)
    given = restore_over(state, more, keep, now)
    if given:
        b.note_move(more, now, b.TO_BATCH, given)
        b.note_command(more, b.RESTORED, given)
        reg[b.RETURNS_N] += 1


# Events: what they change, before it is settled.


@inner
def report(more: More, now: int) -> None:
    """The batch pool has done what it was told first."""
    own, lists, leases, reg = more[0], more[1], more[2], more[10]
    place = reg[b.COMMAND_LO]
    reg[b.COMMAND_LO] = (place + 1) % lists.shape[1]
    reg[b.COMMANDS_N] -= 1
    is_reclaimed = lists[b.COMMAND, place] == b.RECLAIMED
    for _ in range(lists[b.HOW_MANY, place]):
        which = b.next_sent(more)
        holder = own[which, b.HOLDER]
        if is_reclaimed and holder < 0:
            b.unlist_node(more, b.COMING_LIST, which)
        own[which, b.SINCE_US] = now
        if not is_reclaimed:
            own[which, b.POOL] = b.IDLE
            b.list_node(more, b.IDLE_LIST, which)
            continue
        own[which, b.POOL] = b.RESERVED
        if holder < 0:
            b.list_node(more, b.FREE_LIST, which)
        else:
            leases[holder, b.READY] += 1


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
        which = log[k]
        own[which, b.POOL] = b.RESERVED
        own[which, b.HOLDER] = -1
        own[which, b.SINCE_US] = now
        b.list_node(more, b.FREE_LIST, which)
    reg[b.GRANTED_NODES] -= count


@inner
def look(state: State, more: More) -> bool:
    """What has changed in the batch pool since the latest look (`BalancerMechanism._look`); whether something has."""
    own, node = more[0], state[1]
    is_news = False
    for which in range(node.shape[0]):
        if node[which, OFFLINE]:
            continue
        busy = 1 if node[which, JOB] >= 0 else 0
        since = node[which, SINCE]
        one = own[which]
        if busy == one[b.WAS_BUSY] and (busy or since == one[b.SEEN_US]):
            continue
        is_news = True
        one[b.WAS_BUSY] = busy
        one[b.SEEN_US] = since
        if busy and one[b.POOL] == b.IDLE:
            b.unlist_node(more, b.IDLE_LIST, which)
            one[b.POOL] = b.BUSY
        elif not busy and (one[b.POOL] == b.BUSY or since > one[b.SINCE_US]):
            if one[b.POOL] == b.IDLE:
                b.unlist_node(more, b.IDLE_LIST, which)
            one[b.POOL] = b.IDLE
            one[b.SINCE_US] = since
            b.list_node(more, b.IDLE_LIST, which)
    return is_news
