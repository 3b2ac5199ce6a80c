"""Reservations, partitions and features: equal to the slow reference job by job, laws, and each by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from balancer.clock import US
from emulator.cluster.features import TOO_FEW, Feature, asked_for, lacks, split, too_wide
from emulator.cluster.partitions import Partition, groups_of, partitions_on, strays
from emulator.cluster.placement import Boundaries, everybody, placement_of
from emulator.cluster.reservations import Reserved, breaches, owners, reserved_on
from emulator.config.node_names import default_node_names
from emulator.config.scenario_parts import PartitionPart, ReservationPart
from emulator.events.external_events import ExternalEvents
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.simulation.run import make_cluster, simulate
from emulator.validation.laws import assert_lawful, check
from emulator.workload.table import JobTable
from gates import GATE
from oracle.placement import Having, Hold, Part, PlacedMachine
from oracle.records import schedule_of
from oracle.reference import BACKFILLS, Options
from oracle.workloads import QUEUES, job_table, random_workload
from scenario_kit import a_day, assert_refused

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.cluster.placement import Group
    from emulator.record.run_record import RunRecord
    from oracle.reference import Job

_ORDERS = ("fcfs", "sjf", "wfp3")


def groups_among(
    jobs: JobTable, nodes: int, partitions: tuple[Partition, ...], features: tuple[Feature, ...]
) -> tuple[Group, ...]:
    groups = groups_of(jobs, partitions) if partitions else (everybody(len(jobs), nodes),)
    return split(jobs, groups, features)


def run_with(  # noqa: PLR0917
    jobs: JobTable,
    nodes: int,
    scheduler: SchedulerConfig,
    reserved: tuple[Reserved, ...] = (),
    partitions: tuple[Partition, ...] = (),
    features: tuple[Feature, ...] = (),
) -> RunRecord:
    groups = groups_among(jobs, nodes, partitions, features)
    own = owners(jobs, reserved, groups)
    placement = placement_of(len(jobs), nodes, groups=groups, reserved=reserved, reservation=own)
    cluster = make_cluster(nodes, scheduler, jobs, placement)
    loop = Loop(cluster, external_events=ExternalEvents(boundaries=Boundaries(placement.events_us)))
    loop.run()
    return loop.record()


def nodes_of(record: RunRecord) -> dict[int, list[int]]:
    """The nodes of each job's one run, by its number."""
    runs = record.runs
    return {
        int(record.jobs.number[job]): runs.node[runs.first[row] : runs.first[row + 1]].tolist()
        for row, job in enumerate(runs.job.tolist())
    }


def random_partitions(rng: np.random.Generator, nodes: int) -> tuple[Partition, ...]:
    """Up to three, which may have nodes in common; the last one is the default. Often none."""
    count = int(rng.integers(0, 4))
    queues = rng.integers(0, max(count, 1), QUEUES)
    return tuple(
        Partition(
            name,
            frozenset(rng.permutation(nodes)[: int(rng.integers(1, nodes + 1))].tolist()),
            frozenset(np.flatnonzero(queues == which).tolist()),
            default=which == count - 1,
            priority_tier=int(rng.integers(1, 3)),
        )
        for which, name in enumerate("xyz"[:count])
    )


def random_features(rng: np.random.Generator, jobs: list[Job], nodes: int) -> tuple[Feature, ...]:
    """Up to two; often none."""
    return tuple(
        Feature(
            name,
            frozenset(rng.permutation(nodes)[: int(rng.integers(1, nodes + 1))].tolist()),
            queues=frozenset(rng.integers(0, QUEUES, int(rng.integers(0, 2))).tolist()),
            users=frozenset(rng.integers(0, 5, int(rng.integers(0, 2))).tolist()),
            jobs=frozenset(job.number for job in jobs if rng.random() < 0.1),
        )
        for name in ("gpu", "ib")[: max(0, int(rng.integers(-1, 3)))]
    )


