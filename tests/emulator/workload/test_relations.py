"""Rules of jobs from logs and files: what is read, and what is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from balancer.clock import US
from emulator.report import files
from emulator.report.compare import compare
from emulator.runs.preparation import prepare
from emulator.runs.runner import check_live, run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.workload.files import TraceError
from emulator.workload.relations_file import Relations
from emulator.workload.rules import to_jobs
from emulator.workload.swf import SwfLog, write_swf
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from pathlib import Path


def a_log() -> SwfLog:
    """Job 2 follows job 1, job 3 one that is gone; job 4 was cancelled as it waited, job 5 as it ran."""
    return SwfLog.build(
        5,
        number=[1, 2, 3, 4, 5],
        submit_s=[0, 100, 200, 300, 400],
        wait_s=[0, 0, 0, 50, 10],
        run_s=[60, 60, 60, 0, 20],
        requested_procs=[1, 1, 1, 1, 1],
        requested_s=[90, 90, 90, 90, 90],
        status=[1, 1, 1, 5, 5],
        preceding=[-1, 1, 77, -1, -1],
        think_s=[-1, 5, 5, -1, -1],
    )


def extra(jobs: JobTable) -> dict[str, list[int]]:
    return {name: values.tolist() for name, values in jobs.extra.items()}


def test_a_log_is_read_as_before_unless_somebody_asks() -> None:
    work = to_jobs(a_log(), nodes=4)
    assert (work.jobs.number.tolist(), extra(work.jobs), work.left_out) == (
        [1, 2, 3, 5],
        {},
        {"no run time": 1},
    )


def test_fields_17_and_18_are_a_dependency_by_start_or_by_submit() -> None:
    by_start = to_jobs(a_log(), nodes=4, dependencies="start")
    assert extra(by_start.jobs) == {
        "after_number": [-1, 1, -1, -1],
        "after_kind": [-1, 3, -1, -1],
        "after_delay_us": [-1, 0, -1, -1],
    }
    by_submit = to_jobs(a_log(), nodes=4, dependencies="submit")
    assert extra(by_submit.jobs) == {
        "after_number": [-1, 1, -1, -1],
        "after_kind": [-1, 4, -1, -1],
        "after_delay_us": [-1, 5 * US, -1, -1],
    }
    assert by_submit.counted == {"preceding job not in the workload": 1}


def test_cancelled_jobs_would_have_run_for_what_they_asked_for() -> None:
    work = to_jobs(a_log(), nodes=4, cancelled="at_time")
    assert work.jobs.run_us.tolist() == [60 * US, 60 * US, 60 * US, 90 * US, 90 * US]
    assert extra(work.jobs) == {"cancel_after_us": [-1, -1, -1, 50 * US, 30 * US]}
    assert (work.left_out, work.counted) == ({}, {"cancelled at a time": 2})


def test_a_scenario_runs_the_log_by_its_rules(tmp_path: Path) -> None:
    write_swf(a_log(), tmp_path / "log.swf")
    part = {"trace": str(tmp_path / "log.swf"), "dependencies": "submit", "cancelled": "at_time"}
    scenario = from_mapping({"nodes": 1, "workload": part})
    record = run_virtual(scenario, prepare(scenario))
    rows = zip(
        record.jobs.number.tolist(),
        record.jobs.submit_us.tolist(),
        record.start_us.tolist(),
        record.end_us.tolist(),
        strict=True,
    )
    assert {number: tuple(at // US for at in times) for number, *times in rows} == {
        1: (0, 0, 60),
        2: (65, 65, 125),
        3: (200, 200, 260),
        4: (300, 300, 350),
        5: (400, 400, 430),
    }
    assert record.scenario["workload"] | part == record.scenario["workload"]  # type: ignore[operator]


def test_a_scenario_that_says_nothing_of_it_is_stored_as_before() -> None:
    scenario = from_mapping({"workload": {"trace": "log.swf"}})
    assert {"dependencies", "cancelled"}.isdisjoint(scenario.as_json()["workload"])


def test_a_scenario_keeps_to_its_limits_and_live_runs_refuse_them(tmp_path: Path) -> None:
    write_swf(a_log(), tmp_path / "log.swf")
    keys = {"nodes": 4, "workload": {"trace": str(tmp_path / "log.swf")}}
    assert "limits" not in from_mapping(keys).as_json()
    scenario = from_mapping(keys | {"limits": [{"by": "user", "only": [1, 2], "jobs": 1}]})
    prepared = prepare(scenario)
    assert scenario.as_json()["limits"] == [
        {"by": "user", "jobs": 1, "nodes": None, "node_h": None, "only": [1, 2]}
    ]
    with pytest.raises(
        ScenarioError, match=r"limits of users.*are for virtual time only; leave out .*`limits`"
    ):
        check_live(scenario, prepared)
    assert run_virtual(scenario, prepared).scenario["limits"]


def test_a_limit_limits_something() -> None:
    with pytest.raises(ScenarioError, match=r"limits\.0.*give `jobs`, `nodes` or `node_h`"):
        from_mapping({"workload": {"trace": "log.swf"}, "limits": [{"by": "user"}]})


def three_jobs() -> JobTable:
    return JobTable.build(submit_us=[0, 1, 2], run_us=[1, 1, 1], nodes=[1, 1, 1])


def test_a_file_gives_jobs_their_rules(tmp_path: Path) -> None:
    path = tmp_path / "rules.csv"
    path.write_text(
        "job,after,kind,delay_s,cancel_after_s,array,array_limit\n3,1,afterok,2,,,\n3,2,,,1.5,,\n2,,,,,7,1\n99,1,,,,,\n"
    )
    jobs = Relations(str(path)).apply(three_jobs(), nodes=1)
    assert extra(jobs) == {
        "after_number": [-1, -1, 1],
        "after_kind": [-1, -1, 1],
        "after_delay_us": [-1, -1, 2 * US],
        "after_number_2": [-1, -1, 2],
        "after_kind_2": [-1, -1, 3],
        "after_delay_us_2": [-1, -1, 0],
        "cancel_after_us": [-1, -1, 1_500_000],
        "array": [-1, 7, -1],
        "array_limit": [-1, 1, -1],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job,before\n", ":1: the header has the column 'before'; columns are job, after, kind,"),
        ("after\n", ":1: the header has no column `job`"),
        ("job,after\n1\n", ":2: 1 fields where the header has 2"),
        ("job,after\nx,1\n", ":2: job is 'x', not a whole number"),
        ("job,after,kind\n2,1,afterwards\n", ":2: kind is 'afterwards'; known: after, afterok,"),
        ("job,cancel_after_s\n2,-1\n", ":2: cancel_after_s is '-1', not a time in seconds from 0 on"),
        ("job,array,array_limit\n2,1,0\n", ":2: array_limit is 0, so none of its jobs could ever run"),
    ],
)
def test_a_file_that_cannot_be_read_names_line_and_field(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rules.csv"
    path.write_text(text)
    with pytest.raises(TraceError) as error:
        Relations(str(path)).apply(three_jobs(), nodes=1)
    assert str(error.value).startswith(f"{path}{message}")


@pytest.mark.parametrize(
    "more", [{"scheduler": "slurm"}, {"scheduler": "fcfs+conservative", "mechanism": {"malleable": {}}}]
)
def test_machines_that_decide_over_jobs_themselves_refuse_them(
    tmp_path: Path, more: dict[str, object]
) -> None:
    path = tmp_path / "rules.csv"
    path.write_text("job,cancel_after_s\n2,10\n")
    work = {
        "generate": [{"daily_batch": {"days": 1, "jobs": 40}}],
        "transforms": [{"relations": {"trace": str(path)}}],
    }
    scenario = from_mapping({"nodes": 64, "workload": work, **more})
    with pytest.raises(
        ScenarioError, match=r"go with plain schedulers on whole nodes; .* decides over its jobs itself"
    ):
        run_virtual(scenario, prepare(scenario))


def test_results_of_jobs_that_were_submitted_late_are_read_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "rules.csv"
    rows = [f"{number},{number - 20},think,60" for number in range(21, 81)]
    path.write_text("job,after,kind,delay_s\n" + "\n".join(rows) + "\n")
    work = {
        "generate": [{"daily_batch": {"days": 1, "jobs": 80}}],
        "transforms": [{"relations": {"trace": str(path)}}],
    }
    scenario = from_mapping({"nodes": 64, "workload": work})
    record = run_virtual(scenario, prepare(scenario))
    assert (np.diff(record.jobs.submit_us) < 0).any()
    files.write(record, tmp_path / "run", bounded_slowdown_threshold_s=10, report=True)
    again = files.load(tmp_path / "run")
    assert compare(record, again).is_same
    order, order_again = np.argsort(record.jobs.number), np.argsort(again.jobs.number)
    assert again.jobs.submit_us[order_again].tolist() == record.jobs.submit_us[order].tolist()
