"""The scenarios that run in both clocks are those of the results file, and a difference is said aloud."""

from __future__ import annotations

import json
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import measurements
import pytest

from emulator.commands.run import run as run_command
from emulator.commands.run import scenario_of
from emulator.runs.preparation import prepare

ROOT = Path(__file__).parents[2]
MEASURED = measurements.load().live


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module("live_equals_virtual")


def test_each_case_has_a_row_with_its_command(benchmark: Any) -> None:
    assert [(case.mechanism, case.about, case.command) for case in benchmark.CASES] == [
        (row.mechanism, row.about, row.command) for row in MEASURED
    ]


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row.mechanism)
def test_a_command_has_the_nodes_and_jobs_of_its_row(row: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    given = run_command.make_context("run", shlex.split(row.command)[2:]).params
    scenario = scenario_of(given["scenario_file"], given["changes"], trace=None, nodes=given["nodes"])
    prepared = prepare(scenario)
    assert (scenario.nodes or prepared.nodes, len(prepared.jobs)) == (row.nodes, row.jobs)


def row_of(benchmark: Any, case: Any, *, differs: bool) -> Any:
    figures = {
        "nodes": 4,
        "jobs": 9,
        "decisions": 2,
        "starts_that_differ": 3 * differs,
        "states_that_differ": 0,
    }
    same = {"same_decisions": True, "is_same": not differs, "live_wall_s": 1.5, "live_speed": 4000.0}
    return benchmark.Row(case.mechanism, case.about, case.command, **figures, **same)


@pytest.mark.parametrize(("differs", "status"), [(False, 0), (True, 1)])
def test_a_run_that_differs_is_told_and_is_the_exit_status(
    benchmark: Any, differs: bool, status: int, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(benchmark, "measure", lambda case, *_: row_of(benchmark, case, differs=differs))
    assert benchmark.main(["--only", "hybrid"]) == status
    said = capsys.readouterr().out.split(": ", 1)[1]
    assert said == ("NOT THE SAME (3 starts)" if differs else "the same") + "; 1.5 s live, 4,000x\n"
    assert benchmark.main(["--only", "hybrid", "--json"]) == status
    (printed,) = json.loads(capsys.readouterr().out)
    assert printed["is_same"] is not differs
