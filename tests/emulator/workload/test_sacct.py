"""sacct's output, as recorded from a real Slurm."""

from __future__ import annotations

import json
from itertools import permutations

import pytest

from emulator.workload.check import check
from emulator.workload.files import TraceError
from emulator.workload.formats import load
from emulator.workload.rules import to_jobs
from emulator.workload.sacct import SacctFormat

HEADER = "JobIDRaw|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|State|User|Partition"


@pytest.fixture
def row():
    def build(job="5", *, submit=100, start=160, end=460, elapsed=300, limit=10, state="COMPLETED", nodes=2):
        return f"{job}|{submit}|{start}|{end}|{elapsed}|{limit}|{nodes}|{nodes * 4}|{state}|alice|batch"

    return build


def test_a_recorded_trace_gives_its_jobs(output_of, rows_of):
    log = load(output_of("slurm/sacct-workload-trace.txt"))
    rows = {row[0]: row[1:] for row in rows_of(log, "number", "wait_s", "run_s", "requested_s", "status")}
    assert len(rows) == len(log) == 20
    assert rows[8] == (0, 6, 300, 1)
    assert rows[10] == (-1, -1, 300, 5)  # cancelled in the queue
    assert rows[26] == (2, 0, 300, 0)  # failed at once
    assert rows[27] == (2, 1, 300, 5)  # "CANCELLED by 0"
    assert rows[28] == (-1, -1, 300, -1)  # requeued and pending: not started yet
    assert rows[29] == (2, 79, 60, 0)  # out of time
    assert log.nodes[rows_of(log, "number").index((22,))] == 4
    workload = to_jobs(log, nodes=8)
    assert len(workload.jobs) == 12
    assert workload.left_out == {"no run time": 8}


def test_unix_times_say_the_same_as_dates(output_of, rows_of):
    unix = load(output_of("slurm/sacct-unix-times.txt"))
    dates = load(output_of("slurm/sacct-workload-trace.txt"))
    assert rows_of(unix, "number", "submit_s", "run_s")[0] == (25, 1_795_224_224, 3)
    assert (25, 1_795_224_224, 3) in rows_of(dates, "number", "submit_s", "run_s")


def test_a_resized_job_is_one_job_of_the_size_it_was_first_given(output_of, rows_of):
    log = load(output_of("slurm/sacct-shrunk-job.txt"))
    assert rows_of(log, "number", "wait_s", "run_s") == [(31, 1, 12)]
    assert log.nodes.tolist() == [4]


def test_a_requeued_job_is_its_last_run_submitted_when_it_first_was(text_file, row, rows_of):
    path = text_file(
        HEADER,
        row("5", submit=100, start=110, end=120, elapsed=10, state="REQUEUED"),
        row("6"),
        row("5", submit=120, start=200, end=500),
    )
    assert rows_of(load(path), "number", "submit_s", "wait_s", "run_s") == [
        (6, 100, 60, 300),
        (5, 100, 100, 300),
    ]


def test_steps_are_no_jobs_unless_asked_for(text_file, row):
    path = text_file(HEADER, row("5"), row("5.batch"), row("5.0"))
    assert len(load(path)) == 1
    assert len(SacctFormat(steps=True).read(path)) == 3


def test_a_running_job_has_no_run_time_yet(text_file, row, rows_of):
    path = text_file(HEADER, row(end="Unknown", state="RUNNING"))
    assert rows_of(load(path), "wait_s", "run_s", "status") == [(60, -1, -1)]


def test_clock_times_and_no_limits_are_understood(text_file, rows_of):
    path = text_file(
        "JobID|Submit|Start|End|Elapsed|Timelimit|NNodes|State",
        "5_1|2026-11-21T01:00:00|2026-11-21T01:01:00|2026-11-22T02:01:00|1-01:00:00|2-00:00:00|3|COMPLETED",
        "6|2026-11-21T01:00:00|2026-11-21T01:01:00|2026-11-21T01:02:00|00:01:00|UNLIMITED|1|TIMEOUT",
        # As a published log has them: hours and minutes, or hours alone, behind the days.
        "7|2026-11-21T01:00|2026-11-21T01:01|2026-11-22T02:31|1-01:30|2-12|7|COMPLETED",
    )
    assert rows_of(load(path), "number", "wait_s", "run_s", "requested_s", "status") == [
        (5, 60, 90_000, 172_800, 1),
        (6, 60, 60, -1, 0),
        (7, 60, 91_800, 216_000, 1),
    ]


