"""Whom a setting makes wait longer."""

from __future__ import annotations

import pytest

from emulator.runs.scenario import from_mapping
from emulator.study.attribution import Group, WaitChanges, wait_changes
from emulator.sweeps.grid import make_run
from emulator.workload import store
from emulator.workload.table import JobTable

MIN, US = 60, 1_000_000


@pytest.fixture
def week(tmp_path):
    """A run of these jobs (submit, run in minutes, nodes, user) on so many nodes."""

    def build(nodes, *jobs):
        submit, run, width, user = zip(*jobs, strict=True)
        table = JobTable.build(
            submit_us=[at * MIN * US for at in submit],
            run_us=[at * MIN * US for at in run],
            estimate_us=[at * MIN * US for at in run],
            nodes=list(width),
            user=list(user),
        )
        path = tmp_path / f"{len(jobs)}.npz"
        store.save(table, path)
        document = {
            "nodes": nodes,
            "scheduler": "fcfs",
            "workload": {"generate": [{"stored_jobs": {"trace": str(path)}}]},
        }
        assert from_mapping(document).nodes == nodes
        return make_run(document, {"label": str(nodes)}, where="here")

    return build


def test_jobs_are_told_apart_by_size_run_time_and_user(week):
    jobs = [(1, 5, 2, 7), (1, 30, 1, 8), (2, 100, 2, 7)]
    today, then = week(4, *jobs), week(2, *jobs)
    assert wait_changes([today, today], [then, then], 0) == WaitChanges(
        by_size=(Group("1 node", 2, 0.0, 5.0), Group("2 to 4 nodes", 4, 2.0, 17.0)),
        by_run_time=(
            Group("up to 10 min", 2, 0.0, 0.0),
            Group("10 min to 1 h", 2, 0.0, 5.0),
            Group("1 to 6 h", 2, 4.0, 34.0),
        ),
        users=0,
        users_that_lose=0,
    )


def test_users_with_enough_jobs_are_counted_and_those_who_lose(week):
    jobs = [(10 * at + 1, 9, 2, 1) for at in range(10)] + [(10 * at + 2, 9, 1, 2) for at in range(10)]
    found = wait_changes([week(3, *jobs)], [week(2, *jobs)], 0)
    assert (found.users, found.users_that_lose) == (2, 2)
    same = wait_changes([week(3, *jobs)], [week(3, *jobs)], 0)
    assert (same.users, same.users_that_lose) == (2, 0)


def test_jobs_before_the_week_do_not_count(week):
    run = week(4, (1, 5, 2, 7), (20, 5, 2, 7))
    assert wait_changes([run], [run], 10 * MIN).by_size == (Group("2 to 4 nodes", 1, 0.0, 0.0),)
