"""One run of a random case (`slurm_cases.py`) by Slurm's twin and one by its reference, and whether they agree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from balancer.clock import US
from emulator.cluster.slurm_cluster import slurm_cluster
from emulator.cluster.slurm_scheduler import Slurm
from emulator.events.external_events import ExternalEvents
from emulator.kernel.job_states import RunOutcome
from emulator.simulation.loop import Loop
from emulator.validation.laws import assert_lawful
from oracle.node_outages import RandomOutages, random_outages
from oracle.slurm import SlurmReference
from oracle.slurm_cases import (
    Wants,
    random_case,
    random_case_of_preemption,
    random_node_sets,
    random_release,
    with_limits_in_cores,
    with_random_constraints,
    with_random_cores,
)
from oracle.slurm_preemption import PreemptingReference
from oracle.slurm_sharing import SharingReference
from oracle.slurm_sharing_preemption import PreemptingSharingReference
from oracle.workloads import job_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord
    from emulator.schedulers.slurm.rules import Rules
    from oracle.reference import Job

Reference = TypeVar("Reference", bound=SlurmReference)


def with_rules(  # noqa: PLR0917
    slurm: Slurm,
    rules: Rules,
    jobs: list[Job],
    nodes: int,
    wants: dict[int, tuple[int, int, int]] | None = None,
    outages: RandomOutages | None = None,
    node_sets: tuple[int, ...] = (),
) -> RunRecord:
    class Ruled(Slurm):
        def rules(self, node_count: int) -> Rules:
            return rules

        def node_sets(self, node_count: int) -> tuple[int, ...]:
            return node_sets or super().node_sets(node_count)

    ruled = Ruled(
        queues=slurm.queues,
        shares=slurm.shares,
        user_qos=slurm.user_qos,
        select=slurm.select,
        users=slurm.users,
        features=slurm.features,
        user_constraint=slurm.user_constraint,
    )
    table = job_table(jobs)
    if wants:
        asked = np.array([wants[number] for number in table.number.tolist()])
        table = table.with_extra(cores=asked[:, 0], memory_kib=asked[:, 1] * 1024, gpus=asked[:, 2])
    cluster = slurm_cluster(nodes, table, ruled)
    external_events = (
        None
        if outages is None
        else ExternalEvents(None, outages.on(nodes, lost=not cluster.rules.expect_outages()))
    )
    loop = Loop(cluster, external_events=external_events)
    loop.run()
    return loop.record()


def node_of_core(record: RunRecord, has: list[Wants] | None) -> NDArray[np.int64]:
    """Of each of a record's nodes, which are cores where `has` says what nodes have."""
    cores = [1] * len(record.node_names) if has is None else [each[0] for each in has]
    return np.repeat(np.arange(len(cores)), cores)


def schedule(record: RunRecord, has: list[Wants] | None = None) -> dict[int, tuple[int, int, frozenset[int]]]:
    """Start, end and nodes of each job. `has`: what each node has, where the record's nodes are cores."""
    runs, nodes = record.runs, node_of_core(record, has)
    return {
        int(record.jobs.number[job]): (
            int(runs.start_us[row]),
            int(runs.end_us[row]),
            frozenset(nodes[runs.node[runs.first[row] : runs.first[row + 1]]].tolist()),
        )
        for row, job in enumerate(runs.job)
    }


def association_of(said: Slurm, rules: Rules) -> dict[int, int]:
    """The place of each user's association."""
    places = {each.user: place for place, each in enumerate(rules.associations) if each.user}
    return {number: places[name] for number, name in said.users.items() if name in places}


def reference_of(
    kind: type[Reference], said: Slurm, rules: Rules, jobs: list[Job], nodes: int, **more: Any
) -> Reference:
    """One of this kind for a case. `more`: its further fields."""
    told = (said.queues, said.shares, said.user_qos, association_of(said, rules))
    return kind(rules, nodes, jobs, *told, **more)


def agrees(seed: int, constrained: float = 0.33) -> None:
    """Every job starts and ends when, and where, the reference says. `constrained`: share of cases with constraints."""
    rng = np.random.default_rng(seed)
    said, rules, jobs, nodes = random_case(rng)
    said, may_have = with_random_constraints(seed, said, rules, jobs, nodes, share=constrained)
    rules = replace(rules, release=random_release(rng))
    node_sets = random_node_sets(seed, nodes)
    record = with_rules(said, rules, jobs, nodes, node_sets=node_sets)
    reference = reference_of(
        SlurmReference,
        said,
        rules,
        jobs,
        nodes,
        may_have=may_have,
        node_sets=node_sets,
    )
    assert schedule(record) == reference.run(), f"seed {seed}"
    assert_lawful(record)


def assert_same_runs(
    record: RunRecord, reference: SlurmReference, seed: int, has: list[Wants] | None = None
) -> None:
    """Every run begins and ends when, where and how the reference says. `has`: as of `schedule`."""
    reference.run()
    expected = [(job.number, run.start, run.end, run.nodes, run.outcome) for job, run in reference.runs]
    assert sorted(all_runs(record, has)) == sorted(expected), f"seed {seed}"
    assert_lawful(record)


