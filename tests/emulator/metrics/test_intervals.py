"""How sure a difference is: weeks, or days, are drawn, not jobs."""

from __future__ import annotations

import numpy as np
import pytest

from balancer.clock import US
from emulator.metrics.intervals import blocks, mean_change, mean_over_seeds

WEEK_US = 604_800 * US


def weeks_of(*changes: float, jobs: int = 50):
    """(change, submit) of so many jobs a week, all with the week's change."""
    return np.repeat(np.array(changes), jobs), np.repeat(np.arange(len(changes)) * WEEK_US, jobs)


def test_jobs_of_a_week_are_one_piece_of_chance_however_many_they_are():
    few, many = (mean_change(*weeks_of(1, -1, 3, 5, jobs=jobs), "x") for jobs in (10, 1000))
    assert (few.mean, few.blocks, few.unit) == (2, 4, "weeks")
    assert (few.low, few.high) == (many.low, many.high)
    assert not few.is_sure


def test_a_change_that_every_week_has_is_sure():
    found = mean_change(*weeks_of(3, 4, 3, 4, 5, 4), "x")
    assert 3 <= found.low < found.mean < found.high <= 5
    assert found.is_sure


def test_with_few_weeks_days_are_drawn_and_with_few_days_nothing_is_said():
    submit_us = np.arange(6) * 86_400 * US
    assert blocks(submit_us) == ("days", pytest.approx(np.arange(6)))
    found = mean_change(np.ones(3), submit_us[:3], "x")
    assert (found.mean, found.low, found.high, found.unit, found.is_sure) == (1, None, None, "days", False)
    assert mean_change(np.empty(0), np.empty(0, np.int64), "x") is None


def test_the_interval_holds_the_true_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        found = mean_over_seeds(rng.normal(7, 2, 30), "x")
        held += found.low <= 7 <= found.high
    assert 175 <= held <= 199
