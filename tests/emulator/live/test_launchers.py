"""Processes and containers of a live run are told the same: their launchers differ in addresses only."""

import json

import pytest
import yaml

from balancer.clock import US
from emulator.live.containers import controller, startup
from emulator.live.containers.controller import begin
from emulator.live.fleet import Fleet
from emulator.live.process import write_address
from emulator.live.run_files import RunFiles
from emulator.runs.preparation import prepare
from emulator.runs.scenario import ScenarioError, load

NODES = 4
OWN = {
    "batch": {"nodes", "expect_nodes", "host", "port"},
    "node": {"home", "server", "server_home"},
    "balancer": {"host", "port", "ready_file", "log_level"},
    "ondemand": {"listen", "port", "ready_file"},
    "predictor": set(),
    "replayer": set(),
}
"""Settings that are a launcher's own: where a role listens and whom it calls, and how much a container logs."""
_PLUGINS = """
class KeepTwo:
    def plan(self, view):
        return None

class Two:
    def predict(self, history, slot):
        return 2
"""
_DAY = {"days": 0.02, "jobs": 6, "load": 0.5}
_BALANCER = {
    "algorithm": "keep_two", "static_reserve": 1, "wait_s": 240, "idle_reserve_s": 300, "notice_s": 60, "boot_s": 30,
    "delete_s": 20, "predictor": "two", "slots_per_day": 24, "history": [0, 2],
}  # fmt: skip
RUNS = {
    "the Balancer with a cloud that is slow, forecasts and an algorithm from a file": (
        {"mechanism": {"balancer": _BALANCER}, "plugins": ["mine.py:KeepTwo", "mine.py:Two"]},
        {"batch", "node", "balancer", "ondemand", "predictor", "replayer"},
    ),
    "a plain Balancer": (
        {"mechanism": {"balancer": {"static_reserve": 1, "wait_s": 120}}, "scheduler": "sjf+easy"},
        {"batch", "node", "balancer", "ondemand", "replayer"},
    ),
    "a mechanism in the batch server that wants notices, with real jobs": (
        {"mechanism": {"hybrid": {"strategy": "cua+spaa"}}, "live": {"jobs": "emulator-job"}},
        {"batch", "node", "replayer"},
    ),
    "jobs that share nodes": (
        {"mechanism": {"oversubscribe": {"cores": 2, "multiplicity": 2}}},
        {"batch", "node", "replayer"},
    ),
    "no mechanism": ({"mechanism": None}, {"batch", "node", "replayer"}),
}


def written(folder, changes):
    """The scenario, with steps for which its processes must be able to come back."""
    leases = {"days": 0.02, "leases_per_day": 100, "mean_nodes": 1, "day_begin_s": 0}
    live = {"speed": 240, "patience_s": 17, "hooks": "script"} | changes.get("live", {})
    live["faults"] = [{"at_s": 10, "do": "kill", "target": "n001", "for_s": 30}]
    document = {
        "name": "both",
        "seed": 9,
        "nodes": NODES,
        "workload": {"generate": [{"daily_batch": _DAY}, {"bursty_leases": leases}]},
    }
    if changes["mechanism"] is None or "balancer" not in changes["mechanism"]:
        document["workload"]["generate"] = [{"daily_batch": _DAY}]
    path = folder / "both.yaml"
    (folder / "mine.py").write_text(_PLUGINS)
    path.write_text(yaml.safe_dump(document | changes | {"live": live}))
    return path


class NothingRuns:
    """In place of a process: it is there at once."""

    exit_status = None

    def wait_until(self, ready, limit_s=0):
        """It is ready."""

    def wait_ready(self, path, limit_s=0):
        return json.loads(path.read_text())


class Noted(Fleet):
    """A fleet of processes that notes how they would be started."""

    def __init__(self, *arguments):
        self.started = {}
        super().__init__(*arguments)

    def launch(self, name, *arguments, environ=None, program=None):
        self.started[name] = ([str(each) for each in arguments], environ or {})
        self.processes[name] = NothingRuns()
        (self.work / f"{name}.ready").write_text(json.dumps({"url": f"http://{name}"}))
        if name == "batch":
            write_address(self.work / "torque" / "address", ("127.0.0.1", 1))
        return self.processes[name]


def as_processes(path, work):
    """What processes are told, by role; their clock."""
    work.mkdir()
    scenario = load(path)
    fleet = Noted(scenario, prepare(scenario), work)
    fleet.bin.mkdir()
    clock = fleet._make_clock()
    fleet._start(interrupted=False)
    texts = {
        str(fleet.job_folder): "<jobs>", str(fleet.bin): "<commands>", str(work): "<folder>",
        "http://balancer": "<balancer>", "http://ondemand": "<ondemand>", str(path.parent): "<files>",
        fleet.token or "<token>": "<token>",
    }  # fmt: skip
    found = {}
    for name, (arguments, environ) in fleet.started.items():
        if name == "agent":
            continue  # of all other nodes
        role = {"n001": "node"}.get(name, name)
        config = json.loads((work / f"{name}.json").read_text()) if "--config" in arguments else {}
        more = arguments[3:] if role == "predictor" else []
        found[role] = without_own(role, config, more, {} if role == "node" else environ, texts)
    return found, clock


