"""Plug-ins from files in scenarios, sweeps and live runs: known everywhere, and told apart by their content."""

from __future__ import annotations

import json

import pytest
import yaml

from command_line import emulate
from emulator.live.containers import startup
from emulator.live.roles import RunSettings
from emulator.live.run_files import RunFiles
from emulator.live.run_requirements import requirements_of
from emulator.live.torque.config import ServerConfig
from emulator.report.compare import compare
from emulator.report.files import load as load_results
from emulator.runs.preparation import prepare
from emulator.runs.runner import make_mechanism
from emulator.runs.scenario import ScenarioError, from_mapping, load
from emulator.sweeps.grid import load_sweep
from emulator.sweeps.pools import Cores
from emulator.sweeps.store import Store
from emulator.sweeps.sweep import run_sweep

SOURCE = '''
from __future__ import annotations
from dataclasses import dataclass
import numpy as np
from balancer.algorithms.basic import serve_then_keep
from emulator.workload.table import JobTable, Kind

@dataclass(frozen=True)
class KeepSome:
    """Keeps some nodes in reserve."""
    keep: int = 1
    def plan(self, view):
        return serve_then_keep(view, self.keep)

@dataclass(frozen=True)
class Two:
    def predict(self, history, slot):
        return 2

def widest(jobs, config):
    return -jobs.nodes.astype(np.int64)

@dataclass
class IdleOnly:
    keep_free: int = 0
    def on_arrival(self, job, act):
        idle = [node for node, runs in enumerate(act.cluster.node_job) if runs < 0]
        wanted = act.cluster.nodes_wanted(job)
        if len(idle) - self.keep_free < wanted:
            act.reject(job, "not enough idle nodes")
            return
        act.start(job, act.reserve(idle[:wanted])[0])
    def on_completion(self, job, nodes, act):
        act.release(nodes)

@dataclass(frozen=True)
class Rush:
    def generate(self, rng, *, nodes):
        second = 1_000_000
        return JobTable.build(
            submit_us=np.arange(12) * 100 * second,
            run_us=rng.integers(100, 900, 12) * second,
            nodes=rng.integers(1, 5, 12),
            kind=np.where(np.arange(12) % 4 == 3, Kind.ON_DEMAND, Kind.BATCH),
        )
'''
BALANCER = {"balancer": {"algorithm": {"keep_some": {"keep": 3}}, "predictor": "two"}}
IDLE_ONLY = {"idle_only": {"keep_free": 1}}
ALL = ["KeepSome", "Two", "widest", "IdleOnly", "Rush"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my.py"
    path.write_text(SOURCE)
    return path


def document(mechanism=BALANCER, **more):
    return {
        "name": "rush",
        "nodes": 8,
        "plugins": [f"my.py:{name}" for name in ALL],
        "workload": {"generate": ["rush"]},
        "scheduler": "widest+easy",
        "mechanism": mechanism,
        "live": {"speed": 6000},
    } | more


def written(folder, content, name="scenario.yaml"):
    path = folder / name
    path.write_text(yaml.safe_dump(content))
    return path


def emulator(*arguments):
    result = emulate(*arguments)
    return result.exit_code, result.stdout, result.stderr


def test_they_are_named_relative_to_the_scenario_and_stored_with_their_hash(file):
    scenario = load(written(file.parent, document()))
    stored = scenario.as_json()["plugins"]
    assert [each["name"] for each in stored] == ALL
    assert {each["file"] for each in stored} == {str(file)}
    assert {len(each["sha256"]) for each in stored} == {64}
    assert from_mapping(scenario.as_json()) == scenario
    file.write_text(SOURCE + "\n")
    with pytest.raises(ScenarioError, match="has changed since it was written down"):
        from_mapping(scenario.as_json())


def test_a_scenario_without_them_says_nothing_of_them():
    assert "plugins" not in from_mapping({"workload": {"generate": ["daily_batch"]}}).as_json()


def test_parameters_of_an_algorithm_can_be_set_and_are_checked(file):
    path = written(file.parent, document())
    made = make_mechanism(load(path, ("mechanism.balancer.algorithm.keep_some.keep=5",)))
    assert made.algorithm == {"keep_some": {"keep": 5}}
    status, _, said = emulator(
        "run", path, "--out", file.parent / "out", "--set", "mechanism.balancer.algorithm.keep_some.kep=5"
    )
    assert (status, said) == (
        2, "emulator: mechanism: balancer: algorithm keep_some has no parameter 'kep'; did you mean 'keep'?\n",
    )  # fmt: skip
    assert not (file.parent / "out").exists()


def test_the_command_line_may_bring_them_too(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    path = written(file.parent, document(plugins=[]))
    known = [f"--plugin=my.py:{name}" for name in ALL]
    status, out, said = emulator("run", path, "--out", "out", "--json", *known)
    assert status == 0, said
    assert [each["name"] for each in json.loads(out)["scenario"]["plugins"]] == ALL


def test_one_that_cannot_be_loaded_is_an_error_before_anything_is_written(file):
    file.write_text("import no_such_module\n")
    path = written(file.parent, document())
    status, _, said = emulator("run", path, "--out", file.parent / "out")
    assert status == 2
    assert f"{file}, line 1: ModuleNotFoundError: No module named 'no_such_module'" in said
    assert not (file.parent / "out").exists()


def sweep_of(folder):
    grid = {"mechanism.balancer.algorithm.keep_some.keep": [0, 3]}
    return load_sweep(written(folder, {"scenario": document(), "grid": grid, "seeds": 2}, "sweep.yaml"))


def test_a_sweep_does_its_runs_in_processes_that_know_them(file, tmp_path):
    sweep = sweep_of(file.parent)
    outcome = run_sweep(sweep, Store(tmp_path / "sweep"), Cores(2))
    assert (outcome.rows, outcome.failed) == (4, ())


@pytest.mark.slow
def test_a_run_of_a_changed_file_is_another_run(file):
    before = [run.key for run in sweep_of(file.parent).runs]
    assert before == [run.key for run in sweep_of(file.parent).runs]
    file.write_text(SOURCE + "\n")
    assert not set(before) & {run.key for run in sweep_of(file.parent).runs}


def test_a_wrong_parameter_in_a_sweep_is_an_error_before_the_first_run(file):
    grid = {"mechanism.balancer.algorithm.keep_some.keep": [0, "many"]}
    path = written(file.parent, {"scenario": document(), "grid": grid}, "sweep.yaml")
    with pytest.raises(
        ScenarioError,
        match=r"keep=many: mechanism: balancer: algorithm keep_some: keep: must be a whole number",
    ):
        load_sweep(path)


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.parametrize("mechanism", [BALANCER, IDLE_ONLY], ids=["algorithm", "mechanism"])
def test_the_processes_of_a_live_run_load_the_same_file(file, mechanism):
    path = written(file.parent, document(mechanism))
    for clock in ("virtual", "live"):
        status, _, said = emulator("run", path, "--clock", clock, "--out", file.parent / clock, "--quiet")
        assert status == 0, said
    found = compare(load_results(file.parent / "virtual"), load_results(file.parent / "live"))
    assert (found.started_in_one, found.starts_that_differ, found.states_that_differ) == (0, 0, 0)
    assert found.same_decisions


def test_a_container_gets_the_text_of_the_file(file, tmp_path, monkeypatch):
    scenario = load(written(file.parent, document(IDLE_ONLY)))
    private = tmp_path / "container"
    private.mkdir()
    monkeypatch.setattr(startup, "PRIVATE", str(private))
    prepared = prepare(scenario)
    told = RunSettings(scenario, requirements_of(scenario, prepared), prepared.jobs, comes_back=True)
    places = startup.container_places(RunFiles(tmp_path), (), "", "")
    sent = json.loads(json.dumps(startup.carried(told.batch(places), expect_nodes=8)))
    for name, text in sent["files"].items():
        (private / name).write_text(text)
    file.unlink()
    made = ServerConfig.model_validate(sent["config"])
    assert {each.file for each in made.plugins} == {private / "0-my.py"}
    assert made.scheduler.order == "widest"
