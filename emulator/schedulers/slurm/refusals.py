"""Jobs that Slurm would let wait for ever: what their partition or QOS does not allow a single job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.schedulers.slurm.qos import UNDEFINED, Qos
from emulator.schedulers.slurm.reservations import which_of
from emulator.schedulers.slurm.tables import MINUTE
from emulator.text.number_text import grouped
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from emulator.schedulers.slurm.associations import Association
    from emulator.schedulers.slurm.constraints import Constraint
    from emulator.schedulers.slurm.rules import Partition, Rules
    from emulator.schedulers.slurm.settings import SlurmSettings
    from emulator.workload.table import JobTable

_MOST_REASONS = 3
_Bound = tuple[str, str, int | None, int | None]
"""Who says it, of nodes, cores or minutes, at least, at most."""


def refusals(
    jobs: JobTable, slurm: SlurmSettings, rules: Rules, node_count: int
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """(who takes what, the jobs that ask for something else); a job may come more than once."""
    limit_min = -(-jobs.estimate_us // MINUTE)
    columns = {"nodes": np.asarray(jobs.nodes, np.int64), "minutes": limit_min}
    yield from _beyond_reservations(jobs, limit_min, rules)
    shared = slurm.shared_nodes(node_count)
    if shared is not None:
        yield from shared.refusals(jobs)
        columns["cores"] = jobs.nodes * shared.wants_of(jobs).cores
    by_name = {each.name: each for each in rules.qos}
    kinds, kind_of = _kinds(jobs, slurm, rules)
    partitions = {each.name: each for each in rules.partitions}
    of_job, constraints = slurm.constraints_of(jobs, node_count)
    for place, (partition, qos, association) in enumerate(kinds):
        mine = (kind_of == place) & (jobs.kind == Kind.BATCH)
        own = partitions[partition]
        if own.state != "UP" and mine.any():
            yield f"partition {own.name} is {own.state}: it takes no jobs", mine
            continue
        for who, these, nodes in _by_nodes(own, mine, of_job, constraints, node_count):
            if (wrong := these & (jobs.nodes > len(nodes))).any() and len(nodes) < _nodes_in(own, node_count):
                yield f"{who} takes no more than {len(nodes)} nodes", wrong
            if shared is not None:
                yield from shared.refusals_in(jobs, these, who, nodes)
        bounds = [*_of_partition(own, node_count)]
        if rules.enforce_limits:
            names = dict.fromkeys((own.qos, qos))
            found = [(f"QOS {each}", by_name[each]) for each in names if each in by_name]
            if association >= 0:
                found.append(_of_association(rules.associations, association))
            bounds += _of_limits(found, "nodes" if shared is None else "cores")
        for who, column, least, most in bounds:
            values = columns[column]
            if least is not None and (wrong := mine & (values < least)).any():
                yield f"{who} takes no fewer than {least} {column}", wrong
            if most is not None and (wrong := mine & (values > most)).any():
                what = (
                    f"limits up to {most} minutes" if column == "minutes" else f"no more than {most} {column}"
                )
                yield f"{who} takes {what}", wrong


def never_started(
    jobs: JobTable, slurm: SlurmSettings, rules: Rules, node_count: int
) -> tuple[NDArray[np.bool_], str]:
    """Which jobs are refused, and why: who takes what, as often as it is the first reason of a job."""
    never = np.zeros(len(jobs), np.bool_)
    why: dict[str, int] = {}
    for what, wrong in refusals(jobs, slurm, rules, node_count):
        if count := int((wrong & ~never).sum()):
            why[what] = why.get(what, 0) + count
        never |= wrong
    most = sorted(why, key=lambda what: -why[what])
    said = [f"{grouped(why[what])} since {what}" for what in most[:_MOST_REASONS]]
    others = sum(why[what] for what in most[_MOST_REASONS:])
    return never, ", ".join([*said, *([f"{grouped(others)} for other reasons"] if others else [])])


def _kinds(
    jobs: JobTable, slurm: SlurmSettings, rules: Rules
) -> tuple[list[tuple[str, str, int]], NDArray[np.int64]]:
    """Partition, QOS and association of jobs, of those that take the same ones the first, and which kind each is."""
    rows = np.full(len(jobs), -1)
    if rules.associations:
        rows = slurm.associations_of(jobs, rules).row
    qos = slurm.qos_of_jobs(jobs, rules, rows) if rules.qos else [""] * len(jobs)
    together = _together(rules)
    asked = list(zip(jobs.queue.tolist(), qos, rows.tolist(), strict=True))
    kind_of = {
        (queue, name, row): (slurm.queues.get(queue, rules.default_partition), name, together[row])
        for queue, name, row in set(asked)
    }
    kinds = sorted(set(kind_of.values()))
    number = {kind: place for place, kind in enumerate(kinds)}
    return kinds, np.array([number[kind_of[each]] for each in asked], np.int64)


def _beyond_reservations(
    jobs: JobTable, limit_min: NDArray[np.int64], rules: Rules
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    if not rules.reservations:
        return
    own = np.array(
        [
            which_of(rules.reservations, number, user)
            for number, user in zip(jobs.number.tolist(), jobs.user.tolist(), strict=True)
        ]
    )
    for place, each in enumerate(rules.reservations):
        mine = (own == place) & (jobs.kind == Kind.BATCH)
        for what, wrong in (
            (f"no more than {len(each.nodes)} nodes", jobs.nodes > len(each.nodes)),
            (
                f"limits up to {(each.end_s - each.start_s) // 60} minutes",
                limit_min * 60 > each.end_s - each.start_s,
            ),
        ):
            if (mine & wrong).any():
                yield f"reservation {each.name} takes {what}", mine & wrong


def _by_nodes(
    partition: Partition,
    mine: NDArray[np.bool_],
    of_job: NDArray[np.int64],
    constraints: Sequence[Constraint],
    node_count: int,
) -> Iterator[tuple[str, NDArray[np.bool_], list[int]]]:
    """(what it is called, which jobs, their nodes) of a partition's jobs that may have the same nodes."""
    nodes = [*(range(node_count) if partition.nodes is None else partition.nodes)]
    for which in np.unique(of_job[mine]).tolist():
        who, left = f"partition {partition.name}", nodes
        if which >= 0:
            text, meeting = constraints[which]
            who, left = f"constraint {text} in {who}", [node for node in nodes if node in meeting]
        yield who, mine & (of_job == which), left


