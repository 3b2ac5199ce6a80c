"""Nodes that were down, as sacctmgr show event prints them."""

from __future__ import annotations

import pytest

from command_line import emulate
from emulator.workload.outages import as_jobs, read_outages

EVENTS = (
    "NodeName|TimeStart|TimeEnd|State|Reason",
    "|2026-01-04T00:00:00|Unknown||Cluster Registered TRES",
    "n01|2026-01-05T00:00:00|2026-01-05T06:00:00|DOWN*|Not responding",
    "n01|2026-01-05T05:00:00|2026-01-05T12:00:00|DRAIN|disk",
    "n02|1767614400|Unknown|DOWN|a | in a reason",
)
MONDAY = 1_767_571_200
HOUR = 3600


def test_outages_of_a_node_that_overlap_are_one_and_what_has_not_ended_lasts(text_file):
    found = read_outages(text_file(*EVENTS), until_s=MONDAY + 48 * HOUR)
    assert found == {
        "n01": [(MONDAY, MONDAY + 12 * HOUR)],
        "n02": [(MONDAY + 12 * HOUR, MONDAY + 48 * HOUR)],
    }


def test_a_table_of_ones_own_is_read_too(text_file):
    path = text_file("node,begin,end", "x,100,200", 'y,"1970-01-01T00:05:00",')
    assert read_outages(path, until_s=400) == {"x": [(100, 200)], "y": [(300, 400)]}


def test_an_outage_is_a_job_of_one_node_at_the_logs_times():
    jobs = as_jobs({"a": [(50, 150), (200, 260)], "b": [(0, 90)]}, zero_unix_s=100, queue=3)
    rows = zip(jobs.submit_us.tolist(), jobs.run_us.tolist(), jobs.nodes.tolist(), strict=True)
    assert sorted(rows) == [(0, 50_000_000, 1), (100_000_000, 60_000_000, 1)]
    assert jobs.queue.tolist() == [3, 3]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("NodeName|TimeEnd", "n|1"), "txt:1: the header has no column for the begin of an outage"),
        (("node,begin,end", "n,5,4"), "txt:2: it ends at 4, before it begins at 5"),
        (("node,begin,end", "n,soon,4"), "txt:2: begin is 'soon', not a time"),
        (("node,begin,end", "n,1"), "txt:2: 2 fields where the header has 3"),
    ],
)  # fmt: skip
def test_bad_input_is_named(text_file, lines, reason):
    with pytest.raises(ValueError, match=reason):
        read_outages(text_file(*lines), until_s=10)


def check(log, *more):
    return emulate("trace", "check", log, "--nodes", "4", *more)


def test_a_log_is_held_against_the_nodes_that_were_there(swf_file, swf_line, text_file):
    """Four nodes are in use all day. With two of them down for half of it, there cannot have been four nodes."""
    header = f"; UnixStartTime: {MONDAY}"
    lines = [swf_line(at, at * HOUR, run=HOUR, requested=4, estimate=HOUR) for at in range(24)]
    log = swf_file(header, *lines)
    assert (check(log).exit_code, "Nothing looks wrong" in check(log).stdout) == (0, True)
    down = text_file(*EVENTS)
    done = check(log, "--down-nodes", str(down))
    assert done.exit_code == 1, done.output
    assert "1.0 nodes on average, at most 1 at once; they count as in use" in done.stdout
    assert "Up to 5 nodes were in use at once" in done.stdout
    untimed = check(swf_file(*lines, name="untimed.swf"), "--down-nodes", str(down))
    assert (untimed.exit_code, "it does not say when it was" in untimed.stderr) == (2, True)
