"""What the Balancer decides after each event, compiled: `Lifecycle.handle` with the algorithms `basic` and `hint`.

As there, a plan is made and carried out after each event, and again after each lease that is rejected. A command to the
batch pool is reported by an event of its own, before anything else happens. There is one at a time: a plan takes idle
nodes only where no free one is left, and gives free ones back only where none is wanted. So no node is on its way when
a plan is made, and a lease that is rejected has reserved nodes only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import emulator.mechanisms.balancer.tables as b
from emulator.kernel.compiled import inner
from emulator.kernel.structures import free_push, free_remove
from emulator.kernel.tables import NEVER
from emulator.mechanisms.balancer.tables import Answer, Listed
from emulator.mechanisms.move_log import To, note_move_of_noted, note_node

if TYPE_CHECKING:
    from emulator.kernel.tables import State
    from emulator.mechanisms.balancer.tables import BalancerState

LEAVES = -2
"""Instead of a node's LINK: it leaves the list of idle nodes."""

# Leases that wait.


@inner
def leave_queue(balancer: BalancerState, lease: int, before: int, what: int, now: int) -> None:
    """A lease does not wait any more; `before`: who stands before it, -1 for nobody.

    Its answer is given when all events of this call are over.
    """
    leases, answers, registers = balancer.leases, balancer.answers, balancer.registers
    behind = leases[lease].behind
    if before < 0:
        registers.first_waiting = behind
    else:
        leases[before].behind = behind
    if behind < 0:
        registers.last_waiting = before
    one = answers[registers.answers_n]
    one.lease = lease
    one.at_us = now
    one.answer = what
    one.found = leases[lease].held
    registers.answers_n += 1


@inner
def reject(balancer: BalancerState, lease: int, before: int, now: int) -> None:
    """A lease gets nothing; the nodes that were held for it are free."""
    own, leases, registers = balancer.nodes, balancer.leases, balancer.registers
    which = leases[lease].first_held
    while which >= 0:
        own[which].holder = -1
        own[which].since_us = now
        b.list_node(balancer, Listed.RESERVED, which)
        which = own[which].link
    leave_queue(balancer, lease, before, Answer.NOT_IN_TIME if registers.wait_us else Answer.NOT_AT_ONCE, now)


@inner
def hold(balancer: BalancerState, lease: int, which: int) -> None:
    own, leases = balancer.nodes, balancer.leases
    own[which].holder = lease
    own[which].link = -1
    if leases[lease].held:
        own[leases[lease].last_held].link = which
    else:
        leases[lease].first_held = which
    leases[lease].last_held = which
    leases[lease].held += 1


@inner
def grant_ready(balancer: BalancerState, now: int) -> int:
    """Leases of which all nodes are reserved have them. Nodes that the others are short of."""
    leases, registers = balancer.leases, balancer.registers
    short = 0
    before = -1
    lease = registers.first_waiting
    while lease >= 0:
        count = leases[lease].nodes
        if leases[lease].ready == count:
            registers.granted_nodes += count
            b.use_hints(balancer, count, now)
            leave_queue(balancer, lease, before, Answer.GRANTED, now)
        else:
            short += count - leases[lease].held
            before = lease
        lease = leases[lease].behind
    return short


# A plan, and what is done by it.


@inner
def settle(state: State, balancer: BalancerState, is_timer: int, now: int) -> None:
    """Plan and carry out, again after each rejection, because that frees nodes for others.

    A lease is due when it may not wait; at the end of its wait it waits for the other events of that time.
    """
    leases, registers = balancer.leases, balancer.registers
    while True:
        free = balancer.lists[Listed.RESERVED].nodes
        idle = balancer.lists[Listed.IDLE].nodes
        unmet = 0
        promised = 0
        lent = registers.granted_nodes
        before = -1
        lease = registers.first_waiting
        while lease >= 0:
            count = leases[lease].nodes
            short = count - leases[lease].held
            missing = max(0, short - free - idle)
            if missing == 0:
                promised += count
            elif registers.wait_us == 0 or (is_timer and now >= leases[lease].end_us):
                break
            lent += count - missing
            unmet += missing
            taken = min(short - missing, free)
            free -= taken
            idle -= short - missing - taken
            before = lease
            lease = leases[lease].behind
        if lease < 0:
            break
        reject(balancer, lease, before, now)
    kept = registers.reserve if registers.refilled else max(0, registers.reserve - lent)
    kept += b.hinted(balancer, promised, now)
    lacking = max(0, kept - free)
    collected = min(lacking, idle)
    carry_out(state, balancer, collected, kept, now)
    registers.unmet = max(unmet + lacking - collected, grant_ready(balancer, now))
    b.end_hints(balancer, now)


@inner
def carry_out(state: State, balancer: BalancerState, collected: int, kept: int, now: int) -> None:
    """Hold nodes, free ones first; collect so many idle ones; and give back what is over."""
    leases, reserved, registers = balancer.leases, balancer.listed[Listed.RESERVED], balancer.registers
    taken = 0
    lease = registers.first_waiting
    while lease >= 0:
        short = leases[lease].nodes - leases[lease].held
        held = min(short, balancer.lists[Listed.RESERVED].nodes)
        for k in range(held):
            hold(balancer, lease, reserved[k])
        b.unlist(balancer, Listed.RESERVED, 0, held)
        leases[lease].ready += held
        held = min(short - held, balancer.lists[Listed.IDLE].nodes)
        reclaim(state, balancer, lease, held)
        taken += held
        lease = leases[lease].behind
    reclaim(state, balancer, -1, collected)
    taken += collected
    if taken:
        note_move_of_noted(balancer.moves, now, To.RESERVE, taken)
        registers.commanded = 1
    restore_over(state, balancer, kept, now)


