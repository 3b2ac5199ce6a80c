"""Transforms: what each does to a job table, and what a scenario's list of them may say."""

from __future__ import annotations

import pytest
import yaml

from emulator.workload.table import JobTable
from emulator.workload.transforms import (
    Limit,
    ScaleInterarrival,
    Shift,
    Transform,
    WholeSeconds,
    Window,
    parse_transforms,
)

US = 1_000_000


@pytest.fixture
def jobs():
    return JobTable.build(submit_us=[0, 10 * US, 20 * US, 40 * US], run_us=[US] * 4, nodes=[1, 2, 3, 4])


def submits(table):
    return [
        (number, submit / US) for number, submit in zip(table.number.tolist(), table.submit_us, strict=True)
    ]


def test_a_window_keeps_its_jobs_and_begins_at_zero(jobs):
    assert submits(Window(begin_s=10, end_s=40).apply(jobs, nodes=4)) == [(2, 0), (3, 10)]


def test_a_window_may_begin_between_jobs_or_hold_none(jobs):
    assert submits(Window(begin_s=5, end_s=15).apply(jobs, nodes=4)) == [(2, 5)]
    assert submits(Window(begin_s=100, end_s=200).apply(jobs, nodes=4)) == []


def test_scaling_multiplies_the_gaps_from_the_first_submit_on(jobs):
    late = Shift(by_s=100).apply(jobs, nodes=4)
    assert submits(ScaleInterarrival(0.5).apply(late, nodes=4)) == [(1, 100), (2, 105), (3, 110), (4, 120)]
    assert submits(ScaleInterarrival(2).apply(jobs, nodes=4)) == [(1, 0), (2, 20), (3, 40), (4, 80)]


def test_times_may_be_cut_to_whole_seconds(jobs):
    late = Shift(by_s=0.5).apply(jobs, nodes=4)
    scaled = ScaleInterarrival(0.13).apply(late, nodes=4)  # 0, 1.3, 2.6, 5.2 s after the first
    assert submits(WholeSeconds().apply(scaled, nodes=4)) == [(1, 0.5), (2, 1.5), (3, 2.5), (4, 5.5)]


def test_jobs_that_scaling_brings_together_go_by_number():
    jobs = JobTable.build(submit_us=[0, 1, 2], number=[3, 2, 1], run_us=[US] * 3, nodes=[1] * 3)
    assert ScaleInterarrival(0.01).apply(jobs, nodes=4).number.tolist() == [1, 2, 3]


def test_a_limit_keeps_the_first_jobs(jobs):
    assert submits(Limit(2).apply(jobs, nodes=4)) == [(1, 0), (2, 10)]
    assert len(Limit(100).apply(jobs, nodes=4)) == 4


def test_a_shift_moves_all_jobs_but_none_before_zero(jobs):
    later = Shift(5).apply(jobs, nodes=4)
    assert submits(later) == [(1, 5), (2, 15), (3, 25), (4, 45)]
    assert submits(Shift(-5).apply(later, nodes=4)) == submits(jobs)
    with pytest.raises(
        ValueError, match="shift: by_s -6 moves the first job before time 0; it is submitted at 5 s"
    ):
        Shift(-6).apply(later, nodes=4)


@pytest.mark.parametrize(
    "transform", [Window(0, 1), ScaleInterarrival(2), WholeSeconds(), Limit(1), Shift(-1)]
)
def test_no_jobs_stay_no_jobs(transform):
    assert isinstance(transform, Transform)
    assert len(transform.apply(JobTable.empty(), nodes=4)) == 0


def test_a_scenarios_list_becomes_transforms():
    items = yaml.safe_load(
        """
        - window: {begin_s: 0, end_s: 86400}
        - scale_interarrival: 0.5
        - limit: 1000
        - shift: {by_s: 60}
        """
    )
    assert parse_transforms(items) == [Window(0, 86400), ScaleInterarrival(0.5), Limit(1000), Shift(60)]
    assert parse_transforms(None) == []


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([{"windwo": {}}], "there is no transform 'windwo'; did you mean 'window'?"),
        ([{"zzz": {}}], "there is no transform 'zzz'; there are: .*limit"),
        ([{"window": {"begin": 0, "end_s": 1}}], "window has no parameter 'begin'; did you mean 'begin_s'?"),
        ([{"window": {"begin_s": 0}}], "window needs the parameter 'end_s'"),
        ([{"window": 5}], "window takes parameters by name .begin_s, end_s., not 5"),
        (["limit"], "limit needs the parameter 'jobs'"),
        ([{"limit": None}], "limit needs the parameter 'jobs'"),
        ([{"limit": 0}], "limit: jobs must be at least 1, not 0"),
        ([{"limit": 2.5}], "limit: jobs must be a whole number, not 2.5"),
        ([{"limit": True}], "limit: jobs must be a whole number, not True"),
        ([{"window": {"begin_s": "1 h", "end_s": 5}}], "window: begin_s must be a number, not '1 h'"),
        ([{"window": {"begin_s": 5, "end_s": 5}}], "window: end_s must be more than 5, not 5"),
        ([{"window": {"begin_s": -1, "end_s": 5}}], "window: begin_s must be at least 0, not -1"),
        ([{"scale_interarrival": 0}], "scale_interarrival: factor must be more than 0, not 0"),
        ([{"scale_interarrival": float("nan")}], "scale_interarrival: factor must be a number, not nan"),
        ([{"limit": 1, "shift": 1}], "a transform has one name, and here are 2: limit, shift"),
        ({"limit": 1}, "transforms are a list"),
    ],
)
def test_what_is_wrong_in_a_scenarios_list_is_said_with_the_nearest_right_name(items, message):
    with pytest.raises(ValueError, match=message):
        parse_transforms(items)


def test_a_factor_that_moves_jobs_out_of_time_is_an_error(jobs):
    with pytest.raises(ValueError, match="moves the last job beyond 285 years"):
        ScaleInterarrival(1e12).apply(jobs, nodes=4)
