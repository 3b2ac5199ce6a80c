"""What a compiled run of the Balancer keeps beside the cluster's tables, and the smallest steps on it.

It is the state of `balancer/lifecycle/` with a batch pool that obeys at once, as arrays: nodes are indices, leases are
rows. Nothing is checked here: the same run step by step (`Loop.run(by_steps=True)`) checks it all, and must be equal.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from emulator.kernel.compiled import inner
from emulator.kernel.tables import NEVER

if TYPE_CHECKING:
    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Heap, Ints
    from emulator.mechanisms.agenda import Agenda
    from emulator.mechanisms.move_log import MoveLog


class BalancerNode:
    """What the life cycle knows of a node."""

    since_us: int
    """As in `NodeRecord`."""
    holder: int
    """The waiting lease that has it held, -1 for none."""
    link: int
    """The next node held for the same lease, -1 for none."""
    rank: int
    """Its place by name."""
    was_busy: int
    """What the latest look at the batch pool saw: 1 if it ran a job, and when it last became idle."""
    seen_us: int


class Lease:
    """A lease, in order of arrival."""

    job: int
    nodes: int
    """How many it wants."""
    end_us: int
    """Until when it waits."""
    held: int
    """Nodes that it has."""
    ready: int
    """Those of them that are reserved already."""
    first_held: int
    """The chain of them, -1 for none."""
    last_held: int
    behind: int
    """Who waits next, -1 for none."""


class HintRow:
    """A hint, in order of its time."""

    by_us: int
    ends_us: int
    nodes: int
    used: int
    """Nodes that were granted since its time has come."""


class Slot:
    """What a predictor reserves when a slot begins."""

    begins_us: int
    nodes: int
    keep_us: int


class Answer(IntEnum):
    """What becomes of a lease."""

    GRANTED = 0
    NOT_AT_ONCE = 1
    NOT_IN_TIME = 2


class AnswerRow:
    """An answer to a lease."""

    lease: int
    at_us: int
    answer: int
    """`Answer`."""
    found: int
    """Nodes that it had got."""


class Listed(IntEnum):
    """Lists of nodes in the order in which they are taken (`NodeIndex`)."""

    IDLE = 0
    """Idle nodes of the batch pool."""
    RESERVED = 1
    """Free nodes of the reserve."""


class ListRegisters:
    """Registers of a list of nodes."""

    nodes: int
    """How many it has."""
    sign: int
    """-1: those that came last are taken first; 0: by name alone."""


class Phase(IntEnum):
    """What an instant was stopped for."""

    BETWEEN = 0
    """Nothing yet."""
    AT_POINTS = 1
    """Decision points."""
    AT_JOB_ENDS = 2
    """Job ends alone."""


class Step(IntEnum):
    """What a handler does next: a look at the batch pool first, and then what it is there for."""

    NONE = 0
    LOOK = 1
    REQUEST = 2
    RELEASE = 3
    ANNOUNCE = 4
    CARRY_OUT = 5
    RESERVE_AHEAD = 6
    FIRE = 7


class Registers:
    """The registers of a run."""

    reserve: int
    """A setting: R."""
    refilled: int
    """A setting: 1 if the reserve is refilled while nodes are lent."""
    wait_us: int
    """A setting: W."""
    hold_us: int
    """A setting: I."""
    wake_us: int
    """When the Balancer is woken."""
    next_point: int
    """The next of the points that are known from the beginning."""
    phase: int
    """`Phase` of the instant."""
    next_step: int
    """`Step` that is next, and the one that follows a look."""
    after_look: int
    step_job: int
    """The job that it is about, -1 for none."""
    next_slot: int
    plan_wake_us: int
    """When the latest plan has something to do."""
    unmet: int
    """Nodes that are wanted and that nobody has."""
    hints_n: int
    hints_end_us: int
    """When the first of the hints is over."""
    arrived_n: int
    """Leases so far."""
    first_waiting: int
    """The chain of waiting leases, -1 for none."""
    last_waiting: int
    granted_nodes: int
    """Nodes that leases have."""
    commanded: int
    """1: the latest move is a command to the batch pool that it has not reported."""
    returns_n: int
    """Times at which nodes came back to the batch pool."""
    own_n: int
    """Starts and ends of leases, which are no news."""
    seen_n: int
    """Changes of the batch pool up to the latest look."""
    answers_n: int
    """Leases that were decided, and those that have been told."""
    answered_n: int
    granted_n: int
    rejected_n: int


class BalancerState(NamedTuple):
    """What a compiled run keeps beside the cluster's tables."""

    nodes: Rows[BalancerNode]
    listed: Ints
    """`listed[list, place]`: a node in a list."""
    lists: Rows[ListRegisters]
    chosen: Ints
    """Room for the nodes of a lease."""
    leases: Rows[Lease]
    hints: Rows[HintRow]
    slots: Rows[Slot]
    points: Heap
    """What is known from the beginning, in order."""
    agenda: Agenda
    """The ends of leases."""
    moves: MoveLog
    answers: Rows[AnswerRow]
    registers: Registers