def random_reservations(
    rng: np.random.Generator, jobs: list[Job], nodes: int, groups: tuple[Group, ...]
) -> tuple[Reserved, ...]:
    """Up to four that do not overlap on a node, for nobody, users or jobs that have room in them."""
    last_s = 2 + max(job.submit_us + job.run_us for job in jobs) // US
    found: list[Reserved] = []
    named: set[int] = set()
    may_have = {row: group.nodes for group in groups for row in group.jobs.tolist()}
    row_of = {int(number): row for row, number in enumerate(job_table(jobs).number)}
    for name in "abcd"[: int(rng.integers(0, 5))]:
        begin_s = int(rng.integers(0, last_s))
        end_s = begin_s + int(rng.integers(1, last_s))
        which = frozenset(rng.permutation(nodes)[: int(rng.integers(1, nodes + 1))].tolist())
        users = frozenset(rng.integers(0, 5, int(rng.integers(0, 3))).tolist())
        fit = [
            job.number
            for job in jobs
            if job.nodes <= len(which & may_have.get(row_of[job.number], which))
            and job.estimate_us <= (end_s - begin_s) * US
            and rng.random() < 0.1
        ]
        new = Reserved(name, begin_s * US, end_s * US, which, users, frozenset(fit) - named)
        if not any(
            old.begin_us < new.end_us and new.begin_us < old.end_us and old.nodes & new.nodes for old in found
        ):
            named |= new.jobs
            found.append(new)
    return tuple(found)


def compare(rng: np.random.Generator, order: str, backfill: str) -> None:
    jobs, nodes = random_workload(rng, jobs=30)
    partitions, features = random_partitions(rng, nodes), random_features(rng, jobs, nodes)
    table = job_table(jobs)
    gone = set(table.number[too_wide(table, groups_among(table, nodes, partitions, features))].tolist())
    jobs = [job for job in jobs if job.number not in gone]
    if not jobs:
        return
    table = job_table(jobs)
    groups = groups_among(table, nodes, partitions, features)
    reserved = random_reservations(rng, jobs, nodes, groups)
    cycle_s = float(rng.choice([0, 0, 0, 7]))
    config = SchedulerConfig(order=order, backfill=backfill, cycle_s=cycle_s)  # type: ignore[arg-type]
    record = run_with(job_table(jobs), nodes, config, reserved, partitions, features)
    holds = [
        Hold(each.name, each.begin_us, each.end_us, each.nodes, each.users, each.jobs) for each in reserved
    ]
    parts = [Part(each.name, each.nodes, each.queues, each.priority_tier) for each in reversed(partitions)]
    having = [
        Having(each.nodes, frozenset(table.number[asked_for(table, each)].tolist())) for each in features
    ]
    oracle = PlacedMachine(jobs, nodes, order, backfill, Options(cycle_s=cycle_s), holds, parts, having)
    assert schedule_of(record) == oracle.run()
    given = nodes_of(record)
    assert {job: Counter(oracle.class_of[node] for node in given[job]) for job in given} == oracle.got
    assert_lawful(record, jobs_in=len(jobs))
    assert not list(breaches(record, reserved, groups))
    assert not partitions or not list(strays(record, partitions))
    assert not list(lacks(record, features))


@pytest.mark.sample(4)
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_jobs_beside_reservations_start_when_and_on_what_the_reference_says(
    order: str, backfill: str
) -> None:
    rng = np.random.default_rng([31, *f"{order}+{backfill}".encode()])
    for _ in range(25):
        compare(rng, order, backfill)


@pytest.mark.slow
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_hundreds_of_workloads_beside_reservations_run_like_the_reference(order: str, backfill: str) -> None:
    rng = np.random.default_rng([32, *f"{order}+{backfill}".encode()])
    for _ in range(GATE.reference_workloads):
        compare(rng, order, backfill)


