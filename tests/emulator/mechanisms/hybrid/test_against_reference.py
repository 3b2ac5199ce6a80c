"""Each mechanism equals the slow reference segment by segment, and every run is lawful."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.validation.laws import check
from oracle.hybrid_kit import STRATEGIES, random_jobs, reference, segments, simulate

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
