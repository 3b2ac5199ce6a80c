"""Accounting files of LSF, by lsb.acct(5)."""

from __future__ import annotations

import gzip

import pytest

from emulator.workload.formats import load
from emulator.workload.rules import to_jobs
from emulator.workload.swf import GPUS_KEY, HOST_KEY
from testdata import RECORDED

SAMPLE = RECORDED / "lsf/lsb.acct.txt"
COLUMNS = (
    "number",
    "submit_s",
    "wait_s",
    "run_s",
    "allocated_procs",
    "requested_s",
    "status",
    "user",
    "group",
)
FIT = (201, 1_767_262_000, 400, 600, 4, 3600, 1, 1, 1)


def lines():
    return SAMPLE.read_text().splitlines()


def test_a_record_is_a_job_and_a_reservation_is_none(rows_of):
    log = load(SAMPLE)
    assert rows_of(log, *COLUMNS) == [
        FIT,
        (202 | 2 << 32, 1_767_262_010, 490, 600, 32, 10_000, 5, 2, 2),  # by its deadline; killed by its owner
        (203, 1_767_262_020, -1, -1, 1, 60, 5, 2, 2),  # in the queue
        (204, 1_767_262_030, 570, 800, 1, 600, 0, 3, 1),  # at its run limit
    ]
    assert log.nodes.tolist() == [2, 2, -1, 1]
    assert log.further(HOST_KEY).tolist() == [-1, -1, -1, 1]
    assert log.column("used_memory_kb").tolist() == [51_200, -1, -1, 1024]
    assert log.keys["Queue"] == ("1 normal", "2 short")
    assert to_jobs(log, nodes=4).left_out == {"no run time": 1}


def test_a_record_of_an_older_version_has_fewer_fields(text_file, rows_of):
    fit = lines()[0].partition(' "" -1 "/alice"')[0]
    log = load(text_file(fit))
    assert rows_of(log, *COLUMNS) == [(*FIT[:5], -1, *FIT[6:])]


@pytest.mark.parametrize(
    ("written", "requested_s"),
    [
        ("-1 64 6490", -1),
        ("-1 0 0", -1),
        ("43200 0 868", 43_200),
        ("43200 64 649", 43_200),
        ("2147483647 0 0", -1),
    ],
)
def test_the_run_limit_stands_before_options3_as_in_real_records(text_file, rows_of, written, requested_s):
    fit = lines()[0]
    assert '0 3600 0 2048 "select' in fit
    log = load(text_file(fit.replace('0 3600 0 2048 "select', f'0 {written} "select')))
    assert rows_of(log, "run_s", "requested_s") == [(600, requested_s)]


@pytest.mark.parametrize(
    ("effective", "asked", "gpus"),
    [
        ("select[type == any] rusage[ngpus_physical=2.00] span[hosts=2]", "", 4),  # two hosts
        ("select[type == any] rusage[mem=100.00:ngpus_excl_p=1.00]", "", 2),
        ("", "rusage[ngpus_shared=1, mem=10]", 2),  # a version that does not write the effective one
        ("select[ngpus > 0] order[ngpus]", "", None),
    ],
)
def test_gpus_are_those_that_the_requirement_reserves_on_each_host(text_file, effective, asked, gpus):
    fit = lines()[0].replace('"normal" ""', f'"normal" "{asked}"')
    assert '"select[type == any]"' in fit
    found = load(text_file(fit.replace("select[type == any]", effective))).further(GPUS_KEY)
    assert (found if found is None else found.tolist()) == (gpus if gpus is None else [gpus])


def test_archived_files_of_a_folder_are_one_log(text_file, rows_of):
    first = text_file(lines()[0], name="logdir/lsb.acct")
    (first.parent / "lsb.acct.1.gz").write_bytes(gzip.compress(f"{lines()[4]}\n".encode()))
    text_file("anything", name="logdir/lsb.events")
    assert rows_of(load(first.parent), "number") == [(201,), (204,)]