# Laws.


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_without_a_reservation_every_job_starts_when_the_usual_pass_starts_it(backfill: str) -> None:
    rng = np.random.default_rng([33, *backfill.encode()])
    for _ in range(15):
        jobs, nodes = random_workload(rng)
        config = SchedulerConfig(backfill=backfill)  # type: ignore[arg-type]
        placed, usual = run_with(job_table(jobs), nodes, config), simulate(job_table(jobs), nodes, config)
        assert schedule_of(placed) == schedule_of(usual)


def test_a_reservation_that_no_job_meets_changes_no_start_under_easy() -> None:
    """Its nodes are a class of their own, and yet nobody waits longer."""
    rng = np.random.default_rng(34)
    for _ in range(30):
        jobs, nodes = random_workload(rng)
        some = frozenset(rng.permutation(nodes)[: int(rng.integers(1, nodes + 1))].tolist())
        far = Reserved("far", 10**15, 10**15 + 1, some)
        config = SchedulerConfig()
        record = run_with(job_table(jobs), nodes, config, (far,))
        assert schedule_of(record) == schedule_of(simulate(job_table(jobs), nodes, config))


def test_a_reservation_of_nodes_for_all_of_the_run_is_a_smaller_machine() -> None:
    rng = np.random.default_rng(35)
    for backfill in BACKFILLS:
        for _ in range(10):
            jobs, nodes = random_workload(rng)
            gone = Reserved("gone", 0, 10**15, frozenset(range(nodes, nodes + 3)))
            config = SchedulerConfig(backfill=backfill)  # type: ignore[arg-type]
            record = run_with(job_table(jobs), nodes + 3, config, (gone,))
            assert schedule_of(record) == schedule_of(simulate(job_table(jobs), nodes, config))


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_partitions_without_a_common_node_are_machines_of_their_own(backfill: str) -> None:
    rng = np.random.default_rng([36, *backfill.encode()])
    config = SchedulerConfig(backfill=backfill)  # type: ignore[arg-type]
    for _ in range(10):
        (first, nodes), (second, more) = random_workload(rng), random_workload(rng)
        parts = (
            Partition("a", frozenset(range(nodes)), frozenset({0}), priority_tier=int(rng.integers(1, 4))),
            Partition("b", frozenset(range(nodes, nodes + more)), frozenset({1})),
        )
        both = [job._replace(queue=0) for job in first]
        both += [job._replace(queue=1, number=job.number + 1000) for job in second]
        together = schedule_of(run_with(job_table(both), nodes + more, config, partitions=parts))
        apart = schedule_of(simulate(job_table(first), nodes, config))
        other = schedule_of(simulate(job_table(second), more, config))
        assert together == apart | {number + 1000: times for number, times in other.items()}


def test_a_feature_that_nobody_asks_for_changes_no_start_and_one_that_all_ask_for_is_a_smaller_machine() -> (
    None
):
    rng = np.random.default_rng(37)
    for backfill in BACKFILLS:
        config = SchedulerConfig(backfill=backfill)  # type: ignore[arg-type]
        for _ in range(10):
            jobs, nodes = random_workload(rng)
            usual = simulate(job_table(jobs), nodes, config)
            unused = Feature("gpu", frozenset({0}))
            record = run_with(job_table(jobs), nodes, config, features=(unused,))
            assert schedule_of(record) == schedule_of(usual)
            needed = Feature("ib", frozenset(range(2, nodes + 2)), jobs=frozenset(job.number for job in jobs))
            record = run_with(job_table(jobs), nodes + 5, config, features=(needed,))
            assert schedule_of(record) == schedule_of(usual)


# By hand: four nodes, n001 to n004, jobs of ten seconds; times in seconds.


