"""Advance reservations of Slurm's twin: nodes that are kept for some jobs, or for nobody, for a time.

What they mean: https://slurm.schedmd.com/reservations.html; the rules: `docs/slurm-twin.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from emulator.config.node_names import default_node_names, named_nodes
from emulator.schedulers.slurm.times import MOST

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Reservation:
    """As a scenario says it. Times in seconds from the begin of the run; `nodes`: a list of names, or ALL.

    All jobs of `users`, and `jobs` (both by number), ask for it; with neither it is nobody's, as for a downtime.
    """

    start_s: int
    end_s: int
    nodes: str = "ALL"
    users: tuple[int, ...] = ()
    jobs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reservation of a machine: `nodes` as indices."""

    name: str
    start_s: int
    end_s: int
    nodes: tuple[int, ...]
    users: frozenset[int] = frozenset()
    jobs: frozenset[int] = frozenset()


def reserved_on(said: Mapping[str, Reservation], node_count: int) -> tuple[Reserved, ...]:
    """The reservations of a machine of so many nodes, in the order of their names. Raises ValueError."""
    names = default_node_names(node_count)
    found: list[Reserved] = []
    for name, each in sorted(said.items()):
        where = f"slurm: reservation {name}"
        if not 0 <= each.start_s < each.end_s <= MOST:
            raise ValueError(f"{where}: start_s must be at least 0 and before end_s, which is at most {MOST}")
        nodes = tuple(sorted(named_nodes(where, each.nodes, names)))
        users, jobs = frozenset(each.users), frozenset(each.jobs)
        found.append(Reserved(name, each.start_s, each.end_s, nodes, users, jobs))
    for one, other in combinations(found, 2):
        if one.start_s < other.end_s and other.start_s < one.end_s and set(one.nodes) & set(other.nodes):
            raise ValueError(f"slurm: reservations {one.name} and {other.name} have a node at the same time")
        if one.users & other.users or one.jobs & other.jobs:
            raise ValueError(f"slurm: reservations {one.name} and {other.name} are for the same user or job")
    return tuple(found)


def which_of(reserved: tuple[Reserved, ...], job: int, user: int) -> int:
    """The reservation that a job asks for, by its place, -1 for none. One that names the job comes first."""
    for place, each in enumerate(reserved):
        if job in each.jobs:
            return place
    return next((place for place, each in enumerate(reserved) if user in each.users), -1)
