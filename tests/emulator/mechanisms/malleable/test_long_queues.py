"""Long queues are planned with what is remembered of the last plan, and with bounds: the same plans as without.

Both are used here from the first job on, which the machine does only where it is worth while.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from balancer.clock import NEVER_US, US
from emulator.mechanisms.malleable import tables as t
from emulator.mechanisms.malleable.bounds import UNKNOWN, classes_of
from emulator.mechanisms.malleable.machine import PlanningMachine, Rules
from emulator.schedulers.config import SchedulerConfig
from emulator.workload.speedup import Amdahl, Downey
from oracle.planner import MALLEABLE, MOLDABLE, RIGID, Flexible, Reading, reference_plan
from planner_kit import flexible_table, segments

ORDERS = ("fcfs", "sjf")
MIXES = {
    "rigid": (1, 0, 0),
    "moldable": (0, 1, 0),
    "rigid and moldable": (0.4, 0.6, 0),
    "all three": (0.5, 0.4, 0.1),
}


def dense_jobs(seed: int, mix: tuple[float, float, float], count: int, nodes: int) -> list[Flexible]:
    """Far more jobs than there is room for, most of which end long before they are expected to."""
    rng = np.random.default_rng(seed)
    whole = int(rng.choice([1, 3, 20]))  # the longer, the fewer ties
    jobs, submit = [], 0
    for number in range(1, count + 1):
        submit += int(rng.integers(0, 3)) * US if rng.random() < 0.6 else 0
        wide = rng.random() < 0.2
        width = int(rng.integers(1, nodes + 1)) if wide else int(rng.integers(1, max(2, nodes // 3)))
        estimate = int(rng.integers(1, 8 * whole)) * US * 8 // whole
        run = max(1, int(estimate * rng.choice([0.1, 0.5, 0.9, 1.0])))
        kind = int(rng.choice(3, p=mix))
        narrow = rng.random() < 0.3
        least = width if kind == RIGID else int(rng.integers(1, width + 1)) if narrow else 1
        most = width if kind == RIGID else int(rng.integers(least, nodes + 1)) if narrow else nodes
        jobs.append(Flexible(number, submit, run, estimate, width, kind, least, most))
    return jobs


def planned(jobs, nodes, *, long: int, order: str = "fcfs", rules: Rules | None = None) -> PlanningMachine:
    """`long`: from how many jobs, and steps, on the planner uses what it knows."""
    scheduler = SchedulerConfig.parse(f"{order}+conservative")
    machine = PlanningMachine(nodes, scheduler, flexible_table(jobs), rules or Rules())
    machine._registers.long_plan = machine._registers.long_profile = long
    machine.advance(NEVER_US)
    return machine


@pytest.mark.parametrize("mix", MIXES)
def test_a_dense_queue_is_planned_as_the_reference_plans_it(mix):
    for seed in range(12):
        nodes = 6 + seed % 5
        jobs = dense_jobs(seed, MIXES[mix], 60, nodes)
        expected = reference_plan(jobs, nodes, Reading())
        assert segments(planned(jobs, nodes, long=1)) == expected, f"seed {seed}"


@pytest.mark.sample(1)
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_remembered_changes_no_plan(mix, order):
    for seed in range(40):
        nodes = (10, 40, 100)[seed % 3]
        jobs = dense_jobs(seed, MIXES[mix], 400, nodes)
        from_scratch = segments(planned(jobs, nodes, long=NEVER_US, order=order))
        for long in (1, 16):
            assert segments(planned(jobs, nodes, long=long, order=order)) == from_scratch, (
                f"seed {seed}, {long}"
            )


@pytest.mark.parametrize(
    "rules",
    [
        Rules(minimum="placed"),
        Rules(minimum="shared"),
        Rules(minimum="pool"),
        Rules(minimum="pool_waiting_first"),
        Rules(place_at_minimum=True),
        Rules(tick_us=US),
        Rules(speedup=Amdahl(0.1)),
        Rules(speedup=Downey(2.0, parallelism=1.5)),
    ],
    ids=str,
)
def test_nor_under_any_other_rule(rules):
    for seed in range(20):
        few_malleable = (0.45, 0.5, 0.05)
        jobs = dense_jobs(seed, few_malleable, 300, 40)
        from_scratch = segments(planned(jobs, 40, long=NEVER_US, rules=rules))
        assert segments(planned(jobs, 40, long=1, rules=rules)) == from_scratch, f"seed {seed}"


def test_nor_where_jobs_run_longer_than_they_were_expected_to():
    for seed in range(30):
        jobs = [
            replace(job, run_us=job.run_us * 3) if job.number % 5 == 0 else job
            for job in dense_jobs(seed, (0.5, 0.5, 0), 300, 30)
        ]
        from_scratch = segments(planned(jobs, 30, long=NEVER_US))
        assert segments(planned(jobs, 30, long=1)) == from_scratch, f"seed {seed}"


def test_a_job_is_of_the_last_class_that_begins_below_it_and_speaks_for_those_that_begin_above():
    few = np.array([5, 1, 5, 9])
    own, speaks_from = classes_of(few)
    assert (own.tolist(), speaks_from.tolist()) == ([1, 0, 1, 2], [1, 0, 1, 2])
    many = np.arange(1600)
    own, speaks_from = classes_of(many)
    assert own.tolist() == [value // 100 for value in range(1600)]
    above = [-(-value // 100) for value in range(1600)]
    assert speaks_from.tolist() == [UNKNOWN if value == 16 else value for value in above]


def test_the_classes_of_jobs_are_those_that_the_reference_knows():
    assert tuple(t.JobClass) == (RIGID, MOLDABLE, MALLEABLE)
