"""The experiments of realtime-wang-2017: every claim finds its runs, and figures are means over samples."""

from __future__ import annotations

import pytest

from emulator.experiments.claims import MissingRunError, World, judge
from emulator.experiments.paper import Options, find_paper
from emulator.experiments.realtime import PAPER
from emulator.experiments.realtime.measures import CLASSES, mean, ratio, share_lower
from emulator.experiments.realtime.read import ReadingChoice
from emulator.experiments.realtime.runs import ALIKE, _baseline_slowdown, _variants, seeds
from emulator.runs.scenario import from_mapping
from emulator.sweeps.execute import execute

FIGURES = [
    *(
        f"mechanism.{kind}_{what}{name}"
        for kind in ("realtime", "batch")
        for what in ("slowdown", "turnaround_s")
        for name in ("", *CLASSES)
    ),
    "mechanism.productive_utilization",
    "mechanism.system_utilization",
]


def world_of(rows: dict[str, dict[str, float]]) -> World:
    return World(1, rows)


def test_it_is_found_by_its_name():
    assert find_paper("realtime") is PAPER


@pytest.mark.slow
@pytest.mark.parametrize("quick", [True, False])
def test_every_claim_finds_its_runs_and_every_table_is_filled(quick: bool):
    options = Options(quick=quick, seeds=1)
    runs = PAPER.sweep(options).runs
    labels = [run.varied["label"] for run in runs]
    assert len(set(labels)) == len(labels)
    found = [world_of({label: dict.fromkeys(FIGURES, 1.0) for label in labels})]
    verdicts = judge(PAPER.claims(options), found)
    assert len({verdict.claim.id for verdict in verdicts}) == len(verdicts) >= 28
    assert [verdict.claim.id for verdict in verdicts if not verdict.values] == []
    assert all(values for verdict in verdicts for values in verdict.also.values())
    assert all(table.row_count for table in PAPER.tables(found))


@pytest.mark.slow
def test_the_full_experiment_has_twenty_samples_of_each_share():
    labels = {run.varied["label"] for run in PAPER.sweep(Options(seeds=1)).runs}
    for share in (5, 10, 20, 30, 40, 50):
        assert all(f"pre_ckpt/{share}/{sample}" in labels for sample in range(20))


def test_weeks_are_chosen_by_their_baseline_alone():
    usual = Options(seeds=2)
    assert all(
        ALIKE[0] <= _baseline_slowdown(seed, ReadingChoice.of(usual)) <= ALIKE[1] for seed in seeds(usual)
    )
    assert seeds(Options(seeds=2, readings={"weeks": "any"})) == [1001, 1002]
    elsewhere = seeds(Options(seeds=2, first_seed=501))
    assert all(501 <= seed < usual.first_seed for seed in elsewhere)


@pytest.mark.parametrize(
    ("reading", "workload", "mechanism"),
    [
        ({}, {"week": "a", "campaign": 1, "widest": 12288, "load": 0.9}, {"shared_cap": False}),
        (
            {"campaign": "30"},
            {"week": "a", "campaign": 30, "widest": 12288, "load": 0.9},
            {"shared_cap": False},
        ),
        (
            {"load": "0.95"},
            {"week": "a", "campaign": 1, "widest": 12288, "load": 0.95},
            {"shared_cap": False},
        ),
        (
            {"widest": "49152"},
            {"week": "a", "campaign": 1, "widest": 49152, "load": 0.9},
            {"shared_cap": False},
        ),
        ({"io": "shared"}, {"week": "a", "campaign": 1, "widest": 12288, "load": 0.9}, {}),
    ],
)
def test_every_run_follows_the_reading(reading, workload, mechanism):
    options = Options(quick=True, readings=reading)
    for _, week, policy, *_ in _variants(options):
        assert week == {"generate": [{"mira_week": workload}]}
        assert mechanism.items() <= policy.items()


def test_a_mean_over_samples_leaves_out_those_without_such_jobs():
    found = world_of(
        {
            "a/10/0": {"mechanism.x": 1.0}, "a/10/1": {"mechanism.x": None}, "a/10/2": {"mechanism.x": 4.0},
            "b/10/0": {"mechanism.x": 5.0},
        }
    )  # fmt: skip
    assert mean(found, "a", 10, "x") == 2.5
    assert ratio(found, "b", "a", 10, "x") == 2.0
    assert share_lower(found, ["a", "b"], "b", [10], "x") == 0.5
    with pytest.raises(MissingRunError):
        mean(found, "a", 20, "x")


def test_a_run_of_the_sweep_gives_all_figures_that_are_looked_at():
    run = next(
        run
        for run in PAPER.sweep(Options(quick=True, seeds=1)).runs
        if run.varied["label"] == "pre_ckpt_app/50/0"
    )
    row = execute(from_mapping(run.scenario.as_json()).model_dump_json())
    assert [name for name in FIGURES if row.get(name) is None] == []
