"""Accounting files of Grid Engine, by accounting(5)."""

from __future__ import annotations

import pytest

from emulator.workload.formats import load
from emulator.workload.grid_engine import FIELDS


@pytest.fixture
def record():
    def build(**changes):
        said = dict.fromkeys(FIELDS, "0") | {
            "qname": "all.q", "hostname": "n1", "group": "staff", "owner": "alice", "job_name": "fit",
            "job_number": "7", "account": "sge", "submission_time": "100", "start_time": "160",
            "end_time": "460", "slots": "4", "granted_pe": "mpi", "pe_taskid": "NONE",
            "category": "-l h_rt=600 -pe mpi 4",
        }  # fmt: skip
        return ":".join((said | changes)[name] for name in FIELDS)

    return build


COLUMNS = ("number", "submit_s", "wait_s", "run_s", "allocated_procs", "requested_s", "status")


def test_a_record_is_a_job(text_file, record, rows_of):
    path = text_file("# Version: 8.1.9", "", record())
    log = load(path)
    assert rows_of(log, *COLUMNS) == [(7, 100, 60, 300, 4, 600, 1)]
    assert log.keys["Queue"] == ("1 all.q",)
    assert log.nodes is None


def test_slave_tasks_of_a_parallel_job_are_no_jobs(text_file, record):
    assert len(load(text_file(record(), record(pe_taskid="1.n2", submission_time="0")))) == 1


def test_status_says_whether_a_job_failed_or_was_deleted(text_file, record):
    log = load(
        text_file(
            record(exit_status="1"),
            record(failed="26"),
            record(failed="100", exit_status="137"),
            record(failed="100"),
        )
    )
    assert log.column("status").tolist() == [0, 0, 5, 0]


def test_a_job_that_never_started_has_no_run_time(text_file, record, rows_of):
    path = text_file(record(start_time="0", end_time="0", failed="8"))
    assert rows_of(load(path), "wait_s", "run_s") == [(-1, -1)]


def test_milliseconds_are_known_by_their_size(text_file, record, rows_of):
    begin = 1_600_000_000_000
    path = text_file(
        record(submission_time=str(begin), start_time=str(begin + 1500), end_time=str(begin + 4000))
    )
    assert rows_of(load(path), "submit_s", "wait_s", "run_s") == [(1_600_000_000, 1.5, 2.5)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"start_time": "50"}, "submission 100, start 50 and end 460 are not in this order"),
        ({"slots": "four"}, "slots is 'four', not a whole number"),
    ],
)
def test_a_bad_record_is_an_error_with_file_and_line_or_is_counted(text_file, record, changes, reason):
    path = text_file(record(), record(**changes))
    with pytest.raises(ValueError, match=rf"log.txt:2: {reason}"):
        load(path)
    assert load(path, lenient=True).malformed == 1


def test_a_short_line_is_an_error(text_file, record):
    with pytest.raises(ValueError, match=r"log.txt:2: 3 fields where an accounting record has at least 35"):
        load(text_file(record(), "a:b:c"))
