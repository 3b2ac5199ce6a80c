"""`import emulator`: the same runs, figures and errors as the commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import emulator
from command_line import emulate
from emulator.report import files
from emulator.validation.laws import check

ROOT = Path(__file__).parents[3]
DAY = ROOT / "traces" / "day-64.swf"
JOB = "{number} {submit} 0 60 -1 -1 -1 {nodes} 120 -1 1 -1 -1 -1 -1 -1 -1 -1\n"
FAILING = """
from dataclasses import dataclass
@dataclass(frozen=True)
class Fails:
    def priority(self, now_us, queue):
        if now_us > 60_000_000:
            raise KeyError("lost")
        return queue.wait_us
"""


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Three jobs of a minute on four nodes each, submitted one after the other."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "three.swf"
    path.write_text("".join(JOB.format(number=n, submit=n, nodes=4) for n in (1, 2, 3)))
    return path


def told(summary):
    """Without what measures this machine."""
    return {key: value for key, value in summary.items() if key not in ("wall_s", "jobs_per_s")}


def test_a_log_runs_as_by_the_command(log):
    found = emulator.run(log, nodes=4, scheduler="sjf+none", seed=3, check=True)
    assert emulate("run", "--trace", log, "--nodes", 4, "--scheduler", "sjf+none", "--seed", 3).exit_code == 0
    assert told(found.summary) == told(json.loads(Path("runs/three/summary.json").read_text()))
    assert found.compare(emulator.load("runs/three")).is_same
    assert check(found.record) == []


def test_a_scenario_runs_as_by_the_command(tmp_path):
    scenario = ROOT / "scenarios" / "default.yaml"
    found = emulator.run(scenario, changes={"mechanism.balancer.static_reserve": 9}, nodes=80)
    done = emulate("run", scenario, "--set", "mechanism.balancer.static_reserve=9", "--nodes", 80,
                   "--json", "--out", tmp_path / "out")  # fmt: skip
    assert told(found.summary) == told(json.loads(done.stdout))
    assert emulator.compare(found, tmp_path / "out").is_same


def test_keys_and_a_scenario_say_the_same(log):
    keys = {"nodes": 4, "workload": {"trace": str(log)}, "scheduler": {"order": "ljf"}}
    one = emulator.run(keys)
    assert keys == {"nodes": 4, "workload": {"trace": str(log)}, "scheduler": {"order": "ljf"}}
    assert emulator.run(emulator.Scenario.model_validate(keys)).compare(one).is_same


def test_the_tables_are_those_of_the_results_folder(log):
    found = emulator.run(log, nodes=4, out="saved")
    assert found.jobs.select(["job", "wait_us"]).to_pydict() == {
        "job": [1, 2, 3], "wait_us": [0, 59_000_000, 118_000_000],
    }  # fmt: skip
    again = emulator.load("saved")
    assert again.jobs.equals(found.jobs)
    assert again.events.equals(found.events)
    assert sorted(path.name for path in Path("saved").iterdir()) == sorted(files.RESULT_FILES)
    assert found.save("again") == Path("again")


def test_nodes_and_the_timeline_account_for_all_time(log):
    found = emulator.run(log, nodes=5, scheduler="fcfs+none")
    nodes = found.nodes.to_pydict()
    assert nodes["name"] == ["n001", "n002", "n003", "n004", "n005"]
    assert sorted(nodes["busy_us"]) == [0, *[180_000_000] * 4]
    assert sorted(nodes["runs"]) == [0, 3, 3, 3, 3]
    line = found.timeline().to_pydict()
    assert line["at_us"] == [0, 1_000_000, 2_000_000, 60_000_000, 120_000_000]
    assert line["queued_jobs"] == [0, 1, 2, 1, 0]
    assert line["oa_busy"] == [4] * 5
    assert line["utilization"] == [0.8] * 5


def test_a_run_and_a_comparison_show_themselves_in_a_notebook(log):
    a, b = emulator.run(log, nodes=4, changes={"name": "a<b"}), emulator.run(log, nodes=8)
    assert repr(a) == "<Result a<b: 3 batch jobs run, wait mean 59 s, median 59 s, longest 1 min 58 s>"
    assert "<strong>a&lt;b</strong>" in a._repr_html_()
    assert "batch wait" in emulator.compare(a, b)._repr_html_()


def test_pandas_and_polars_are_asked_for_only_where_they_are_used(log, monkeypatch):
    found = emulator.run(log, nodes=4)
    assert found.to_pandas().wait_us.tolist() == [0, 59_000_000, 118_000_000]
    assert len(found.to_pandas("nodes")) == 4
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    with pytest.raises(ImportError, match="pip install polars"):
        found.to_polars()
    with pytest.raises(ImportError, match="pip install pandas"):
        found.to_pandas()


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({"nodes": 0}, ["--nodes", 0]),
        ({"scheduler": "fcs+easy"}, ["--scheduler", "fcs+easy"]),
        ({"nodes": 4, "mechanism": "balanser"}, ["--nodes", 4, "--set", "mechanism=balanser"]),
        ({"changes": {"live.sped": 3}}, ["--set", "live.sped=3"]),
        ({"plugins": ["absent.py:Thing"]}, ["--plugin", "absent.py:Thing"]),
        ({"out": "three.swf"}, ["--out", "three.swf"]),
    ],
)
def test_bad_input_is_an_error_with_the_text_of_the_command(options, given, log):
    with pytest.raises((emulator.ScenarioError, emulator.ResultsError)) as error:
        emulator.run("three.swf", **options)
    done = emulate("run", "--trace", "three.swf", *given)
    text = done.stderr.removeprefix("emulator: ").removeprefix("command line: ").removeprefix("--plugin: ")
    said = str(error.value).removeprefix("three.swf: ").removeprefix("plugins: ")
    assert (done.exit_code, said) == (2, text.removesuffix("\n").removeprefix("three.swf: "))


def test_a_log_that_is_not_there_is_a_trace_error():
    with pytest.raises(emulator.TraceError, match=r"absent\.swf: No such file"):
        emulator.run("absent.swf", nodes=4)


def test_a_plugin_that_fails_raises_and_leaves_the_run_so_far(log):
    Path("my.py").write_text(FAILING)
    with pytest.raises(emulator.PluginError) as error:
        emulator.run(log, nodes=4, plugins=["my.py:Fails"], scheduler="fails", out="part")
    done = emulate("run", "--trace", log, "--nodes", 4, "--plugin", "my.py:Fails", "--scheduler", "fails")
    assert f"emulator: {error.value}; what was done" in done.stderr
    assert isinstance(error.value.__cause__, KeyError)
    assert error.value.result.summary["jobs_run"] == 2
    assert emulator.load("part").summary["interrupted"] == str(error.value)


def test_a_sweep_gives_a_row_a_run(log):
    seen = []
    found = emulator.sweep(
        log, {"scheduler": ["fcfs+easy", "sjf+none"], "nodes": [4, 8]}, jobs=1, out="kept",
        on_done=lambda over, total: seen.append((over, total)),
    )  # fmt: skip
    assert found.table.select(["scheduler", "nodes", "mean_wait_s"]).to_pydict() == {
        "scheduler": ["fcfs+easy", "fcfs+easy", "sjf+none", "sjf+none"],
        "nodes": [4, 8, 4, 8],
        "mean_wait_s": [59.0, pytest.approx(58 / 3), 59.0, pytest.approx(58 / 3)],
    }
    assert (found.failed, seen) == ((), [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)])
    again = emulator.sweep(log, {"scheduler": ["fcfs+easy", "sjf+none"], "nodes": [4, 8]}, jobs=1, out="kept")
    assert again.table.equals(found.table)  # wall times included: nothing was run again
    assert len(found.to_pandas()) == 4


def test_a_sweep_says_what_is_wrong(log):
    with pytest.raises(emulator.ScenarioError, match=r"sweep: grid: nodes has no values"):
        emulator.sweep(log, {"nodes": []})
    with pytest.raises(emulator.ScenarioError, match="there is no queue order 'fcs'"):
        emulator.sweep(log, {"scheduler": ["fcs"]})


@pytest.mark.slow
def test_importing_it_is_cheap_until_something_is_used():
    script = (
        "import sys, emulator\n"
        "assert 'run' in dir(emulator)\n"
        "heavy = {'numba', 'numpy', 'pandas', 'pyarrow', 'pydantic', 'rich'} & {*sys.modules}\n"
        "assert not heavy, heavy\n"
        "assert callable(emulator.run) and callable(emulator.sweep)\n"
        "assert not {'pandas', 'polars', 'matplotlib'} & {*sys.modules}\n"
        "try:\n    emulator.rum\nexcept AttributeError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "module 'emulator' has no attribute 'rum'\n",
        "",
    )


def test_the_packages_say_that_they_are_typed():
    assert (ROOT / "emulator" / "py.typed").exists()
    assert (ROOT / "balancer" / "py.typed").exists()
    assert {*emulator.__all__} == {*emulator._PLACES}