def test_free_text_in_the_last_column_may_contain_the_separator(text_file, row):
    path = text_file(f"{HEADER}|SubmitLine", f"{row()}|sbatch --wrap 'a | b'")
    assert len(load(path)) == 1


def test_one_column_of_free_text_may_contain_the_separator_wherever_it_is(text_file, row):
    path = text_file(f"Constraints|{HEADER}", f"ib|avx|{row()}")
    assert load(path).names_of("Constraint") == {1: "ib|avx"}
    behind = text_file(f"Constraints|{HEADER}|JobName", f"ib|avx|{row()}|mine")
    with pytest.raises(ValueError, match="put JobName, SubmitLine or Constraints last"):
        load(behind)


def test_output_without_the_needed_columns_says_how_to_get_them(output_of):
    with pytest.raises(
        ValueError, match=r"recorded.txt:1: sacct's output has no column Submit; run it with --format="
    ):
        load(output_of("slurm/sacct-parsable2-default.txt"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("5|100", "2 fields where the header has 11"),
        ("x|100|160|460|300|10|2|8|COMPLETED|a|b", "the job's number is 'x'"),
        ("5|Unknown|160|460|300|10|2|8|COMPLETED|a|b", "Submit is missing"),
        ("5|today|160|460|300|10|2|8|COMPLETED|a|b", "Submit is 'today', not a time"),
        (
            "5|100|160|460|300|10|2.27K|8|COMPLETED|a|b",
            "NNodes is '2.27K', which may be rounded; run sacct with --no",
        ),
        (
            "5|100|160|460|300|10|2.50M|8|COMPLETED|a|b",
            "NNodes is '2.50M', which may be rounded; run sacct with --no",
        ),
        ("5|100|160|460|300|10|2x|8|COMPLETED|a|b", "NNodes is '2x', not a whole number"),
        (
            "5|20260501|160|460|300|10|2|8|COMPLETED|a|b",
            "Submit is '20260501', a date without the time of day",
        ),
        (
            "5|2026-05-01|160|460|300|10|2|8|COMPLETED|a|b",
            "Submit is '2026-05-01', a date without the time of day",
        ),
        ("5|1768046400123|160|460|300|10|2|8|COMPLETED|a|b", "Submit is '1768046400123', not a time"),
        ("5|100|60|90|30|10|2|8|COMPLETED|a|b", "Start 60 is before Submit 100"),
        ("5|100|160|460|300|10|2|8||a|b", "State is missing"),
    ],
)
def test_a_bad_row_is_an_error_with_file_and_line_or_is_counted(text_file, row, line, reason):
    path = text_file(HEADER, row(), line)
    with pytest.raises(ValueError, match=rf"log.txt:3: {reason}"):
        load(path)
    log = load(path, lenient=True)
    assert (len(log), log.malformed) == (1, 1)


FORMS = ("parsable", "csv", "fixed", "json")


