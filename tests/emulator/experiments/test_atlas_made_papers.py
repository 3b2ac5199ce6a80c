"""The atlas on made papers, whose hidden worlds are known: it tells true claims from false ones as often as it says."""

from __future__ import annotations

from statistics import fmean

import pytest

from atlas_kit import PARAMETERS, SURE, told_and_true
from emulator.experiments.atlas.verdict import MOST, wilson

PAPERS = 40


@pytest.fixture(scope="module")
def with_all_figures():
    return told_and_true(PAPERS)


def right(found):
    """Of the claims that are told: how many are told rightly, and how many there are."""
    told = [SURE[told] is true for told, _, true in found if told in SURE]
    return sum(told), len(told)


@pytest.mark.slow
def test_what_is_told_is_right_at_the_stated_rate(with_all_figures):
    rightly, told = right(with_all_figures)
    assert told > len(with_all_figures) / 2
    assert wilson(rightly, told)[0] >= MOST


@pytest.mark.parametrize("truth", [True, False])
def test_true_and_false_claims_alike(with_all_figures, truth):
    some = [each for each in with_all_figures if SURE.get(each[0]) is truth]
    rightly, told = right(some)
    assert wilson(rightly, told)[0] >= MOST


def test_a_claim_is_true_as_often_as_it_holds_in_the_worlds(with_all_figures):
    for low, high in ((0.0, 0.2), (0.2, 0.8), (0.8, 1.01)):
        some = [(share, true) for _, share, true in with_all_figures if low <= share < high]
        least, most = wilson(sum(true for _, true in some), len(some))
        assert least <= fmean(share for share, _ in some) <= most


@pytest.mark.slow
def test_fewer_printed_figures_make_nothing_surer(with_all_figures):
    fewer, none = told_and_true(PAPERS, printed=("load",)), told_and_true(PAPERS, printed=())
    sure = [right(each)[1] for each in (with_all_figures, fewer, none)]
    assert sure == sorted(sure, reverse=True)
    assert sure[0] > sure[-1]
    for each in (fewer, none):
        rightly, told = right(each)
        assert wilson(rightly, told)[0] >= MOST


@pytest.mark.slow
def test_a_range_that_leaves_out_the_hidden_world_is_noticed(with_all_figures):
    """The rates above can fail: nine of ten hidden worlds lie outside of this range."""
    ranges = (*PARAMETERS[:2], PARAMETERS[2].model_copy(update={"high": 0.1}))
    (wrongly, told), (rightly, of) = right(told_and_true(PAPERS, ranges=ranges)), right(with_all_figures)
    assert wrongly / told < rightly / of - 0.05