def by_hand(
    widths: list[int], reservations: dict[str, dict[str, Any]], scheduler: str = "fcfs+easy", **columns: Any
) -> tuple[dict[int, tuple[float, float]], dict[int, list[int]]]:
    """Start and end, and the nodes, of each job."""
    submit_us = columns.pop("submit_us", [0] * len(widths))
    jobs = JobTable.build(submit_us=submit_us, run_us=[10 * US] * len(widths), nodes=widths, **columns)
    parts = {name: ReservationPart.model_validate(part) for name, part in reservations.items()}
    record = run_with(jobs, 4, SchedulerConfig.parse(scheduler), reserved_on(parts, default_node_names(4)))
    assert_lawful(record)
    times = {number: (start / US, end / US) for number, (start, end) in schedule_of(record).items()}
    return times, nodes_of(record)


def test_a_job_that_would_not_be_over_waits_until_nobodys_window_has_passed() -> None:
    times, _ = by_hand([4, 4], {"downtime": {"start_s": 15, "end_s": 30}})
    assert times == {1: (0, 10), 2: (30, 40)}


def test_a_job_that_ends_as_the_window_begins_may_run_before_it() -> None:
    times, _ = by_hand([4], {"downtime": {"start_s": 10, "end_s": 30}})
    assert times == {1: (0, 10)}


def test_jobs_that_cannot_end_before_it_start_on_the_other_nodes() -> None:
    times, nodes = by_hand([1, 1, 1], {"some": {"start_s": 5, "end_s": 20, "nodes": "n[001-002]"}})
    assert times == {1: (0, 10), 2: (0, 10), 3: (10, 20)}
    assert {node for given in nodes.values() for node in given} == {2, 3}


def test_a_short_job_has_the_nodes_that_are_reserved_soonest() -> None:
    _, nodes = by_hand([1], {"some": {"start_s": 10, "end_s": 20, "nodes": "n004"}})
    assert nodes == {1: [3]}


def test_so_many_nodes_are_the_last_ones_that_nobody_else_has_then() -> None:
    parts = {
        "a": ReservationPart(start_s=0, end_s=9, node_count=1),
        "b": ReservationPart(start_s=5, end_s=9, node_count=1),
        "c": ReservationPart(start_s=9, end_s=12, node_count=2),
        "named": ReservationPart(start_s=0, end_s=9, nodes="n004"),
    }
    found = {each.name: set(each.nodes) for each in reserved_on(parts, default_node_names(4))}
    assert found == {"a": {2}, "b": {1}, "c": {2, 3}, "named": {3}}


def test_a_users_jobs_wait_for_their_reservation_and_nobody_waits_behind_them() -> None:
    times, nodes = by_hand(
        [2, 2, 2],
        {"course": {"start_s": 20, "end_s": 60, "nodes": "n[003-004]", "users": [7]}},
        user=[7, 7, 1],
    )
    assert times == {1: (20, 30), 2: (30, 40), 3: (0, 10)}
    assert (sorted(nodes[1]), sorted(nodes[2])) == ([2, 3], [2, 3])


def test_a_job_that_has_missed_its_reservation_is_like_any_other() -> None:
    times, _ = by_hand(
        [2, 2], {"course": {"start_s": 0, "end_s": 15, "nodes": "n[003-004]", "users": [7]}}, user=7
    )
    assert times == {1: (0, 10), 2: (10, 20)}


def test_a_job_of_a_user_that_has_no_room_in_the_reservation_asks_for_none() -> None:
    times, _ = by_hand([3], {"course": {"start_s": 20, "end_s": 60, "node_count": 2, "users": [7]}}, user=7)
    assert times == {1: (0, 10)}


def test_without_backfilling_the_machine_is_drained_for_a_job_that_waits_for_the_window() -> None:
    window = {"downtime": {"start_s": 15, "end_s": 30}}
    estimate_us = [20 * US, 10 * US]
    times, _ = by_hand([1, 1], window, "fcfs+none", estimate_us=estimate_us)
    assert times == {1: (30, 40), 2: (30, 40)}
    times, _ = by_hand([1, 1], window, estimate_us=estimate_us)
    assert times == {1: (30, 40), 2: (0, 10)}


