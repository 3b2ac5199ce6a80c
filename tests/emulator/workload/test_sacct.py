"""sacct's output, as recorded from a real Slurm."""

from __future__ import annotations

import pytest

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
    assert rows[10] == (9, 0, 300, 5)  # cancelled in the queue
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
    )
    assert rows_of(load(path), "number", "wait_s", "run_s", "requested_s", "status") == [
        (5, 60, 90_000, 172_800, 1),
        (6, 60, 60, -1, 0),
    ]


def test_free_text_in_the_last_column_may_contain_the_separator(text_file, row):
    path = text_file(f"{HEADER}|SubmitLine", f"{row()}|sbatch --wrap 'a | b'")
    assert len(load(path)) == 1


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
        ("5|100|160|460|300|10|2K|8|COMPLETED|a|b", "NNodes is '2K', not a whole number"),
        ("5|100|60|460|300|10|2|8|COMPLETED|a|b", "Start 60 is before Submit 100"),
        ("5|100|160|460|300|10|2|8||a|b", "State is missing"),
    ],
)
def test_a_bad_row_is_an_error_with_file_and_line_or_is_counted(text_file, row, line, reason):
    path = text_file(HEADER, row(), line)
    with pytest.raises(ValueError, match=rf"log.txt:3: {reason}"):
        load(path)
    log = load(path, lenient=True)
    assert (len(log), log.malformed) == (1, 1)
