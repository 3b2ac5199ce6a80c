"""Settings of a sweep in order, seed by seed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.shell_completion import ShellComplete

from command_line import emulate
from emulator.cli import main
from emulator.commands.options import USUAL_FIGURES
from emulator.runs.scenario import ScenarioError
from emulator.sweeps.ranking import rank, table

DEFAULT = Path(__file__).parents[3] / "scenarios" / "default.yaml"


def rows(**settings):
    """`rows(a=[1, 2])`: a row for each seed from 1 on."""
    return [
        {"label": label, "seed": seed, "repeat": 1, "wait": wait}
        for label, waits in settings.items()
        for seed, wait in enumerate(waits, 1)
    ]


VARIED = ("label", "seed", "repeat")


def test_what_a_seed_does_to_all_settings_is_no_difference():
    chance = [0, 100, 20, 300, 50, 70]
    little = [value + more for value, more in zip(chance, (3, -3, 2, -1, 1, 0), strict=True)]
    found = rows(far=[value + 9 for value in chance], best=chance, near=little)
    best, near, far = rank(found, VARIED, "wait")
    assert [each.setting["label"] for each in (best, near, far)] == ["best", "near", "far"]
    assert best.beyond_best is None
    assert (far.beyond_best.low, far.beyond_best.high, far.beyond_best.is_sure) == (9, 9, True)
    assert near.beyond_best.low < 0 < near.beyond_best.high
    assert not near.beyond_best.is_sure


def test_only_seeds_that_all_settings_have_count():
    ranked = rank(rows(a=[1, 2, 3, 4, 5], b=[0, 9, 9, 9]), VARIED, "wait", highest=True)
    assert [(each.setting["label"], each.mean, each.seeds) for each in ranked] == [
        ("b", 6.75, 4),
        ("a", 2.5, 4),
    ]


def test_few_seeds_cannot_tell():
    ranked = rank(rows(a=[1, 1], b=[5, 5]), VARIED, "wait")
    assert ranked[1].beyond_best.low is None
    assert table(ranked, "wait").row_count == 2


@pytest.mark.parametrize(
    ("found", "figure", "said"),
    [
        (rows(a=[1]), "wit", "no run has such a figure; did you mean 'wait'?"),
        (rows(a=[1]), "utilization", "no run has such a figure; results.csv has those that there are"),
        (rows(a=[1]), "label", "is no number"),
        ([*rows(a=[1]), {"label": "b", "seed": 9, "repeat": 1, "wait": 2}], "wait", "no seed in common"),
    ],
)
def test_what_cannot_be_ranked_is_an_error(found, figure, said):
    with pytest.raises(ScenarioError, match=re.escape(said)):
        rank(found, VARIED, figure)


def test_a_sweep_prints_the_order_by_the_mean_wait_if_no_figure_is_named(tmp_path):
    grid = tmp_path / "grid.yaml"
    workload = {"generate": [{"daily_batch": {"days": 0.5, "jobs": 40}}], "transforms": ["shake"]}
    points = [{"label": "easy", "scheduler": "fcfs+easy"}, {"label": "none", "scheduler": "fcfs+none"}]
    sweep = {"scenario": {"nodes": 8, "workload": workload}, "points": points, "seeds": 4}
    grid.write_text(yaml.safe_dump(sweep))
    given = ["sweep", str(grid), "--out", str(tmp_path / "out"), "--jobs", "1"]
    done = emulate(*given)
    assert done.exit_code == 0, done.output
    assert "mean_wait_s: mean of 4 seeds" in done.output
    assert "best" in done.output


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        ("mean_weight_s", "--rank mean_weight_s: no run has such a figure; did you mean 'mean_wait_s'?"),
        ("p9", "--rank p9: no run has such a figure; there are: p90_wait_s, p95_wait_s, p99_wait_s\n"),
        ("mechanisms.lost", "--rank mechanisms.lost: no run has such a figure"),
        ("format", "--rank format: no run has such a figure"),
    ],
)
def test_a_figure_that_no_run_can_have_is_told_before_anything_is_run_or_written(tmp_path, figure, said):
    grid = tmp_path / "grid.yaml"
    grid.write_text(yaml.safe_dump({"base": str(DEFAULT), "seeds": 1}))
    for more in ((), ("--dry-run",)):
        wrong = emulate("sweep", grid, "--out", tmp_path / "out", "--rank", figure, *more)
        assert (wrong.exit_code, said in wrong.stderr) == (2, True), wrong.output
    assert not (tmp_path / "out").exists()


def test_what_a_dry_run_does_not_use_is_named(tmp_path):
    grid = tmp_path / "grid.yaml"
    grid.write_text(yaml.safe_dump({"base": str(DEFAULT), "seeds": 1}))
    listed = emulate("sweep", grid, "--dry-run", "--json", "--jobs", "2")
    assert listed.exit_code == 0
    assert "emulator: --jobs, --json: of runs and their results: not used by --dry-run\n" in listed.stderr


def test_the_number_of_runs_at_a_time_is_not_said_of_a_dask_cluster(tmp_path):
    grid = tmp_path / "grid.yaml"
    grid.write_text(yaml.safe_dump({"base": str(DEFAULT), "seeds": 1}))
    refused = emulate("sweep", grid, "--dask", "tcp://127.0.0.1:9", "--jobs", "2", "--out", tmp_path / "out")
    assert (refused.exit_code, "--jobs: the workers of the Dask cluster say" in refused.stderr) == (2, True)
    assert not (tmp_path / "out").exists()


def completed(*args, begun=""):
    return [each.value for each in ShellComplete(main, {}, "emulator", "").get_completions([*args], begun)]


def test_the_shell_completes_figures_the_usual_ones_first_and_then_those_of_the_results(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    grid = {"base": str(DEFAULT), "grid": {"mechanism.balancer.static_reserve": [0, 6]}, "seeds": 1}
    (tmp_path / "few.yaml").write_text(yaml.safe_dump(grid))
    for given in (("sweep", "few.yaml"), ("sweep", "few.yaml", "--out", "elsewhere")):
        assert completed(*given, "--rank") == sorted(USUAL_FIGURES)
        assert completed(*given, "--rank", begun="mean_w") == ["mean_wait_s"]
        done = emulate(*given, "--jobs", "1")
        assert done.exit_code == 0, done.output
        found = completed(*given, "--rank")
        assert set(USUAL_FIGURES) < set(found)
        assert not {"label", "config_hash"} & set(found)


def test_the_shell_completes_the_predictors_of_a_study():
    assert "peak" in completed("study", "merge", "--predictor", begun="p")


def test_the_sweep_of_the_checkout_tells_whether_a_policy_is_better_than_easy(tmp_path):
    file = Path(__file__).parents[3] / "scenarios" / "sweeps" / "against-easy.yaml"
    done = emulate("sweep", file, "--out", tmp_path / "out", "--jobs", "1", "--json")
    assert done.exit_code == 0, done.output
    mine, easy = json.loads(done.stdout)["settings"]
    assert (mine["label"], easy["label"], easy["seeds"], easy["differs"]) == ("mine", "EASY", 10, True)
    assert 1800 < easy["from_best_low"] < easy["from_best_high"] < 2400  # s of mean wait
