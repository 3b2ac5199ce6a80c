"""Jobs of OAR, as oarstat -f -J prints them."""

from __future__ import annotations

import json

import pytest

from emulator.workload.formats import load
from emulator.workload.rules import to_jobs
from emulator.workload.swf import GPUS_KEY, HOST_KEY
from testdata import RECORDED

SAMPLE = RECORDED / "oar/oarstat.json"
COLUMNS = ("number", "submit_s", "wait_s", "run_s", "allocated_procs", "requested_s", "status", "user")


@pytest.fixture
def changed(tmp_path):
    """The first job of the sample with other values, as the only one of a file."""

    def build(as_list=False, **changes):
        job = {key: value for key, value in
               (json.loads(SAMPLE.read_text())["42"] | changes).items() if value is not ...}  # fmt: skip
        path = tmp_path / "oar.json"
        path.write_text(json.dumps([job] if as_list else {"42": job}))
        return path

    return build


def test_jobs_have_the_nodes_of_their_hosts_and_those_within_a_container_are_none(rows_of):
    log = load(SAMPLE)
    assert rows_of(log, *COLUMNS) == [
        (42, 1_767_262_000, 100, 2900, 4, 3600, 1, 1),
        (43, 1_767_262_000, 200, 3600, 1, 3600, 0, 2),
        (44, 1_767_262_000, 300, 100, 1, 3600, 5, 2),  # oardel
        (46, 1_767_262_500, 100, -1, 2, 7200, -1, 1),
        (47, 1_767_262_500, -1, -1, -1, 7200, -1, 3),
        (48, 1_767_262_500, 100, 100, 1, 7200, 0, 3),
    ]
    assert log.nodes.tolist() == [2, 1, 1, 1, -1, 1]
    assert log.further(HOST_KEY).tolist() == [-1, 1, 1, 2, -1, 3]
    assert to_jobs(log, nodes=4).left_out == {"no run time": 2}


def test_oar_3_prints_a_list_and_names_as_in_its_database(changed, rows_of):
    path = changed(
        as_list=True, Job_Id=..., submissionTime=..., startTime=..., stopTime=..., id=42,
        submission_time=1_767_262_000, start_time=1_767_262_100, stop_time=1_767_265_000,
    )  # fmt: skip
    assert rows_of(load(path), *COLUMNS) == rows_of(load(changed()), *COLUMNS)


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        ("""-l "{type = 'default'}/host=2,walltime=1:0:0" """, None),
        ("""-l "{type = 'default'}/host=2/gpu=2,walltime=1:0:0" """, 4),
        ("-l /switch=2/host=2/gpu=1/core=8,walltime=1", 4),
        ("-l gpu=3", 3),
        ("""-l "{gpu_count > 0}/host=1/gpu=1+{type = 'default'}/host=3/gpu=2,walltime=2" """, 7),
        ("""-l "host=1/gpu=ALL" """, None),
        (
            """-l "host=1/gpu=1,walltime=4" -l "host=4/gpu=1,walltime=1" """,
            1,
        ),  # which of them ran is not said
        ("", None),
    ],
)
def test_gpus_are_those_of_every_host_that_was_asked_for(changed, asked, gpus):
    found = load(changed(wanted_resources=asked)).further(GPUS_KEY)
    assert (found if found is None else found.tolist()) == (gpus if gpus is None else [gpus])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"submissionTime": "now"}, "submissionTime is 'now', not a whole number"),
        ({"submissionTime": ...}, "submissionTime is missing"),
        (
            {"startTime": "1"},
            "submissionTime 1767262000, startTime 1 and stopTime 1767265000 are not in this order",
        ),
        ({"stopTime": "1767262050"}, "are not in this order"),
        ({"submissionTime": 1_767_262_000_000}, "submissionTime is 1767262000000, not a time in seconds"),
    ],
)
def test_a_bad_job_is_named_or_counted(changed, changes, reason):
    path = changed(**changes)
    with pytest.raises(ValueError, match=rf"oar.json: job 42: .*{reason}"):
        load(path)
    assert load(path, lenient=True).malformed == 1


@pytest.mark.parametrize(
    "line",
    ["Job id    S User     Duration   System message", "Job_Id: 42"],
)
def test_what_oarstat_prints_for_people_says_which_option_makes_it_readable(text_file, line):
    with pytest.raises(ValueError, match="write it again with -f -J"):
        load(text_file(line, "42        T alice    0:48:20    R=2,W=1:0:0,J=B"))


def test_the_answer_of_grid5000s_api_is_read(tmp_path, rows_of):
    job = {
        "uid": 7, "user_uid": "ann", "walltime": "1:00:00", "queue": "default", "state": "terminated",
        "submitted_at": 1_767_262_000, "started_at": 1_767_262_060, "stopped_at": 1_767_262_460,
        "assigned_nodes": ["n1.x", "n2.x"],
    }  # fmt: skip
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"total": 2, "items": [job, job | {"uid": 8, "state": "error"}]}))
    log = load(path)
    assert rows_of(log, "number", "wait_s", "run_s", "requested_s", "status") == [
        (7, 60, 400, 3600, 1), (8, 60, 400, 3600, 0),
    ]  # fmt: skip
    assert log.nodes.tolist() == [2, 2]


@pytest.mark.parametrize("types", [["inner=5"], {"inner": "5"}, "deploy,inner=5"])
def test_types_come_as_a_list_an_object_or_words(tmp_path, types):
    job = {
        "job_id": 7,
        "submission_time": 5,
        "state": "Waiting",
        "assigned_network_address": [],
        "types": types,
    }
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps([job]))
    assert load(path).passed_over == {"job inside a container": 1}


def test_a_failed_job_that_was_to_start_after_its_end_never_ran(changed, rows_of):
    log = load(changed(state="Error", startTime=1_900_000_600, stopTime=1_900_000_500))
    assert rows_of(log, "wait_s", "run_s", "status") == [(-1, -1, 0)]


@pytest.mark.parametrize(
    "changes",
    [{"walltime": "1h"}, {"walltime": "9" * 5000}, {"walltime": None, "message": f"R=1,W={'9' * 5000}:0:0"}],
)
def test_a_limit_that_is_not_understood_is_unknown_and_told(changed, rows_of, changes):
    log = load(changed(**changes))
    assert rows_of(log, "run_s", "requested_s") == [(2900, -1)]
    assert log.remarks == {"walltime not understood, taken to be unknown": 1}
    assert log.complaints[0].startswith(f"{log.source}: job 42: walltime is ")


def test_fractions_of_seconds_are_read(changed, rows_of):
    log = load(changed(startTime=1_767_262_100.5, stopTime=1_767_265_000.75))
    assert rows_of(log, "wait_s", "run_s") == [(100.5, 2900.25)]


def test_a_name_of_another_encoding_refuses_no_log(changed, rows_of):
    path = changed(queue="caf_")
    path.write_bytes(path.read_bytes().replace(b"caf_", b"caf\xe9"))
    log = load(path)
    assert rows_of(log, "run_s", "queue") == [(2900, 1)]
    assert log.keys["Queue"] == ("1 caf\udce9",)


def test_one_job_alone_as_the_api_shows_it_is_read(changed, rows_of):
    path = changed()
    expected = rows_of(load(path), *COLUMNS)
    path.write_text(json.dumps(json.loads(path.read_text())["42"]))
    assert rows_of(load(path), *COLUMNS) == expected
