"""HTCondor's history, in each form in which it comes."""

from __future__ import annotations

import json

import pytest

from emulator.workload.formats import load
from emulator.workload.swf import GPUS_KEY, HOST_KEY
from testdata import RECORDED

SAMPLE = RECORDED / "condor/history.txt"
COLUMNS = ("number", "submit_s", "wait_s", "run_s", "allocated_procs", "requested_s", "status", "user")
JOBS = [
    (71_000_000, 1_767_262_000, 400, 600, 4, -1, 1, 1),  # its second run
    (71_000_001, 1_767_262_000, 500, 1000, 2, 7200, 0, 1),  # what it asked for is an expression
    (72_000_000, 1_767_262_700, -1, -1, 1, -1, 5, 2),  # removed before it began
    (74_000_000, 1_767_262_800, 200, 1000, 24, -1, 1, 3),  # three machines
]
AD = {
    "ClusterId": 5, "ProcId": 0, "QDate": 1_767_262_000, "JobCurrentStartDate": 1_767_262_100, "JobStatus": 4,
    "CompletionDate": 1_767_262_400, "JobUniverse": 5, "RequestCpus": 1, "Owner": "alice",
}  # fmt: skip


@pytest.fixture
def json_file(tmp_path):
    def build(*ads, lines=False):
        path = tmp_path / "condor.json"
        path.write_text("\n".join(map(json.dumps, ads)) if lines else json.dumps(ads, indent=2))
        return path

    return build


def test_the_historys_own_file_gives_its_jobs_without_those_of_the_submit_host(rows_of):
    log = load(SAMPLE)
    assert rows_of(log, *COLUMNS) == JOBS
    assert log.nodes is None
    assert log.column("requested_memory_kb").tolist() == [2 * 1024 * 1024, -1, -1, -1]


def test_the_same_jobs_come_from_each_form(json_file, text_file, rows_of):
    ads, ad = [], {}
    for line in SAMPLE.read_text().splitlines():
        if line.startswith("*** "):
            ads.append(ad)
            ad = {}
        else:
            name, _, value = line.partition(" = ")
            ad[name] = int(value) if value.isdecimal() else value.strip('"')
    assert rows_of(load(json_file(*ads)), *COLUMNS) == JOBS
    assert rows_of(load(json_file(*ads, lines=True)), *COLUMNS) == JOBS
    long = [
        line
        for ad in ads
        for line in (
            *(
                f'{name} = "{value}"' if name == "Owner" else f"{name} = {value}"
                for name, value in ad.items()
            ),
            "",
        )
    ]
    assert rows_of(load(text_file(*long)), *COLUMNS) == JOBS


def test_gpus_and_the_machine_of_a_job_are_kept(json_file):
    ads = [
        AD | {"RequestGPUs": 1, "AssignedGPUs": "GPU-1a,GPU-2b", "LastRemoteHost": "slot1_2@n1"},
        AD | {"ProcId": 1, "RequestGPUs": 3, "LastRemoteHost": "slot1@n2"},
        AD | {"ProcId": 2, "LastRemoteHost": "slot1_1@n1", "AssignedGPUs": "undefined"},
        AD | {"ProcId": 3, "JobUniverse": 11, "MaxHosts": 2, "RequestGPUs": 4, "LastRemoteHost": "slot1@n3"},
    ]
    log = load(json_file(*ads))
    assert log.further(GPUS_KEY).tolist() == [2, 3, -1, 8]
    assert log.further(HOST_KEY).tolist() == [1, 2, 1, -1]  # of several machines the last one is not all


