"""What a row of sacct says that is not understood, or is of another machine: the job stays, and it is told."""

from __future__ import annotations

import json

import pytest

from emulator.workload.files import TraceError
from emulator.workload.formats import load

BEGIN_S = 1_767_262_000


@pytest.mark.parametrize(
    ("name", "text"), [("TimelimitRaw", "x"), ("Timelimit", "1h"), ("Timelimit", "9" * 5000)]
)
def test_a_limit_that_is_not_understood_refuses_no_log(text_file, rows_of, name, text):
    heading = f"JobIDRaw|Submit|Start|ElapsedRaw|{name}|NNodes|State"
    row = f"1|{BEGIN_S}|{BEGIN_S}|60|{text}|2|COMPLETED"
    log = load(text_file(heading, row))
    assert rows_of(log, "run_s", "requested_s", "allocated_procs") == [(60, -1, 2)]
    assert log.remarks == {f"{name} not understood, taken to be unknown": 1}
    assert log.complaints[0].startswith(f"{log.source}:2: {name} is ")


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("ERLEDIGT", -1),
        ("COMPL+", -1),
        ("COMPLETE+", 1),
        ("OUT_OF_ME+", 0),
        ("CANCELLED+", 5),
        ("Completed", 1),
    ],
)
def test_a_state_that_slurm_does_not_have_is_unknown_and_told(text_file, rows_of, state, status):
    """Also one that a narrow column cut so far that it may be another one."""
    heading = "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|State"
    log = load(text_file(heading, f"1|{BEGIN_S}|{BEGIN_S}|60|2|{state}"))
    assert rows_of(log, "run_s", "status") == [(60, status)]
    told = {"State not understood, taken to be unknown": 1} if status == -1 else {}
    assert log.remarks == told
    assert len(log.complaints) == len(told)


def test_a_job_whose_state_is_cut_and_has_not_ended_has_no_run_time(text_file, rows_of):
    heading = "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|State"
    log = load(text_file(heading, f"1|{BEGIN_S}|{BEGIN_S}|60|2|CONFIGURI+"))
    assert rows_of(log, "run_s", "status") == [(-1, -1)]


def test_a_doubt_names_the_row_that_it_is_of(text_file):
    heading = "JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|NNodes|State"
    rows = (f"{job}|{BEGIN_S}|{start}|60|x|2|COMPLETED" for job, start in ((1, 5), (2, BEGIN_S)))
    log = load(text_file(heading, *rows), lenient=True)
    assert [text.partition(": ")[0].rpartition(":")[2] for text in log.complaints] == ["2", "2", "3"]


@pytest.mark.parametrize("state", ["COMPLETED", "NODE_FAIL", "REQUEUED"])
def test_a_size_that_was_asked_for_and_is_no_number_is_a_fault_of_its_row(text_file, state):
    """Also of a row that may not be the job's last one, and waits for the others to come."""
    heading = "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|ReqNodes|State"
    rows = (f"1|{BEGIN_S}|{BEGIN_S}|60|2|x|{state}", f"2|{BEGIN_S}|{BEGIN_S}|60|2|2|COMPLETED")
    path = text_file(heading, *rows)
    with pytest.raises(TraceError, match=r":2: ReqNodes is 'x', not a whole number"):
        load(path)
    log = load(path, lenient=True)
    assert (log.column("number").tolist(), log.malformed) == ([2], 1)


def test_a_row_that_is_out_of_range_leaves_the_jobs_behind_it_as_they_are(text_file, rows_of):
    heading = "JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|NNodes|State"
    rows = (f"{job}|{BEGIN_S}|{BEGIN_S}|60|{limit}|2|COMPLETED" for job, limit in ((1, 10**18), (2, 10)))
    log = load(text_file(heading, *rows), lenient=True)
    assert (rows_of(log, "number", "requested_s"), log.malformed) == ([(2, 600)], 1)


def test_sacct_json_tells_it_too(tmp_path, rows_of):
    time = {"submission": BEGIN_S, "start": BEGIN_S, "elapsed": 60, "limit": "soon"}
    job = {
        "job_id": 1,
        "association": {},
        "allocation_nodes": 2,
        "state": {"current": ["COMPLETED"]},
        "time": time,
    }
    path = tmp_path / "sacct.json"
    path.write_text(json.dumps({"jobs": [job]}))
    log = load(path)
    assert rows_of(log, "run_s", "requested_s") == [(60, -1)]
    assert log.complaints[0].startswith(f"{path}: job 1: TimelimitRaw is 'soon'")


def test_jobs_of_several_clusters_are_told(text_file):
    heading = "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|State|Cluster"
    rows = (f"{job}|{BEGIN_S}|{BEGIN_S}|60|2|COMPLETED|{cluster}" for job, cluster in enumerate("abab"))
    log = load(text_file(heading, *rows))
    assert log.remarks == {"of cluster b, others of a: if these are several machines, take each log apart": 2}


@pytest.mark.parametrize(
    ("end_s", "elapsed", "told"),
    [
        (BEGIN_S + 7200, "7200", None),
        (BEGIN_S + 7200, "7000", None),
        (
            BEGIN_S + 7200,
            "120",
            "ran shorter by Elapsed than from Start to End (suspended, or another unit?)",
        ),
        (BEGIN_S + 120, "7200", "ran longer by Elapsed than from Start to End (another unit?)"),
        (BEGIN_S - 120, "7200", "ran longer by Elapsed than from Start to End (another unit?)"),
    ],
)
def test_an_end_that_contradicts_start_and_elapsed_is_told(text_file, rows_of, end_s, elapsed, told):
    heading = "JobIDRaw|Submit|Start|End|ElapsedRaw|NNodes|State"
    log = load(text_file(heading, f"1|{BEGIN_S}|{BEGIN_S}|{end_s}|{elapsed}|2|COMPLETED"))
    assert rows_of(log, "run_s") == [(int(elapsed),)]
    assert log.remarks == ({f"{told}, and Elapsed counts": 1} if told else {})


def test_time_said_to_be_suspended_explains_a_short_run(text_file):
    heading = "JobIDRaw|Submit|Start|End|Elapsed|Suspended|NNodes|State"
    log = load(text_file(heading, f"1|{BEGIN_S}|{BEGIN_S}|{BEGIN_S + 7200}|01:00:00|01:00:00|2|COMPLETED"))
    assert log.remarks == {"was suspended, and that time is no part of its run": 1}
