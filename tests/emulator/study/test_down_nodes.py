"""A study knows that nodes were down: today's capacity is what there was."""

from __future__ import annotations

import json

import pytest

from command_line import study_merge
from emulator.runs.preparation import Prepared
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from emulator.study.logs import batch_of, read_logs
from emulator.workload.files import TraceError
from emulator.workload.formats import load
from emulator.workload.swf import SwfLog, write_swf
from emulator.workload.table import JobTable

WEEK, DAY, HOUR, US = 604_800, 86_400, 3600, 1_000_000
SUNDAY = 1_767_484_800
"""2026-01-04, midnight UTC."""
NODES, DOWN = 8, 4


def swf(jobs, waits):
    submit, run, width = zip(*jobs, strict=True)
    header = [f"; UnixStartTime: {SUNDAY}", "; MaxProcs: 99", "; MaxNodes: 99"]
    return SwfLog.build(
        len(jobs), header, submit_s=submit, run_s=run, allocated_procs=width, requested_procs=width, wait_s=waits,
        number=list(range(1, len(jobs) + 1)),
    )  # fmt: skip


@pytest.fixture
def site(tmp_path):
    """Half of eight nodes are down in the first week and a half; the log's starts are those of four nodes."""
    jobs = [(day * DAY + 8 * HOUR + 60 * at, 4 * HOUR, 1) for day in range(14) for at in range(20)]
    table = JobTable.build(
        submit_us=[job[0] * US for job in jobs], run_us=[job[1] * US for job in jobs], nodes=[1] * len(jobs)
    )
    document = {"nodes": NODES - DOWN, "workload": {"generate": ["daily_batch"]}}
    record = run_virtual(from_mapping(document), Prepared(table, NODES - DOWN))
    waits = ((record.start_us - table.submit_us) / US).tolist()
    write_swf(swf(jobs, waits), tmp_path / "batch.swf")
    leases = [(day * DAY + 12 * HOUR, HOUR, 1) for day in range(14)]
    write_swf(swf(leases, [0] * 14), tmp_path / "ondemand.swf")
    events = [f"n{at}|{SUNDAY - DAY}|Unknown|DOWN|broken" for at in range(DOWN)]
    (tmp_path / "events.txt").write_text(
        "\n".join(["NodeName|TimeStart|TimeEnd|State|Reason", *events]) + "\n"
    )
    return tmp_path


def study(site, *more):
    return study_merge(
        site / "batch.swf", site / "ondemand.swf", site / f"out{len(more)}", "--nodes", f"{NODES}+2", "--reserve",
        1, "--wait-min", 0, "--accept-today", 2, "--pairings", 1, "--json", *more,
    )  # fmt: skip


def test_today_with_the_nodes_that_were_down_has_the_waits_of_the_log(site):
    without = study(site)
    assert without.exit_code == 2, without.output
    assert "--down-nodes and --reservations say which" in without.stderr
    done = study(site, "--down-nodes", str(site / "events.txt"))
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert "batch: 4 nodes were down at times, 4.0 of them on average" in document["notes"][0]
    for today in document["today"]:
        assert today["simulated_wait_min"] == pytest.approx(today["recorded_wait_min"], rel=0.01)
        assert today["most_in_use"] == NODES
        assert today["jobs"] == 7 * 20


def test_under_a_slurm_conf_nodes_are_down_for_longer_than_a_partition_s_limit(site):
    """They are no jobs that its partitions could refuse, or keep waiting."""
    conf = site / "slurm.conf"
    conf.write_text("PartitionName=all Nodes=ALL MaxTime=1-0 MaxNodes=2\nPartitionName=one Nodes=n001\n")
    more = ["--down-nodes", str(site / "events.txt"), "--scheduler", f"slurm:{conf}"]
    done = study(site, *more)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert [each for each in document["notes"] if "left out" in each or "no such partition" in each] == []
    for today in document["today"]:
        assert today["simulated_wait_min"] == pytest.approx(today["recorded_wait_min"], rel=0.01)


def test_a_week_begins_with_the_nodes_that_are_down_and_no_more_than_there_are(site):
    logs = read_logs(
        load(site / "batch.swf"),
        load(site / "ondemand.swf"),
        batch_nodes=NODES,
        down_nodes=site / "events.txt",
    )
    week = batch_of(logs, 1)
    is_down = week.queue == logs.shared_queue
    assert (int(is_down.sum()), set(week.submit_us[is_down].tolist())) == (DOWN, {0})
    assert int(week.nodes[week.submit_us == 0].sum()) <= NODES


def test_outages_that_nobody_can_date_are_an_error(site):
    log = load(site / "batch.swf")
    undated = SwfLog(columns=log.columns, header=(), source="undated.swf")
    with pytest.raises(TraceError, match=r"undated\.swf: it does not say when it was"):
        read_logs(undated, log, batch_nodes=NODES, down_nodes=site / "events.txt", lay_together=True)
