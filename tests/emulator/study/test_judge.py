"""What a study recommends, and how sure it is."""

from __future__ import annotations

import pytest

from emulator.study.judge import Wishes, advise, at_most, figures
from emulator.study.settings import SPLIT, Setting, default_reserves, settings

TODAY, LITTLE, MUCH, LATE = Setting(SPLIT), Setting("basic", 0), Setting("basic", 12), Setting("basic", 0, 10)
WEEKS = [f"2014-{month:02}-01" for month in range(1, 11)]


def row(setting: Setting, week: str, *, wait_min: float, rejected: int = 0, idle_h: float = 0) -> dict:
    return {
        "label": setting.label,
        "week": week,
        "window.ondemand_requests": 100,
        "window.ondemand_rejected": rejected,
        "window.ondemand_reject_rate": rejected / 100,
        "window.mean_wait_s": 60.0 * wait_min,
        "window.reserve_idle_node_h": idle_h,
        "window.utilization": 0.8,
    }


def rows(**of_little) -> list[dict]:
    return [
        each
        for week in WEEKS
        for each in (
            row(TODAY, week, wait_min=100),
            row(LITTLE, week, wait_min=10, **{"rejected": 3} | of_little),
            row(MUCH, week, wait_min=20, idle_h=50),
            row(LATE, week, wait_min=5),
        )
    ]


ALL = [TODAY, LITTLE, MUCH, LATE]


def test_the_setting_with_the_least_batch_wait_among_those_that_keep_to_the_wishes_is_taken():
    advice = advise(rows(), ALL, Wishes(), seed=1)
    assert advice.meets
    assert advice.figures.setting == MUCH
    assert (advice.confidence, advice.same_choice, advice.wait_ratio) == (1.0, 1.0, (0.2, 0.2))
    assert (advice.figures.wait_ratio, advice.figures.requests, advice.weeks) == (0.2, 1000, 10)


def test_who_accepts_some_rejections_or_a_wait_gets_another_advice():
    assert advise(rows(), ALL, Wishes(most_rejected=0.03), seed=1).figures.setting == LITTLE
    assert advise(rows(), ALL, Wishes(longest_wait_min=10), seed=1).figures.setting == LATE


def test_if_nothing_keeps_to_the_wishes_the_nearest_is_named():
    advice = advise(rows(), [TODAY, LITTLE], Wishes(), seed=1)
    assert (advice.meets, advice.figures.setting, advice.confidence) == (False, LITTLE, 0.0)


def test_a_setting_that_fails_in_one_week_of_ten_is_trusted_less():
    one_bad = [
        each | {"window.ondemand_rejected": 0} if each["label"] == LITTLE.label else each for each in rows()
    ]
    bad = next(each for each in one_bad if each["label"] == LITTLE.label)
    bad["window.ondemand_rejected"] = 6
    advice = advise(one_bad, ALL, Wishes(most_rejected=0.01), seed=1)
    assert (advice.meets, advice.figures.setting) == (True, LITTLE)
    # The bad week must be drawn less than twice in ten draws: 0.9**10 + 10 * 0.1 * 0.9**9 = 74 %.
    assert advice.confidence == pytest.approx(0.736, abs=0.04)


@pytest.mark.parametrize(
    ("hits", "trials", "share"), [(0, 10, 0.2589), (1, 10, 0.3942), (10, 10, 1.0), (0, 1, 0.95)]
)
def test_how_many_unseen_weeks_may_be_bad_is_the_bound_of_clopper_and_pearson(hits, trials, share):
    assert at_most(hits, trials) == pytest.approx(share, abs=1e-4)


def test_figures_are_means_over_the_runs_with_their_ends():
    found = {each.setting.label: each for each in figures(rows(), ALL)}
    assert list(found) == [each.label for each in ALL]
    few = found[LITTLE.label]
    assert (few.runs, few.rejected, few.reject_rate, few.runs_with_rejections) == (10, 30, 0.03, 10)
    assert (few.wait_min, few.least_wait_min, few.most_wait_min, few.wait_ratio) == (10, 10, 10, 0.1)


def test_what_is_tried_unless_said_otherwise():
    assert default_reserves(68) == [0, 6, 12, 24, 34]
    labels = [each.label for each in settings([0, 12], [0, 5], [30], ["peak"])]
    assert labels == [
        "split", "batch only", "basic R=0 W=0", "basic R=0 W=5", "basic R=12 W=0", "basic R=12 W=5",
        "hint H=30", "peak",
    ]  # fmt: skip
