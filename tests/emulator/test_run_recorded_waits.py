"""A run of a log shows what its jobs waited by the log beside what they wait in the run, and doubts what is far off."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

import emulator
from command_line import emulate
from emulator.metrics.summary import summarize
from emulator.metrics.wait_comparison import beside_recorded, means
from emulator.report.files import load
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from emulator.workload.recorded_waits import apart

COLUMNS = "JobID|Submit|Start|End|Elapsed|Timelimit|NNodes|NCPUS|State|User"
HOUR = 3600


def clock(at_s):
    return datetime.fromtimestamp(1_772_323_200 + at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def sacct(path, *jobs):
    """(submit_s, wait_s, run_s, nodes) each; the wait is None for a job whose start nobody knows."""
    lines = [COLUMNS]
    for number, (submit, wait, run, nodes) in enumerate(jobs, 1):
        start = "Unknown" if wait is None else clock(submit + wait)
        end = clock(submit + (wait or 0) + run)
        spent = f"{run // HOUR:02}:{run // 60 % 60:02}:{run % 60:02}"
        lines.append(
            f"{number}|{clock(submit)}|{start}|{end}|{spent}|10:00:00|{nodes}|{16 * nodes}|COMPLETED|alice"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def run(log, out, *more):
    done = emulate("run", log, "--out", out, "--quiet", *more)
    assert done.exit_code == 0, done.output
    return done.stdout, json.loads((out / "summary.json").read_text())


@pytest.fixture
def crowded(tmp_path):
    """50 jobs of two nodes that waited half an hour each: on 8 nodes they cannot all have run as they did."""
    return sacct(tmp_path / "sacct.txt", *[(600 * at, 1800, 2 * HOUR, 2) for at in range(50)])


def test_waits_far_from_those_of_the_log_are_told_with_what_trace_check_says(crowded, tmp_path):
    text, summary = run(crowded, tmp_path / "out", "--nodes", "8")
    found = summary["recorded_waits"]
    checked = emulate("trace", "check", crowded, "--nodes", "8", "--json")
    doubts = json.loads(checked.stdout)["doubts"]
    assert doubts[0].startswith("Up to 24 nodes were in use at once")
    assert found == {
        "jobs": 50,
        "mean_recorded_s": 1800.0,
        "mean_simulated_s": 27648.0,  # four at a time, each behind the one four before it
        "likely": doubts,
    }
    lines = text.splitlines()
    assert [line for line in lines if line.startswith("wait by the log")] == [
        "wait by the log   mean 30 min, simulated 7 h 41 min: more than 2 times apart"
    ]
    assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("likely")] == doubts
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Recorded and simulated waits" in page
    assert "mean 30 min, simulated 7 h 41 min: more than 2 times apart" in page
    assert "Up to 24 nodes were in use at once" in page


def test_waits_near_those_of_the_log_stand_beside_them_and_nothing_is_doubted(tmp_path):
    log = sacct(tmp_path / "sacct.txt", (0, 0, HOUR, 8), (0, HOUR, HOUR, 8), (0, 2 * HOUR, HOUR, 8))
    text, summary = run(log, tmp_path / "out", "--nodes", "8")
    assert summary["recorded_waits"] == {"jobs": 3, "mean_recorded_s": 3600.0, "mean_simulated_s": 3600.0}
    assert "wait by the log   mean 1 h, simulated 1 h\n" in text
    assert "likely" not in text


def test_only_jobs_whose_start_the_log_has_are_compared(tmp_path):
    log = tmp_path / "log.swf"
    log.write_text(
        "; MaxNodes: 8\n; MaxProcs: 8\n"
        "1 0 600 3600 8 -1 -1 8 7200 -1 1 1 1 -1 1 -1 -1 -1\n"
        "2 0 -1 3600 8 -1 -1 8 7200 -1 1 1 1 -1 1 -1 -1 -1\n"
    )
    text, summary = run(log, tmp_path / "out")
    assert summary["recorded_waits"] == {"jobs": 1, "mean_recorded_s": 600.0, "mean_simulated_s": 0.0}
    assert "mean 10 min of the 1 jobs whose start it has, simulated 0 s\n" in text


def test_a_log_that_looks_right_and_is_far_off_is_told_what_else_there_is(tmp_path):
    log = sacct(tmp_path / "sacct.txt", *[(86_400 * at, 5 * HOUR, HOUR, 8) for at in range(5)])
    text, summary = run(log, tmp_path / "out", "--nodes", "8")
    (why,) = summary["recorded_waits"]["likely"]
    assert why.startswith("`emulator trace check` finds nothing wrong with the log; nodes may have been down")
    assert "mean 5 h, simulated 0 s: more than 2 times apart" in text


@pytest.mark.parametrize("waited_h", [0, 5])
def test_of_jobs_that_share_nodes_nothing_is_said_that_was_not_looked_at(tmp_path, waited_h):
    # One at a time on one node, or five days apart.
    log = sacct(
        tmp_path / "sacct.txt", *[(waited_h * 86_400 * at, waited_h * HOUR, 2 * HOUR, 1) for at in range(5)]
    )
    _, summary = run(log, tmp_path / "out", "--nodes", "1", "--set", "shared_nodes={cores: 16}")
    assert summary["recorded_waits"]["likely"] == [
        "Nodes may have been down or reserved, or the site's priorities and limits kept jobs waiting."
        if waited_h
        else "There may have been more nodes, or jobs on nodes that others do not get."
    ]


def test_a_log_without_waits_and_jobs_that_are_not_as_the_log_has_them_are_not_compared(crowded, tmp_path):
    log = tmp_path / "log.swf"
    log.write_text("; MaxNodes: 8\n; MaxProcs: 8\n1 0 -1 3600 8 -1 -1 8 7200 -1 1 1 1 -1 1 -1 -1 -1\n")
    text, summary = run(log, tmp_path / "none")
    assert ("recorded_waits" in summary, "by the log" in text) == (False, False)
    text, summary = run(
        crowded, tmp_path / "changed", "--nodes", "8", "--set", "workload.transforms=[{shake: {}}]"
    )
    assert ("recorded_waits" in summary, "by the log" in text) == (False, False)


def test_a_streamed_run_has_the_same_figures_and_names_the_command_that_says_why(tmp_path):
    log = tmp_path / "log.swf"
    rows = (
        f"{at} {600 * at} {300 if at % 3 else -1} 7200 2 -1 -1 2 36000 -1 1 1 1 -1 1 -1 -1 -1"
        for at in range(1, 60)
    )
    log.write_text("; MaxNodes: 8\n; MaxProcs: 8\n" + "\n".join(rows) + "\n")
    _, whole = run(log, tmp_path / "whole")
    text, streamed = run(log, tmp_path / "streamed", "--stream")
    assert whole["recorded_waits"].pop("likely")[0].startswith("Up to")
    assert whole["recorded_waits"]["jobs"] == 40
    assert streamed["recorded_waits"] == whole["recorded_waits"]
    assert "likely            `emulator trace check` says what may be wrong with the log" in text


def test_results_that_are_read_back_still_have_them(crowded, tmp_path):
    _, summary = run(crowded, tmp_path / "out", "--nodes", "8")
    assert summarize(load(tmp_path / "out"))["recorded_waits"] == summary["recorded_waits"]


def test_python_gets_the_same_figures(crowded):
    summary = emulator.run(str(crowded), nodes=8).summary
    assert summary["recorded_waits"]["mean_recorded_s"] == 1800.0


def test_waits_are_matched_by_the_number_of_the_job(tmp_path):
    """The jobs that ran are fewer, and in another order, than those of the log."""
    log = sacct(tmp_path / "sacct.txt", (0, 60, HOUR, 4), (10, 120, HOUR, 99), (20, 240, HOUR, 4))
    scenario = from_mapping({"nodes": 8, "workload": {"trace": str(log)}})
    prepared = prepare(scenario)
    record = run_virtual(scenario, prepared)
    assert record.recorded == {"jobs": 2, "mean_recorded_s": 150.0, "mean_simulated_s": 0.0}
    assert beside_recorded(record, None) == {}
    assert means([]) == {}


def test_minutes_are_no_sign_of_anything():
    assert apart(0, 5) < 2 < apart(0, 11)
    assert apart(11, 0) == apart(0, 11)
