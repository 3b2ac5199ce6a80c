"""The weekly logs of the Balancer paper."""

from __future__ import annotations

import pytest

from emulator.workload.formats import load
from emulator.workload.rules import to_jobs
from testdata import TRACES

LCRC = "SubmitTime,StartTime,EndTime,QueuedTime,RunTime,NodesRequested,walltime,bslowdown"
APS = "submit_time,start_time,end_time,run_time,wait_time"


def test_the_challenging_week_has_its_known_figures():
    log = load(TRACES / "lcrc/2015-04-05.csv.xz")
    workload = to_jobs(log, nodes=372)
    jobs = workload.jobs
    assert (len(jobs), int((jobs.nodes == 2).sum()), int(jobs.nodes.max())) == (24_561, 22_576, 256)
    assert workload.counted == {"ran longer than its estimate": 373}
    assert round(float((jobs.run_us * jobs.nodes).sum()) / 372 / 604_800e6, 3) == 0.794
    assert (log.key_int("MaxNodes"), log.key_int("UnixStartTime")) == (304, 1_428_192_000)
    assert workload.shift_s == 47


def test_with_an_origin_time_counts_from_there():
    workload = to_jobs(load(TRACES / "lcrc/2015-04-05.csv.xz"), nodes=372, origin_s=0)
    assert (workload.shift_s, workload.jobs.submit_us[0]) == (0, 47_000_000)
    later = to_jobs(load(TRACES / "lcrc/2015-04-05.csv.xz"), nodes=372, origin_s=300_000)
    assert later.left_out["submitted before the origin"] + len(later.jobs) == 24_561
    assert later.jobs.submit_us[0] >= 0


def test_an_lcrc_line_is_a_job(text_file, rows_of):
    log = load(text_file(LCRC, "47,52,549,5,497,2,7200,1.01"))
    columns = ("number", "submit_s", "wait_s", "run_s", "allocated_procs", "requested_procs", "requested_s")
    assert rows_of(log, *columns) == [(1, 47, 5, 497, 2, 2, 7200)]
    assert log.key_int("UnixStartTime") is None


def test_an_aps_line_is_a_job_of_one_core(text_file, rows_of):
    log = load(text_file(APS, "10,12,20,8,2"))
    assert rows_of(log, "submit_s", "wait_s", "run_s", "allocated_procs", "requested_s") == [
        (10, 2, 8, 1, -1)
    ]


def test_a_job_submitted_before_its_week_keeps_its_start(text_file, rows_of):
    log = load(text_file(APS, "-24,0,30,30,24", "-5,7,9,2,12"))
    assert rows_of(log, "submit_s", "wait_s", "run_s") == [(0, 0, 30), (0, 7, 2)]


def test_a_folder_of_weeks_is_one_log_with_gaps_where_weeks_are_missing(text_file, rows_of):
    text_file(APS, "10,12,20,8,2", name="aps/2014-01-05.csv")
    text_file(APS, name="aps/2014-01-12.csv")
    last = text_file(APS, "-4,3,5,2,7", name="aps/2014-01-26.csv")
    log = load(last.parent)
    assert rows_of(log, "number", "submit_s", "wait_s") == [(1, 10, 2), (2, 3 * 604_800 - 4, 7)]


def test_an_empty_week_is_a_log_without_jobs():
    assert len(load(TRACES / "aps/2013-12-22.csv.xz")) == 0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1,2,3", "3 fields where the header has 5"),
        ("1,2,x,4,5", "end_time is 'x', not a number"),
        ("1,2,,4,5", "end_time is '', not a number"),
        ("1,2,1e300,4,5", "end_time is '1e300', out of range"),
    ],
)
def test_a_bad_line_is_an_error_with_file_and_line_or_is_counted(text_file, line, reason):
    path = text_file(APS, "10,12,20,8,2", line)
    with pytest.raises(ValueError, match=rf"log.txt:3: {reason}"):
        load(path)
    log = load(path, lenient=True)
    assert (len(log), log.malformed) == (1, 1)


def test_fractions_of_seconds_are_rounded(text_file, rows_of):
    assert rows_of(load(text_file(APS, "1.4,2.0,5.0,3.0,0.6")), "submit_s", "run_s") == [(1, 3)]


def test_a_folder_without_weekly_files_is_no_log(tmp_path):
    with pytest.raises(ValueError, match=r"there are no weekly files such as 2015-04-05.csv.xz"):
        load(tmp_path, trace_format="lcrc")
