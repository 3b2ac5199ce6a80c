"""How many nodes each malleable job gets, compiled: equipartition (malleable-hungershoefer-2004, section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inlined
from emulator.mechanisms.malleable.tables import NEVER, JobClass

if TYPE_CHECKING:
    from emulator.mechanisms.malleable.tables import Ints32, Jobs, State


@inlined
def share_of(job: Jobs, row: int, even: int) -> int:
    """An even share within what the job may have."""
    nodes: int = max(job[row].floor, min(job[row].max_nodes, even))
    return nodes


@inlined
def even_share(job: Jobs, running: Ints32, count: int, nodes: int) -> int:
    """The largest even share for which there are nodes, where not all can have the same."""
    even = 0
    too_much = nodes + 1
    while too_much - even > 1:
        middle = (even + too_much) >> 1
        wanted = 0
        for k in range(count):
            if job[running[k]].job_class == JobClass.MALLEABLE:
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
    job, running, free, registers = state.job, state.running, state.free, state.registers
    nodes = free.shape[0]
    floor = 0
    most = NEVER
    for k in range(registers.running_n):
        row = running[k]
        if job[row].job_class != JobClass.MALLEABLE:
            nodes -= job[row].width
        else:
            floor = max(floor, job[row].floor)
            most = min(most, job[row].max_nodes)
    even = nodes // registers.malleable_n
    if even < floor or even >= most:  # otherwise all may have that, and one of them one more
        even = even_share(job, running, registers.running_n, nodes)
    rest = nodes
    for k in range(registers.running_n):
        row = running[k]
        if job[row].job_class == JobClass.MALLEABLE:
            job[row].target = share_of(job, row, even)
            rest -= job[row].target
    for wish in range(2):
        for k in range(registers.running_n):
            if rest == 0:
                return
            row = running[k]
            takes_one = (
                job[row].job_class == JobClass.MALLEABLE
                and job[row].target == even
                and share_of(job, row, even + 1) == even + 1
            )
            if takes_one and (wish == 1 or job[row].width == even + 1):
                job[row].target = even + 1
                rest -= 1
