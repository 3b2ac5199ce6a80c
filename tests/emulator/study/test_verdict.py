"""Doing nothing is a candidate: when a study says merge, keep two machines, or that it cannot know."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from emulator.study.first_screen import tiles
from emulator.study.held_out import on_trial
from emulator.study.judge import Wishes, advise, figures
from emulator.study.settings import SPLIT, Setting
from emulator.study.verdict import KEEP, MERGE, UNTOLD, Verdict, verdict

TODAY, MERGED, PEAK = Setting(SPLIT), Setting("basic", 3), Setting("peak")


def rows(waits_min, rejected=None):
    """Of a week each: today waits 100 minutes, the merger as said."""
    return [
        {
            "label": setting.label,
            "week": f"week {week}",
            "window.ondemand_requests": 50,
            "window.ondemand_rejected": lost,
            "window.ondemand_reject_rate": lost / 50,
            "window.mean_wait_s": 60.0 * wait_min,
            "window.reserve_idle_node_h": 10.0,
            "window.utilization": 0.8,
        }
        for week, merged_min in enumerate(waits_min)
        for setting, wait_min, lost in (
            (TODAY, 100, 0),
            (MERGED, merged_min, 0 if rejected is None else rejected[week]),
        )
    ]


def judged(found, doubts=()):
    tried = [TODAY, MERGED]
    return verdict(advise(found, tried, Wishes(), seed=1), on_trial(found, tried, Wishes()), Wishes(), doubts)


@pytest.mark.parametrize(
    ("waits_min", "value", "reason"),
    [
        ([50, 40, 60, 50], MERGE, "with a reserve of 3 nodes, batch jobs wait 50 % of today's"),
        ([106, 106, 106, 106], KEEP, "wait 106 % of today's, and that is the best"),
        ([100, 100, 100, 100], KEEP, "wait 100 % of today's"),
        ([106, 106], KEEP, "wait 106 % of today's"),
        ([50, 40], UNTOLD, "seen in 2 weeks only; 4 or more would tell"),
        ([50], UNTOLD, "seen in 1 week only"),
        ([20, 180, 30, 150, 90], UNTOLD, "more weeks would tell"),
        ([50, 50, 101, 101], UNTOLD, "more weeks would tell"),
    ],
)
def test_a_merger_has_to_beat_today_by_the_whole_interval_and_on_weeks_that_did_not_choose_it(
    waits_min, value, reason
):
    found = judged(rows(waits_min))
    assert (found.value, reason in found.reason) == (value, True), found


def test_the_nearest_merger_does_not_read_as_advice_and_a_predictor_keeps_no_fixed_number():
    found = figures(
        [row | {"label": "peak"} for row in rows([50], rejected=[1]) if row["label"] != "split"], [PEAK]
    )
    answer = SimpleNamespace(
        advice=[("", SimpleNamespace(figures=found[0], wait_ratio=None))],
        found=(),
        ondemand_nodes=4,
        pairings=1,
        verdicts=(Verdict(KEEP, "no merger keeps to the limits"),),
    )
    assert [(name, value) for name, value, _ in tiles(answer)] == [
        ("On-demand nodes kept, if merged", "as predicted"),
        ("Mean batch wait, today to merged", "50 min"),
        ("Requests refused, if merged", "1 of 50"),
    ]


def test_a_merger_that_rejects_more_than_is_wished_is_no_reason_to_give_up_two_machines():
    found = judged(rows([50, 50, 50, 50], rejected=[0, 0, 1, 0]))
    assert found.value == KEEP
    assert "the one with a reserve of 3 nodes comes nearest: 1 of 200 rejected" in found.reason


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (Setting("basic", 12), "a reserve of 12 nodes"),
        (Setting("basic", 1, 5), "a reserve of 1 node and requests that wait up to 5 min"),
        (Setting("basic"), "no reserve"),
        (Setting("hint", notice_min=15), "15 min of notice from users"),
        (Setting("peak", is_predictive=True), "a reserve that peak predicts"),
    ],
)
def test_a_setting_is_said_in_words_of_the_site(setting, words):
    assert setting.words == words


def test_runs_that_are_not_understood_tell_nothing_however_good_they_look():
    found = judged(rows([50, 50, 50, 50]), ["Today is not understood."])
    assert found.sentence == "Cannot be told: Today is not understood."


def test_without_a_merger_of_the_wished_wait_nothing_can_be_told():
    assert verdict(None, None, Wishes()).value == UNTOLD
    assert "--accept-wait-min" in verdict(None, None, Wishes()).reason


def test_no_wait_today_is_nothing_to_shorten():
    calm = [each | {"window.mean_wait_s": 0.0} for each in rows([0, 0, 0, 0])]
    assert judged(calm).sentence.startswith("Keep two machines: batch jobs do not wait today")
