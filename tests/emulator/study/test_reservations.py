"""A study knows that reservations held nodes: their jobs are apart, and others could not have these nodes."""

from __future__ import annotations

import json

import pytest

from command_line import study_merge
from emulator.runs.preparation import Prepared
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from emulator.workload.swf import SwfLog, write_swf
from emulator.workload.table import JobTable

WEEK, DAY, HOUR, US = 604_800, 86_400, 3600, 1_000_000
SUNDAY = 1_767_484_800
"""2026-01-04, midnight UTC."""
NODES, RESERVED = 8, 4


@pytest.fixture
def site(tmp_path):
    """Half of eight nodes are a course's for both weeks, whose jobs start at once; others wait for the other half."""
    jobs = [(day * DAY + 8 * HOUR + 60 * at, 4 * HOUR) for day in range(14) for at in range(20)]
    table = JobTable.build(
        submit_us=[job[0] * US for job in jobs], run_us=[job[1] * US for job in jobs], nodes=[1] * len(jobs)
    )
    document = {"nodes": NODES - RESERVED, "workload": {"generate": ["daily_batch"]}}
    record = run_virtual(from_mapping(document), Prepared(table, NODES - RESERVED))
    waits = (record.start_us - table.submit_us) // US
    lines = ["JobIDRaw|Submit|Start|ElapsedRaw|NNodes|NCPUS|State|User|Reservation"]
    for at, ((submit, run), wait) in enumerate(zip(jobs, waits.tolist(), strict=True), 1):
        lines.append(f"{at}|{SUNDAY + submit}|{SUNDAY + submit + wait}|{run}|1|1|COMPLETED|u|")
    for at, day in enumerate(range(14), 1001):
        when = SUNDAY + day * DAY + 9 * HOUR
        lines.append(f"{at}|{when}|{when}|7200|3|3|COMPLETED|teacher|course")
    (tmp_path / "sacct.txt").write_text("\n".join(lines) + "\n")
    leases = [day * DAY + 12 * HOUR for day in range(14)]
    ondemand = SwfLog.build(
        14, [f"; UnixStartTime: {SUNDAY}", "; MaxNodes: 2"], number=list(range(1, 15)), submit_s=leases,
        wait_s=[0] * 14, run_s=[HOUR] * 14, allocated_procs=[1] * 14, requested_procs=[1] * 14,
    )  # fmt: skip
    write_swf(ondemand, tmp_path / "ondemand.swf")
    (tmp_path / "held.txt").write_text(
        f"Name|Start|End|NodeNames\ncourse|{SUNDAY - DAY}|{SUNDAY + 15 * DAY}|n[1-{RESERVED}]\n"
    )
    return tmp_path


def study(site, *more):
    return study_merge(
        site / "sacct.txt", site / "ondemand.swf", site / f"out{len(more)}", "--nodes", f"{NODES}+2", "--reserve",
        1, "--wait-min", 0, "--accept-today", "1.5", "--pairings", 1, "--json", *more,
    )  # fmt: skip


def test_today_with_the_nodes_that_were_reserved_has_the_waits_of_the_log(site):
    without = study(site)
    assert without.exit_code == 2, without.output
    assert "Today is not understood" in without.stderr
    done = study(site, "--reservations", str(site / "held.txt"))
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert (
        "batch: 1 reservations held 4 nodes at times, 4.0 of them on average from 2026-01-04 to 2026-01-17; these count"
        " as in use, and the 14 jobs that ran in them are left out"
    ) in document["notes"]
    for today in document["today"]:
        assert today["simulated_wait_min"] == pytest.approx(today["recorded_wait_min"], rel=0.01)
        assert (today["most_in_use"], today["jobs"]) == (NODES, 7 * 20)


def test_a_node_that_is_down_while_it_is_reserved_is_held_once(site):
    (site / "events.txt").write_text(f"node,begin,end\nn1,{SUNDAY - DAY},{SUNDAY + 15 * DAY}\n")
    done = study(site, "--reservations", str(site / "held.txt"), "--down-nodes", str(site / "events.txt"))
    assert done.exit_code == 0, done.output
    assert {today["most_in_use"] for today in json.loads(done.stdout)["today"]} == {NODES}
