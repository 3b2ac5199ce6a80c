"""A recommendation is tried on weeks that it was not made from."""

from __future__ import annotations

import pytest

from emulator.study.held_out import HeldOut, on_trial
from emulator.study.judge import Wishes, ratios
from emulator.study.settings import SPLIT, Setting

TODAY, SMALL, LARGE = Setting(SPLIT), Setting("basic", 2), Setting("basic", 6)
ALL = [TODAY, SMALL, LARGE]


def row(setting, week, *, wait_min, rejected=0):
    return {
        "label": setting.label,
        "week": week,
        "window.ondemand_requests": 50,
        "window.ondemand_rejected": rejected,
        "window.ondemand_reject_rate": rejected / 50,
        "window.mean_wait_s": 60.0 * wait_min,
        "window.reserve_idle_node_h": setting.reserve * 168.0,
        "window.utilization": 0.8,
    }


def rows(weeks, *, rejects_from):
    """The small reserve is best until the week from which on it rejects something."""
    return [
        each
        for at, week in enumerate(weeks)
        for each in (
            row(TODAY, week, wait_min=100),
            row(SMALL, week, wait_min=10, rejected=4 * (at >= rejects_from)),
            row(LARGE, week, wait_min=30),
        )
    ]


def test_a_choice_that_fails_later_is_seen_to_fail():
    weeks = [f"week {number}" for number in (8, 9, 10, 11)]
    assert on_trial(rows(weeks, rejects_from=2)[::-1], ALL, Wishes()) == HeldOut(
        setting=SMALL,
        first_weeks=2,
        then_weeks=2,
        requests=100,
        rejected=8,
        keeps=False,
        wait_ratio=0.1,
        best=LARGE,
    )


def test_a_choice_that_holds_is_the_best_of_the_later_weeks_too():
    weeks = [f"2026-01-{day:02}" for day in (4, 11, 18, 25)] + ["2026-02-01"]
    found = on_trial(rows(weeks, rejects_from=9), ALL, Wishes())
    assert (found.setting, found.best, found.keeps, found.first_weeks, found.then_weeks) == (
        SMALL,
        SMALL,
        True,
        2,
        3,
    )


def test_three_weeks_have_no_halves():
    assert on_trial(rows(["2026-01-04", "2026-01-11", "2026-01-18"], rejects_from=9), ALL, Wishes()) is None


def test_intervals_are_of_the_ratio_to_today_in_the_same_weeks():
    """Waits of weeks differ tenfold, their ratio does not: paired, there is nothing to be unsure of."""
    found = [
        each
        for at in range(1, 6)
        for each in (
            row(TODAY, f"w{at}", wait_min=100.0**at),
            row(LARGE, f"w{at}", wait_min=30 * 100.0 ** (at - 1)),
        )
    ]
    assert ratios(found, ALL, seed=1)[LARGE.label] == pytest.approx((0.3, 0.3))
    assert ratios([each for each in found if each["label"] != SPLIT], ALL, seed=1) == {}