def agrees_on_shared_nodes(seed: int) -> None:
    """Likewise where jobs share nodes."""
    rng = np.random.default_rng(seed)
    said, rules, jobs, nodes = random_case(rng, sharing=True)
    select, has, wants = with_random_cores(rng, said, rules, jobs, nodes)
    said, rules = with_limits_in_cores(rng, said, rules, jobs, wants)
    said, rules = replace(said, select=select), replace(rules, release=random_release(rng))
    said, may_have = with_random_constraints(seed, said, rules, jobs, nodes, has, wants)
    record = with_rules(said, rules, jobs, nodes, wants)
    reference = reference_of(
        SharingReference,
        said,
        rules,
        jobs,
        nodes,
        node_has=has,
        weights=[*select.on(nodes).weights],
        wants=wants,
        may_have=may_have,
    )
    assert schedule(record, has) == reference.run(), f"seed {seed}"
    assert_lawful(record)


def agrees_on_failing_nodes(seed: int) -> None:
    """Every run begins and ends when, where and how the reference says."""
    rng = np.random.default_rng([29, seed])
    said, rules, jobs, nodes = random_case(rng)
    if rng.random() < 0.2:
        rules = replace(rules, job_requeue=False)
    if rng.random() < 0.5:  # else 121 s more or less are all the same
        rules = replace(rules, priority_max_age=1000)
    if rules.defer and rules.sched_interval < 0 and not rules.backfills:
        # Then the last submit starts nobody, and an outage that comes when all else is over, or does not, might.
        rules = replace(rules, defer=False)
    longest_s = 1 + max(job.submit_us + job.run_us for job in jobs) // US
    outages = random_outages(rng, nodes, longest_s, longest_drain_s=longest_s)
    rules = replace(rules, release=random_release(rng))
    node_sets = random_node_sets(seed, nodes)
    record = with_rules(said, rules, jobs, nodes, outages=outages, node_sets=node_sets)
    reference = reference_of(
        SlurmReference,
        said,
        rules,
        jobs,
        nodes,
        outs=outages.outs,
        node_sets=node_sets,
    )
    assert_same_runs(record, reference, seed)


def agrees_on_preemption(seed: int) -> None:
    """Every run begins and ends when, where and how the reference says."""
    rng = np.random.default_rng([31, seed])
    said, rules, jobs, nodes = random_case_of_preemption(rng)
    said, may_have = with_random_constraints(seed, said, rules, jobs, nodes)
    node_sets = random_node_sets(seed, nodes)
    record = with_rules(said, rules, jobs, nodes, node_sets=node_sets)
    reference = reference_of(
        PreemptingReference,
        said,
        rules,
        jobs,
        nodes,
        may_have=may_have,
        node_sets=node_sets,
    )
    assert_same_runs(record, reference, seed)


def agrees_on_preemption_on_shared_nodes(seed: int) -> None:
    """Likewise where jobs share nodes."""
    rng = np.random.default_rng([37, seed])
    said, rules, jobs, nodes = random_case_of_preemption(rng, sharing=True)
    select, has, wants = with_random_cores(rng, said, rules, jobs, nodes)
    rules = replace(rules, qos=tuple(replace(each, grp_nodes=-1, user_nodes=-1) for each in rules.qos))
    said = replace(said, select=select)
    said, may_have = with_random_constraints(seed, said, rules, jobs, nodes, has, wants)
    record = with_rules(said, rules, jobs, nodes, wants)
    reference = reference_of(
        PreemptingSharingReference,
        said,
        rules,
        jobs,
        nodes,
        node_has=has,
        weights=[*select.on(nodes).weights],
        wants=wants,
        may_have=may_have,
    )
    assert_same_runs(record, reference, seed, has)


_OUTCOMES = {
    RunOutcome.FINISHED: "finished",
    RunOutcome.KILLED: "killed",
    RunOutcome.PREEMPTED: "requeued",
    RunOutcome.REQUEUED: "requeued",
    RunOutcome.CANCELLED: "lost",
}


def all_runs(
    record: RunRecord, has: list[Wants] | None = None
) -> list[tuple[int, int, int, frozenset[int], str]]:
    """Number, start, end, nodes and outcome of every run. `has`: as of `schedule`."""
    runs = record.runs
    nodes = node_of_core(record, has)[runs.node]
    parts = np.split(nodes, runs.first[1:-1]) if len(runs.job) else []
    rows = zip(runs.job, runs.start_us.tolist(), runs.end_us.tolist(), parts, runs.outcome, strict=True)
    return [
        (int(record.jobs.number[job]), start, end, frozenset(part.tolist()), _OUTCOMES[RunOutcome(how)])
        for job, start, end, part, how in rows
    ]


def runs_in_s(record: RunRecord) -> dict[int, list[tuple[float, float, str, list[int]]]]:
    """Of each job, by number: start, end, outcome and nodes of its runs."""
    found: dict[int, list[tuple[float, float, str, list[int]]]] = {}
    for number, start, end, nodes, how in sorted(all_runs(record)):
        found.setdefault(number, []).append((start / US, end / US, how, sorted(nodes)))
    return found
