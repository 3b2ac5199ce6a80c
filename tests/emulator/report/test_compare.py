from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from emulator.report import cli, files
from emulator.report.compare import StartDifference, compare, render

US = 1_000_000


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
    console = Console(width=120, file=io.StringIO())
    console.print(render(comparison))
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
    assert "The runs differ" in shown(comparison)


def test_grants_in_another_order_are_named(week):
    first, second, *rest = week.leases
    comparison = compare(week, replace(week, leases=(second, first, *rest)))

    assert not comparison.same_decisions
    assert comparison.decision_difference.startswith("decision 1: request ")


def test_a_decision_too_few_is_named(week):
    comparison = compare(week, replace(week, leases=week.leases[:-1]))

    assert comparison.decision_difference == "36 decisions in a, 35 in b; the first ones agree"


def test_jobs_of_one_run_only_are_counted(simulated):
    comparison = compare(simulated(jobs=40, leases=0), simulated(jobs=50, leases=0))

    assert (comparison.jobs_in_both, comparison.jobs_only_in_a, comparison.jobs_only_in_b) == (40, 0, 10)
    assert not comparison.is_same


def test_the_command_tells_same_from_different_by_its_exit_status(week, tmp_path):
    files.write(week, tmp_path / "a")
    files.write(later(week, 5, US), tmp_path / "b")
    a, b = str(tmp_path / "a"), str(tmp_path / "b")

    same = CliRunner().invoke(cli.compare, [a, a])
    differ = CliRunner().invoke(cli.compare, [a, b, "--json"])
    missing = CliRunner().invoke(cli.compare, [a, str(tmp_path / "c")])

    assert (same.exit_code, differ.exit_code, missing.exit_code) == (0, 1, 2)
    assert "Same run" in same.output
    assert '"max_start_difference_s": 1.0' in differ.output
    assert "summary.json does not exist; name the folder" in missing.output


@pytest.mark.slow
def test_the_report_command_makes_the_page_anew(week, tmp_path):
    files.write(week, tmp_path / "a")
    page = (tmp_path / "a/report.html").read_bytes()
    (tmp_path / "a/report.html").unlink()

    result = CliRunner().invoke(cli.report, [str(tmp_path / "a")])

    assert result.exit_code == 0
    assert (tmp_path / "a/report.html").read_bytes() == page
    assert "bounded slowdown" in result.output
    assert CliRunner().invoke(cli.report, [str(tmp_path / "a"), "--json"]).output == (
        tmp_path / "a/summary.json"
    ).read_text(encoding="utf-8")
    assert CliRunner().invoke(cli.report, [str(tmp_path)]).exit_code == 2
