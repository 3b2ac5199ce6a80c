"""What jobs got of their processors, from what their workers wrote."""

import json

import pytest

from emulator.kernel.job_states import JobState
from emulator.live.shares import figures, measure, tracks
from emulator.report.summary_text import shares_rows
from emulator.runs.preparation import Prepared
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from emulator.workload.table import JobTable

S = 1_000_000


def lines(processor, *points):
    """Output of one worker: (wall s, processor s) now and then, a thousand rounds a processor second."""
    keys = "processor", "wall_us", "cpu_us", "rounds"
    rows = ((processor, wall * S, cpu * S, 1000 * cpu) for wall, cpu in points)
    return [json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows]


@pytest.fixture
def record():
    """Jobs 1 and 3 share a core until the first ends at 20 s, the second at 30 s; job 2 has the other one."""
    jobs = JobTable.build(
        submit_us=[0, 0, 0], run_us=[10 * S, 10 * S, 20 * S], nodes=[1] * 3, extra={"cores": [1] * 3}
    )
    scenario = from_mapping(
        {
            "nodes": 1,
            "workload": {"generate": [{"daily_batch": {}}]},
            "mechanism": {"oversubscribe": {"cores": 2, "multiplicity": 2}},
        }
    )
    found = run_virtual(scenario, Prepared(jobs, 1))
    assert (found.state == JobState.ENDED).all()
    return found


def test_strangers_slow_everybody_down_but_do_not_change_the_shares(record):
    sharing = {1: tracks(lines(0, (0, 0), (10, 2.5), (20, 5))), 3: tracks(lines(0, (0, 0), (20, 5)))}
    alone = {2: tracks(lines(1, (2, 0), (20, 18)))}
    found = measure(record, sharing | alone, {0: 0.001, 1: 0.001})
    assert [(share.job, share.model_slowdown) for share in found] == [(1, 2), (2, 1), (3, 1.5)]
    by_job = {share.job: (share.measured_slowdown, share.slowdown_by_shares) for share in found}
    assert by_job == {1: (4, 2), 2: (1, 1), 3: (4, 2)}


def test_the_slowest_worker_is_the_jobs_speed_and_half_a_line_is_nothing(record):
    wide = lines(0, (0, 0), (10, 10)) + lines(1, (0, 0), (10, 5)) + ['{"processor": 0, "wa']
    other = tracks(lines(1, (0, 0), (10, 5)))
    first, second = measure(record, {1: tracks(wide), 2: other}, {0: 0.001, 1: 0.001})
    assert (first.cores, first.measured_slowdown, first.slowdown_by_shares) == (2, 2, 2)
    assert (second.cores, second.measured_slowdown, second.slowdown_by_shares) == (1, 2, 2)


def test_a_job_that_was_over_before_it_could_say_anything_is_left_out(record):
    assert measure(record, {1: tracks(lines(0, (0, 0)))}, {0: 0.001}) == []
    assert figures([])["mean_measured_slowdown"] is None
    assert shares_rows({"mechanism": figures([])}) == []


def test_the_table_ends_with_the_means(record):
    found = figures(measure(record, {1: tracks(lines(0, (0, 0), (20, 5)))}, {0: 0.001}))
    assert shares_rows({"mechanism": found}) == [
        ("1", "1", "2.00", "4.00", "1.00"),
        ("mean", "", "2.00", "4.00", "1.00"),
    ]
