"""Jobs that a plug-in or a program made are checked: compiled loops trust them; and each run has jobs of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import emulator
from balancer.clock import US
from emulator import JobTable, Kind
from emulator.workload import store

JOBS = {"submit_us": [0, 5], "run_us": [US, US], "nodes": [1, 2]}
LEAST = "it must be a whole number from"


def given_by(**columns):
    """A generator of two jobs with these columns."""

    class Mine:
        def generate(self, rng, *, nodes):
            return JobTable.build(**{**JOBS, **columns})

    return Mine


def changed_by(change):
    """A transform."""

    class Changes:
        def apply(self, jobs, *, nodes):
            return change(jobs)

    return Changes


def run(*plugins, **workload):
    return emulator.run({"nodes": 4, "workload": workload}, plugins=plugins)


def error_of(*plugins, **workload):
    with pytest.raises(emulator.ScenarioError) as error:
        run(*plugins, **workload)
    return str(error.value)


WRONG = [
    ({"submit_us": [-5, 1]}, f"submit_us of job 1 is -5; {LEAST} 0"),
    ({"run_us": [US, 0]}, f"run_us of job 2 is 0; {LEAST} 1"),
    ({"run_us": [US, 2**62]}, f"run_us of job 2 is {2**62}; {LEAST} 1"),
    ({"estimate_us": [0, 1]}, f"estimate_us of job 1 is 0; {LEAST} 1"),
    ({"nodes": [0, 1]}, f"nodes of job 1 is 0; {LEAST} 1"),
    ({"kind": 7}, f"kind of job 1 is 7; {LEAST} 0"),
    ({"number": [7, 7]}, "2 jobs have the number 7; each has one of its own"),
    ({"number": [-7, 7]}, f"number of row 0 is -7; {LEAST} 0"),
    ({"submit_us": [float("nan"), 1]}, "column submit_us has nan, which is no whole number"),
    ({"nodes": [1.5, 1]}, "column nodes has 1.5, which is no whole number"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "told"), WRONG)
def test_a_generator_of_impossible_jobs_is_told_the_column_and_the_job(columns, told):
    found = error_of(given_by(**columns), generate=["mine"])
    assert "workload.generate.0: generator mine (python:mine)" in found
    assert told in found


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda jobs: replace(jobs, run_us=-jobs.run_us), f"run_us of job 1 is -{US}; {LEAST} 1"),
        (
            lambda jobs: replace(jobs, run_us=jobs.run_us[:1]),
            "column run_us has the shape (1,), number has (2,)",
        ),
        (lambda jobs: replace(jobs, nodes=jobs.nodes * 0.5), f"nodes of job 1 is 0.5; {LEAST} 1"),
        (
            lambda jobs: replace(jobs, user=["ann", "bob"]),
            "column user has values of the type <U3; give whole numbers",
        ),
        (lambda jobs: jobs.nodes.fill(1), "ValueError: assignment destination is read-only"),
    ],
)
def test_a_transform_to_impossible_jobs_is_told_likewise(change, told):
    found = error_of(given_by(), changed_by(change), generate=["mine"], transforms=["changes"])
    assert "transform changes (python:changes)" in found
    assert told in found


def test_a_transform_may_leave_jobs_in_any_order_and_times_with_fractions():
    def later(jobs):
        return replace(jobs, submit_us=jobs.submit_us[::-1] * 1.1 + 0.2, nodes=jobs.nodes.astype(np.int64))

    done = run(given_by(), changed_by(later), generate=["mine"], transforms=["changes"])
    assert done.jobs.select(["job", "submit_us", "nodes"]).to_pydict() == {
        "job": [2, 1],
        "submit_us": [0, 6],
        "nodes": [2, 1],
    }


def test_a_job_table_as_the_source_is_checked_too():
    jobs = JobTable.build(**JOBS)
    for wrong in (
        replace(jobs, run_us=-jobs.run_us),
        jobs.take(np.array([], np.intp)),
        replace(jobs, number=[1, 1]),
    ):
        with pytest.raises(emulator.ScenarioError, match="jobs: "):
            emulator.run(wrong, nodes=4)
    assert emulator.run(jobs, nodes=4).summary["jobs_run"] == 2


class Pulse:
    count = 2

    def __init__(self, jobs: int):
        self.jobs = jobs

    def generate(self, rng, *, nodes):
        jobs = self.jobs * Pulse.count
        return JobTable.build(submit_us=[0] * jobs, run_us=[US] * jobs, nodes=[1] * jobs, kind=Kind.BATCH)


def test_a_generator_given_in_python_is_asked_anew_by_each_run(monkeypatch):
    assert [run(Pulse(jobs), generate=["pulse"]).summary["jobs_in"] for jobs in (1, 3)] == [2, 6]
    assert run(given_by(), generate=["mine"]).summary["mean_wait_s"] == 0
    assert run(given_by(nodes=[4, 4]), generate=["mine"]).summary["mean_wait_s"] > 0
    once = {"nodes": 4, "workload": {"generate": [{"pulse": {"jobs": 1}}]}}
    monkeypatch.setattr(Pulse, "count", 5)
    assert emulator.run(once, plugins=[Pulse]).summary["jobs_in"] == 5
    monkeypatch.setattr(Pulse, "count", 7)
    assert emulator.run(once, plugins=[Pulse]).summary["jobs_in"] == 7


def test_a_file_of_stored_jobs_that_has_changed_is_read_anew(tmp_path):
    path = tmp_path / "jobs.npz"
    counts = []
    for jobs in (1, 2):
        store.save(JobTable.build(submit_us=[0] * jobs, run_us=[US] * jobs, nodes=[1] * jobs), path)
        counts.append(run(generate=[{"stored_jobs": str(path)}]).summary["jobs_in"])
    assert counts == [1, 2]


def test_a_plugin_whose_name_somebody_has_to_say_must_have_one_of_its_own():
    daily = type("DailyBatch", (Pulse,), {})
    assert "there is a generator 'daily_batch' already; give DailyBatch another name" in error_of(
        daily, generate=["daily_batch"]
    )


@pytest.mark.parametrize("name", ["jobs.npz", "jobs.parquet"])
def test_a_file_of_stored_jobs_that_is_none_or_has_impossible_ones_is_named(name, tmp_path):
    path = tmp_path / name
    path.write_text("PK\x03\x04 not jobs")
    assert f"{path}: this is no {path.suffix} file of jobs (" in error_of(
        generate=[{"stored_jobs": str(path)}]
    )
    store.save(JobTable.build(submit_us=[0], run_us=[US], nodes=[0]), path)
    assert f"{path}: nodes of job 1 is 0; {LEAST} 1" in error_of(generate=[{"stored_jobs": str(path)}])


def test_numbers_and_ranges_of_numpy_are_numbers_and_ranges():
    jobs = {"submit_s": [0, 0], "run_s": [5, 5], "nodes": [2, 2]}
    assert emulator.run(jobs, nodes=np.int64(2), seed=np.int32(3)).summary["seed"] == 3
    assert (
        emulator.run(jobs, nodes=2, changes={"scheduler": {"cycle_s": np.int64(7)}}).summary["max_wait_s"]
        == 7
    )
    for values in (range(2, 5), np.arange(2, 5)):
        found = emulator.sweep(jobs, {"nodes": values}, seeds=np.int64(1), jobs=1)
        assert found.table["nodes"].to_pylist() == [2, 3, 4]


@pytest.mark.parametrize("values", [4, "fcfs+easy"])
def test_a_key_of_a_grid_has_a_list(values):
    with pytest.raises(
        emulator.ScenarioError, match=r"grid: nodes: a list of values is expected, not .* alone"
    ):
        emulator.sweep({"submit_s": [0], "run_s": [5], "nodes": [2]}, {"nodes": values})
    with pytest.raises(emulator.ScenarioError, match="jobs: at least 1 run at the same time, not 0"):
        emulator.sweep({"submit_s": [0], "run_s": [5], "nodes": [2]}, {"nodes": [4]}, jobs=0)
