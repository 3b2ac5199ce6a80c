"""What Slurm writes down becomes jobs, runs and marks."""

import re
from pathlib import Path

import pytest

from balancer.clock import US
from emulator.live.slurm.accounting import (
    HELPER_NAME,
    AccountingError,
    SlurmCounts,
    nodes_named,
    read_jobs,
    read_marks,
    read_sacct,
    read_starts,
    with_the_job_log,
)

RECORDED = Path(__file__).parents[3] / "recorded" / "slurm" / "jobcomp-filetxt.txt"
NAMES = [f"n{number:02d}" for number in range(1, 9)]
EPOCH_S = 1_795_219_112
"""2026-11-20T23:58:32 UTC: the first submit of the recording."""


def recorded(*numbers):
    wanted = {f"JobId={number}" for number in numbers}
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.split(" ")[0] in wanted]


def jobs(*numbers, queue=()):
    return read_jobs(recorded(*numbers), queue, NAMES, EPOCH_S)


def test_a_job_that_ended_has_its_nodes_and_times_since_the_start_of_the_run():
    run = {"start_us": 4 * US, "end_us": 24 * US, "outcome": "FINISHED", "nodes": [0, 1]}
    assert jobs(1) == [{"number": 1, "submit_us": 0, "state": "ENDED", "runs": [run]}]


def test_a_job_over_its_limit_was_killed():
    (job,) = jobs(29)
    assert (job["state"], [run["outcome"] for run in job["runs"]]) == ("ENDED", ["KILLED"])


def test_a_requeued_job_keeps_its_first_submit_and_waits_until_it_is_cancelled_without_nodes():
    (job,) = jobs(23)  # a node failed, and somebody cancelled it while it waited
    first = recorded(23)[0]
    submitted = re.search(r"SubmitTime=\S*T(\d\d):(\d\d):(\d\d)", first)
    hours, minutes, rest = map(int, submitted.groups())
    assert job["submit_us"] == (hours * 3600 + minutes * 60 + rest + 88) * US
    assert [(run["outcome"], run["nodes"]) for run in job["runs"]] == [("REQUEUED", [5, 6])]
    assert job["state"] == "CANCELLED"


def test_what_is_in_the_queue_runs_or_waits():
    queue = [
        "40|RUNNING|2026-11-20T23:58:42|2026-11-20T23:58:52|n[03-04]|None",
        "41|PENDING|2026-11-20T23:58:43|N/A||Priority",
    ]
    assert jobs(queue=queue) == [
        {
            "number": 40,
            "submit_us": 10 * US,
            "state": "RUNNING",
            "runs": [{"start_us": 20 * US, "end_us": -1, "outcome": "RUNNING", "nodes": [2, 3]}],
        },
        {"number": 41, "submit_us": 11 * US, "state": "QUEUED", "runs": []},
    ]


def test_a_run_that_was_lost_after_the_queue_was_asked_is_not_told_twice():
    (job,) = jobs(4, queue=["4|RUNNING|2026-11-21T00:01:17|2026-11-21T00:01:18|n01|None"])
    assert (job["state"], [run["outcome"] for run in job["runs"]]) == ("QUEUED", ["REQUEUED"])


def line_of(state, start, end, nodes="n01"):
    times = f"StartTime=2026-11-21T00:{start} EndTime=2026-11-21T00:{end}"
    return f"JobId=5 Name=j5 JobState={state} {times} NodeList={nodes} SubmitTime=2026-11-20T23:59:00 "