@pytest.mark.parametrize("form", FORMS)
def test_one_hour_of_a_real_slurm_is_the_same_log_in_each_form(output_of, rows_of, form):
    """Jobs with commas and bars in their names, an array, a heterogeneous one, one that was suspended, one requeued."""
    log = load(output_of(f"slurm/sacct-forms-{form}.txt"))
    rows = rows_of(log, "wait_s", "run_s", "requested_s", "allocated_procs", "status")
    array = (
        [0, 0, 0] if form == "json" else [1, 1, 7]
    )  # JSON says when its tasks were eligible: as they started
    assert sorted(zip(log.nodes.tolist(), rows, strict=True)) == [
        (1, (-1, -1, -1, -1, -1)),  # requeued, and not started again
        *((1, (wait_s, 5, 300, 1, 1)) for wait_s in array if wait_s < 2),
        (1, (1, 8, 600, 2, 1)),  # "a|b, c"
        (1, (1, 20, 300, 1, 1)),
        (1, (2, 2, 300, 1, 1)),  # suspended for 6 s: its work is 2 s
        (1, (6, 0, 300, 1, 0)),
        *((1, (wait_s, 5, 300, 1, 1)) for wait_s in array if wait_s > 2),
        (1, (16, 12, 300, 1, 1)),
        (2, (16, 6, 300, 8, 1)),
        (2, (16, 7, -1, 3, 1)),  # two components that start together
        (3, (1, 15, 90_000, 6, 1)),
    ]
    assert len(to_jobs(log, nodes=4).jobs) == 10


def test_a_table_kept_as_csv_may_be_quoted(text_file, row, rows_of):
    names = ",".join(f'"{name}"' for name in HEADER.split("|"))
    line = ",".join(f'"{field}"' for field in row("7").split("|")).replace("alice", "alice, bob")
    assert rows_of(load(text_file(names, line)), "number", "run_s") == [(7, 300)]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["JobID State Submit Start Elapsed NNodes", "5 COMPLETED 1 2 3 1"], "need the line of dashes"),
        (["5|100|160|460|300|10|2|8|COMPLETED|a|b"], "write it again without -n"),
        (["  JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)", " 1 a b c R 1 1 n1"], "take the accounting"),
        (
            ["JobID  State      Submit Start Elapsed NNodes", "------ ---------- ------ ----- ------- ------",
             "5      COMPLETED  12345+ 160   00:05:00     2"],
            r"log.txt:3: Submit is '12345\+', cut at the width of its column",
        ),
    ],
)  # fmt: skip
def test_a_form_that_cannot_be_read_says_how_to_get_one_that_can(text_file, lines, reason):
    with pytest.raises(ValueError, match=reason):
        load(text_file(*lines))


def test_newer_slurm_says_numbers_and_states_in_another_way(tmp_path, rows_of):
    number = {"set": True, "infinite": False, "number": 5}
    job = {
        "job_id": 9,
        "association": {},
        "state": {"current": ["COMPLETED"]},
        "time": {"submission": 100, "start": 160, "elapsed": 300, "limit": number},
        "allocation_nodes": 2,
        "tres": {"allocated": [{"type": "cpu", "count": 8}]},
        "het": {"job_id": 0, "job_offset": {"set": False, "infinite": False, "number": 0}},
    }
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"jobs": [job]}))
    log = load(path)
    assert rows_of(log, "number", "wait_s", "run_s", "requested_s", "allocated_procs") == [
        (9, 60, 300, 300, 8)
    ]
    job["time"]["submission"] = None
    path.write_text(json.dumps({"jobs": [job]}))
    with pytest.raises(ValueError, match=r"log.json: job 9: Submit is missing"):
        load(path)


def test_an_offset_from_utc_in_a_time_is_used(text_file, rows_of):
    path = text_file(
        "JobIDRaw|Submit|Start|End|State|NNodes",
        "2|2026-01-10T12:00:00+0100|2026-01-10T12:10:00+0100|2026-01-10T13:10:00+0100|COMPLETED|1",
        "3|2026-03-29T01:50:00+0100|2026-03-29T03:10:00+0200|2026-03-29T04:10:00+0200|COMPLETED|1",
        "4|2026-01-10T07:00:00-05:00|2026-01-10T12:10:00Z|2026-01-10T13:10:00|COMPLETED|1",
        "5|202601101200|20260110121000|20260110131000|COMPLETED|1",
    )
    assert rows_of(load(path), "submit_s", "wait_s", "run_s") == [
        (1_768_042_800, 600, 3600),
        (1_774_745_400, 1200, 3600),  # the clocks changed while it waited
        (1_768_046_400, 600, 3600),
        (1_768_046_400, 600, 3600),
    ]


