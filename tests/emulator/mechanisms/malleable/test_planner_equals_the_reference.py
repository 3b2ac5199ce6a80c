"""The compiled planner against the slow one, on random workloads full of ties."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from balancer.clock import NEVER_US, US
from emulator.cluster.cluster import Cluster
from emulator.kernel.job_states import RunOutcome
from emulator.mechanisms.malleable.machine import PlanningMachine, Rules
from emulator.schedulers.config import SchedulerConfig
from emulator.workload.speedup import Amdahl, Downey, Linear, speed_table
from oracle.planner import MALLEABLE, RIGID, Flexible, Reading, reference_plan
from oracle.workloads import random_workload, smallest_part
from planner_kit import flexible_table, segments

PLANNED = SchedulerConfig.parse("fcfs+conservative")
SEEDS = 60

READINGS = {
    "least": Reading(),
    "placed": Reading(minimum="placed"),
    "shared": Reading(minimum="shared"),
    "pool": Reading(minimum="pool"),
    "pool, waiting jobs first": Reading(minimum="pool_waiting_first"),
    "at its minimum": Reading(at_minimum=True),
    "with a penalty": Reading(penalty_us=700_000),
    "with a penalty of work": Reading(penalty_us=2_000_000, penalty_is_work=True),
    "in whole seconds": Reading(tick_us=US),
    "whole seconds and a penalty": Reading(tick_us=US, penalty_us=2 * US, minimum="shared"),
}


def flexible_jobs(rng: np.random.Generator) -> tuple[list[Flexible], int]:
    rigid, nodes = random_workload(
        rng, jobs=30, nodes=12, estimates=str(rng.choice(["exact", "longer", "mixed"]))
    )
    shares = rng.dirichlet((1, 1, 1))
    jobs = []
    for job in rigid:
        kind = int(rng.choice(3, p=shares))
        least = (
            job.nodes if kind == RIGID else int(rng.integers(1, job.nodes + 1)) if rng.random() < 0.4 else 1
        )
        most = (
            job.nodes
            if kind == RIGID
            else int(rng.integers(least, nodes + 1))
            if rng.random() < 0.4
            else nodes
        )
        jobs.append(
            Flexible(job.number, job.submit_us, job.run_us, job.estimate_us, job.nodes, kind, least, most)
        )
    return jobs, nodes


def planned(jobs: list[Flexible], nodes: int, reading: Reading, speedup=None) -> PlanningMachine:
    rules = Rules(
        minimum=reading.minimum,
        place_at_minimum=reading.at_minimum,
        penalty_us=reading.penalty_us,
        penalty_is_work=reading.penalty_is_work,
        tick_us=reading.tick_us,
        speedup=speedup or Linear(),
    )
    machine = PlanningMachine(nodes, PLANNED, flexible_table(jobs), rules)
    machine.advance(NEVER_US)
    return machine


@pytest.mark.parametrize("name", READINGS)
def test_every_segment_is_the_reference_planners(name):
    reading = READINGS[name]
    for seed in range(SEEDS):
        jobs, nodes = flexible_jobs(np.random.default_rng(seed))

        def differs(part, nodes=nodes):
            return segments(planned(part, nodes, reading)) != reference_plan(part, nodes, reading)

        if differs(jobs):
            part = smallest_part(jobs, differs)
            assert segments(planned(part, nodes, reading)) == reference_plan(part, nodes, reading), (
                f"seed {seed}, {nodes} nodes, {part}"
            )


@pytest.mark.parametrize(
    "model", [Amdahl(0.1), Amdahl(1), Downey(0.5), Downey(2.0, parallelism=1.5), Downey(0)]
)
def test_speed_ups_that_are_not_linear_are_planned_as_the_reference_plans_them(model):
    for seed in range(SEEDS // 3):
        jobs, nodes = flexible_jobs(np.random.default_rng(seed))
        longest = max(job.estimate_us for job in jobs)
        speeds, rows = speed_table(model, np.array([job.nodes for job in jobs], np.int32), nodes, longest)
        jobs = [
            replace(job, speed=speeds[row].tolist().__getitem__) for job, row in zip(jobs, rows, strict=True)
        ]
        expected = reference_plan(jobs, nodes, Reading())
        assert segments(planned(jobs, nodes, Reading(), model)) == expected, f"seed {seed}"


def test_rigid_jobs_alone_are_scheduled_as_by_conservative_backfilling():
    for seed in range(SEEDS):
        jobs, nodes = flexible_jobs(np.random.default_rng(seed))
        jobs = [replace(job, kind=RIGID, least=job.nodes, most=job.nodes) for job in jobs]
        cluster = Cluster(nodes, PLANNED, flexible_table(jobs))
        cluster.advance(NEVER_US)
        assert planned(jobs, nodes, Reading()).start_us.tolist() == cluster.start_us.tolist(), f"seed {seed}"


@pytest.mark.parametrize("name", READINGS)
def test_work_is_conserved_to_the_node_microsecond_and_no_node_is_given_twice(name):
    for seed in range(SEEDS):
        jobs, nodes = flexible_jobs(np.random.default_rng(1000 + seed))
        machine = planned(jobs, nodes, READINGS[name])
        runs, rows = machine.run_table(), machine.job_table()
        done = np.zeros(len(jobs), np.int64)
        np.add.at(done, runs.job, runs.done_node_us)
        assert done.tolist() == (rows.run_us * rows.nodes).tolist()
        stays = sorted(
            (int(node), int(runs.start_us[row]), int(runs.end_us[row]))
            for row in range(len(runs.job))
            for node in runs.node[runs.first[row] : runs.first[row + 1]]
        )
        assert all(one[0] != two[0] or one[2] <= two[1] for one, two in pairwise(stays))


def test_what_limited_jobs_may_not_have_goes_to_the_others_where_the_even_share_is_their_limit():
    limits = (2, 2, 8)
    jobs = [
        Flexible(number, 0, 60 * US, 60 * US, 2, MALLEABLE, 1, most) for number, most in enumerate(limits)
    ]
    found = segments(planned(jobs, 8, Reading()))
    assert [found[number][0].nodes for number in range(3)] == [2, 2, 4]
    assert found == reference_plan(jobs, 8, Reading())


def test_the_tables_of_a_run_grow_and_keep_what_is_in_them():
    long = [Flexible(number, number, 4000 * US, 4000 * US, 3, MALLEABLE, 1, 12) for number in range(3)]
    short = [
        Flexible(number, number * 10 * US, 9 * US, 9 * US, 1, MALLEABLE, 1, 3) for number in range(3, 60)
    ]
    machine = planned(long + short, 12, Reading())
    runs = machine.run_table()
    assert len(runs.job) > 2 * (60 + 2 * 12 + 8)
    assert len(runs.node) > 2 * (sum(job.nodes for job in long + short) + 2 * 12 + 8)
    assert segments(machine) == reference_plan(long + short, 12, Reading())
    assert np.bincount(runs.job, runs.done_node_us).tolist() == [12_000 * US] * 3 + [9 * US] * 57


def test_only_malleable_jobs_change_and_their_segments_follow_one_another():
    jobs, nodes = flexible_jobs(np.random.default_rng(7))
    machine = planned(jobs, nodes, Reading())
    runs = machine.run_table()
    kinds = machine.job_table().extra["job_class"][runs.job]
    assert (kinds[runs.outcome == RunOutcome.RESIZED] == MALLEABLE).all()
    for parts in segments(machine).values():
        assert all(one.end_us == two.start_us and one.nodes != two.nodes for one, two in pairwise(parts))
