"""How many nodes each malleable job gets, compiled: equipartition (malleable-hungershoefer-2004, section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled, inlined
from emulator.mechanisms.malleable.tables import (
    CLASS,
    FLOOR,
    MALLEABLE,
    MALLEABLE_N,
    MAX,
    NEVER,
    RUNNING_N,
    TARGET,
    WIDTH,
)

if TYPE_CHECKING:
    from emulator.mechanisms.malleable.tables import Ints, Ints32, State


@inlined
def share_of(job: Ints, who: int, even: int) -> int:
    """An even share within what the job may have."""
    mine: int = max(job[who, FLOOR], min(job[who, MAX], even))
    return mine


@inlined
def even_share(job: Ints, running: Ints32, count: int, nodes: int) -> int:
    """The largest even share for which there are nodes, where not all can have the same."""
    even = 0
    too_much = nodes + 1
    while too_much - even > 1:
        middle = (even + too_much) >> 1
        wanted = 0
        for k in range(count):
            if job[running[k], CLASS] == MALLEABLE:
                wanted += share_of(job, running[k], middle)
        if wanted <= nodes:
            even = middle
        else:
            too_much = middle
    return even


@compiled
def share(state: State) -> None:
    """Set TARGET of the malleable jobs that run, from what the others leave.

    All get the same, but not less than their minimum nor more than their maximum. Nodes that remain because they do not
    divide go to jobs that have one more already, then to those that started first: no width changes without need.
    """
    job, _, running, _, _, _, _, _, free, _, _, _, reg, _ = state
    nodes = free.shape[0]
    floor = 0
    most = NEVER
    for k in range(reg[RUNNING_N]):
        who = running[k]
        if job[who, CLASS] != MALLEABLE:
            nodes -= job[who, WIDTH]
        else:
            floor = max(floor, job[who, FLOOR])
            most = min(most, job[who, MAX])
    even = nodes // reg[MALLEABLE_N]
    if even < floor or even >= most:  # otherwise all may have that, and one of them one more
        even = even_share(job, running, reg[RUNNING_N], nodes)
    rest = nodes
    for k in range(reg[RUNNING_N]):
        who = running[k]
        if job[who, CLASS] == MALLEABLE:
            job[who, TARGET] = share_of(job, who, even)
            rest -= job[who, TARGET]
    for wish in range(2):
        for k in range(reg[RUNNING_N]):
            if rest == 0:
                return
            who = running[k]
            takes_one = (
                job[who, CLASS] == MALLEABLE
                and job[who, TARGET] == even
                and share_of(job, who, even + 1) == even + 1
            )
            if takes_one and (wish == 1 or job[who, WIDTH] == even + 1):
                job[who, TARGET] = even + 1
                rest -= 1