def test_a_shortened_count_is_the_number_that_it_stands_for(text_file):
    head = "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|State"
    counts = ("4K", "4.50K", "2M", "513")
    log = load(text_file(head, *(f"{at}|100|160|9|{count}|COMPLETED" for at, count in enumerate(counts, 1))))
    assert log.nodes.tolist() == [4096, 4608, 2_097_152, 513]


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL", "REQUEUED"])
def test_a_job_that_lost_its_nodes_and_ran_again_is_one_job(text_file, row, rows_of, state):
    path = text_file(
        HEADER,
        row("5", submit=100, start=110, end=120, elapsed=10, state=state),
        row("5", submit=121, start=200, end=220, elapsed=20, state=state),
        row("5", submit=220, start=300, end=600),
    )
    log = load(path)
    assert rows_of(log, "number", "submit_s", "wait_s", "run_s", "status") == [(5, 100, 200, 300, 1)]
    assert log.passed_over == {"earlier run of a job that ran again": 2}


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL"])
def test_a_job_that_did_not_run_again_keeps_its_only_run(text_file, row, rows_of, state):
    log = load(text_file(HEADER, row("5", state=state), row("6")))
    assert rows_of(log, "number", "wait_s", "run_s", "status") == [(6, 60, 300, 1), (5, 60, 300, 0)]
    assert log.passed_over == {}


@pytest.mark.parametrize(
    ("submit", "whose"),
    [(270_000_000, "alice|a"), (460, "bob|a"), (460, "alice|b"), (90, "alice|a")],
)
@pytest.mark.parametrize("state", ["PREEMPTED", "REQUEUED"])
def test_rows_of_one_number_years_users_or_clusters_apart_are_jobs_of_their_own(
    text_file, rows_of, state, submit, whose
):
    path = text_file(
        "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|State|User|Cluster",
        f"5|100|160|300|1|{state}|alice|a",
        f"5|{submit}|{submit + 10}|300|1|COMPLETED|{whose}",
    )
    log = load(path)
    assert sorted(rows_of(log, "submit_s", "status")) == sorted(
        [(100, 0 if state == "PREEMPTED" else -1), (submit, 1)]
    )
    assert log.passed_over == {}


def test_time_before_a_job_was_eligible_is_not_waited(text_file, rows_of):
    path = text_file(
        "JobIDRaw|Submit|Eligible|Start|ElapsedRaw|NNodes|State",
        "5|100|500|560|300|1|COMPLETED",  # after another one, or with --begin
        "6|100|100|160|300|1|COMPLETED",
        "7|100|Unknown|Unknown|0|1|PENDING",
        "8|100|900|160|0|1|CANCELLED by 0",  # before it was eligible
    )
    assert rows_of(load(path), "submit_s", "wait_s") == [(500, 60), (100, 60), (100, -1), (100, -1)]


def test_each_row_is_a_job_or_counted_by_what_it_is(text_file):
    path = text_file(
        "JobIDRaw|JobID|Submit|Start|ElapsedRaw|NNodes|State",
        "1|1|100|160|300|1|COMPLETED",
        "1.batch|1.batch|100|160|300|1|COMPLETED",
        "1.0|1.0|100|160|300|1|COMPLETED",
        "2|2|100|160|300|4|RESIZING",
        "2|2|460|160|400|2|COMPLETED",
        "3|3|100|160|300|1|NODE_FAIL",
        "3|3|460|500|x|1|COMPLETED",
        "3|3|460|500|300|1|COMPLETED",
        "5|5+0|100|160|300|1|COMPLETED",
        "6|5+1|100|160|300|1|COMPLETED",
    )
    log = load(path, lenient=True)
    assert (len(log), log.malformed) == (4, 1)
    assert log.passed_over == {
        "step of a job": 2,
        "earlier size of a resized job": 1,
        "earlier run of a job that ran again": 1,
        "further component of a heterogeneous job": 1,
    }
    found = check(log, to_jobs(log, nodes=8), format_name="sacct", is_size_known=True)
    assert dict(found.understood)["jobs"] == "4 of 10 lines"
    assert (2, "step of a job", "no job of its own") in found.left_out