@inner
def list_node(balancer: BalancerState, which_list: int, which: int) -> None:
    """A node goes to where it belongs in a list: by (time, name), of idle nodes by what their order makes of it."""
    nodes, listed = balancer.nodes, balancer.listed[which_list]
    one = balancer.lists[which_list]
    since = one.sign * nodes[which].since_us
    place = one.nodes
    one.nodes = place + 1
    while place > 0:
        other = listed[place - 1]
        its = one.sign * nodes[other].since_us
        if its < since or (its == since and nodes[other].rank < nodes[which].rank):
            break
        listed[place] = other
        place -= 1
    listed[place] = which


@inner
def unlist(balancer: BalancerState, which_list: int, lo: int, hi: int) -> None:
    """Those from `lo` to before `hi` leave a list."""
    listed, one = balancer.listed[which_list], balancer.lists[which_list]
    for k in range(hi, one.nodes):
        listed[lo + k - hi] = listed[k]
    one.nodes -= hi - lo


# Hints (`HintBook`).


@inner
def add_hint(balancer: BalancerState, by: int, ends: int, nodes: int) -> None:
    """Behind all whose time is not later."""
    hints, registers = balancer.hints, balancer.registers
    place = registers.hints_n
    while place > 0 and hints[place - 1].by_us > by:
        hints[place] = hints[place - 1]
        place -= 1
    one = hints[place]
    one.by_us = by
    one.ends_us = ends
    one.nodes = nodes
    one.used = 0
    registers.hints_n += 1
    registers.hints_end_us = min(registers.hints_end_us, ends)


@inner
def use_hints(balancer: BalancerState, many: int, now: int) -> None:
    """So many nodes were granted: take them off the hints whose time has come, the earliest first."""
    hints, registers = balancer.hints, balancer.registers
    for k in range(registers.hints_n):
        one = hints[k]
        if many == 0 or one.by_us > now:
            return
        taken = min(many, one.nodes - one.used)
        one.used += taken
        many -= taken


@inner
def end_hints(balancer: BalancerState, now: int) -> None:
    """Forget those whose time is over."""
    hints, registers = balancer.hints, balancer.registers
    if registers.hints_end_us > now:
        return
    kept = 0
    first = NEVER
    for k in range(registers.hints_n):
        if hints[k].ends_us > now:
            hints[kept] = hints[k]
            first = min(first, hints[kept].ends_us)
            kept += 1
    registers.hints_n = kept
    registers.hints_end_us = first


@inner
def hinted(balancer: BalancerState, promised: int, now: int) -> int:
    """Nodes that the hints want reserved, besides those promised to leases (`basic.py`)."""
    hints, registers = balancer.hints, balancer.registers
    ahead = 0
    arrived = 0
    for k in range(registers.hints_n):
        one = hints[k]
        if one.ends_us <= now:
            continue
        if one.by_us > now:
            ahead += one.nodes
        else:
            arrived += one.nodes - one.used
    return ahead + max(0, arrived - promised)