@inner
def reclaim(state: State, balancer: BalancerState, lease: int, many: int) -> None:
    """The first idle nodes leave the batch pool, for a lease that waits or for the reserve (-1)."""
    own, listed = balancer.nodes, balancer.listed[Listed.IDLE]
    node, free, reg = state.node, state.free, state.reg
    for k in range(many):
        which = listed[k]
        node[which].offline = 1
        free_remove(node, free, reg, which)
        note_node(balancer.moves, which)
        if lease >= 0:
            hold(balancer, lease, which)
        else:
            own[which].holder = -1
    b.unlist(balancer, Listed.IDLE, 0, many)


@inner
def restore_over(state: State, balancer: BalancerState, kept: int, now: int) -> None:
    """Free nodes beyond those reserved longest, which are kept, go back to the batch pool after I."""
    own, reserved, registers = balancer.nodes, balancer.listed[Listed.RESERVED], balancer.registers
    node, free, reg = state.node, state.free, state.reg
    registers.plan_wake_us = NEVER
    place = kept
    while place < balancer.lists[Listed.RESERVED].nodes:
        which = reserved[place]
        over = own[which].since_us + registers.hold_us
        if over > now:
            registers.plan_wake_us = over
            break
        node[which].offline = 0
        node[which].since_us = now
        free_push(node, free, reg, which)
        note_node(balancer.moves, which)
        place += 1
    if place > kept:
        b.unlist(balancer, Listed.RESERVED, kept, place)
        note_move_of_noted(balancer.moves, now, To.BATCH, place - kept)
        registers.commanded = 1
        registers.returns_n += 1


# Events: what they change, before it is settled.


@inner
def report(balancer: BalancerState, now: int) -> None:
    """The batch pool has done what it was told."""
    own, leases, log = balancer.nodes, balancer.leases, balancer.moves
    balancer.registers.commanded = 0
    latest = log.moves[log.counts.moves - 1]
    first = ~latest.first
    for k in range(first, first + latest.many):
        which = log.nodes[k]
        own[which].since_us = now
        if latest.to == To.BATCH:
            b.list_node(balancer, Listed.IDLE, which)
        elif own[which].holder >= 0:
            leases[own[which].holder].ready += 1
        else:
            b.list_node(balancer, Listed.RESERVED, which)


@inner
def request(balancer: BalancerState, who: int, count: int, now: int) -> None:
    """A lease wants nodes."""
    leases, registers = balancer.leases, balancer.registers
    lease = registers.arrived_n
    registers.arrived_n += 1
    one = leases[lease]
    one.job = who
    one.nodes = count
    one.end_us = now + registers.wait_us
    one.first_held = one.last_held = one.behind = -1
    if registers.first_waiting < 0:
        registers.first_waiting = lease
    else:
        leases[registers.last_waiting].behind = lease
    registers.last_waiting = lease


@inner
def release(state: State, balancer: BalancerState, first: int, count: int, now: int) -> None:
    """The nodes of a lease that is over, which stand in the node log from `first` on, are free."""
    own, log, registers = balancer.nodes, state.log, balancer.registers
    for k in range(first, first + count):
        own[log[k]].holder = -1
        own[log[k]].since_us = now
        b.list_node(balancer, Listed.RESERVED, log[k])
    registers.granted_nodes -= count


@inner
def look(state: State, balancer: BalancerState) -> bool:
    """What has changed in the batch pool since the latest look (`BalancerMechanism._look`); whether something has."""
    own, back, node = balancer.nodes, balancer.chosen, state.node
    is_news = False
    left = 0
    came = 0
    for which in range(node.shape[0]):
        if node[which].offline:
            continue
        busy = 1 if node[which].job >= 0 else 0
        since = node[which].since_us
        one = own[which]
        if busy == one.was_busy and (busy or since == one.seen_us):
            continue
        is_news = True
        one.seen_us = since
        is_new_there = one.was_busy == 1 or since > one.since_us
        if one.was_busy == 0 and (busy or is_new_there):
            one.link = LEAVES
            left += 1
        if not busy and is_new_there:
            back[came] = which
            came += 1
        one.was_busy = busy
    if left:
        unlist_leaving(balancer)
    for k in range(came):
        own[back[k]].since_us = node[back[k]].since_us
        b.list_node(balancer, Listed.IDLE, back[k])
    return is_news


@inner
def unlist_leaving(balancer: BalancerState) -> None:
    """Nodes that are idle no longer, or since another time, leave the list, all of them in one go."""
    own, idle = balancer.nodes, balancer.listed[Listed.IDLE]
    kept = 0
    for k in range(balancer.lists[Listed.IDLE].nodes):
        which = idle[k]
        if own[which].link == LEAVES:
            own[which].link = -1
        else:
            idle[kept] = which
            kept += 1
    balancer.lists[Listed.IDLE].nodes = kept