def test_outputs_one_behind_the_other_have_each_its_heading(text_file, row, rows_of):
    other = "JobID|State|Submit|Start|Elapsed|NNodes"
    log = load(
        text_file(
            HEADER,
            row(),
            HEADER,
            row("6"),
            other,
            "7|COMPLETED|100|160|00:01:00|3",
            "8|FAILED|100|x|00:00:01|1",
        ),
        lenient=True,
    )
    assert rows_of(log, "number", "run_s") == [(5, 300), (6, 300), (7, 60)]
    assert (log.passed_over, log.malformed, log.records) == ({"heading again": 2}, 1, 6)


def test_a_job_in_two_exports_is_one_job(text_file, row, rows_of):
    running = row(end="Unknown", elapsed=40, state="RUNNING")
    pending = row("6", start="Unknown", end="Unknown", elapsed=0, state="PENDING")
    again = row(submit=90_000, start=90_100, end=90_400)  # its number came round
    log = load(text_file(HEADER, running, pending, row(), row("6"), row(), again))
    assert rows_of(log, "number", "submit_s", "wait_s", "run_s") == [
        (6, 100, 60, 300), (5, 100, 60, 300), (5, 90_000, 100, 300),
    ]  # fmt: skip
    assert (log.passed_over, log.records) == ({"second record of the same run": 3}, 6)


def test_components_in_two_exports_are_counted_once(text_file, row):
    both = [row("5+0"), row("5+1", nodes=3)]
    log = load(text_file(HEADER.replace("JobIDRaw", "JobID"), *both, *both))
    assert log.nodes.tolist() == [5]
    assert log.passed_over == {
        "further component of a heterogeneous job": 1, "second record of the same run": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    "unset", ["4294967294", "4294967295", "18446744073709551614", "UNLIMITED", "Partition_Limit"]
)
def test_numbers_that_nobody_set_are_unknown(text_file, row, rows_of, unset):
    path = text_file(HEADER, row(limit=unset), row("6", nodes=unset).replace(f"{unset * 4}|", f"{unset}|"))
    assert rows_of(load(path), "requested_s", "allocated_procs") == [(-1, 8), (600, -1)]


def test_a_job_that_was_cancelled_in_the_queue_has_no_start(text_file, row, rows_of):
    cancelled = {"elapsed": 0, "state": "CANCELLED by 100"}
    log = load(text_file(HEADER, row(start=460, **cancelled), row("6", start=50, end=50, **cancelled)))
    assert rows_of(log, "wait_s", "run_s", "status") == [(-1, -1, 5), (-1, -1, 5)]


@pytest.mark.parametrize(
    ("time", "says"),
    [
        ("260501120000", "in the year 2605"),  # %y%m%d%H%M%S
        ("0001-01-01T00:00:00", "in the year 1"),
        ("2026-W01-1", "a date without the time of day"),
        ("1767262000000", "not a time such as"),
        ("01/05/26-12:00:00", "not a time such as"),
    ],
)
def test_a_time_that_may_mean_something_else_is_an_error(text_file, row, time, says):
    with pytest.raises(
        ValueError, match=rf"log.txt:2: Submit is '{time}', .*{says}.*SLURM_TIME_FORMAT=%s|{says}"
    ):
        load(text_file(HEADER, row(submit=time, start="Unknown")))


def test_a_table_that_went_through_a_program_of_statistics_says_the_same(text_file, rows_of):
    path = text_file(
        HEADER.lower().replace("|", ","), "5,1767262000.0,1767262060.0,1767262360.0,300.0,10.0,2.0,8.0,COMPLETED,a,b",
    )  # fmt: skip
    assert rows_of(load(path), "number", "wait_s", "run_s", "requested_s", "allocated_procs") == [
        (5, 60, 300, 600, 8)
    ]


