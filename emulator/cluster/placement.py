"""Who may have which nodes, and when: what reservations, partitions and features come to for a scheduling pass.

Nodes that are alike to all jobs are one class (`docs/placement.md`); `placing.py` counts them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import NEVER_US
from emulator.kernel.placing import JobRequest, Span
from emulator.kernel.rows import new_rows, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from emulator.kernel.rows import Rows


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that wait behind each other and may have the same nodes: all, or those of a partition.

    `jobs`: their rows; `nodes`: as indices; jobs of a higher `tier` are looked at first. Groups of one `line` wait
    behind each other.
    """

    jobs: NDArray[np.intp]
    nodes: frozenset[int]
    tier: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True)
class Reserved:
    """`nodes`, as indices, are from `begin_us` to `end_us` for all jobs of `users` and for `jobs` (both by number)."""

    name: str
    begin_us: int
    end_us: int
    nodes: frozenset[int]
    users: frozenset[int] = frozenset()
    jobs: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Placement:
    """The tables of `placing.py` that stay as they are in a run; `events_us`: when reservations begin and end."""

    node_class: NDArray[np.int32]
    requests: Rows[JobRequest]
    allowed: NDArray[np.int64]
    times: Rows[Span]
    held: NDArray[np.int64]
    tiers: NDArray[np.int64]
    rank: NDArray[np.int64]
    lines: int
    events_us: tuple[int, ...] = field(default=())


def placement_of(
    job_count: int,
    node_count: int,
    *,
    groups: Sequence[Group] = (),
    reserved: Sequence[Reserved] = (),
    reservation: NDArray[np.int64] | None = None,
) -> Placement:
    """The placement of so many jobs on so many nodes.

    `groups`: each job is in one of them; without any all jobs may use all nodes. `reservation`: the place in
    `reserved` of the reservation that each job asks for, -1 for none.
    """
    if not groups:
        groups = (everybody(job_count, node_count),)
    kinds = sorted({tuple(sorted(group.nodes)) for group in groups})
    kind_of = {nodes: kind for kind, nodes in enumerate(kinds)}
    node_class, members = _classes(node_count, [*map(frozenset, kinds), *(each.nodes for each in reserved)])
    requests = new_rows(JobRequest, max(job_count, 1))
    requests["reservation"][:] = -1
    for group in groups:
        requests["kind"][group.jobs] = kind_of[tuple(sorted(group.nodes))]
        requests["line"][group.jobs] = group.line
        requests["tier"][group.jobs] = group.tier
    if reservation is not None:
        requests["reservation"][:job_count] = reservation
    begin_us, end_us = [each.begin_us for each in reserved], [each.end_us for each in reserved]
    times = rows_of(Span, begin_us=np.array(begin_us, np.int64), end_us=np.array(end_us, np.int64))
    return Placement(
        node_class=node_class,
        requests=requests,
        allowed=members[: len(kinds)],
        times=times,
        held=members[len(kinds) :],
        tiers=np.array(sorted({group.tier for group in groups}, reverse=True), np.int64),
        rank=_rank(members[: len(kinds)]),
        lines=max(group.line for group in groups) + 1 + len(reserved),
        events_us=tuple(sorted({*begin_us, *end_us})),
    )


def everybody(job_count: int, node_count: int) -> Group:
    """All jobs, which may have all nodes."""
    return Group(np.arange(job_count), frozenset(range(node_count)))


def _classes(node_count: int, sets: Iterable[frozenset[int]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The class of each node, and which classes are in which of the sets; classes are numbered by their first node."""
    is_in = np.zeros((node_count, 0), np.bool_)
    for each in sets:
        column = np.zeros((node_count, 1), np.bool_)
        column[list(each)] = True
        is_in = np.hstack((is_in, column))
    number: dict[bytes, int] = {}
    node_class = np.array([number.setdefault(row.tobytes(), len(number)) for row in is_in], np.int32)
    first = [int(np.flatnonzero(node_class == c)[0]) for c in range(len(number))]
    return node_class, is_in[first].T.astype(np.int64)


def _rank(allowed: NDArray[np.int64]) -> NDArray[np.int64]:
    """Classes that fewer kinds of jobs may use are taken first; of equal ones that with the lowest node."""
    order = np.lexsort((np.arange(allowed.shape[1]), allowed.sum(axis=0)))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank.astype(np.int64)


class Boundaries:
    """When reservations begin and end: a pass must follow. Part of the external events of a run."""

    def __init__(self, events_us: Sequence[int]) -> None:
        self._ahead = list(events_us)[::-1]

    @property
    def next_us(self) -> int:
        """The next of them, NEVER_US if there is none."""
        return self._ahead[-1] if self._ahead else NEVER_US

    def at(self, now_us: int) -> None:
        """Now has come."""
        while self._ahead and self._ahead[-1] <= now_us:
            self._ahead.pop()
