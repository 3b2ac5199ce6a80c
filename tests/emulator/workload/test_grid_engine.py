"""Accounting files of Grid Engine, by accounting(5)."""

from __future__ import annotations

import gzip
import json

import pytest

from emulator.workload.formats import load
from emulator.workload.grid_engine import FIELDS
from emulator.workload.rules import to_jobs


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
    log = load(text_file(record(), record(pe_taskid="1.n2", submission_time="0")))
    assert (len(log), log.passed_over) == (1, {"slave task of a parallel job": 1})


def test_status_says_whether_a_job_failed_or_was_deleted(text_file, record):
    log = load(
        text_file(
            record(exit_status="1"),
            record(job_number="8", failed="26"),
            record(job_number="9", failed="100", exit_status="137"),
            record(job_number="10", failed="100"),
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


@pytest.mark.parametrize(
    "changes",
    [
        {"job_name": "site:0042:post"},
        {"owner": "a:b"},
        {"job_name": "fit:12", "account": "0"},
        {"department": "of:physics"},
        {"category": "-l h_rt=600 -q long:short"},
    ],
)
def test_a_colon_in_a_name_is_told_and_counted_wherever_it_stands(text_file, record, changes):
    path = text_file(record(**changes), record())
    with pytest.raises(ValueError, match=r"log.txt:1: .*a ':' in a name shifts the fields"):
        load(path)
    log = load(path, lenient=True)
    assert (len(log), log.malformed) == (1, 1)


def test_times_in_milliseconds_have_no_rests_of_binary_fractions(text_file, record, rows_of):
    begin = 1_600_000_000_123
    path = text_file(
        record(
            submission_time=str(begin), start_time=str(begin + 12_837_318), end_time=str(begin + 13_837_318)
        )
    )
    assert rows_of(load(path), "submit_s", "wait_s", "run_s") == [(1_600_000_000.123, 12_837.318, 1000)]


def test_a_job_that_was_rescheduled_is_its_last_run(text_file, record, rows_of):
    log = load(
        text_file(record(failed="25", end_time="200"), record(start_time="300"), record(task_number="2"))
    )
    assert rows_of(log, "wait_s", "run_s") == [(200, 160), (60, 300)]
    assert log.passed_over == {"earlier run of a job that ran again": 1}


def test_json_lines_of_version_9_are_read_with_their_microseconds(text_file, rows_of):
    said = {
        "job_number": 22, "task_number": 0, "start_time": 1_716_000_010_000_000, "end_time": 1_716_000_610_250_000,
        "owner": "ann", "group": "phys", "account": "sge", "qname": "all.q", "hostname": "n1", "slots": 8,
        "job_name": "a:b", "submission_time": 1_716_000_000_000_000, "category": "-l h_rt=3600 -pe mpi 8", "failed": 0,
        "exit_status": 0, "granted_pe": "mpi",
    }  # fmt: skip
    path = text_file(json.dumps(said), json.dumps(said | {"pe_taskid": "1.n2"}), name="accounting.jsonl")
    log = load(path)
    assert rows_of(log, *COLUMNS) == [(22, 1_716_000_000, 10, 600.25, 8, 3600, 1)]
    assert log.passed_over == {"slave task of a parallel job": 1}


def test_a_json_line_that_is_cut_off_is_named(text_file):
    whole = (
        '{"job_number": 1, "qname": "q", "submission_time": 1, "start_time": 2, "end_time": 3, "slots": 1, '
    )
    whole += '"failed": 0, "exit_status": 0}'
    path = text_file(whole, whole[:-9])
    with pytest.raises(ValueError, match=r"log.txt:2: not valid JSON"):
        load(path)
    assert load(path, lenient=True).malformed == 1


@pytest.mark.parametrize(
    ("category", "requested_s"),
    [
        ("-l h_rt=24:00:00,h_vmem=4G -pe smp 4", 86_400),
        ("-l h_vmem=4G,h_rt=1:30:00", 5400),
        ("-u alice -l h_rt=30:00", 1800),
        ("-l h_cpu=10:00:00,h_rt=600", 600),
        ("-l h_rt=600,cpu=24:00:00", 600),
        ("-l batch_time=24:00:00,h_rt=600 -q long", 600),
        ("-l h_rt=INFINITY", -1),
    ],
)
def test_colons_of_a_limit_are_no_separators(text_file, record, rows_of, category, requested_s):
    log = load(text_file(record(category=category)))
    assert rows_of(log, "run_s", "requested_s") == [(300, requested_s)]
    assert log.passed_over == {}


def test_json_lines_of_other_kinds_are_counted_by_kind(text_file):
    job = {
        "job_number": 1, "qname": "q", "submission_time": 1, "start_time": 2, "end_time": 3, "slots": 1, "failed": 0,
        "exit_status": 0,
    }  # fmt: skip
    lines = [
        job | {"type": "acct"},
        {"type": "new_job", "job_number": 1},
        {"type": "job_log", "job_number": 1},
    ]
    log = load(
        text_file("\ufeff" + json.dumps(lines[0]), *map(json.dumps, lines[1:]), name="accounting.jsonl")
    )
    assert (len(log), log.passed_over) == (1, {"new_job record": 1, "job_log record": 1})


def test_the_reporting_file_is_named(text_file):
    with pytest.raises(ValueError, match="Grid Engine's reporting file; take the accounting beside it"):
        load(text_file("1767262000:new_job:1767262000:7:-1:NONE:x:a:g::d:sge:1024"))


@pytest.mark.parametrize(
    ("category", "requested_s"),
    [
        ("-l h_rt=24::", 86_400),
        ("-l h_rt=:30:", 1800),
        ("-l h_rt=:30:,h_vmem=4G", 1800),
        ("-l s_rt=3000,h_rt=3600", 3600),
        ("-l h_rt=INFINITY -l s_rt=3000", 3000),
    ],
)
def test_what_is_0_in_a_limit_may_be_left_out(text_file, record, rows_of, category, requested_s):
    line = json.dumps(dict(zip(FIELDS, record(category="C").split(":"), strict=True)))
    for path in (
        text_file(record(category=category)),
        text_file(line.replace('"C"', f'"{category}"'), name="accounting.jsonl"),
    ):
        log = load(path)
        assert rows_of(log, "run_s", "requested_s") == [(300, requested_s)]
        assert log.malformed == 0


@pytest.mark.parametrize("limit", ["0x10", "abc", "1:0:0:0"])
def test_a_limit_that_is_not_understood_is_unknown_and_told(text_file, record, rows_of, limit):
    line = json.dumps(dict(zip(FIELDS, record(category="C").split(":"), strict=True)))
    log = load(text_file(line.replace('"C"', f'"-l h_rt={limit}"')))
    assert rows_of(log, "run_s", "requested_s") == [(300, -1)]
    assert log.remarks["h_rt not understood, taken to be unknown"] == 1
    assert log.complaints[0].startswith(f"{log.source}:1: h_rt is '{limit}'")


def test_rotated_files_of_a_folder_are_one_log(text_file, record, rows_of):
    folder = text_file(record(), name="common/accounting").parent
    (folder / "accounting.1.gz").write_bytes(gzip.compress(f"{record(job_number='8')}\n".encode()))
    (folder / "accounting.0").write_text(f"{record(job_number='9')}\n{record()}\n")
    (folder / "act_qmaster").write_text("host")
    log = load(folder)
    assert rows_of(log, "number") == [(7,), (9,), (8,)]
    assert log.passed_over == {"second record of the same run": 1}
    assert "FilesNotRead" not in log.keys


def test_a_job_that_failed_before_it_began_has_no_times_and_leaves_the_others_theirs(text_file, record):
    """As Sun's and Son of Grid Engine write it: all times 0, `failed` 9."""
    times = {"submission_time": "1265881759", "start_time": "1265881771", "end_time": "1265881813"}
    unborn = record(job_number="8", failed="9", **dict.fromkeys(times, "0"))
    log = load(text_file(record(**times), unborn))
    assert log.zero_unix_s == 0
    assert to_jobs(log, nodes=64).left_out == {"no submit time": 1}


@pytest.mark.parametrize(
    ("category", "memory_kb"),
    [
        ("-l h_rt=600,h_vmem=4G -pe mpi 4", 4 * 2**20),
        ("-l h_vmem=1.5g", 1_464_844),
        ("-l h_vmem=524288", 512),
        ("-l s_vmem=1G,h_vmem=INFINITY", -1),
        ("-l h_rt=600", -1),
    ],
)
def test_the_memory_of_each_slot_is_requested_of_a_processor(text_file, record, rows_of, category, memory_kb):
    assert rows_of(load(text_file(record(category=category))), "requested_memory_kb") == [(memory_kb,)]


def test_memory_that_is_not_understood_is_unknown_and_told(text_file, record, rows_of):
    log = load(text_file(record(category="-l h_vmem=lots")))
    assert rows_of(log, "requested_memory_kb") == [(-1,)]
    assert "h_vmem is 'lots', not memory such as 4G or 500M; taken to be unknown" in log.complaints[0]
