"""`emulator trace check`: what was understood, what was left out, what is likely wrong."""

from __future__ import annotations

import json

import pytest

from command_line import emulate

DAY = 86_400
HEADER = ("; UnixStartTime: 1000000000", "; MaxProcs: 4", "; MaxNodes: 4")


@pytest.fixture
def check(swf_file):
    """The exit status and the answer for a log of these lines."""

    def run(*lines, options=()):
        done = emulate("trace", "check", swf_file(*lines), "--json", *options)
        return done.exit_code, json.loads(done.stdout) if done.exit_code < 2 else done.stderr

    return run


def test_a_log_without_faults_is_told_in_eight_lines_and_ends_with_0(check, swf_line):
    status, found = check(*HEADER, swf_line(1, 0), swf_line(2, 3600, wait=60, user=7), swf_line(3, 10, run=0))
    assert (status, found["doubts"]) == (0, [])
    assert found["understood"] == {
        "format": "swf",
        "jobs": "2 of 3 lines",
        "when": "submits from 2001-09-09 01:46 to 2001-09-09 02:46 UTC",
        "cluster": "4 nodes, at most 4 in use at once by the log's own starts",
        "size of jobs": "from the processors of each job",
        "waits": "of 100.0 % of the jobs; 0 min on average",
        "estimates": "of 100.0 % of the jobs",
        "names": "1 user, 0 groups, 0 queues",
    }
    ((count, reason, why),) = found["left_out"]
    assert (count, reason) == (1, "no run time")
    assert "zero_run: one_second" in why


@pytest.mark.parametrize(
    ("lines", "options", "doubt"),
    [
        (
            [(0, 60, 4), (0, 60, 4)],
            (),
            "Up to 8 nodes were in use at once, and for 100 % of the time more than the 4",
        ),
        ([(0, 60, 1)], (), "No more than 1 of 4 nodes were ever in use"),
        ([(0, 60, 4), (9 * DAY, 60, 4)], (), "Nothing was submitted for 9 days from day 0 on"),
        ([(0, 600, 4)], (), "1 jobs ran longer than their estimate: is it in seconds?"),
        ([(0, 60, 8)], ("--nodes", "40"), "No more than 8 of 40 nodes"),
    ],
)
def test_what_is_likely_wrong_is_said_and_ends_with_1(check, swf_line, lines, options, doubt):
    jobs = [
        swf_line(at, submit, run=run, requested=procs) for at, (submit, run, procs) in enumerate(lines, 1)
    ]
    status, found = check(*HEADER, *jobs, options=options)
    assert status == 1
    assert found["doubts"][0].startswith(doubt)


def test_a_log_that_says_neither_when_nor_on_how_many_nodes_is_doubted(check, swf_line):
    status, found = check(swf_line(1, 0), swf_line(2, DAY, wait=-1), swf_line(2, DAY, wait=-1))
    assert status == 1
    assert found["understood"]["when"].startswith("1.0 days of submits, date unknown")
    assert found["understood"]["cluster"].startswith("4 nodes (as many as the widest job has)")
    assert [doubt.split(" ")[0] for doubt in found["doubts"]] == ["The", "67", "1"]


def test_a_log_that_cannot_be_read_ends_with_2(check):
    status, text = check("; a header", "1 2 three")
    assert status == 2
    assert "log.swf:2" in text


def test_it_prints_the_same_for_people(swf_file, swf_line):
    done = emulate("trace", "check", swf_file(*HEADER, swf_line(1, 0), swf_line(2, 0)))
    assert done.exit_code == 1
    for text in ("when          submits from 2001-09-09", "likely wrong", "* Up to 8 nodes"):
        assert text in done.stdout


def test_the_first_line_says_what_the_log_can_be_trusted_for(swf_file, swf_line):
    lines = [*HEADER, swf_line(1, 0, user=3), swf_line(2, 60, user=4), swf_line(3, 90, wait=-1, user=-1)]
    done = emulate("trace", "check", swf_file(*lines))
    assert done.stdout.splitlines()[0] == (
        "Can be trusted for sizes (3 of 3 jobs) and limits (3 of 3 jobs); not for waits (2 of 3 jobs: too few say them)"
        " and users (2 of 3 jobs: too few say them)."
    )


def test_a_log_can_be_trusted_for_nothing_that_its_jobs_contradict(check, swf_line):
    jobs = [swf_line(at, 0, wait=-1, run=600, estimate=60, user=7) for at in (1, 2)]
    status, found = check(*HEADER, *jobs)
    assert status == 1
    assert found["trust"] == {
        "waits": {"trusted": False, "jobs": 0, "of": 2, "why": "it does not say them"},
        "sizes": {"trusted": True, "jobs": 2, "of": 2, "why": ""},
        "limits": {"trusted": False, "jobs": 2, "of": 2, "why": "2 ran longer than theirs"},
        "users": {"trusted": False, "jobs": 2, "of": 2, "why": "all have the same user"},
    }


def test_a_log_is_not_trusted_for_sizes_if_more_nodes_were_in_use_than_there_are(check, swf_line):
    _, found = check(*HEADER, *(swf_line(at, 0, requested=4) for at in (1, 2)))
    assert found["trust"]["sizes"] == {
        "trusted": False,
        "jobs": 2,
        "of": 2,
        "why": "by its starts more nodes were in use than there were",
    }


def test_servers_of_a_cloud_are_not_trusted_for_waits(check, swf_line):
    _, found = check(*HEADER, "; CoresShared: yes", swf_line(1, 0))
    assert found["trust"]["waits"]["why"] == "servers do not wait in a queue"
