"""Jobs of ElastiSim, as its documentation describes them."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from emulator.workload.files import TraceError
from emulator.workload.formats import load
from emulator.workload.rules import to_jobs

JOBS = {
    "jobs": [
        {"type": "rigid", "submit_time": 0, "num_nodes": 12, "num_gpus_per_node": 4, "walltime": 900,
         "application_model": "models/wait.json", "attributes": {"priority": 50}},
        {"type": "malleable", "submit_time": 80, "num_nodes_min": 2, "num_nodes_max": 9,
         "application_model": "models/loop.json", "arguments": {"rounds": 3, "pause": 5}},
    ]
}  # fmt: skip
WAIT = {"phases": [{"tasks": [{"type": "busy_wait", "delay": 720, "pattern": "uniform"}]}]}
LOOP = {
    "on_init": [{"type": "idle", "delay": 1}],
    "phases": [
        {"iterations": "rounds", "tasks": [
            {"type": "sequence", "iterations": 2, "tasks": [{"type": "idle", "delay": "pause"}]}]},
        {"tasks": [{"type": "idle", "delay": 0.5}]},
    ],
}  # fmt: skip


@pytest.fixture
def project(tmp_path):
    """A project as ElastiSim's own example has it, changed by a function; the path of its jobs."""

    def build(change=lambda *_: None):
        jobs, wait, loop = deepcopy(JOBS), deepcopy(WAIT), deepcopy(LOOP)
        change(jobs["jobs"], wait, loop)
        (tmp_path / "models").mkdir(exist_ok=True)
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "models/wait.json").write_text(json.dumps(wait))
        (tmp_path / "models/loop.json").write_text(json.dumps(loop))
        (tmp_path / "data/jobs.json").write_text(json.dumps(jobs))
        return tmp_path / "data/jobs.json"

    return build


def test_each_job_takes_what_its_model_waits_and_the_fewest_of_its_nodes(project, rows_of):
    log = load(project())
    columns = ("number", "submit_s", "run_s", "allocated_procs", "requested_s")
    assert rows_of(log, *columns) == [(1, 0, 720, 12, 900), (2, 80, 31.5, 2, -1)]
    found = to_jobs(log, nodes=16).jobs
    assert (found.nodes.tolist(), found.run_us.tolist()) == ([12, 2], [720_000_000, 31_500_000])


def test_a_beginning_may_be_a_phase_and_types_in_capitals(project, rows_of):
    """As the program reads them."""

    def change(jobs, wait, loop):
        jobs[0]["type"] = "RIGID"
        wait["phases"][0]["tasks"][0]["type"] = "BUSY_WAIT"
        loop["on_init"] = {"iterations": 2, "tasks": loop["on_init"]}

    assert rows_of(load(project(change)), "run_s") == [(720,), (32.5,)]


@pytest.mark.parametrize(
    ("formula", "run_s"),
    [
        ("rounds*(num_nodes/2)", 3),
        ("-(1 - 2^rounds)", 7),
        ("pause / rounds", 1),  # a phase is repeated a whole number of times
    ],
)
def test_formulas_have_the_arguments_of_a_job_and_its_nodes(project, rows_of, formula, run_s):
    model = {"phases": [{"iterations": formula, "tasks": [{"type": "idle", "delay": 1}]}]}

    def change(_, __, loop):
        loop.clear()
        loop.update(model)

    assert rows_of(load(project(change)), "run_s")[1] == (run_s,)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda jobs, *_: jobs[1].update(type="elastic"), "job 2: type is 'elastic', not rigid"),
        (lambda jobs, *_: jobs[0].pop("num_nodes"), "job 1: num_nodes is None, not a whole number from 1"),
        (lambda jobs, *_: jobs[0].update(submit_time=-1), "job 1: submit_time is -1"),
        (lambda jobs, *_: jobs[0].update(walltime="1h"), "job 1: walltime is '1h'"),
        (
            lambda jobs, *_: jobs[0].update(application_model="gone.json"),
            "job 1: application_model gone.json",
        ),
        (lambda jobs, *_: jobs[0].update(arguments=[]), "job 1: application_model must be"),
        (lambda jobs, *_: jobs.append(7), "job 3: 7 is not an object"),
        (lambda _, wait, __: wait.update(phases=3), "`phases` must be a list"),
        (lambda _, wait, __: wait["phases"].append(3), "a phase is an object with `tasks`"),
        (
            lambda _, wait, __: wait["phases"][0]["tasks"].append({"type": "cpu", "flops": 8e12}),
            "job 1: application_model models/wait.json: a task of type 'cpu': how long it takes depends on",
        ),
        (
            lambda _, __, loop: loop["on_init"][0].update(delay="x^2"),
            "job 2: .* delay is 'x.2', not a number",
        ),
        (lambda jobs, *_: jobs[1]["arguments"].update(rounds=0), "job 2: .* iterations is 0"),
        (lambda _, __, loop: loop["phases"][0].update(iterations="rounds +"), "iterations is 'rounds .'"),
        (lambda _, __, loop: loop["phases"][0].update(iterations="1/(rounds-3)"), "iterations is '1/"),
        (lambda _, __, loop: loop["phases"][0].update(iterations="(0-rounds)^0.5"), "iterations is '.0-"),
        (lambda _, __, loop: loop["phases"][0].update(iterations="9^9^9^9"), "iterations is '9.9"),
        (lambda _, __, loop: loop["phases"][0].update(iterations="open('x')"), 'iterations is "open'),
        (lambda _, __, loop: loop.update(on_init=7), "a phase is an object with `tasks`"),
        (lambda jobs, *_: jobs[1]["arguments"].update(rounds=10**9, pause=10**9), "s are too long"),
    ],
)
def test_what_is_wrong_names_the_job_and_lenient_leaves_it_out(project, change, said):
    path = project(change)
    with pytest.raises(TraceError, match=said):
        load(path)
    assert load(path, lenient=True).malformed >= 1


def test_a_file_without_a_list_of_jobs_is_an_error(text_file):
    path = text_file('{"jobs": {"application_model": 1}}', name="jobs.json")
    with pytest.raises(TraceError, match="no jobs of ElastiSim: `jobs` must be a list"):
        load(path)
