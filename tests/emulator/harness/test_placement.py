"""Advance reservations under the plain schedulers: equal to the slow reference job by job, laws, and each by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from balancer.clock import US
from emulator.harness.decisions import default_node_names
from emulator.harness.happenings import Happenings
from emulator.harness.laws import assert_lawful, check
from emulator.harness.loop import Loop
from emulator.harness.placement import Boundaries, placement_of
from emulator.harness.reservations import Reserved, breaches, owners, reserved_on
from emulator.harness.run import make_cluster, simulate
from emulator.runner import prepare, run_virtual
from emulator.scenario import Scenario, ScenarioError, from_mapping
from emulator.scenario_parts import ReservationPart
from emulator.schedulers.config import SchedulerConfig
from emulator.workload.table import JobTable
from gates import GATE
from oracle.placement import Hold, PlacedMachine
from oracle.reference import BACKFILLS, Options
from oracle.workloads import job_table, random_workload

if TYPE_CHECKING:
    from emulator.harness.record import RunRecord
    from oracle.reference import Job

_ORDERS = ("fcfs", "sjf", "wfp3")


def run_with(
    jobs: JobTable, nodes: int, scheduler: SchedulerConfig, reserved: tuple[Reserved, ...] = ()
) -> RunRecord:
    placement = placement_of(len(jobs), nodes, reserved=reserved, own=owners(jobs, reserved))
    cluster = make_cluster(nodes, scheduler, jobs, placement)
    loop = Loop(cluster, happenings=Happenings(boundaries=Boundaries(placement.events_us)))
    loop.run()
    return loop.record()


def schedule_of(record: RunRecord) -> dict[int, tuple[int, int]]:
    numbers = record.jobs.number.tolist()
    return dict(zip(numbers, zip(record.start_us.tolist(), record.end_us.tolist(), strict=True), strict=True))


def nodes_of(record: RunRecord) -> dict[int, list[int]]:
    """The nodes of each job's one run, by its number."""
    runs = record.runs
    return {
        int(record.jobs.number[job]): runs.node[runs.first[row] : runs.first[row + 1]].tolist()
        for row, job in enumerate(runs.job.tolist())
    }


def random_reservations(rng: np.random.Generator, jobs: list[Job], nodes: int) -> tuple[Reserved, ...]:
    """Up to four that do not overlap on a node, for nobody, users or jobs that have room in them."""
    last_s = 2 + max(job.submit_us + job.run_us for job in jobs) // US
    found: list[Reserved] = []
    named: set[int] = set()
    for name in "abcd"[: int(rng.integers(0, 5))]:
        begin_s = int(rng.integers(0, last_s))
        end_s = begin_s + int(rng.integers(1, last_s))
        which = frozenset(rng.permutation(nodes)[: int(rng.integers(1, nodes + 1))].tolist())
        users = frozenset(rng.integers(0, 5, int(rng.integers(0, 3))).tolist())
        fit = [
            job.number
            for job in jobs
            if job.nodes <= len(which) and job.estimate_us <= (end_s - begin_s) * US and rng.random() < 0.1
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
    reserved = random_reservations(rng, jobs, nodes)
    cycle_s = float(rng.choice([0, 0, 0, 7]))
    config = SchedulerConfig(order=order, backfill=backfill, cycle_s=cycle_s)  # type: ignore[arg-type]
    record = run_with(job_table(jobs), nodes, config, reserved)
    holds = [
        Hold(each.name, each.begin_us, each.end_us, each.nodes, each.users, each.jobs) for each in reserved
    ]
    oracle = PlacedMachine(jobs, nodes, order, backfill, Options(cycle_s=cycle_s), holds, [])
    assert schedule_of(record) == oracle.run()
    given = nodes_of(record)
    assert {job: Counter(oracle.class_of[node] for node in given[job]) for job in given} == oracle.got
    assert_lawful(record, jobs_in=len(jobs))
    assert not list(breaches(record, reserved))


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
def test_thousands_of_workloads_beside_reservations_run_like_the_reference(order: str, backfill: str) -> None:
    rng = np.random.default_rng([32, *f"{order}+{backfill}".encode()])
    for _ in range(GATE.reference_workloads):
        compare(rng, order, backfill)


# Laws.


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_without_a_reservation_every_job_starts_when_and_where_the_usual_pass_starts_it(
    backfill: str,
) -> None:
    rng = np.random.default_rng([33, *backfill.encode()])
    for _ in range(15):
        jobs, nodes = random_workload(rng)
        config = SchedulerConfig(backfill=backfill)  # type: ignore[arg-type]
        placed, usual = run_with(job_table(jobs), nodes, config), simulate(job_table(jobs), nodes, config)
        assert schedule_of(placed) == schedule_of(usual)
        assert nodes_of(placed) == nodes_of(usual)


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


# What is told.


def scenario(**keys: object) -> Scenario:
    work = {"generate": [{"daily_batch": {"days": 1, "jobs": 40}}]}
    return from_mapping({"nodes": 16, "workload": work, **keys})


def test_a_run_on_a_reserved_node_is_a_breach_that_names_job_and_reservation() -> None:
    jobs = JobTable.build(submit_us=[0], run_us=[10 * US], nodes=[1])
    record = simulate(jobs, 1, SchedulerConfig())
    record = replace(record, scenario={"reservations": {"downtime": {"start_s": 5, "end_s": 9}}})
    assert [str(each) for each in check(record)] == [
        "reserved_nodes_are_kept: job 1 (0 s to 10 s) is on nodes of reservation downtime (5 s to 9 s)"
    ]


def test_a_scenario_without_reservations_is_stored_as_before() -> None:
    assert "reservations" not in scenario().as_json()


def test_a_stored_reservation_is_the_same_when_it_is_read_again() -> None:
    kept = scenario(reservations={"a": {"start_s": 5, "end_s": 9, "node_count": 3}})
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
        ({"reservations": {"a": _AT_FIVE}, "scheduler": "fcfs+easy+best_fit"}, "there is 'first_fit' only"),
    ],
)
def test_what_cannot_be_run_is_told(keys: dict[str, object], message: str) -> None:
    wrong = scenario(**keys)
    with pytest.raises(ScenarioError) as error:
        run_virtual(wrong, prepare(wrong))
    assert message in str(error.value)


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
        scenario(reservations={"a": part})
    assert message in str(error.value)