@pytest.mark.parametrize(
    ("changes", "run_s"),
    [
        ({"LastJobStatus": 5, "NumJobStarts": 1, "RemoteWallClockTime": 200.0}, 200),
        ({"LastJobStatus": 1, "JobStartDate": 1_767_262_100, "RemoteWallClockTime": 200.0}, 200),
        ({"LastJobStatus": 5, "NumJobStarts": 1, "RemoteWallClockTime": 0}, 0),
        ({"LastJobStatus": 2, "NumJobStarts": 1, "RemoteWallClockTime": 200.0}, 604_800),
        ({"NumJobStarts": 1, "RemoteWallClockTime": 200.0}, 200),
        # The sum of all runs is not that of the last.
        ({"LastJobStatus": 5, "NumJobStarts": 3, "RemoteWallClockTime": 900.0}, -1),
        ({"LastJobStatus": 5, "NumJobStarts": 3, "LastRemoteWallClockTime": 300.0}, 300),
        ({"LastJobStatus": 1, "NumJobStarts": 3, "LastVacateTime": 1_767_262_150}, 50),
        ({"LastJobStatus": 1, "NumJobStarts": 3, "LastVacateTime": 1_767_262_050}, -1),  # of the run before
        ({}, -1),  # nothing says until when it ran
    ],
)
def test_a_job_that_was_removed_ran_until_it_left_its_machine(json_file, changes, run_s):
    removed = {"JobStatus": 3, "CompletionDate": 0, "EnteredCurrentStatus": 1_767_262_100 + 604_800}
    log = load(json_file(AD | removed | changes))
    assert (log.column("wait_s").tolist(), log.column("run_s").tolist()) == ([100], [run_s])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"QDate": None}, "QDate is missing"),
        ({"QDate": 1_767_262_000_000}, "QDate is 1767262000000, not a time in seconds"),
        (
            {"QDate": 1_767_262_200},
            "QDate 1767262200, start 1767262100 and end 1767262400 are not in this order",
        ),
        ({"CompletionDate": 1_767_262_050}, "are not in this order"),
    ],
)
def test_a_bad_job_is_named_or_counted(json_file, changes, reason):
    path = json_file(AD, AD | changes | {"ProcId": 3})
    with pytest.raises(ValueError, match=rf"condor.json: job 5.3: .*{reason}"):
        load(path)
    log = load(path, lenient=True)
    assert (len(log), log.malformed) == (1, 1)


def test_a_line_that_is_no_json_is_named(tmp_path):
    path = tmp_path / "condor.jsonl"
    path.write_text(json.dumps(AD) + "\n{\n")
    with pytest.raises(ValueError, match=r"condor.jsonl:2: not valid JSON"):
        load(path)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (" ID     OWNER          SUBMITTED   RUN_TIME     ST COMPLETED   CMD", "write it again with -json"),
        ("-- Schedd: submit.example.org : <10.0.0.1:9618>", "condor_q shows jobs that have not ended"),
        ('<?xml version="1.0"?><!DOCTYPE classads SYSTEM "classads.dtd">', "-json in place of -xml"),
    ],
)
def test_what_cannot_be_read_says_which_option_makes_it_readable(text_file, line, hint):
    with pytest.raises(ValueError, match=hint):
        load(text_file(line, "more"))


def test_a_completion_date_that_is_the_removal_of_a_held_job_ends_no_run(json_file, rows_of):
    held = {"JobStatus": 3, "LastJobStatus": 5, "NumJobStarts": 1, "RemoteWallClockTime": 200.0}
    ad = AD | held | {"CompletionDate": 1_767_262_100 + 604_800}
    assert rows_of(load(json_file(ad)), "wait_s", "run_s") == [(100, 200)]


def test_ads_that_are_no_jobs_and_jobs_that_ran_elsewhere_are_counted_by_kind(json_file):
    ads = [
        AD | {"MyType": "Job", "EpochAdType": "EPOCH"},
        {"MyType": "JobSet", "JobSetId": 1, "QDate": 1_767_262_000},
        AD | {"EpochAdType": "INPUT"},
        AD | {"JobUniverse": 9},
    ]
    log = load(json_file(*ads))
    assert len(log) == 1
    assert log.passed_over == {"JobSet ad": 1, "INPUT ad": 1, "job of the grid universe": 1}


