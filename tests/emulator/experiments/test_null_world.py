"""Where nothing makes a difference no claim of a difference holds, in any paper."""

from __future__ import annotations

from statistics import fmean

import pytest

from claims_kit import noisy_worlds, null_worlds
from emulator.experiments.claims import judge
from emulator.experiments.criteria import Kind, Outcome, Procedure
from emulator.experiments.paper import GROUP, Options, find_paper
from emulator.plugins import plugin_names
from testdata import TRACES

PAPERS = plugin_names(GROUP)
SEEDS = 10


def verdicts(name, found, *, quick=False):
    paper = find_paper(name)
    return judge(paper.claims(Options(quick=quick, traces=TRACES if paper.reads_logs else None)), found)


@pytest.mark.parametrize("name", PAPERS)
@pytest.mark.parametrize("quick", [True, False])
def test_a_world_in_which_every_run_is_the_same_holds_no_difference(name, quick):
    found = verdicts(name, null_worlds(SEEDS), quick=quick)
    differences = [verdict for verdict in found if verdict.claim.criterion.kind is Kind.DIFFERENCE]
    assert differences
    assert all(len(verdict.values) == SEEDS for verdict in differences)
    assert [verdict.claim.id for verdict in differences if verdict.holds] == []


@pytest.mark.parametrize("name", PAPERS)
def test_chance_alone_makes_a_difference_no_more_often_than_the_level_says(name):
    held = []
    for world in range(4):
        for verdict in verdicts(name, noisy_worlds(SEEDS, world)):
            criterion = verdict.claim.criterion
            if criterion.kind is Kind.DIFFERENCE and criterion.test is Procedure.SIGN:
                held.append(verdict.holds)
    assert fmean(held) <= 0.05


@pytest.mark.parametrize("name", PAPERS)
def test_one_seed_tells_no_difference_and_no_level(name):
    for verdict in verdicts(name, null_worlds(1)):
        if verdict.claim.criterion.test is Procedure.SIGN:
            assert verdict.outcome is Outcome.OPEN


@pytest.mark.parametrize("name", PAPERS)
def test_every_claim_has_a_kind_and_what_is_not_tested_says_why(name):
    for claim in find_paper(name).claims(Options(traces=TRACES)):
        criterion = claim.criterion
        assert (criterion.kind is Kind.DIFFERENCE) == (criterion.margin is not None)
        assert criterion.kind is not Kind.UNTESTED or criterion.reason
