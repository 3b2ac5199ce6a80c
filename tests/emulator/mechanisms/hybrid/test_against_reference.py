"""Each strategy equals the slow reference segment by segment, and every run is lawful."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.runs.preparation import prepare
from emulator.runs.scenario import from_mapping
from emulator.validation.laws import check
from emulator.workload.hybrid_kinds import MIXES
from oracle.hybrid_kit import (
    STRATEGIES,
    drawn_outages,
    hybrid_jobs,
    random_jobs,
    reference,
    segments,
    simulate,
    slower,
    who_has_them,
)

NODES = 4392
WARNINGS_US = (0, 2, 9)


@pytest.mark.sample(4)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("jobs", [8, 40])
def test_every_segment_of_every_job_is_that_of_the_reference(strategy, jobs):
    for seed in range(40):
        rng = np.random.default_rng([seed, jobs, STRATEGIES.index(strategy)])
        work, nodes = random_jobs(rng, jobs=jobs)
        warning_us = WARNINGS_US[seed % len(WARNINGS_US)]
        record, mechanism = simulate(work, nodes, strategy, warning_us=warning_us)
        slow = reference(work, nodes, strategy, warning_us=warning_us)
        assert segments(record) == slow.run(), f"seed {seed}"
        assert mechanism.tally.instant == slow.instant, f"seed {seed}"
        assert check(record) == [], f"seed {seed}"


@pytest.mark.sample(4)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_segment_is_that_of_the_reference_where_nodes_fail(strategy):
    told = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 3, STRATEGIES.index(strategy)])
        jobs, nodes = random_jobs(rng, jobs=40)
        work = slower(jobs, 1000)
        failing = {"mtbf_s": float(rng.choice([5e-3, 2e-2])), "repair_s": float(rng.choice([5e-3, 3e-2]))}
        settings = {"warning_us": 1000 * WARNINGS_US[seed % len(WARNINGS_US)], "release_us": 10_000}
        record, mechanism = simulate(work, nodes, strategy, **settings, **failing)
        outages = [each for each in drawn_outages(work, nodes, **failing) if each[0] < record.horizon_us]
        failures = who_has_them(work, nodes, strategy, outages, **settings, **failing)
        if failures is None:
            continue
        repairs_us = tuple(at_us for at_us, _, fails in outages if not fails)
        slow = reference(work, nodes, strategy, failures=failures, repairs_us=repairs_us, **settings)
        assert segments(record) == slow.run(), f"seed {seed}"
        assert mechanism.tally.instant == slow.instant, f"seed {seed}"
        told += len(failures)
    assert told > 100


@pytest.mark.sample(4)
@pytest.mark.parametrize("notices", MIXES)
def test_every_segment_is_that_of_the_reference_whoever_announces_jobs(notices):
    announced = 0
    for seed, strategy in enumerate(STRATEGIES):
        table = theta_jobs(notices, seed)
        work = hybrid_jobs(table)
        settings = {"warning_us": 120_000_000, "release_us": 600_000_000}
        record, mechanism = simulate(work, NODES, strategy, **settings)
        slow = reference(work, NODES, strategy, **settings)
        assert segments(record) == slow.run(), strategy
        assert mechanism.tally.instant == slow.instant, strategy
        announced += sum(job.notice_us >= 0 for job in work)
    assert announced > 10


def theta_jobs(notices, seed):
    """A day of a small machine that is hardly enough for them, with these notices."""
    workload = {
        "generate": [{"theta_year": {"days": 1, "jobs": 150}}],
        "transforms": [{"hybrid_kinds": {"notices": notices, "on_demand_share": 0.3, "rigid_share": 0.4}}],
    }
    return prepare(from_mapping({"seed": seed, "nodes": NODES, "workload": workload})).jobs


def test_the_random_workloads_reach_every_decision():
    preemptions = shrinks = guests = lapsed = queued = 0
    for seed in range(120):
        work, nodes = random_jobs(np.random.default_rng(seed), jobs=40)
        _, mechanism = simulate(work, nodes, STRATEGIES[seed % len(STRATEGIES)], warning_us=2)
        preemptions += mechanism.tally.preemptions
        shrinks += mechanism.tally.shrinks
        guests += mechanism.guest_starts
        lapsed += mechanism.tally.lapsed
        queued += mechanism.tally.queued
    assert min(preemptions, shrinks, guests, lapsed, queued) >= 5