def as_containers(path, work, monkeypatch):
    """What the controller tells containers, by role; their clock."""
    work.mkdir()
    scratch = work / "scratch"
    scratch.mkdir()
    names = [f"n{number:03d}" for number in range(1, NODES + 1)]
    answers = {
        "nodes": {"nodes": names, "expected": NODES, "open": True, "missing": []},
        "state": {"all_nodes_up": True},
    }
    for module in (startup, controller):
        monkeypatch.setattr(module, "SCRATCH", str(scratch))
    monkeypatch.setattr(startup, "request", lambda address, message, limit_s: answers[message["do"]])
    monkeypatch.setattr(startup, "_must_answer", lambda url, who: None)
    for name, value in {"FLEET_SCENARIO": path, "FLEET_NODES": NODES, "FLEET_SET": ""}.items():
        monkeypatch.setenv(name, str(value))
    files = RunFiles(work / "volume")
    files.root.mkdir()
    run = begin(files)
    files.ready("predictor").touch()
    texts = {
        str(scratch): "<jobs>", startup.COMMANDS: "<commands>", startup.HOOKS: "<commands>",
        str(files.root): "<folder>", f"{startup.PRIVATE}/0-": "<files>/", startup.PRIVATE: "<folder>",
        startup.BALANCER_URL: "<balancer>", startup.ONDEMAND_URL: "<ondemand>", run._state.token: "<token>",
    }  # fmt: skip
    found = {}
    for role in OWN:
        told = json.loads(json.dumps(run.start_settings(role, "n001" if role == "node" else None)))
        if told.get("needed", True):
            environ = {} if role == "node" else told["environ"]
            found[role] = without_own(role, told["config"], told["arguments"], environ, texts)
    return found, run._clock


def begun(path, work, monkeypatch, changes=""):
    """The controller of a fleet in the volume of `work`."""
    (work / "scratch").mkdir(parents=True, exist_ok=True)
    files = RunFiles(work / "volume")
    files.root.mkdir(exist_ok=True)
    monkeypatch.setattr(controller, "SCRATCH", str(work / "scratch"))
    for name, value in {"FLEET_SCENARIO": path, "FLEET_NODES": NODES, "FLEET_SET": changes}.items():
        monkeypatch.setenv(name, str(value))
    return begin(files)


def test_a_fleet_goes_on_with_its_run_and_says_what_it_forgets_for_another_scenario(
    tmp_path, monkeypatch, capsys
):
    path = written(tmp_path, RUNS["no mechanism"][0])
    first = begun(path, tmp_path, monkeypatch)._state.run
    capsys.readouterr()
    assert begun(path, tmp_path, monkeypatch)._state.run == first
    assert capsys.readouterr().err == f"controller: goes on with run {first} at 0 s\n"
    other = begun(path, tmp_path, monkeypatch, "seed=11 live.speed=30")
    assert other._state.run != first
    said = capsys.readouterr().err.splitlines()
    assert said[0] == (
        f"controller: run {first}, which was interrupted, is forgotten: the scenario is another one"
        " (live.speed: 240.0 -> 30.0; seed: 9 -> 11)"
    )
    other.finish()
    begun(path, tmp_path, monkeypatch)
    assert "forgotten" not in capsys.readouterr().err, "a run that is over is nobody's"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("live.batch=slurm", "--profile slurm up --exit-code-from slurm slurm"),
        ("live.ondemand=nova", "--profile nova up --exit-code-from nova nova"),
    ],
)
def test_a_scenario_of_a_profile_is_refused_without_it_and_nothing_is_forgotten(
    changes, said, tmp_path, monkeypatch
):
    path = written(tmp_path, RUNS["a plain Balancer"][0])
    first = begun(path, tmp_path, monkeypatch)._state.run
    with pytest.raises(ScenarioError, match=f"has containers of its own: docker compose {said}$"):
        begun(path, tmp_path, monkeypatch, changes)
    assert begun(path, tmp_path, monkeypatch)._state.run == first


def without_own(role, config, arguments, environ, texts):
    """What a role is told besides its launcher's own settings, with addresses, folders and secrets by their names."""
    text = json.dumps(
        {
            "config": {key: value for key, value in config.items() if key not in OWN[role]},
            "arguments": sorted(arguments),
            "environ": environ,
        }
    )
    for place, name in texts.items():
        text = text.replace(place, name)
    return json.loads(text)


@pytest.mark.parametrize(("changes", "roles"), RUNS.values(), ids=RUNS)
def test_each_role_is_told_the_same_as_a_process_and_in_a_container(changes, roles, tmp_path, monkeypatch):
    path = written(tmp_path, changes)
    processes, clock = as_processes(path, tmp_path / "work")
    containers, other_clock = as_containers(path, tmp_path / "fleet", monkeypatch)
    assert set(processes) == roles
    assert processes == containers
    clocks = [(each.speed, each.held, each._patience_us) for each in (clock, other_clock)]
    assert clocks == [(240, True, 17 * US)] * 2
