"""Preloaded jobs run at time 0, whatever the queue's order is."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from emulator.runs.scenario import load as load_scenario
from emulator.workload.formats import load
from emulator.workload.preload import Preload, is_preloaded, put_in_front, running_at
from emulator.workload.swf import SwfLog
from emulator.workload.table import JobTable
from testdata import TRACES

US = 1_000_000


@pytest.fixture
def log():
    # start, end: 0-100, 50-150, 60-70, 100-200, 30-130; and one whose wait is unknown.
    return SwfLog.build(
        6,
        number=[1, 2, 3, 4, 5, 6],
        submit_s=[0, 40, 60, 90, 10, 0],
        wait_s=[0, 10, 0, 10, 20, -1],
        run_s=[100, 100, 10, 100, 100, 1000],
        requested_s=[200, 150, 10, 100, 90, 2000],
        allocated_procs=[1, 2, 3, 4, 5, 6],
    )


def rows(jobs):
    columns = (jobs.number, jobs.submit_us // US, jobs.run_us // US, jobs.estimate_us // US, jobs.nodes)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_what_runs_is_there_with_the_rest_of_its_times_in_the_order_of_starts(log):
    # At 100 the first job has ended and the fourth begins; the fifth ran over its estimate, which is extended.
    assert rows(running_at(log, 100, nodes=20)) == [
        (1, 0, 30, 30, 5),
        (2, 0, 50, 100, 2),
        (3, 0, 100, 100, 4),
    ]


def test_jobs_that_do_not_fit_together_are_left_out_the_later_ones_first(log):
    assert [row[4] for row in rows(running_at(log, 100, nodes=7))] == [5, 2]


def test_a_log_without_waits_cannot_say_what_runs():
    log = SwfLog.build(1, submit_s=[0], run_s=[100], allocated_procs=[1])
    with pytest.raises(ValueError, match="the log has no waits, so what was running is unknown"):
        running_at(log, 50, nodes=4)


def test_only_preloaded_jobs_are_submitted_at_zero(log):
    jobs = JobTable.build(submit_us=[0, 0, 5 * US], run_us=[US] * 3, nodes=[1] * 3)
    both = put_in_front(running_at(log, 100, nodes=20), jobs)
    assert both.submit_us.tolist() == [0, 0, 0, 1, 1, 5 * US]
    assert both.number.tolist() == [4, 5, 6, 1, 2, 3]
    assert is_preloaded(both).tolist() == [True] * 3 + [False] * 3


def test_nothing_running_changes_nothing(log):
    jobs = JobTable.build(submit_us=[0], run_us=[US], nodes=[1])
    assert put_in_front(running_at(log, 5_000, nodes=20), jobs).submit_us.tolist() == [0]


@pytest.mark.parametrize("order", ["fcfs", "sjf", "ljf", "smallest", "largest"])
def test_preloaded_jobs_start_at_zero_under_every_queue_order(order):
    scenario = from_mapping(
        {
            "nodes": 372,
            "scheduler": f"{order}+easy",
            "workload": {
                "trace": str(TRACES / "lcrc/2015-04-05.csv.xz"),
                "origin_s": 0,
                "transforms": [
                    {"limit": 200},
                    {"preload": {"trace": str(TRACES / "lcrc/2015-03-29.csv.xz")}},
                ],
            },
        }
    )
    prepared = prepare(scenario)
    first = is_preloaded(prepared.jobs)
    assert (int(first.sum()), int(prepared.jobs.nodes[first].sum())) == (47, 289)
    record = run_virtual(scenario, prepared)
    assert (record.start_us[first] == 0).all()
    assert (record.start_us[~first] > 0).all()


@pytest.mark.slow
def test_a_folder_of_weeks_says_the_same_as_the_week_before():
    week = running_at(load(TRACES / "lcrc/2015-03-29.csv.xz"), 604_800, nodes=372)
    folder = running_at(load(TRACES / "lcrc"), 78 * 604_800, nodes=372)
    assert np.array_equal(week.run_us, folder.run_us)


def test_a_missing_log_is_said():
    with pytest.raises(ValueError, match=r"nowhere.swf: No such file"):
        Preload(trace="nowhere.swf").apply(JobTable.empty(), nodes=4)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"trace": None}, "preload: trace must be the name of a file"),
        ({"trace": "x", "at_s": -1}, "preload: at_s must be at least 0"),
        ({"trace": "x", "procs_per_node": 0}, "preload: procs_per_node must be at least 1"),
    ],
)
def test_bad_parameters_are_said(params, message):
    with pytest.raises(ValueError, match=message):
        Preload(**params)


def test_files_are_named_from_where_the_scenario_is(tmp_path):
    (tmp_path / "old.swf").touch()
    path = tmp_path / "s.yaml"
    path.write_text(
        "workload:\n  generate: [daily_batch, {packed_jobs: {trace: old.swf}}]\n"
        "  transforms: [{preload: {trace: old.swf}}, {limit: 5}, {preload: {trace: none.swf}}]\n"
    )
    part = load_scenario(path).workload
    old = str(tmp_path / "old.swf")
    assert part.generate == ["daily_batch", {"packed_jobs": {"trace": old}}]
    assert part.transforms == [{"preload": {"trace": old}}, {"limit": 5}, {"preload": {"trace": "none.swf"}}]


SACCT = "JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|NNodes|State|User|Account|Partition\n"
ROW = "{}|{}|{}|{}|600|1|COMPLETED|{}|lab-{}|{}\n"


def test_users_groups_and_queues_of_both_logs_are_the_same_by_their_names(tmp_path):
    """Each reader counts them in order of appearance."""
    begin = 1_767_225_600
    (tmp_path / "now.txt").write_text(
        SACCT
        + ROW.format(10, begin, begin, 60, "ann", "ann", "debug")
        + ROW.format(11, begin + 5, begin + 5, 60, "bob", "bob", "batch")
    )
    (tmp_path / "before.txt").write_text(
        SACCT
        + ROW.format(1, begin - 90, begin - 90, 3600, "cy", "cy", "batch")
        + ROW.format(2, begin - 80, begin - 80, 3600, "bob", "bob", "debug")
    )
    scenario = {
        "nodes": 4,
        "workload": {
            "trace": str(tmp_path / "now.txt"),
            "transforms": [{"preload": {"trace": str(tmp_path / "before.txt"), "at_s": begin}}],
        },
    }
    found = prepare(from_mapping(scenario))
    names = (found.user_names, found.group_names, found.queue_names)
    assert [
        tuple(of[int(number)] for of, number in zip(names, row, strict=True))
        for row in zip(found.jobs.user, found.jobs.group, found.jobs.queue, strict=True)
    ] == [
        ("cy", "lab-cy", "batch"),
        ("bob", "lab-bob", "debug"),
        ("ann", "lab-ann", "debug"),
        ("bob", "lab-bob", "batch"),
    ]