def test_a_line_that_is_no_json_is_counted_if_lenient(tmp_path):
    path = tmp_path / "condor.jsonl"
    path.write_text(f"\ufeff{json.dumps(AD)}\n{{\n7\n{json.dumps(AD | {'ProcId': 1})}\n")
    log = load(path, lenient=True)
    assert (len(log), log.malformed) == (2, 2)


def test_dates_with_fractions_are_read(json_file, rows_of):
    ad = AD | {"QDate": 1_767_262_000.0, "CompletionDate": 1_767_262_400.0}
    assert rows_of(load(json_file(ad)), "wait_s", "run_s") == [(100, 300)]


def test_answers_one_behind_the_other_are_one_log(text_file, rows_of):
    ads = [AD | {"ProcId": each} for each in range(3)]
    lists = text_file(json.dumps(ads[:2], indent=1), json.dumps(ads[2:], indent=1), name="lists.json")
    objects = text_file(*(json.dumps(ad, indent=1) for ad in ads), name="objects.json")
    for path in (lists, objects):
        assert rows_of(load(path), "number") == [(5_000_000,), (5_000_001,), (5_000_002,)]


def test_names_are_the_same_in_capitals_and_small_letters(json_file, rows_of):
    ad = {name.upper(): value for name, value in (AD | {"RequestGpus": 2}).items()}
    log = load(json_file(ad))
    assert rows_of(log, *COLUMNS) == rows_of(load(json_file(AD)), *COLUMNS)
    assert log.columns[int(log.keys[GPUS_KEY][0]) - 1].tolist() == [2]


@pytest.mark.parametrize(("by_signal", "status"), [(True, 0), (False, 1), ("true", 0)])
def test_a_job_that_a_signal_ended_failed(json_file, by_signal, status):
    log = load(json_file(AD | {"ExitBySignal": by_signal}))
    assert log.column("status").tolist() == [status]


def test_reals_of_the_long_form_are_whole_numbers_too(text_file, rows_of):
    ad = AD | {"RequestCpus": "1.600000000000000E+01", "RequestMemory": "2.048E+03", "MaxHosts": "9" * 5000}
    log = load(text_file(*(f"{name} = {value}" for name, value in ad.items())))
    assert rows_of(log, "allocated_procs", "requested_memory_kb") == [(16, 2048 * 1024 // 16)]


@pytest.mark.parametrize(
    ("changes", "times", "remarks"),
    [
        ({"LastRemoteWallClockTime": 50.0}, (250, 50), 0),
        ({"LastRemoteWallClockTime": 50.0, "NumJobStarts": 1}, (100, 200), 0),
        ({"RemoteWallClockTime": 120.0}, (100, 200), 1),
    ],
)
def test_an_export_without_the_last_start_is_reckoned_from_the_last_run(
    json_file, rows_of, changes, times, remarks
):
    ad = AD | {"JobCurrentStartDate": None, "JobStartDate": 1_767_262_100, "NumJobStarts": 3}
    log = load(json_file(ad | {"CompletionDate": 1_767_262_300} | changes))
    assert rows_of(log, "wait_s", "run_s") == [times]
    assert [text.partition(",")[0] for text in log.remarks] == ["ran more than once"] * remarks


def test_an_export_without_the_completion_date_ends_when_its_status_came(json_file, rows_of):
    ended = AD | {"CompletionDate": None, "EnteredCurrentStatus": 1_767_262_400}
    assert rows_of(load(json_file(ended, ended | {"ProcId": 1, "JobStatus": 2})), "run_s") == [(300,), (-1,)]


@pytest.mark.parametrize(("suspended_s", "told"), [(0, 0), (60, 1)])
def test_a_job_that_was_suspended_is_told(json_file, suspended_s, told):
    log = load(json_file(AD | {"CumulativeSuspensionTime": suspended_s}))
    assert list(log.remarks) == ["was suspended, and that time counts as run"] * told
