"""Scenario files: what they may say, and how they say what is wrong."""

import copy
import json
from pathlib import Path

import pytest
import yaml

from emulator.runs.preparation import prepare
from emulator.runs.runner import make_mechanism
from emulator.runs.scenario import ScenarioError, apply_change, from_mapping, load

ROOT = Path(__file__).parents[2]
LIVE_KEYS = "batch, faults, hooks, jobs, max_lag_s, ondemand, pace, patience_s, speed"
SMALL = {
    "nodes": 8,
    "workload": {"generate": [{"daily_batch": {"days": 0.2, "jobs": 20, "load": 0.5}}]},
    "mechanism": {"balancer": {"static_reserve": 1}},
}


def changed(*changes):
    """The small scenario, ready to run, after `--set` of the changes."""
    document = copy.deepcopy(SMALL)
    for change in changes:
        apply_change(document, change)
    scenario = from_mapping(document)
    prepare(scenario)
    make_mechanism(scenario)
    return scenario


@pytest.fixture
def scenario_file(tmp_path):
    def write(document, name="my.yaml"):
        path = tmp_path / name
        path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
        return path

    return write


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("nodez=3", "scenario: unknown key 'nodez'; did you mean 'nodes'?"),
        ("live.sped=3", "scenario: unknown key 'live.sped'; did you mean 'speed'?"),
        ("workload.transform=[]", "scenario: unknown key 'workload.transform'; did you mean 'transforms'?"),
        (
            "results.x=3",
            (
                "scenario: unknown key 'results.x'; there are: bounded_slowdown_threshold_s, window_s, "
                "window_without_queue"
            ),
        ),
        ("mechanism=balanser", "mechanism: there is no mechanism 'balanser'; did you mean 'balancer'?"),
        (
            "mechanism.balancer.wait=3",
            "mechanism balancer has no parameter 'wait'; did you mean 'wait_s'?",
        ),
        (
            "mechanism.balancer.algorithm=basik",
            "mechanism: balancer: there is no algorithm 'basik'; did you mean 'basic'?",
        ),
        (
            "scheduler=easy",
            "scenario: scheduler: scheduler 'easy': easy is a backfill rule, for example of fcfs+easy",
        ),
        ("scheduler=fcs+easy", "scenario: scheduler: there is no queue order 'fcs'; did you mean 'fcfs'?"),
        ("scheduler=fcfs+eas", "scenario: scheduler: unknown scheduler backfill 'eas'; did you mean 'easy'?"),
        (
            "scheduler.ordr=fcfs",
            "scenario: scheduler: unknown scheduler option 'ordr'; did you mean 'order'?",
        ),
        (
            "workload.generate=[daily_bach]",
            "workload: there is no generator 'daily_bach'; did you mean 'daily_batch'?",
        ),
        (
            "workload.generate=[{daily_batch: {dais: 1}}]",
            "workload: generator daily_batch has no parameter 'dais'; did you mean 'days'?",
        ),
        ("workload.transforms=[limt: 3]", "workload: there is no transform 'limt'; did you mean 'limit'?"),
        (
            "workload.transforms=[{window: {begn_s: 3}}]",
            "workload: transform window has no parameter 'begn_s'; did you mean 'begin_s'?",
        ),
    ],
)
def test_a_wrong_name_is_told_with_the_nearest_right_one(change, message):
    with pytest.raises(ScenarioError) as error:
        changed(change)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("nodes=0", "scenario: nodes: must be at least 1"),
        ("nodes=null", "nodes: how many nodes? (a generated workload has no header to tell)"),
        ("seed=-1", "scenario: seed: must be at least 0"),
        ("live.speed=-1", "scenario: live.speed: must be more than 0"),
        ("live.speed=.inf", "scenario: live.speed: must be a finite number"),
        (
            "live=fast",
            f"scenario: live: expected keys with values ({LIVE_KEYS}), not 'fast'",
        ),
        ("live.pace=held up", "scenario: live.pace: must be 'held', 'free' or 'strict'"),
        ("workload.generate=[]", "scenario: workload: give `trace` or `generate`, or both"),
        (
            "mechanism=5",
            "scenario: mechanism: expected a name, or a name with parameters (`name: {...}`), not 5",
        ),
        (
            "scheduler=5",
            "scenario: scheduler: expected a name, or a name with parameters (`name: {...}`), not 5",
        ),
        ("mechanism.balancer.wait_s=-1", "mechanism: balancer: wait_s must be at least 0, not -1"),
        (
            "mechanism.balancer.pick=any",
            "mechanism: balancer: pick must be one of longest_idle, shortest_idle, name, not 'any'",
        ),
        (
            "mechanism.other.x=1",
            "mechanism: a mechanism has one name, and here are 2: balancer, other",
        ),
        (
            "workload.generate=[{daily_batch: {days: -1}}]",
            "workload: daily_batch: days must be more than 0, not -1",
        ),
        ("workload.transforms=[limit: 0]", "workload: limit: jobs must be at least 1, not 0"),
        (
            "workload.transforms=[{window: {begin_s: 9000000, end_s: 9000001}}]",
            "workload: no job is left to run after the input rules and transforms",
        ),
    ],
)
def test_a_wrong_value_is_told_with_its_key(change, message):
    with pytest.raises(ScenarioError) as error:
        changed(change)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("nodes", "--set nodes: expected KEY=VALUE, for example mechanism.balancer.wait_s=300"),
        ("=3", "--set =3: expected KEY=VALUE, for example mechanism.balancer.wait_s=300"),
        ("live..speed=3", "--set live..speed=3: expected KEY=VALUE"),
        ("nodes=[", "--set nodes=[: not valid YAML: "),
        ("nodes.many=3", "--set nodes.many=3: nodes is 8 and has no keys of its own"),
    ],
)
def test_a_change_that_cannot_be_made_says_why(change, message):
    with pytest.raises(ScenarioError) as error:
        changed(change)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_changes_reach_nested_keys_and_their_values_are_yaml():
    scenario = changed(
        "seed=5",
        "name=my run",
        "live.speed=1.5e3",
        "mechanism.balancer.wait_s=300",
        "workload.transforms=[{limit: 3}]",
        "scheduler={order: sjf, backfill: none}",
    )
    assert (scenario.seed, scenario.name, scenario.live.speed) == (5, "my run", 1500.0)
    assert scenario.mechanism == {"balancer": {"static_reserve": 1, "wait_s": 300}}
    assert (scenario.scheduler_config.order, scenario.scheduler_config.backfill) == ("sjf", "none")
    assert len(prepare(scenario).jobs) == 3


