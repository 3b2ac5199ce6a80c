"""The verdict *merge* on random sites, against the mean of many more weeks of the same generators.

The error rate that docs/study.md states: of the sites that are told to merge at most 5 % had better not, because batch
jobs wait longer in the long run, or more requests are rejected than is accepted or than 3 %.
"""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from emulator.study import verdict as verdicts
from emulator.study.held_out import on_trial
from emulator.study.judge import Wishes, advise, at_most, sums
from emulator.study.settings import SPLIT, Setting
from gates import GATE
from random_site import RandomSite, rows_of, settings_of

STATED, TOLERATED = 0.05, 0.03
TRUTH_WEEKS = range(1000, 1040)
FEW_REQUESTS = 56
"""A site of which five weeks reject next to nothing, and the long run a tenth."""


def judged(seed):
    """A site, what its user accepts, and what a study of some weeks says: the verdict and the setting."""
    site, rng = RandomSite.drawn(seed), np.random.default_rng([7, seed])
    weeks = int(rng.integers(4, 13))
    wishes = Wishes(float(rng.choice([0.0, 0.01, 0.05])), float(rng.choice([0, 10])))
    settings = settings_of(site, sorted({0, wishes.longest_wait_min}))
    rows = rows_of(site, settings, range(weeks))
    advice = advise(rows, settings, wishes, seed=1)
    found = verdicts.verdict(advice, on_trial(rows, settings, wishes), wishes)
    return site, wishes, found.value, advice.figures.setting


def is_right(site, wishes, setting):
    """Whether the merger is better than today in the long run."""
    truth = rows_of(site, [Setting(SPLIT), setting], TRUTH_WEEKS)
    requests, rejected, wait_s = sums(truth, setting)
    today_s = sums(truth, Setting(SPLIT))[2]
    return wait_s < today_s and rejected <= max(wishes.most_rejected, TOLERATED) * requests


def chance(wrong, merged):
    """Of at least so many wrong verdicts if the stated rate is the true one."""
    return sum(comb(merged, k) * STATED**k * (1 - STATED) ** (merged - k) for k in range(wrong, merged + 1))


@pytest.mark.slow
def test_merge_is_wrong_no_more_often_than_is_stated():
    merged, wrong = 0, []
    for seed in GATE.random_sites:
        site, wishes, value, setting = judged(seed)
        if value == verdicts.MERGE:
            merged += 1
            if not is_right(site, wishes, setting):
                wrong.append(seed)
    assert merged > len(GATE.random_sites) // 10
    assert chance(len(wrong), merged) > 0.001, (merged, wrong)


@pytest.mark.slow
def test_without_a_look_at_the_number_of_requests_it_would_be_wrong(monkeypatch):
    """Few requests, of which none happened to be rejected in the weeks at hand."""
    site, wishes, value, setting = judged(FEW_REQUESTS)
    assert (value, is_right(site, wishes, setting)) == (verdicts.UNTOLD, False)
    monkeypatch.setattr(verdicts, "_FEW", 1.0)
    assert judged(FEW_REQUESTS)[2] == verdicts.MERGE


@pytest.mark.parametrize(("hits", "trials"), [(0, 100), (3, 50), (700, 20_000)])
def test_the_bound_of_a_rate_is_where_so_few_hits_have_a_chance_of_5_percent(hits, trials):
    rng = np.random.default_rng(5)
    draws = rng.binomial(trials, at_most(hits, trials), 200_000)
    assert (draws <= hits).mean() == pytest.approx(0.05, abs=0.003)
