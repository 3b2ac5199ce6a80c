"""Comparing weeks: free nodes, on-demand usage, and which week is the most challenging."""

from __future__ import annotations

from datetime import date

import pytest

from emulator.workload.challenge import most_challenging_week, weeks
from emulator.workload.formats import load
from emulator.workload.swf import SwfLog
from testdata import TRACES

WEEK = 604_800
PRINTED_CORE_HOURS = 0.0125 * 372 * 168 * 16
"""Of the most challenging week: 1.25 % of 372 nodes with 16 cores."""


@pytest.fixture
def log():
    def build(*jobs, unix=0):
        submit, run, procs = zip(*jobs, strict=True)
        return SwfLog.build(
            len(jobs), [f"; UnixStartTime: {unix}"], submit_s=submit, wait_s=[0] * len(jobs), run_s=run,
            allocated_procs=procs,
        )  # fmt: skip

    return build


def test_free_nodes_are_the_mean_over_the_week_and_jobs_run_on_into_the_next(log):
    batch = log((0, WEEK + WEEK // 2, 4), (WEEK, WEEK // 2, 2), unix=3 * 86_400)
    first, second = weeks([batch], nodes=10)
    assert (first.begin, first.jobs, first.free_nodes, first.full_share) == (date(1970, 1, 4), 1, 6.0, 0.0)
    assert (second.begin, second.jobs, second.free_nodes) == (date(1970, 1, 11), 1, 7.0)


def test_minutes_with_less_than_a_node_free_are_full_and_overbooked_ones_no_fuller(log):
    (week,) = weeks([log((0, WEEK // 2, 15))], nodes=10)
    assert (week.full_share, week.free_nodes) == (0.5, 5.0)


def test_the_score_adds_both_as_shares_of_their_greatest(log):
    batch = log((0, WEEK, 8), (WEEK, WEEK, 6))
    on_demand = log((0, 3600, 1), (WEEK, 3600, 4))
    first, second = weeks([batch], [on_demand], nodes=10)
    assert (first.core_hours, second.core_hours) == pytest.approx((1, 4))
    assert (first.score, second.score) == pytest.approx((1.25, 1.5))
    assert most_challenging_week([first, second]) is second


def test_equal_weeks_are_told_by_their_dates(log):
    figures = weeks([log((0, WEEK, 8), (WEEK, WEEK, 8))], nodes=10)
    assert most_challenging_week(figures).begin == date(1970, 1, 1)


def test_a_usage_of_a_week_that_is_not_there_is_an_error(log):
    with pytest.raises(ValueError, match="no week begins on 2015-04-05; the first begins on 1970-01-01"):
        weeks([log((0, 5, 1))], nodes=10, known_core_hours={date(2015, 4, 5): 1.0})


def test_there_must_be_batch_jobs():
    with pytest.raises(ValueError, match="there are no batch jobs"):
        weeks([SwfLog.build(0)], nodes=10)


@pytest.mark.slow
def test_with_the_printed_usage_the_papers_week_is_the_most_challenging_of_its_logs():
    lcrc, aps = load(TRACES / "lcrc"), load(TRACES / "aps")
    known = {date(2015, 4, 5): PRINTED_CORE_HOURS}
    figures = weeks([lcrc], [aps], nodes=304, known_core_hours=known)
    assert len(figures) == 79
    assert most_challenging_week(figures).begin == date(2015, 4, 5)
    # By free nodes alone it is the eighth: the paper's choice follows from both criteria together.
    by_free = sorted(figures, key=lambda week: week.free_nodes)
    assert [week.begin for week in by_free].index(date(2015, 4, 5)) == 7
    assert round(by_free[7].free_nodes, 1) == 22.5


def test_how_much_usage_would_make_a_week_the_most_challenging(log):
    batch = log((0, WEEK, 8), (WEEK, WEEK, 6), (2 * WEEK, WEEK, 9))
    on_demand = log((0, 3600, 1), (WEEK, 3600, 4))
    figures = weeks([batch], [on_demand], nodes=10)
    for week in figures:
        need = week.first_from_core_hours
        for hours, is_first in ((need + 0.01, True), (max(need - 0.01, 0), False)):
            again = weeks([batch], [on_demand], nodes=10, known_core_hours={week.begin: hours})
            assert (most_challenging_week(again).begin == week.begin) == is_first, (week, hours)


def test_a_week_so_empty_that_no_usage_makes_it_the_first_has_no_such_figure(log):
    figures = weeks([log((0, WEEK, 10), (WEEK, 1, 1))], nodes=10)
    assert [week.first_from_core_hours for week in figures] == [0.0, None]


@pytest.mark.slow
def test_less_than_half_of_the_printed_usage_makes_the_papers_week_the_first():
    figures = weeks([load(TRACES / "lcrc")], [load(TRACES / "aps")], nodes=304)
    week = next(week for week in figures if week.begin == date(2015, 4, 5))
    assert week.on_demand_jobs == 0
    assert 5480 < week.first_from_core_hours < PRINTED_CORE_HOURS / 2
    assert most_challenging_week(figures).begin == date(2014, 4, 27)
