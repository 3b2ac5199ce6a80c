"""A run beside its baseline: the same without the mechanism, or first come first served with EASY."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from command_line import emulate
from emulator.report import files, html
from emulator.report.baseline import Baseline
from emulator.report.wording import difference_text, headline_text
from emulator.runs.baseline import MOST_JOBS, plain_scenario, why_not
from emulator.runs.scenario import from_mapping

WORKLOAD = {"generate": [{"daily_batch": {"days": 0.5, "load": 1.2, "jobs": 60}}]}
MADE = {"name": "small", "nodes": 16, "seed": 3, "workload": WORKLOAD}


def scenario(**more):
    return from_mapping(MADE | more)


@pytest.mark.parametrize(
    ("more", "name", "change"),
    [
        ({"mechanism": "malleable"}, "without the mechanism", {"mechanism": None}),
        ({"scheduler": "sjf+easy"}, "with FCFS and EASY", {"scheduler": "fcfs+easy"}),
        ({"scheduler": "fcfs+none"}, "with FCFS and EASY", {"scheduler": "fcfs+easy"}),
    ],
)
def test_the_baseline_is_the_same_run_but_for_one_thing(more, name, change):
    ours = scenario(**more)
    found, said = plain_scenario(ours)
    assert said == name
    assert found == ours.model_copy(update=change)


@pytest.mark.parametrize(
    "more", [{}, {"scheduler": {"order": "fcfs", "backfill": "easy"}}, {"scheduler": "slurm"}]
)
def test_the_plain_run_and_a_whole_scheduler_have_none(more):
    assert plain_scenario(scenario(**more)) is None


def test_the_jobs_say_whether_it_is_cheap():
    assert why_not(MOST_JOBS) == ""
    assert "--baseline" in why_not(MOST_JOBS + 1)


def run(tmp_path, name, *options, scheduler="sjf+easy"):
    folder = tmp_path / name
    given = json.dumps(MADE | {"scheduler": scheduler})
    file = tmp_path / "small.yaml"
    file.write_text(given, encoding="utf-8")
    done = emulate("run", file, "--out", folder, "--quiet", *options)
    assert done.exit_code == 0, done.output
    return folder, done.output


def figures(folder):
    summary = files.load_summary(folder)
    return {key: value for key, value in summary.items() if key not in ("wall_s", "jobs_per_s")}


def test_the_report_holds_the_run_against_its_baseline_and_the_results_are_the_same(tmp_path):
    with_one, said = run(tmp_path, "with")
    without, _ = run(tmp_path, "without", "--no-baseline")
    plain, _ = run(tmp_path, "plain", scheduler="fcfs+easy")
    assert figures(with_one) == figures(without)
    for name in (files.JOBS, files.EVENTS, files.JOBS_CSV):
        assert (with_one / name).read_bytes() == (without / name).read_bytes()
    assert not (without / files.BASELINE).exists()
    assert not (plain / files.BASELINE).exists()
    # The baseline is that other run.
    baseline, summary, theirs = files.load_baseline(with_one), figures(with_one), figures(plain)
    assert baseline.name == "with FCFS and EASY"
    assert baseline.figures == {key: theirs[key] for key in baseline.figures}
    assert baseline.figures["mean_wait_s"] != summary["mean_wait_s"]
    page = (with_one / files.REPORT).read_text(encoding="utf-8")
    for key in ("mean_wait_s", "makespan_s"):
        assert difference_text(key, summary, baseline) in page
    wait = headline_text("mean_wait_s", theirs["mean_wait_s"])
    assert f"The same run with FCFS and EASY: the mean wait is {wait}" in page
    assert "with FCFS and EASY" in said
    assert f"mean wait {wait}" in said
    assert "The same run" not in (without / files.REPORT).read_text(encoding="utf-8")
    # Made again it is the same page.
    files.rewrite_report(with_one)
    assert (with_one / files.REPORT).read_text(encoding="utf-8") == page


def test_a_run_with_more_jobs_says_why_it_has_no_baseline(tmp_path, monkeypatch):
    monkeypatch.setattr("emulator.runs.baseline.MOST_JOBS", 10)
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps(MADE | {"scheduler": "sjf+easy"}), encoding="utf-8")
    call = ["run", str(file), "--out", str(tmp_path / "out")]
    done = emulate(*call)
    assert "emulator: no baseline: 60 jobs are more than 10; --baseline makes it all the same" in done.stderr
    assert not (tmp_path / "out" / files.BASELINE).exists()
    assert emulate(*call, "--baseline", "--quiet").exit_code == 0
    assert (tmp_path / "out" / files.BASELINE).exists()


def test_differences_are_in_words():
    baseline = Baseline("without the mechanism", {"mean_wait_s": 600.0, "utilization": 0.5, "jobs_run": 7})
    ours = {"mean_wait_s": 477.0, "utilization": 0.625, "jobs_run": 7}
    assert difference_text("mean_wait_s", ours, baseline) == "2 min 3 s shorter than without the mechanism"
    assert difference_text("utilization", ours, baseline) == "12.5 points more than without the mechanism"
    assert difference_text("jobs_run", ours, baseline) == "as without the mechanism"
    assert difference_text("makespan_s", ours, baseline) == ""
    assert difference_text("mean_wait_s", ours, None) == ""


def test_a_damaged_baseline_is_named(tmp_path):
    (tmp_path / files.BASELINE).write_text('{"format": "another"}', encoding="utf-8")
    with pytest.raises(files.ResultsError, match="not in the format"):
        files.load_baseline(tmp_path)


def test_a_run_of_a_log_without_a_scenario_is_named_after_the_log(week):
    record = replace(week, scenario={"name": "unnamed", "workload": {"trace": "logs/KTH-SP2.swf.gz"}})
    assert html._title(record) == "KTH-SP2"