def _nodes_in(partition: Partition, node_count: int) -> int:
    return node_count if partition.nodes is None else len(partition.nodes)


def _of_partition(partition: Partition, node_count: int) -> Iterator[_Bound]:
    who = f"partition {partition.name}"
    yield who, "nodes", partition.min_nodes, min(partition.max_nodes, _nodes_in(partition, node_count))
    yield who, "minutes", None, partition.max_time


def _together(rules: Rules) -> list[int]:
    """Of each association the first that takes the same jobs, -1 at the end: for jobs that have none."""
    first: dict[Qos, int] = {}
    rows = range(len(rules.associations))
    return [*(first.setdefault(_of_association(rules.associations, row)[1], row) for row in rows), -1]


def _of_association(found: Sequence[Association], row: int) -> tuple[str, Qos]:
    """The limits of one job that an association and the accounts above it are, in the words of a QOS."""
    mine = found[row]
    limits: dict[str, Any] = {name: getattr(mine, name) for name in ("max_nodes", "max_wall")}
    above = row
    group = {"grp_jobs": UNDEFINED, "grp_nodes": UNDEFINED}
    while above >= 0:
        for name, least in group.items():
            has = [each for each in (least, getattr(found[above], name)) if each != UNDEFINED]
            group[name] = min(has, default=UNDEFINED)
        above = found[above].parent
    return f"association {mine.name}", Qos("", user_jobs=mine.max_jobs, **limits | group)


def _of_limits(found: list[tuple[str, Qos]], unit: str) -> Iterator[_Bound]:
    """Each limit is that of the first who has one; limits on what runs together are limits on one job, too.

    `unit`: what limits of nodes count.
    """
    for key in ("max_nodes", "grp_nodes", "user_nodes", "min_nodes", "grp_jobs", "user_jobs", "max_wall"):
        said = next(((who, value) for who, each in found if (value := getattr(each, key)) != UNDEFINED), None)
        if said is None:
            continue
        who, value = said
        if key == "min_nodes":
            yield who, unit, value, None
        elif key == "max_wall":
            yield who, "minutes", None, value
        elif key.endswith("_nodes"):
            yield who, unit, None, value
        elif value == 0:  # no job at all
            yield who, unit, None, 0