def test_a_node_that_is_down_when_its_reservation_begins_is_missing_there() -> None:
    keys = {
        "nodes": 2,
        "workload": {"generate": [{"daily_batch": {"days": 1, "jobs": 60}}]},
        "reservations": {"night": {"start_s": 40_000, "end_s": 60_000, "nodes": "n001", "users": [1, 2, 3]}},
        "maintenance": [{"begin_s": 30_000, "end_s": 50_000, "nodes": ["n001"]}],
        "limits": [{"by": "user", "jobs": 3}],
    }
    record = run_virtual(from_mapping(keys), prepare(from_mapping(keys)))
    assert_lawful(record)
    assert record.scenario["reservations"]["night"]["nodes"] == "n001"


def in_partitions(
    widths: list[int], queues: list[int], partitions: dict[str, dict[str, Any]], scheduler: str = "fcfs+easy"
) -> tuple[dict[int, tuple[float, float]], dict[int, list[int]]]:
    """Start and end, and the nodes, of each job; all are submitted at 0 and run for ten seconds on four nodes."""
    jobs = JobTable.build(
        submit_us=[0] * len(widths), run_us=[10 * US] * len(widths), nodes=widths, queue=queues
    )
    parts = {name: PartitionPart.model_validate(part) for name, part in partitions.items()}
    config = SchedulerConfig.parse(scheduler)
    record = run_with(jobs, 4, config, partitions=partitions_on(parts, default_node_names(4)))
    assert_lawful(record)
    times = {number: (start / US, end / US) for number, (start, end) in schedule_of(record).items()}
    return times, nodes_of(record)


def test_a_job_has_nodes_of_its_partition_only_and_waits_for_these() -> None:
    times, nodes = in_partitions(
        [1, 1, 2], [0, 0, 1], {"one": {"nodes": "n001", "queues": [0]}, "rest": {"default": True}}
    )
    assert times == {1: (0, 10), 2: (10, 20), 3: (0, 10)}
    assert nodes[1] == nodes[2] == [0]


def test_jobs_of_a_higher_tier_are_looked_at_first() -> None:
    low, high = {"queues": [0]}, {"queues": [1], "priority_tier": 2}
    times, _ = in_partitions([4, 4, 4], [0, 0, 1], {"low": low, "high": high})
    assert times == {1: (10, 20), 2: (20, 30), 3: (0, 10)}


def test_nodes_that_fewer_partitions_have_are_taken_first() -> None:
    _, nodes = in_partitions(
        [1], [0], {"all": {"queues": [0]}, "some": {"nodes": "n[002-004]", "queues": [1]}}
    )
    assert nodes == {1: [0]}


def test_each_partition_has_a_head_that_nobody_may_delay() -> None:
    parts = {"a": {"nodes": "n[001-002]", "queues": [0]}, "b": {"nodes": "n[002-004]", "queues": [1]}}
    times, _ = in_partitions([2, 2, 3], [0, 0, 1], parts)
    assert times == {1: (0, 10), 2: (10, 20), 3: (20, 30)}


def test_without_backfilling_nobody_has_a_node_that_a_waiting_job_of_another_partition_could_use() -> None:
    parts = {"a": {"queues": [0]}, "b": {"nodes": "n004", "queues": [1]}}
    times, _ = in_partitions([3, 2, 1], [0, 0, 1], parts, "fcfs+none")
    assert times == {1: (0, 10), 2: (10, 20), 3: (10, 20)}
    times, _ = in_partitions([3, 2, 1], [0, 0, 1], parts)
    assert times == {1: (0, 10), 2: (10, 20), 3: (0, 10)}