RERUNS = (
    {"submit": 100, "start": 110, "end": 210, "elapsed": 100, "state": "REQUEUED"},
    {"submit": 210, "start": 300, "end": 400, "elapsed": 100, "state": "NODE_FAIL"},
    {"submit": 400, "start": 500, "end": 800},
)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_runs_of_a_job_may_come_in_any_order(text_file, row, rows_of, order):
    path = text_file(HEADER, *(row(**RERUNS[each]) for each in order))
    log = load(path)
    assert rows_of(log, "number", "submit_s", "wait_s", "run_s") == [(5, 100, 400, 300)]
    assert log.passed_over == {"earlier run of a job that ran again": 2}


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_resized_job_has_its_first_size_in_either_order(text_file, row, rows_of, newest_first):
    rows = [
        row(submit=100, start=110, end=150, elapsed=40, state="RESIZING", nodes=4),
        row(submit=150, start=110, end=410, elapsed=300, nodes=2),
    ]
    log = load(text_file(HEADER, *(reversed(rows) if newest_first else rows)))
    assert rows_of(log, "submit_s", "wait_s", "run_s", "allocated_procs") == [(100, 10, 300, 16)]
    assert (log.nodes.tolist(), dict(log.remarks)) == ([4], {})


def test_a_resized_job_without_the_row_of_its_first_size_is_kept_and_its_wait_unknown(
    text_file, row, rows_of
):
    log = load(text_file(HEADER, row(submit=150, start=110, end=410, elapsed=300)))
    assert rows_of(log, "submit_s", "wait_s", "run_s") == [(110, -1, 300)]
    assert dict(log.remarks) == {
        "resized, and the row of its first size is not there; its wait is unknown": 1
    }


def test_a_federated_job_counts_where_it_ran(text_file, row):
    log = load(text_file(HEADER, row("5"), row("6", start="None", end=100, elapsed=0, state="REVOKED")))
    assert (len(log), log.passed_over) == (1, {"federated job that another cluster ran": 1})


def test_a_separator_may_have_blanks_around_it(text_file, row, rows_of):
    lines = [line.replace("|", " | ") for line in (HEADER, row())]
    assert rows_of(load(text_file(*lines)), "number", "submit_s") == [(5, 100)]


def test_what_a_program_of_statistics_writes_for_nothing_is_unknown(text_file, row, rows_of):
    log = load(text_file(HEADER, row(limit="nan", start="NaT", end="NaT", elapsed=0, state="PENDING")))
    assert rows_of(log, "wait_s", "requested_s") == [(-1, -1)]


def test_json_documents_one_behind_the_other_are_one_log(text_file, output_of):
    document = output_of("slurm/sacct-forms-json.txt").read_text()
    once, twice = load(text_file(document, name="a.json")), load(text_file(document, document, name="b.json"))
    assert len(twice) == len(once)
    assert twice.passed_over.get("second record of the same run", 0) >= len(once)


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_lines_end_as_the_system_has_them_that_wrote_them(tmp_path, row, rows_of, end):
    path = tmp_path / "sacct.txt"
    path.write_bytes(end.join([HEADER, row("5"), row("6"), ""]).encode())
    assert rows_of(load(path), "number", "run_s") == [(5, 300), (6, 300)]


def test_a_carriage_return_within_a_name_is_part_of_it(tmp_path, row, rows_of):
    path = tmp_path / "sacct.txt"
    path.write_bytes(f"{HEADER}\n{row('5')}\n{row('6').replace('alice', 'al' + chr(13) + 'ice')}\n".encode())
    log = load(path)
    assert (len(log), log.user_names) == (2, {1: "alice", 2: "al\rice"})


def test_a_header_below_other_lines_is_found_for_the_hint(text_file, row):
    path = text_file("sacct: error: slow", "As root", HEADER, row())
    with pytest.raises(TraceError, match=r"; sacct's header is line 3: leave out what stands above it$"):
        load(path)