def test_the_later_change_of_a_key_counts():
    assert changed("seed=5", "seed=6").seed == 6


def test_the_short_form_of_a_mechanism_takes_a_parameter():
    assert changed("mechanism=balancer", "mechanism.balancer.wait_s=300").mechanism == {
        "balancer": {"wait_s": 300}
    }


def test_a_mechanism_can_be_switched_off():
    assert make_mechanism(changed("mechanism=null")) is None


def test_defaults_are_stored():
    assert from_mapping({"nodes": 4, "workload": {"generate": ["daily_batch"]}}).as_json() == {
        "name": "unnamed",
        "seed": 1,
        "nodes": 4,
        "workload": {
            "trace": None,
            "generate": ["daily_batch"],
            "transforms": [],
            "overrun": "extend",
            "procs_per_node": 1,
            "size": "nodes",
            "origin_s": None,
            "zero_run": "leave_out",
            "no_estimate": "run_time",
            "lenient": False,
        },
        "scheduler": "fcfs+easy",
        "mechanism": None,
        "live": {
            "speed": 600.0,
            "pace": "held",
            "max_lag_s": 2.0,
            "patience_s": 60.0,
            "hooks": "in_process",
            "jobs": "sleep",
            "faults": [],
        },
        "results": {"bounded_slowdown_threshold_s": 10.0, "window_s": None, "window_without_queue": None},
    }


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_scenario_that_is_stored_is_the_same_when_it_is_read_again(path):
    scenario = load(path)
    assert from_mapping(json.loads(json.dumps(scenario.as_json()))) == scenario


def test_a_trace_is_found_beside_the_scenario_that_names_it(scenario_file, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.swf").write_text("1 0 0 60 -1 -1 -1 4 120 -1 1 -1 -1 -1 -1 -1 -1 -1\n")
    path = scenario_file({"nodes": 8, "workload": {"trace": "logs/a.swf"}})
    scenario = load(path)
    assert scenario.workload.trace == tmp_path / "logs" / "a.swf"
    assert len(prepare(scenario).jobs) == 1


def test_a_trace_may_be_named_from_where_the_user_stands(scenario_file, tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    (here / "a.swf").touch()
    monkeypatch.chdir(here)
    assert load(scenario_file({"workload": {"trace": "a.swf"}})).workload.trace == Path("a.swf")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes: 4\n x: [", ", line 2: not valid YAML: mapping values are not allowed here"),
        ("base: a.yaml\nseeds: 3\n", ": it is a sweep: `emulator sweep "),
        ("- 1\n", ": a scenario is a mapping of keys to values"),
        ("", ": a scenario is a mapping of keys to values"),
        ("nodes: 4\n", ": 'workload' is missing"),
    ],
)
def test_a_file_that_is_no_scenario_is_named(scenario_file, text, message):
    path = scenario_file(text)
    with pytest.raises(ScenarioError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}{message}")
    assert "\n" not in str(error.value)


def test_a_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ScenarioError, match=r"no\.yaml: No such file or directory"):
        load(tmp_path / "no.yaml")


def test_a_binary_file_is_no_scenario(tmp_path):
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\x00\xff\xfe")
    with pytest.raises(ScenarioError, match=r"binary\.yaml, line 1: not valid YAML: byte 0xff"):
        load(path)


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(ScenarioError) as error:
        from_mapping(
            {"nodez": 3, "seed": -1, "scheduler": 5, "live": {"sped": 3, "pace": "fast"}, "mechanism": 5}
        )
    assert str(error.value).splitlines() == [
        "scenario: 7 mistakes",
        "  seed: must be at least 0, not -1",
        "  'workload' is missing",
        "  scheduler: expected a name, or a name with parameters (`name: {...}`), not 5",
        "  mechanism: expected a name, or a name with parameters (`name: {...}`), not 5",
        "  live.pace: must be 'held', 'free' or 'strict', not 'fast'",
        "  unknown key 'live.sped'; did you mean 'speed'?",
        "  unknown key 'nodez'; did you mean 'nodes'?",
    ]
