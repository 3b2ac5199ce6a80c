"""Another program's schedule is read in its own form, and the rules that made it are found."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from balancer.clock import US
from command_line import emulate
from emulator.report import files
from emulator.report.rules import explain
from emulator.report.theirs import TheirJob, read_theirs
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.like import PEERS
from emulator.simulation.run import simulate
from oracle.logs import read_accasims_starts, read_known_input
from oracle.workloads import job_table, random_workload

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.record.run_record import RunRecord

ACCASIM = """\
3;1;1970-01-01 00:19:46__3;1#4;1#__1970-01-01 00:19:46;1970-01-01 02:34:17;2;2;NA;64800;
13;1;1970-01-01 05:00:37__104;1#__1970-01-01 05:10:00;1970-01-01 06:01:11;1;1;NA;3634;
"""
CQSIM = "1;4;4;100;50;0;7;7;57\n2;2;2;100;50;3;8;11;61\n"
BATSIM = (
    "job_id,workload_name,submission_time,starting_time,waiting_time\nw0!1,w0,0.5,2.25,1.75\nw0!2,w0,1,,\n"
)


def run_by(rules: dict[str, Any], jobs: Any, nodes: int) -> RunRecord:
    record = simulate(jobs, nodes, SchedulerConfig.from_mapping(rules))
    return replace(record, scenario={"scheduler": rules or "fcfs+easy"})


def theirs_of(record: RunRecord, *, later_s: float = 0) -> dict[int, TheirJob]:
    columns = (
        record.jobs.number.tolist(),
        record.start_us / US + later_s,
        record.jobs.submit_us / US + later_s,
    )
    return {number: TheirJob(start, submit) for number, start, submit in zip(*columns, strict=True)}


def busy_jobs(seed: int) -> tuple[Any, int]:
    """More than a hundred jobs on a few nodes, so that rules matter."""
    rng = np.random.default_rng(seed)
    while True:
        jobs, nodes = random_workload(rng, estimates="longer", jobs=200, nodes=16)
        if len(jobs) > 120 and nodes > 7:
            return job_table(jobs), nodes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("job,start\n1,3\n2,4.5\n", {1: TheirJob(3), 2: TheirJob(4.5)}),
        ("id;wait;submit\n1;3;0\n", {1: TheirJob(None, 0, 3)}),
        ("job_id,start\n1,3\n2,\n3,-1\n", {1: TheirJob(3)}),
        (BATSIM, {1: TheirJob(2.25, 0.5, 1.75)}),
        (ACCASIM, {3: TheirJob(1186, 1186), 13: TheirJob(18_600, 18_037)}),
        (CQSIM, {1: TheirJob(7, 7, 0), 2: TheirJob(11, 8, 3)}),
    ],
)
def test_schedules_are_read_in_the_forms_that_programs_write(
    text: str, expected: dict[int, TheirJob], tmp_path: Path
):
    (tmp_path / "theirs").write_text(text)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(text.encode()))
    assert read_theirs(tmp_path / "theirs") == expected
    assert read_theirs(tmp_path / "packed.gz") == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "theirs: not a schedule: its first line must name a job"),
        ("", "theirs: not a schedule"),
        ("job,start\n1,soon\n", "theirs:2: start is 'soon', not a number"),
        ("job,start\n1,2,3\n", "theirs:2: 3 fields where there are 2 columns"),
        ("job,start\nx,2\n", "theirs:2: the job 'x' has no number"),
        ("job,start\n1,2\n1,3\n", "theirs:3: job 1 is there twice"),
        ("job,start\n1,\n", "theirs: no job of it started"),
        (ACCASIM + "13;\n", "theirs:3: no line of AccaSim's schedule"),
    ],
)
def test_what_is_no_schedule_is_named_by_line_and_field(text: str, words: str, tmp_path: Path):
    (tmp_path / "theirs").write_text(text)
    with pytest.raises(files.ResultsError, match=words):
        read_theirs(tmp_path / "theirs")


@pytest.mark.parametrize("program", sorted(PEERS))
def test_the_schedule_of_a_program_is_explained_by_its_bundle(program: str):
    for seed in range(5):
        jobs, nodes = busy_jobs(seed)
        found = explain(
            run_by({}, jobs, nodes), theirs_of(run_by({"like": program}, jobs, nodes), later_s=1e9)
        )
        by_name = {one.rules: one.equal for one in found.tried}
        assert found.best.equal == by_name[f"like: {program}"] == len(jobs)


def test_accasims_own_schedule_is_found_out():
    theirs = {number: TheirJob(start_us / US) for number, start_us in read_accasims_starts().items()}
    found = explain(run_by({}, read_known_input(5_000), 128), theirs)
    assert (
        found.sentence
        == "like: accasim explains all 1\u202f805 differences: 5\u202f000 of 5\u202f000 starts equal"
    )


def test_two_switches_are_found_one_after_the_other():
    jobs, nodes = busy_jobs(7)
    rules = {"order": "sjf", "spare_nodes": False}
    found = explain(run_by({}, jobs, nodes), theirs_of(run_by(rules, jobs, nodes)))
    assert found.best.equal == len(jobs)
    assert set(found.best.rules.split(", ")) == {"order: sjf", "spare_nodes: false"}


def test_waits_alone_are_enough_and_the_same_run_needs_no_rule():
    jobs, nodes = busy_jobs(3)
    ours = run_by({}, jobs, nodes)
    waits = {n: TheirJob(None, None, job.start_s - job.submit_s) for n, job in theirs_of(ours).items()}  # type: ignore[operator]
    found = explain(ours, waits)
    assert found.is_same
    assert found.best.rules == "ours"


def test_runs_that_rules_alone_did_not_decide_and_other_jobs_are_refused():
    jobs, nodes = busy_jobs(3)
    ours = run_by({}, jobs, nodes)
    with pytest.raises(files.ResultsError, match="none of their job numbers is one of ours"):
        explain(ours, {10**6: TheirJob(0)})
    with pytest.raises(files.ResultsError, match="tried on plain runs; this one has mechanism"):
        explain(replace(ours, scenario={"mechanism": "balancer"}), theirs_of(ours))
    with pytest.raises(files.ResultsError, match="this one has partitions, features"):
        explain(replace(ours, scenario={"partitions": {"a": {}}, "features": {"b": {}}}), theirs_of(ours))
    with pytest.raises(files.ResultsError, match="this one has shared_nodes"):
        explain(replace(ours, scenario={"shared_nodes": {"cores": 4}}), theirs_of(ours))
    with pytest.raises(files.ResultsError, match="this one has placement"):
        explain(replace(ours, scenario={"placement": {"policy": "contiguous"}}), theirs_of(ours))


def test_the_command_names_the_rule_and_its_status_says_whether_anything_differs(tmp_path: Path):
    jobs, nodes = busy_jobs(3)
    ours, theirs = run_by({}, jobs, nodes), run_by({"like": "cqsim"}, jobs, nodes)
    files.write(ours, tmp_path / "ours", report=False)
    files.write(theirs, tmp_path / "theirs", report=False)
    other = emulate("compare", tmp_path / "ours", tmp_path / "theirs/jobs.csv", "--json")
    same = emulate("compare", tmp_path / "ours", tmp_path / "ours/jobs.csv")
    wrong = emulate("compare", tmp_path / "ours", tmp_path / "ours/summary.json")
    assert (other.exit_code, json.loads(other.output)["best"]) == (1, "like: cqsim")
    assert (same.exit_code, wrong.exit_code) == (0, 2)
    assert "summary.json: not a schedule" in wrong.output
