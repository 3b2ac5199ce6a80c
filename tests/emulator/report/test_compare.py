from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import emulator
from command_line import emulate
from emulator.report import files
from emulator.report.changes import RunFigures, figure_rows, headline
from emulator.report.compare import StartDifference, compare, render
from page_kit import are_shown, seconds, tables

US = 1_000_000
DAY = Path(__file__).parents[3] / "scenarios" / "default.yaml"


def later(record, row, by_us):
    """The record with the run of one job moved by some time."""
    start_us, end_us = record.start_us.copy(), record.end_us.copy()
    start_us[row] += by_us
    end_us[row] += by_us
    runs = record.runs
    run = np.flatnonzero(runs.job == row)[-1]
    run_start_us, run_end_us = runs.start_us.copy(), runs.end_us.copy()
    run_start_us[run] += by_us
    run_end_us[run] += by_us
    runs = replace(runs, start_us=run_start_us, end_us=run_end_us)
    return replace(record, start_us=start_us, end_us=end_us, runs=runs)


def shown(comparison):
    console = Console(width=80, file=io.StringIO())
    console.print(render(comparison, same=True))
    return console.file.getvalue()


def test_a_run_is_the_same_as_itself(week):
    comparison = compare(week, week)

    assert comparison.is_same
    assert comparison.started_in_both == int(np.unique(week.runs.job).size)
    assert comparison.mean_wait_difference_percent == 0
    assert comparison.largest == ()
    assert "same, same order" in shown(comparison)


def test_a_job_that_starts_later_is_found(week):
    row = 5
    comparison = compare(week, later(week, row, 3 * US))

    start_s = float(week.start_us[row] / US)
    assert not comparison.is_same
    assert comparison.starts_that_differ == 1
    assert comparison.max_start_difference_s == comparison.max_end_difference_s == 3
    assert comparison.mean_start_difference_s == pytest.approx(3 / comparison.started_in_both)
    assert comparison.largest == (StartDifference(int(week.jobs.number[row]), start_s, start_s + 3),)
    assert comparison.mean_wait_difference_percent > 0
    assert "batch wait +7.52 ms" in shown(comparison)
    assert "started at another time" in shown(comparison)


def test_grants_in_another_order_are_named(week):
    first, second, *rest = week.leases
    comparison = compare(week, replace(week, leases=(second, first, *rest)))

    assert not comparison.same_decisions
    assert comparison.decision_difference.startswith("decision 1: request ")


def test_a_decision_too_few_is_named(week):
    comparison = compare(week, replace(week, leases=week.leases[:-1]))

    assert (
        comparison.decision_difference
        == "36 decisions in the baseline, 35 in the other run; the first ones agree"
    )


def test_jobs_of_one_run_only_are_counted(simulated):
    comparison = compare(simulated(jobs=40, leases=0), simulated(jobs=50, leases=0))

    assert (comparison.jobs_in_both, comparison.jobs_only_in_a, comparison.jobs_only_in_b) == (40, 0, 10)
    assert not comparison.is_same


