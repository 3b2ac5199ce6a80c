"""Jobs of a program as a workload, tables in seconds, and settings in order."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import emulator
from balancer.clock import US

COLUMNS = {"submit_s": [1, 2, 3], "run_s": [2, 3, 1.5], "estimate_s": [5, 3, 2], "nodes": [1, 4, 1]}


@pytest.mark.parametrize(
    "given",
    [
        COLUMNS,
        {name: np.array(values) for name, values in COLUMNS.items()},
        pd.DataFrame(COLUMNS),
        emulator.JobTable.build(
            submit_us=[1_000_000, 2_000_000, 3_000_000],
            run_us=[2_000_000, 3_000_000, 1_500_000],
            estimate_us=[5_000_000, 3_000_000, 2_000_000],
            nodes=[1, 4, 1],
        ),
    ],
)
def test_jobs_run_from_a_table_however_it_comes(given):
    found = emulator.run(given, nodes=4, check=True)
    seconds = found.to_pandas(unit="s")
    assert seconds.start_s.tolist() == [1, 3, 6]
    assert seconds.wait_s.tolist() == [0, 1, 3]
    assert seconds.estimate_s.tolist() == [5, 3, 2]
    assert emulator.run({"nodes": 4, "workload": given}).compare(found).is_same
    assert emulator.run(given, nodes=4).record.scenario == found.record.scenario


def test_other_jobs_are_another_workload():
    longer = {**COLUMNS, "run_s": [2, 3, 1.6]}
    one, other = (emulator.run(jobs, nodes=4).record.scenario for jobs in (COLUMNS, longer))
    assert one["workload"] != other["workload"]


@pytest.mark.parametrize(
    ("changes", "nodes", "words"),
    [
        ({"procs": [1, 1, 1]}, 4, "jobs: unknown column 'procs'; known: submit_s, submit_us, run_s"),
        ({"run_s": None}, 4, "jobs: there is no column run_s (or run_us)"),
        ({"nodes": None}, 4, "jobs: there is no column nodes"),
        ({"run_us": [1, 1, 1]}, 4, "jobs: give run_s or run_us, not both"),
        ({"run_s": [1, np.nan, 1]}, 4, "jobs: run_s is nan in row 1, which is no number"),
        ({"run_s": [1, 1, 0]}, 4, "jobs: run_s is 0 in row 2; above 0, at most 285 years"),
        ({"submit_s": [-1, 1, 0]}, 4, "jobs: submit_s is -1 in row 0; at least 0"),
        ({"nodes": [1, 1.5, 1]}, 4, "jobs: nodes is 1.5 in row 1; a whole number of at least 1 is expected"),
        (
            {"user": ["a", "b", "c"]},
            4,
            "jobs: the column user has no plain numbers (it is of the type <U1); number them",
        ),
        ({"user": [[1], [1, 2], 3]}, 4, "jobs: the column user has no plain numbers"),
        ({"run_s": pd.to_timedelta([1, 2, 3], unit="s")}, 4, "(it is of the type timedelta64"),
        (
            {"user": pd.array([1, None, 2], dtype="Int64")},
            4,
            "jobs: user is nan in row 1, which is no number",
        ),
        (
            {"nodes": [True, True, True]},
            4,
            "jobs: the column nodes has no plain numbers (it is of the type bool)",
        ),
        ({"nodes": [1, 1]}, 4, "jobs: the column nodes has 2 rows, submit_s has 3"),
        ({"nodes": [1, 1, 1, 1]}, 4, "jobs: the column nodes has 4 rows, submit_s has 3"),
        ({"run_s": [1, 1]}, 4, "jobs: the column run_s has 2 rows, submit_s has 3"),
        ({"number": [1, 2]}, 4, "jobs: the column number has 2 rows, submit_s has 3"),
        ({name: [] for name in COLUMNS}, 4, "jobs: there is no row"),
        ({"number": [1, 2, 2]}, 4, "jobs: a number is there twice in the column number"),
        ({}, 3, "job 2 asks for 4 nodes, the cluster has 3 (1 such jobs); leave them out or say more nodes"),
        ({}, None, "nodes: how many nodes?"),
    ],
)
def test_a_wrong_table_is_an_error_that_names_column_and_row(changes, nodes, words):
    jobs = {name: values for name, values in {**COLUMNS, **changes}.items() if values is not None}
    with pytest.raises(emulator.ScenarioError, match=re.escape(words)):
        emulator.run(jobs, nodes=nodes)


def test_what_is_no_source_is_said_in_one_line():
    with pytest.raises(
        emulator.ScenarioError, match=re.escape("not a list (several logs: {'workload.trace'")
    ):
        emulator.sweep(["a.swf", "b.swf"], {"nodes": [4]})
    with pytest.raises(emulator.ScenarioError, match=r"expected, not a int$"):
        emulator.run(3)


def test_a_table_or_unit_that_there_is_not_is_an_error():
    found = emulator.run(COLUMNS, nodes=4)
    at_us = found.timeline()["at_us"].to_numpy()
    assert found.to_pandas("timeline", unit="s").at_s.tolist() == (at_us / 1e6).tolist()
    assert "at_us" in found.to_pandas("timeline")
    with pytest.raises(ValueError, match="there is no table 'job'; known: jobs, events, nodes, timeline"):
        found.to_pandas("job")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unit: us or s, not 'h'"):
        found.to_pandas(unit="h")  # type: ignore[arg-type]


def test_a_sweep_ranks_its_settings_with_intervals():
    loads = {"generate": [{"daily_batch": {"days": 0.2, "load": 0.9}}]}
    found = emulator.sweep(
        {"nodes": 8, "workload": loads}, {"scheduler": ["fcfs+none", "fcfs+easy"]}, seeds=5, jobs=1
    )
    waits = found.to_pandas().groupby("scheduler").mean_wait_s.mean().sort_values()
    ranked = found.rank("mean_wait_s").to_pandas()
    assert ranked.scheduler.tolist() == waits.index.tolist() == ["fcfs+easy", "fcfs+none"]
    assert ranked["mean"].tolist() == pytest.approx(waits.tolist())
    assert (ranked.low <= ranked["mean"]).all()
    assert (ranked["mean"] <= ranked.high).all()
    assert ranked.seeds.tolist() == [5, 5]
    assert ranked.from_best.tolist() == pytest.approx([0, waits.iloc[1] - waits.iloc[0]])
    assert found.rank("mean_wait_s", highest=True)["scheduler"].to_pylist() == ["fcfs+none", "fcfs+easy"]
    with pytest.raises(emulator.ScenarioError, match="rank mean_wai: no run has such a figure"):
        found.rank("mean_wai")


@pytest.mark.parametrize(
    ("overrun", "end_and_estimate_s"), [("extend", (20, 20)), ("kill", (10, 10)), ("run_on", (20, 10))]
)
def test_jobs_that_no_log_recorded_follow_the_rule_for_overruns_too(overrun, end_and_estimate_s):
    jobs = {"submit_s": [0.0, 0.0], "run_s": [20.0, 5.0], "estimate_s": [10.0, 10.0], "nodes": [1, 1]}
    result = emulator.run(jobs, nodes=2, overrun=overrun)
    record = result.record
    assert (record.end_us[0] / US, record.jobs.estimate_us[0] / US) == end_and_estimate_s
    assert (record.end_us[1] / US, record.jobs.estimate_us[1] / US) == (5, 10)
    assert result.summary["jobs_changed"] == {"ran longer than its estimate": 1}


@pytest.mark.parametrize(
    ("key", "value"),
    [("procs_per_node", 4), ("size", "procs"), ("no_estimate", "leave_out"), ("queue_field", "partition")],
)
def test_a_key_of_reading_a_log_is_refused_where_there_is_none(key, value):
    jobs = {"submit_s": [0.0], "run_s": [20.0], "nodes": [1]}
    with pytest.raises(
        emulator.ScenarioError, match=f"{key} says how a trace is read, and there is no `trace`"
    ):
        emulator.run(jobs, nodes=2, changes={f"workload.{key}": value})
