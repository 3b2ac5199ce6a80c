"""Advance reservations: nodes that are kept for some jobs, or for nobody, for a time, under the plain schedulers.

The words are those of Slurm's twin (`schedulers/slurm/reservations.py`), the rules those of `docs/placement.md`.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import micros
from emulator.cluster.placement import Reserved
from emulator.config.node_names import named_nodes
from emulator.kernel.job_states import RunOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from emulator.cluster.placement import Group
    from emulator.config.scenario_parts import ReservationPart
    from emulator.record.run_record import RunRecord
    from emulator.workload.table import JobTable


def reserved_on(said: Mapping[str, ReservationPart], names: Sequence[str]) -> tuple[Reserved, ...]:
    """The reservations of a machine with these nodes, in the order of their names. Raises ValueError.

    Of those that say how many nodes, each takes the last ones that no other has at a time of its own.
    """
    found: dict[str, Reserved] = {}
    for name, part in sorted(said.items(), key=lambda item: (item[1].node_count is not None, item[0])):
        begin_us, end_us = micros(part.start_s), micros(part.end_s)
        if part.node_count is None:
            nodes = named_nodes(f"reservations: {name}", part.nodes or "ALL", names)
        else:
            taken = {
                node
                for each in found.values()
                if each.begin_us < end_us and begin_us < each.end_us
                for node in each.nodes
            }
            left = [node for node in range(len(names)) if node not in taken]
            if len(left) < part.node_count:
                raise ValueError(
                    f"reservations: {name}: it wants {part.node_count} nodes, others leave {len(left)}"
                )
            nodes = frozenset(left[-part.node_count :])
        found[name] = Reserved(name, begin_us, end_us, nodes, frozenset(part.users), frozenset(part.jobs))
    reserved = tuple(found[name] for name in sorted(found))
    for one, other in combinations(reserved, 2):
        if one.begin_us < other.end_us and other.begin_us < one.end_us and one.nodes & other.nodes:
            raise ValueError(f"reservations: {one.name} and {other.name} have a node at the same time")
        if one.jobs & other.jobs:
            raise ValueError(f"reservations: {one.name} and {other.name} are for the same job")
    return reserved


def breaches(record: RunRecord, reserved: Sequence[Reserved], groups: Sequence[Group] = ()) -> Iterator[str]:
    """A sentence for each run on nodes that are reserved for others, by the record alone (rule 2 of the page)."""
    own = owners(record.jobs, reserved, groups)
    runs = record.runs
    is_over = runs.outcome != RunOutcome.RUNNING
    planned_us = runs.start_us + record.jobs.estimate_us[runs.job]
    # A run that lasts longer than it was planned, for nodes that had to be woken, say, is no breach.
    end_us = np.where(is_over, np.minimum(runs.end_us, planned_us), planned_us)
    run_of = np.repeat(np.arange(len(runs.job)), np.diff(runs.first))
    for place, each in enumerate(reserved):
        is_held = np.isin(runs.node, list(each.nodes))
        here = np.bincount(run_of[is_held], minlength=len(runs.job))
        during = (runs.start_us < each.end_us) & (end_us > each.begin_us) & (here > 0)
        late = (runs.start_us < each.begin_us) | (end_us > each.end_us)
        wrong = during & ((own[runs.job] != place) | late | (here < np.diff(runs.first)))
        for row in np.flatnonzero(wrong):
            yield (
                f"job {record.jobs.number[runs.job[row]]} ({runs.start_us[row] / 1e6:g} s to {end_us[row] / 1e6:g} s) "
                f"is on nodes of reservation {each.name} ({each.begin_us / 1e6:g} s to {each.end_us / 1e6:g} s)"
            )


def owners(jobs: JobTable, reserved: Sequence[Reserved], groups: Sequence[Group] = ()) -> NDArray[np.int64]:
    """The place of the reservation that each job asks for, -1 for none; `groups`: who may have which nodes at all.

    Raises ValueError.

    One that names the job comes first; of those for its user it is the first to begin that is not over when the job is
    submitted and in which the job has room.
    """
    own = np.full(len(jobs), -1, np.int64)
    by_time = sorted(range(len(reserved)), key=lambda place: (reserved[place].begin_us, place))
    for place in reversed(by_time):
        each = reserved[place]
        room = _room(jobs, each, groups)
        ends_us = np.maximum(jobs.submit_us, each.begin_us) + jobs.estimate_us
        fits = (jobs.nodes <= room) & (ends_us <= each.end_us)
        own[np.isin(jobs.user, list(each.users)) & fits] = place
    for place, each in enumerate(reserved):
        room = _room(jobs, each, groups)
        named = np.isin(jobs.number, list(each.jobs))
        wrong = np.flatnonzero(named & (jobs.nodes > room))
        for row in wrong[:1]:
            raise ValueError(
                f"reservations: {each.name} has {room[row]} nodes for job {jobs.number[row]}, "
                f"which wants {jobs.nodes[row]}"
            )
        wrong = np.flatnonzero(named & (jobs.estimate_us > each.end_us - each.begin_us))
        for row in wrong[:1]:
            raise ValueError(
                f"reservations: {each.name} lasts {(each.end_us - each.begin_us) / 1e6:g} s, "
                f"job {jobs.number[row]} asks for {jobs.estimate_us[row] / 1e6:g} s"
            )
        own[named] = place
    return own


def _room(jobs: JobTable, reserved: Reserved, groups: Sequence[Group]) -> NDArray[np.int64]:
    """How many nodes of a reservation each job may have."""
    room = np.full(len(jobs), len(reserved.nodes), np.int64)
    for group in groups:
        room[group.jobs] = len(group.nodes & reserved.nodes)
    return room