def test_the_command_tells_same_from_different_by_its_exit_status(week, tmp_path):
    files.write(week, tmp_path / "a")
    files.write(later(week, 5, US), tmp_path / "b")
    a, b = str(tmp_path / "a"), str(tmp_path / "b")

    same = emulate("compare", a, a)
    differ = emulate("compare", a, b, "--same", "--json")
    compared = emulate("compare", a, b)
    missing = emulate("compare", a, tmp_path / "c")

    assert [done.exit_code for done in (same, differ, compared, missing)] == [0, 1, 0, 2]
    assert "Same run" in same.output
    assert '"max_start_difference_s": 1.0' in differ.output
    assert "summary.json does not exist; name the folder" in missing.output


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The default day with 6 nodes in reserve, and with 12 that are filled up again; a log of another machine."""
    root = tmp_path_factory.mktemp("runs")
    more = {"mechanism.balancer.static_reserve": 12, "mechanism.balancer.reserve_rule": "refilled"}
    emulator.run(DAY, out=root / "default")
    emulator.run(DAY, changes=more, out=root / "twelve")
    emulator.run(DAY, changes={"mechanism": {"static_partition": {"ondemand_nodes": 12}}}, out=root / "split")
    emulator.run(DAY, seed=3, out=root / "other")
    return root


def test_a_wait_that_is_shorter_since_jobs_are_killed_or_never_ran_is_told_with_those():
    a = RunFigures(300, 600.0, 1200.0, 2.0, 0.8)
    b = RunFigures(280, 300.0, 800.0, 1.5, 0.7, killed=9)

    assert headline(a, b)[:2] == ["batch jobs run 300 -> 280", "killed at walltime 0 -> 9"]
    assert ("killed at walltime", "0", "9", "+9") in figure_rows(a, b)
    assert headline(a, a) == ["batch wait the same", "response the same"]
    assert {change for *_, change in figure_rows(a, a)} == {"the same"}


class TestWhatChanged:
    @pytest.fixture
    def say(self, folders, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")

        def say(*words):
            names = [word if word.startswith("-") else str(folders / word) for word in words]
            return emulate("compare", *names)

        return say

    def test_the_first_lines_say_it_in_words_and_nothing_is_wrapped(self, say):
        result = say("default", "twelve")

        assert result.exit_code == 0
        said = result.stdout.splitlines()
        assert said[:3] == [
            "granted 30 -> 35 of 35; batch wait +13 min 46 s (+45 %);",
            "response +13 min 46 s (+22 %); idle reserve 114 -> 276 node-h",
            "Same workload: 335 jobs and requests.",
        ]
        assert said[4:12:1][-2].split() == ["requests", "rejected", "5", "of", "35", "0", "of", "35", "-5"]
        assert said[-1] == "No interval: one day of jobs; `sweep` gives one."
        assert ["utilisation", "63.54", "%", "59.16", "%", "-4.38", "points"] in [
            line.split() for line in said
        ]
        assert len(said) == 3 + 12 + 1
        assert max(map(len, said)) <= 80
        assert "1 days" not in result.stdout

    def test_requests_that_were_granted_because_they_waited_are_told_with_their_wait(self, folders, say):
        emulator.run(DAY, changes={"mechanism.balancer.wait_s": 3600}, out=folders / "waits")
        result = say("default", "waits")

        assert result.stdout.startswith("granted 30 -> 35 of 35; requests wait +")
        assert any(line.startswith("granted ones wait ") for line in result.stdout.splitlines())

    def test_several_runs_stand_against_the_first(self, say):
        result = say("default", "twelve", "split")

        assert result.exit_code == 0
        assert "granted 30 -> 35 of 35" in result.stdout
        assert "granted 30 -> 19 of 35" in result.stdout
        assert result.stdout.count("No interval") == 1
        assert [
            one["changes"][0] for one in json.loads(say("default", "twelve", "split", "--json").stdout)
        ] == [
            "granted 30 -> 35 of 35",
            "granted 30 -> 19 of 35",
        ]
        refused = say("default", "twelve", "split", "--heat-map=wait_s")
        assert refused.exit_code == 2
        assert "name one DIR after the baseline" in refused.stderr

    def test_other_workloads_are_a_warning_first_and_exit_status_2(self, say):
        refused, taken = say("default", "other"), say("default", "other", "--other-workloads")

        assert (refused.exit_code, taken.exit_code) == (2, 0)
        assert refused.stdout.startswith("Warning: the workloads differ")
        assert "--other-workloads compares the runs all the same" in refused.stderr
        assert taken.stdout == refused.stdout
        assert json.loads(say("default", "other", "--json").stdout)["same_workload"] is False

    def test_sameness_job_by_job_is_shown_if_wanted(self, say):
        result = say("default", "twelve", "--same")

        assert result.exit_code == 1
        assert "started at another time" in result.stdout
        assert "started at another time" not in say("default", "twelve").stdout


def test_each_number_in_the_table_of_a_comparisons_page_is_that_of_the_two_summaries(folders, tmp_path):
    page = tmp_path / "page.html"
    names = ("default", "twelve")
    done = emulate("compare", *(str(folders / name) for name in names), "--html", page)
    assert done.exit_code == 0
    runs = [json.loads((folders / name / "summary.json").read_text()) for name in names]
    table, *_ = tables(page.read_text())
    rows = {row[0]: row[1:] for row in table}

    for name, figure in (
        ("mean wait", "mean_wait_s"),
        ("mean response", "mean_response_s"),
        ("granted ones wait", "mean_ondemand_wait_s"),
        ("slowest answer", "max_ondemand_wait_s"),
    ):
        for text, summary in zip(rows.pop(name), runs, strict=False):
            value_s, half_s = seconds(text)
            assert abs(value_s - summary[figure]) <= half_s, (name, text, summary[figure])
    for name, figures, scale in (
        ("batch jobs run", ("jobs_run",), 1),
        ("slowdown by area", ("slowdown_weighted_by_area",), 1),
        ("utilisation", ("utilization",), 100),
        ("requests granted", ("ondemand_granted", "ondemand_requests"), 1),
        ("requests rejected", ("ondemand_rejected", "ondemand_requests"), 1),
        ("idle reserve, node-h", ("reserve_idle_node_h",), 1),
    ):
        for text, summary in zip(rows.pop(name), runs, strict=False):
            assert are_shown([text], [scale * summary[figure] for figure in figures]), (name, text)


@pytest.mark.slow
def test_the_report_command_makes_the_page_anew(week, tmp_path):
    files.write(week, tmp_path / "a")
    page = (tmp_path / "a/report.html").read_bytes()
    (tmp_path / "a/report.html").unlink()

    result = emulate("report", tmp_path / "a")

    assert result.exit_code == 0
    assert (tmp_path / "a/report.html").read_bytes() == page
    assert "bounded slowdown" in result.output
    assert emulate("report", tmp_path / "a", "--json").output == (tmp_path / "a/summary.json").read_text(
        encoding="utf-8"
    )
    assert emulate("report", tmp_path).exit_code == 2


def test_a_change_of_a_count_is_written_as_every_number_is():
    figures = RunFigures(300, 60.0, 90.0, 1.5, 0.5)
    (jobs, *_) = figure_rows(figures, replace(figures, jobs_run=28_467))
    assert jobs == ("batch jobs run", "300", "28\u202f467", "+28\u202f167")