@pytest.mark.parametrize(
    ("was", "then", "reason"),
    [
        ("1767262000 0 0 1767262400", "1767262000 0 0 1767261000", "submitTime 1767262000, startTime 1767261000"),
        ("1767262000 0 0 1767262400", "soon 0 0 1767262400", "submitTime is 'soon', not a whole number"),
        ("1767262000 0 0 1767262400", "1767262000000 0 0 1767262400", "not a time in seconds"),
        (' 0 4 "c1" "c1" "c2" "c2" 64', " 0 9", "so fields are shifted"),
        ('"JOB_FINISH"', "JOB_FINISH", "not an accounting record"),
    ],
)  # fmt: skip
def test_a_bad_record_is_an_error_with_file_and_line_or_is_counted(text_file, was, then, reason):
    assert was in lines()[0]
    path = text_file(lines()[4], lines()[0].replace(was, then))
    with pytest.raises(ValueError, match=rf"log.txt:2: .*({reason})"):
        load(path)
    log = load(path, lenient=True)
    assert (len(log), log.malformed) == (1, 1)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (
            "Accounting information about jobs that are: ",
            "bacct prints no years; take the file that it reads",
        ),
        ('"JOB_NEW" "10.1" 1767262000 201 1000 1', "lsb.events has jobs that have not ended"),
        ("JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME", "bjobs shows"),
    ],
)
def test_what_lsf_wrote_and_cannot_be_read_says_what_to_take(text_file, line, hint):
    with pytest.raises(ValueError, match=hint):
        load(text_file(line, "more"))


def test_a_begin_time_is_not_waited_for(text_file, rows_of):
    line = lines()[0]
    submit, start = (int(line.split()[at]) for at in (7, 10))
    log = load(text_file(line.replace(f" {submit} 0 0 {start} ", f" {submit} {start - 7} 0 {start} ")))
    assert rows_of(log, "submit_s", "wait_s") == [(start - 7, 7)]


def test_records_of_kinds_that_are_no_jobs_are_counted_by_kind(text_file):
    log = load(
        text_file(
            "\ufeff" + lines()[0],
            '"JOB_FINISH2" "10.1" 1767262000 7 1 2',
            '"SLA_RECOMPUTE" "10.1" 1767262000',
        )
    )
    assert (len(log), log.passed_over) == (1, {"JOB_FINISH2 record": 1, "SLA_RECOMPUTE record": 1})


@pytest.mark.parametrize(("of", "gpus"), [("", 4), ("/host", 4), ("/task", 8), ("/job", 2), (".00", 4)])
def test_gpus_are_of_each_host_or_task_or_of_the_job(text_file, of, gpus):
    asked = f"rusage[mem=4000,ngpus_physical=2{of}:gmodel=x]"
    log = load(text_file(lines()[0].replace("select[type == any]", asked)))
    assert log.further(GPUS_KEY).tolist() == [gpus]


@pytest.mark.parametrize("kept", [0.2, 0.4, 0.5])
def test_a_record_that_is_cut_off_is_malformed(text_file, kept):
    fit = lines()[0]
    path = text_file(lines()[4], fit[: int(len(fit) * kept)])
    with pytest.raises(
        ValueError, match=r"log.txt:2: .*(the record ends before|cut off within a text|so fields are shifted)"
    ):
        load(path)
    assert load(path, lenient=True).malformed == 1


def test_fields_that_are_shifted_are_told(text_file):
    fit = lines()[0]
    assert ' 0 4 "c1" "c1" "c2" "c2" 64' in fit
    path = text_file(fit.replace(' 0 4 "c1" "c1"', ' 0 5 "c1" "c1"'))
    with pytest.raises(ValueError, match=r"log.txt:1: .*, so fields are shifted"):
        load(path)


def test_a_quotation_mark_that_is_not_doubled_is_told(text_file):
    fit = lines()[0]
    assert '"normal"' in fit
    with pytest.raises(ValueError, match=r"log.txt:1: .*a quotation mark in one is not doubled"):
        load(text_file(fit.replace('"normal"', '"nor"mal"')))


def test_other_slots_than_a_job_asked_for_are_told(text_file, rows_of):
    fit = lines()[0]
    log = load(text_file(fit, fit.replace('4 "c1" "c1" "c2" "c2"', '2 "8*c1" "8*c2"')))
    assert rows_of(log, "allocated_procs", "requested_procs") == [(16, 4)]
    assert log.passed_over == {"second record of the same run": 1}
    assert log.remarks["had another number of slots than it asked for, and what it had counts"] == 1