def of_rows(*rows, queue=()):
    (job,) = read_jobs(rows, queue, NAMES, EPOCH_S)
    return job["state"], [(run["outcome"], (run["end_us"] - run["start_us"]) // US) for run in job["runs"]]


def test_a_controller_that_had_not_saved_an_end_before_it_died_tells_of_the_same_run_again():
    ended = line_of("COMPLETED", "10:00", "10:29")
    again = line_of("COMPLETED", "10:01", "40:00")
    assert of_rows(ended, again) == ("ENDED", [("FINISHED", 29)])
    assert of_rows(ended, line_of("NODE_FAIL", "10:01", "40:00")) == ("ENDED", [("FINISHED", 29)])
    assert of_rows(ended, line_of("CANCELLED", "10:01", "40:00", "(null)")) == ("ENDED", [("FINISHED", 29)])
    runs = "5|RUNNING|2026-11-20T23:59:00|2026-11-21T00:10:01|n01|None"
    assert of_rows(ended, queue=[runs]) == ("ENDED", [("FINISHED", 29)])


def test_or_runs_the_job_again():
    ended = line_of("COMPLETED", "10:00", "10:29")
    assert of_rows(ended, line_of("COMPLETED", "10:40", "11:09")) == (
        "ENDED",
        [("REQUEUED", 29), ("FINISHED", 29)],
    )


def test_a_job_that_is_still_in_the_queue_after_its_end_is_over():
    (job,) = jobs(1, queue=["1|COMPLETING|2026-11-20T23:58:32|2026-11-20T23:58:36|n[01-02]|None"])
    assert (job["state"], len(job["runs"])) == ("ENDED", 1)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("JobId=1 UserId=alice", "not a line of Slurm's job log: 'JobId=1 UserId=alice'"),
        (recorded(1)[0].replace("COMPLETED", "MOLTEN"), "an unknown job state MOLTEN"),
    ],
)
def test_a_line_that_cannot_be_read_is_an_error_that_quotes_it(line, problem):
    with pytest.raises(AccountingError, match=problem):
        read_jobs([line], [], NAMES, EPOCH_S)


def test_marks_are_changes_between_drained_and_not_by_slurmctlds_log():
    log = """\
[2026-11-20T23:58:30.100] update_node: node n01 reason set to: balancer: lent to on-demand
[2026-11-20T23:58:30.100] update_node: node n01 state set to DRAINED
[2026-11-20T23:58:34.900] update_node: node n02 state set to DRAINING
[2026-11-20T23:58:35.900] update_node: node n02 state set to DRAINED
[2026-11-20T23:58:36.500] update_node: node n01 state set to IDLE
[2026-11-20T23:58:36.700] update_node: node stranger state set to DRAINED
"""
    found = read_marks(log.splitlines(), NAMES, EPOCH_S)
    assert found == [(0, 0, True), (2 * US, 1, True), (4 * US, 0, False)]


def test_counting_knows_who_is_over_and_not_who_waits_again(tmp_path):
    jobcomp = tmp_path / "jobcomp.txt"
    counts = SlurmCounts(jobcomp, tmp_path / "replay.jsonl")
    counts.look()
    assert counts.ended == 0
    jobcomp.write_text("".join(f"{line}\n" for line in recorded(1, 2, 29, 4, 28)), encoding="utf-8")
    counts.look()
    assert counts.ended == 3


def row(number, state, start, end, nodes, *, name="j1"):
    times = f"StartTime=2026-01-01T00:{start} EndTime=2026-01-01T00:{end}"
    submitted = "SubmitTime=2026-01-01T00:00:00"
    return (
        f"JobId={number} Name={name} JobState={state} {times} NodeList={nodes} ReservationName= {submitted} "
    )


def test_a_job_that_waits_again_has_its_runs_though_nobody_knows_when_it_starts():
    lost = row(1, "NODE_FAIL", "10:00", "20:00", "n01")
    (job,) = read_jobs([lost], ["1|PENDING|2026-01-01T00:20:00|N/A||BeginTime"], NAMES, 1_767_225_600)
    assert (job["state"], [run["outcome"] for run in job["runs"]]) == ("QUEUED", ["REQUEUED"])


def test_nodes_that_are_set_down_are_marked_until_they_are_told_to_resume():
    log = [
        f"[2026-01-01T00:{at}] update_node: node n02 state set to {state}"
        for at, state in (
            ("10:00.1", "DRAINING"),
            ("20:00.2", "DOWN"),
            ("30:00.3", "IDLE"),
            ("40:00.4", "DOWN"),
        )
    ]
    found = read_marks(log, NAMES, 1_767_225_600)
    assert found == [(600 * US, 1, True), (1800 * US, 1, False), (2400 * US, 1, True)]