def test_a_job_that_asks_for_nothing_leaves_the_nodes_that_others_ask_for() -> None:
    jobs = JobTable.build(submit_us=[0] * 3, run_us=[10 * US] * 3, nodes=[2, 1, 2], queue=[0, 1, 1])
    gpu = Feature("gpu", frozenset({0, 1}), queues=frozenset({1}))
    record = run_with(jobs, 4, SchedulerConfig(), features=(gpu,))
    assert {number: start // US for number, (start, _) in schedule_of(record).items()} == {1: 0, 2: 0, 3: 10}
    nodes = nodes_of(record)
    assert (sorted(nodes[1]), set(nodes[2]) <= {0, 1}, sorted(nodes[3])) == ([2, 3], True, [0, 1])


def test_a_job_may_ask_by_a_column_of_the_table_and_for_several_features() -> None:
    jobs = JobTable.build(submit_us=[0], run_us=[10 * US], nodes=[1], user=[5], extra={"needs_gpu": [1]})
    features = (Feature("gpu", frozenset({0, 1})), Feature("ib", frozenset({1, 2}), users=frozenset({5})))
    assert nodes_of(run_with(jobs, 4, SchedulerConfig(), features=features)) == {1: [1]}


def test_jobs_wider_than_the_nodes_that_have_what_they_ask_for_are_left_out_and_counted() -> None:
    whole = prepare(a_day()).jobs
    prepared = prepare(a_day(features={"gpu": {"nodes": "n[001-002]", "jobs": whole.number.tolist()}}))
    assert prepared.left_out == {TOO_FEW: int((whole.nodes > 2).sum())}
    assert prepared.jobs.nodes.max() <= 2


def test_jobs_beyond_the_limits_of_their_partition_are_left_out_and_counted() -> None:
    part = {"default": True, "min_nodes": 2, "max_nodes": 3, "max_time_s": 3600}
    prepared = prepare(a_day(partitions={"only": part}))
    jobs = prepared.jobs
    assert (jobs.nodes.min() >= 2, jobs.nodes.max() <= 3, jobs.estimate_us.max() <= 3600 * US) == (True,) * 3
    reasons = {f"{how} than partition only takes" for how in ("wider", "narrower", "longer")}
    assert reasons <= set(prepared.left_out)
    assert len(jobs) + sum(prepared.left_out[each] for each in reasons) == 40


def test_a_queue_may_be_the_sixteenth_field(tmp_path: Path) -> None:
    log = tmp_path / "a.swf"
    log.write_text("1 0 0 60 1 -1 -1 1 60 -1 1 -1 -1 -1 3 7 -1 -1\n")
    for field, queue in (("queue", 3), ("partition", 7)):
        kept = from_mapping({"nodes": 2, "workload": {"trace": str(log), "queue_field": field}})
        assert prepare(kept).jobs.queue.tolist() == [queue]


# What is told.


def test_a_run_on_a_reserved_node_is_a_breach_that_names_job_and_reservation() -> None:
    jobs = JobTable.build(submit_us=[0], run_us=[10 * US], nodes=[1])
    record = simulate(jobs, 1, SchedulerConfig())
    record = replace(record, scenario={"reservations": {"downtime": {"start_s": 5, "end_s": 9}}})
    assert [str(each) for each in check(record)] == [
        "reserved_nodes_are_kept: job 1 (0 s to 10 s) is on nodes of reservation downtime (5 s to 9 s)"
    ]


def test_a_run_outside_of_its_partition_is_a_breach_that_names_job_and_partition() -> None:
    jobs = JobTable.build(submit_us=[0], run_us=[10 * US], nodes=[1])
    record = simulate(jobs, 2, SchedulerConfig())
    given = int(record.runs.node[0])
    other = default_node_names(2)[1 - given]
    record = replace(record, scenario={"partitions": {"a": {"nodes": other, "default": True}}})
    assert [str(each) for each in check(record)] == [
        "jobs_stay_in_their_partition: job 1 (from 0 s) has nodes that are not in its partition a"
    ]


def test_a_run_without_what_its_job_asks_for_is_a_breach_that_names_job_and_feature() -> None:
    jobs = JobTable.build(submit_us=[0], run_us=[10 * US], nodes=[2])
    record = simulate(jobs, 2, SchedulerConfig())
    record = replace(record, scenario={"features": {"gpu": {"nodes": "n001", "jobs": [1]}}})
    assert [str(each) for each in check(record)] == [
        "jobs_have_what_they_ask_for: job 1 (from 0 s) asks for gpu and has nodes without it"
    ]


def test_a_scenario_without_partitions_and_reservations_is_stored_as_before() -> None:
    assert {"features", "partitions", "reservations"}.isdisjoint(a_day().as_json())
    assert "queue_field" not in a_day().as_json()["workload"]


def test_a_stored_reservation_is_the_same_when_it_is_read_again() -> None:
    kept = a_day(
        reservations={"a": {"start_s": 5, "end_s": 9, "node_count": 3}},
        features={"gpu": {"nodes": "n[001-008]", "users": [1]}},
        partitions={
            "all": {"default": True},
            "few": {"nodes": "n[001-004]", "queues": [1], "max_time_s": 60},
        },
    )
    assert from_mapping(kept.as_json()) == kept


_AT_FIVE = {"start_s": 5, "end_s": 9}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"reservations": {"a": {**_AT_FIVE, "nodes": "n999"}}}, "reservations: a: there is no node n999"),
        ({"reservations": {"a": {**_AT_FIVE, "nodes": "n[1"}}}, "reservations: a: nodes: "),
        ({"reservations": {"a": {**_AT_FIVE, "node_count": 17}}}, "a: it wants 17 nodes, others leave 16"),
        ({"reservations": {"a": _AT_FIVE, "b": _AT_FIVE}}, "a and b have a node at the same time"),
        (
            {"reservations": {"a": {**_AT_FIVE, "jobs": [1]}}},
            "reservations: a lasts 4 s, job 1 asks for",
        ),
        (
            {
                "reservations": {
                    "a": {**_AT_FIVE, "jobs": [1], "nodes": "n001"},
                    "b": {**_AT_FIVE, "jobs": [1], "nodes": "n002"},
                }
            },
            "a and b are for the same job",
        ),
        ({"reservations": {"a": _AT_FIVE}, "mechanism": "balancer"}, "the mechanism balancer would give"),
        ({"reservations": {"a": _AT_FIVE}, "scheduler": "slurm"}, "slurm has its own"),
        ({"features": {"gpu": {"nodes": "n017"}}}, "features: gpu: there is no node n017"),
        ({"features": {"gpu": {"nodes": "n001"}}, "mechanism": "balancer"}, "would give such nodes"),
        ({"partitions": {"a": {"queues": [1]}}}, "which is in none (40 such jobs)"),
        ({"partitions": {"a": {"queues": [1]}, "b": {"queues": [2, 1]}}}, "a and b both have queue 1"),
        ({"partitions": {"a": {"default": True}, "b": {"default": True}}}, "a and b are both the default"),
        ({"partitions": {"a": {"nodes": "n017", "default": True}}}, "partitions: a: there is no node n017"),
        ({"partitions": {"a": {"default": True}}, "mechanism": "balancer"}, "would give such nodes"),
        ({"reservations": {"a": _AT_FIVE}, "scheduler": "fcfs+easy+best_fit"}, "there is 'first_fit' only"),
    ],
)
def test_what_cannot_be_run_is_told(keys: dict[str, object], message: str) -> None:
    assert_refused(a_day(**keys), message)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"start_s": 5, "end_s": 5}, "reservations.a: end_s must lie behind start_s, 5, not 5"),
        ({**_AT_FIVE, "nodes": "ALL", "node_count": 1}, "give `nodes` or `node_count`, not both"),
        ({**_AT_FIVE, "user": [1]}, "unknown key 'reservations.a.user'; did you mean 'users'?"),
    ],
)
def test_a_reservation_that_cannot_be_is_told(part: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        a_day(reservations={"a": part})
    assert message in str(error.value)
