"""The malleable paper: every claim looks at runs that are made, and chance has its say only where it has one."""

from __future__ import annotations

from collections import defaultdict

import pytest

from emulator.experiments.claims import World
from emulator.experiments.malleable import PAPER
from emulator.experiments.paper import Options, find_paper
from emulator.runs.scenario import ScenarioError
from testdata import TRACES


class AnyFigure(dict):
    """A row with every figure, all 1."""

    def get(self, name, default=None):
        return 1.0


@pytest.mark.slow
@pytest.mark.parametrize("quick", [True, False])
def test_every_claim_and_its_other_readings_look_at_runs_that_are_made(quick):
    options = Options(quick=quick, traces=TRACES)
    labels = {run.varied["label"] for run in PAPER.sweep(options).runs}
    world = World(1001, {label: AnyFigure() for label in labels})
    for claim in PAPER.claims(options):
        for measure in (claim.measure, *claim.also.values()):
            try:
                measure(world)
            except ZeroDivisionError:
                assert claim.id == "P-area"  # all figures are equal here
    assert len(PAPER.tables([world])) == (7 if quick else 9)


def test_claims_have_names_of_their_own():
    names = [claim.id for claim in PAPER.claims(Options(traces=TRACES))]
    assert len(names) == len(set(names))


@pytest.mark.slow
def test_ten_seeds_are_run_and_what_no_chance_has_part_in_is_run_once():
    keys = defaultdict(set)
    for run in PAPER.sweep(Options(traces=TRACES)).runs:
        keys[run.varied["label"]].add((run.varied["seed"], run.key))
    assert {len(runs) for runs in keys.values()} == {10}
    different = {label: len({key for _, key in runs}) for label, runs in keys.items()}
    assert different["KTH/0.75/rigid"] == different["KTH/0.75/malleable-100"] == 1
    assert different["KTH/0.75/malleable-50"] == different["KTH/0.75/mixed-40"] == 10


def test_the_paper_is_a_plug_in():
    assert find_paper("malleable") is PAPER


def test_it_has_no_stand_in():
    with pytest.raises(ScenarioError, match="there is no stand-in for its logs"):
        PAPER.sweep(Options())