def test_a_job_that_was_resized_has_its_nodes_at_each_time_though_slurm_tells_the_time_of_the_change_as_its_start():
    """As Slurm 22.05 wrote it: shrunk, expanded, requeued and started again."""
    rows = [
        row(1, "RESIZING", "20:00", "20:00", "n[01-03]"),
        row(2, "RESIZING", "30:00", "30:00", "n[02-03]", name=HELPER_NAME),
        row(1, "RESIZING", "30:00", "30:00", "n01"),
        row(1, "PENDING", "30:00", "40:00", "n[01-03]"),
        row(1, "COMPLETED", "30:00", "59:00", "n[02-03]"),
    ]
    log = [
        "[2026-01-01T00:10:00.358] sched: Allocate JobId=1 NodeList=n[01-03] #CPUs=3 Partition=batch",
        "[2026-01-01T00:25:00.422] sched: Allocate JobId=2 NodeList=n[02-03] #CPUs=2 Partition=batch",
        "[2026-01-01T00:50:00.783] sched/backfill: _start_job: Started JobId=1 in batch on n[02-03]",
    ]
    job = read_jobs(rows, [], NAMES, 1_767_225_600, starts=read_starts(log))[0]
    assert [
        (run["start_us"] // (60 * US), run["end_us"] // (60 * US), run["outcome"], run["nodes"])
        for run in job["runs"]
    ] == [
        (10, 20, "RESIZED", [0, 1, 2]),
        (20, 30, "RESIZED", [0]),
        (30, 40, "REQUEUED", [0, 1, 2]),
        (50, 59, "FINISHED", [1, 2]),
    ]
    assert job["state"] == "ENDED"


def test_sacct_tells_the_same_of_a_job_that_was_shrunk():
    recording = (RECORDED.parent / "sacct-shrunk-job.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in recording if "|" in line and not line.startswith("$")]
    assert nodes_named(lines) == ["n01", "n02", "n03", "n04"]
    (job,) = read_sacct(lines, NAMES, 1_795_224_411)
    assert [(run["start_us"], run["end_us"], run["outcome"], run["nodes"]) for run in job["runs"]] == [
        (US, 5 * US, "RESIZED", [0, 1, 2, 3]),
        (5 * US, 13 * US, "FINISHED", [0, 1]),
    ]
    assert (job["number"], job["submit_us"], job["state"]) == (31, 0, "ENDED")


def test_what_slurmdbd_tells_of_a_job_that_was_resized_and_requeued_is_left_for_the_job_log():
    """As Slurm 22.05 wrote both: by sacct, job 1 had n[01-03] while job 2 ran on n01."""
    logged = [
        row(1, "RESIZING", "20:00", "20:00", "n[01-03]"),
        row(1, "PENDING", "20:00", "40:00", "n01"),
        row(2, "COMPLETED", "42:00", "48:00", "n01"),
        row(1, "COMPLETED", "50:00", "59:00", "n[01-03]"),
    ]
    stored = [
        "JobIDRaw|State|Submit|Start|End|NodeList",
        "1|RESIZING|1767225600|1767226200|1767226800|n[01-03]",
        "1|COMPLETED|1767225600|1767226800|1767229140|n[01-03]",
        "2|COMPLETED|1767225600|1767228120|1767228480|n01",
    ]
    by_log = read_jobs(logged, [], NAMES, 1_767_225_600)
    by_sacct = read_sacct(stored, NAMES, 1_767_225_600)
    assert by_sacct[0]["runs"][-1]["nodes"] == [0, 1, 2]
    assert with_the_job_log(by_sacct, by_log) == [by_log[0], by_sacct[1]]


def test_jobs_whose_end_slurmdbd_lost_are_those_of_the_job_log_be_they_there_or_not():
    logged = [row(number, "COMPLETED", "20:00", "40:00", f"n0{number}") for number in (1, 2, 3)]
    stored = [
        "JobIDRaw|State|Submit|Start|End|NodeList",
        "1|COMPLETED|1767225600|1767226201|1767227401|n01",
        "2|RUNNING|1767225600|1767226201|Unknown|n02",
    ]
    by_log = read_jobs(logged, [], NAMES, 1_767_225_600)
    by_sacct = read_sacct(stored, NAMES, 1_767_225_600)
    assert with_the_job_log(by_sacct, by_log, {2, 3}) == [by_sacct[0], by_log[1], by_log[2]]


def test_sacct_without_a_column_is_told_what_to_ask_for():
    with pytest.raises(AccountingError, match="no column NodeList; ask for JobIDRaw,State,"):
        read_sacct(["JobIDRaw|State|Submit|Start|End"], NAMES, 0)
