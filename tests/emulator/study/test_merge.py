"""`emulator study merge`: from two logs to an answer."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from command_line import emulate
from emulator.metrics.window import window_figures
from emulator.runs.preparation import Prepared
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.study.logs import batch_of, history_of, leases_of, pairs, read_logs, usable_weeks, week_name
from emulator.workload.formats import load
from emulator.workload.swf import SwfLog, write_swf
from emulator.workload.table import JobTable, Kind
from page_kit import are_shown, tables

WEEK, DAY, US = 604_800, 86_400, 1_000_000
SUNDAY = 1_000_000 // DAY * DAY


def log(*jobs, unix=SUNDAY, procs=10, nodes=10, waits=0):
    """(submit_s, run_s, procs) each."""
    submit, run, width = zip(*jobs, strict=True)
    header = [f"; UnixStartTime: {unix}", f"; MaxProcs: {procs}", f"; MaxNodes: {nodes}"]
    return SwfLog.build(
        len(jobs), header, submit_s=submit, run_s=run, allocated_procs=width, requested_procs=width,
        wait_s=waits if isinstance(waits, list) else [waits] * len(jobs), number=list(range(1, len(jobs) + 1)),
    )  # fmt: skip


def daily(weeks, *jobs):
    """The same jobs on each day."""
    return [(day * DAY + submit, run, width) for day in range(7 * weeks) for submit, run, width in jobs]


def test_a_week_begins_with_what_ran_and_has_its_own_submits_only():
    batch = log(
        (WEEK - 100, 1000, 4), *[(submit + 50, run, width) for submit, run, width in daily(3, (0, 60, 2))]
    )
    found = read_logs(batch, log((WEEK + 5, 10, 1)), batch_nodes=8)
    jobs = batch_of(found, 1)
    assert jobs.submit_us[0] == 0
    assert (jobs.run_us[0], jobs.nodes[0]) == (900_000_000, 4)
    assert len(jobs) == 8
    assert jobs.submit_us[1] == 50_000_000
    leases = leases_of(found, 1)
    assert (leases.submit_us.tolist(), leases.kind.tolist()) == ([5_000_000], [Kind.ON_DEMAND])


def test_a_log_without_waits_is_warmed_up_with_the_week_before():
    batch = log(*daily(3, (0, 60, 2)), waits=-1)
    found = read_logs(batch, log(*daily(3, (3600, 60, 1))), batch_nodes=8)
    assert usable_weeks(found) == [1, 2]
    assert (len(batch_of(found, 1)), len(leases_of(found, 1))) == (14, 14)


def test_jobs_wider_than_the_batch_part_are_left_out_and_counted():
    found = read_logs(log((0, 10, 9), (5, 10, 2)), log((0, 10, 1)), batch_nodes=8)
    assert len(found.batch) == 1
    assert found.notes[0] == "batch: left out: 1 wider than the 8 nodes of the batch part"


def test_single_core_jobs_of_shared_nodes_are_packed_unless_said_otherwise():
    ondemand = log(*[(0, 100, 1)] * 20, procs=160)
    assert len(read_logs(log((0, 10, 1)), ondemand, batch_nodes=8).leases) == 2
    assert len(read_logs(log((0, 10, 1)), ondemand, batch_nodes=8, cores_per_node=0).leases) == 20


def test_servers_of_a_cloud_share_nodes_that_have_as_many_cores_as_the_largest_of_them():
    servers = log((0, 100, 8), (0, 100, 32), (0, 100, 24))
    servers = replace(servers, header=(*servers.header, "; CoresShared: yes"))
    found = read_logs(log((0, 10, 1)), servers, batch_nodes=8)
    assert len(found.leases) == 2
    assert found.notes[0] == (
        "on-demand: 3 jobs packed onto machines of 32 cores: 2 leases;"
        " --cores-per-node says how many cores a node really has"
    )
    assert len(read_logs(log((0, 10, 1)), servers, batch_nodes=8, cores_per_node=64).leases) == 1


def test_logs_are_laid_together_only_if_somebody_says_so():
    batch, ondemand = log((50, 10, 1), unix=0), log((9000, 10, 1))
    with pytest.raises(ScenarioError, match=r"does not say when it was .* --lay-together"):
        read_logs(batch, ondemand, batch_nodes=8)
    found = read_logs(batch, ondemand, batch_nodes=8, lay_together=True)
    assert found.leases.submit_us.tolist() == [50_000_000]
    assert "laid together" in found.notes[-1]


def test_submits_that_are_unix_times_say_when_they_were():
    monday = 1_767_571_200  # 2026-01-05
    batch = log(*[(monday + submit, run, width) for submit, run, width in daily(3, (0, 60, 2))], unix=0)
    ondemand = log(*[(monday + day * DAY, 60, 1) for day in (10.5, 11.5, 15.5)], unix=0)
    found = read_logs(batch, ondemand, batch_nodes=8)
    assert found.leases.submit_us.tolist() == [(monday + day * DAY) * 1_000_000 for day in (10.5, 11.5, 15.5)]
    assert [week_name(found, week) for week in sorted(usable_weeks(found))] == ["2026-01-12", "2026-01-19"]
    assert found.notes[-1] == (
        "both logs have submits from 2026-01-15 to 2026-01-20 (UTC): 0.7 weeks in common"
    )
    relative = log(*[(day * DAY, 60, 1) for day in (10.5, 11.5, 15.5)], unix=monday)
    assert (
        read_logs(batch, relative, batch_nodes=8).leases.submit_us.tolist() == found.leases.submit_us.tolist()
    )


def test_logs_of_different_years_have_nothing_to_say_about_each_other():
    with pytest.raises(
        ScenarioError, match=r"from 1970-01-12 to 1970-01-12, .* from 1970-01-19 .*no time in common"
    ):
        read_logs(log((0, 10, 1)), log((0, 10, 1), unix=SUNDAY + WEEK), batch_nodes=8)


def test_only_complete_weeks_with_jobs_and_leases_count():
    batch = log(*daily(3, (0, 60, 2)), (3 * WEEK + 10, 60, 2))
    ondemand = log((10, 60, 1), (2 * WEEK + 10, 60, 1), (3 * WEEK + 10, 60, 1))
    assert sorted(usable_weeks(read_logs(batch, ondemand, batch_nodes=8))) == [0, 2]


def test_further_pairings_give_each_week_the_leases_of_another():
    first, second = pairs([3, 5, 9], 2, seed=1)[:3], pairs([3, 5, 9], 2, seed=1)[3:]
    assert all(pair.batch == pair.leases for pair in first)
    assert all(pair.batch != pair.leases for pair in second)
    assert sorted(pair.leases for pair in second) == [3, 5, 9]


def test_a_predictor_knows_the_four_weeks_before_and_nothing_later():
    ondemand = log(*daily(6, (3600, 60, 3)))
    found = read_logs(log(*daily(6, (0, 60, 1))), ondemand, batch_nodes=8)
    history = history_of(found, 5)
    assert (len(history), history[:5]) == (112, [3, 0, 0, 0, 3])
    assert sum(history_of(found, 0)) == 0


def waits_of(batch):
    """What these jobs wait on a cluster of 12 nodes of their own: what a site's log would say."""
    submit, run, width = (np.array(column) for column in zip(*batch, strict=True))
    jobs = JobTable.build(submit_us=submit * US, run_us=run * US, nodes=width)
    record = run_virtual(
        from_mapping({"nodes": 12, "workload": {"generate": ["bursty_leases"]}}), Prepared(jobs, 12)
    )
    return ((record.start_us - record.jobs.submit_us) / US).tolist()


@pytest.fixture
def site(tmp_path):
    """A small site: three weeks of a busy batch cluster of 12 nodes and an on-demand one of 4, as SWF files."""
    rng = random.Random(7)
    batch = [
        (rng.randrange(3 * WEEK), rng.randrange(600, 9000), rng.choice([1, 2, 2, 4])) for _ in range(3 * 640)
    ]
    leases = [
        (day * DAY + 36_000 + rng.randrange(20_000), rng.randrange(600, 5000), 1)
        for day in range(21)
        for _ in range(6)
    ]
    batch.sort()
    write_swf(log(*batch, procs=12, nodes=12, waits=waits_of(batch)), tmp_path / "batch.swf")
    write_swf(log(*sorted(leases), procs=4, nodes=4), tmp_path / "ondemand.swf")
    return tmp_path


def study(site, *more):
    return emulate(
        "study",
        "merge",
        "--batch",
        site / "batch.swf",
        "--ondemand",
        site / "ondemand.swf",
        "--out",
        site / "out",
        "--jobs",
        "1",
        *more,
    )


SMALL = (
    "--nodes",
    "12+4",
    "--reserve",
    "0,2",
    "--wait-min",
    "0,10",
    "--notice-min",
    "30",
    "--predictor",
    "peak",
)


@pytest.mark.slow
def test_one_command_gives_table_page_and_advice_and_goes_on_where_it_was(site):
    done = study(site, *SMALL, "--accept-rejected", "50")
    assert done.exit_code == 0, done.output
    assert "48 runs: 8 settings, 3 weeks, 2 pairings; today's split first" in done.stderr
    assert "Basic R=3 W=5: 3 nodes kept in reserve" in done.stdout
    assert "; 2 pairings, so requests count more than once)" in done.stdout
    for label in ("split", "batch only", "basic R=0 W=10", "basic R=2 W=0", "hint H=30", "peak"):
        assert label in done.stdout
    assert "If on-demand users give notice: " in done.stdout
    page = (site / "out" / "report.html").read_text()
    assert page.count("<svg") == 12
    for text in (
        "What each node given up brings",
        '<p class="verdict">Cannot be told</p>',
        "Who waits how long",
        "2 to 4 nodes",
        "Assumed: 12 batch and 4",
    ):
        assert text in page
    assert (site / "out" / "settings.csv").read_text().count("\n") == 9
    assert done.stdout.startswith("Cannot be told: ")
    assert (
        (site / "out" / "who.csv").read_text().startswith("by,group,jobs,today_min,then_min\nnodes,1 node,")
    )
    assert "The recommendation in words" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    document = json.loads((site / "out" / "study.json").read_text())
    assert [each["setting"] for each in document["settings"]][:2] == ["split", "batch only"]
    assert document["verdict"] == "cannot be told"
    assert {"confidence", "text", "unseen_weeks"} <= document["advice"][0].keys()
    assert "Today in these weeks: batch jobs waited" in done.stdout
    assert "Today, recorded and simulated" in page
    for today in document["today"]:
        assert today["simulated_wait_min"] == pytest.approx(today["recorded_wait_min"], rel=0.5)
        assert today["simulated_used"] == pytest.approx(today["recorded_used"], abs=0.02)

    again = study(site, *SMALL, "--accept-rejected", "50", "--json")
    assert json.loads(again.stdout) == document
    assert (site / "out" / "report.html").read_text() == page


def test_each_number_in_the_tables_of_its_page_is_the_studys(site):
    assert study(site, *SMALL, "--accept-rejected", "50").exit_code == 0
    document = json.loads((site / "out" / "study.json").read_text())
    waits, weeks, settings, _ = tables((site / "out" / "report.html").read_text())

    kinds = document["who"]["by_size"] + document["who"]["by_run_time"]
    for row, each in zip(waits[1:], kinds, strict=True):
        assert row[0] == each["name"]
        assert are_shown(row[1:], [each["jobs"], each["today_min"], each["then_min"]])
    for row, each in zip(weeks[1:], document["today"], strict=True):
        assert row[0] == each["week"]
        assert are_shown(row[1:], [
            each["recorded_wait_min"], each["simulated_wait_min"], 100 * each["recorded_used"],
            100 * each["simulated_used"], each["most_in_use"], each["requests"], each["refused"],
        ])  # fmt: skip
    of_label = {each["setting"]: each for each in document["settings"]}
    assert [row[0] for row in settings[1:]] == list(of_label)
    for label, *row in settings[1:]:
        each = of_label[label]
        rejected = [] if label == "batch only" else [
            each["rejected"], each["requests"], 100 * each["reject_rate"], 100 * each["worst_rejected"],
        ]  # fmt: skip
        assert are_shown(row, [
            *rejected, each["wait_min"], each["least_wait_min"], each["most_wait_min"], 100 * each["wait_ratio"],
            each["idle_node_h"], 100 * each["utilisation"],
        ])  # fmt: skip


def test_the_split_of_the_study_is_two_separate_clusters(site):
    """The batch part of the split runs as the batch cluster alone does."""
    done = study(site, *SMALL, "--pairings", "1", "--quick", "--json")
    assert done.exit_code == 0, done.output
    rows = pq.read_table(site / "out" / "results.parquet").to_pylist()
    split = next(row for row in rows if row["label"] == "split")
    found = read_logs(load(site / "batch.swf"), load(site / "ondemand.swf"), batch_nodes=12)
    number = next(at for at in usable_weeks(found) if found.weeks[at].begin.isoformat() == split["week"])
    scenario = from_mapping({"nodes": 12, "workload": {"generate": ["bursty_leases"]}})
    record = run_virtual(scenario, Prepared(batch_of(found, number), 12))
    assert split["window.mean_wait_s"] == window_figures(record, 0, WEEK)["mean_wait_s"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--nodes", "372"), "--nodes 372: expected BATCH+ON_DEMAND"),
        (("--nodes", "12+0"), "each of the two clusters has at least one node"),
        (("--nodes", "12+4", "--reserve", "1.5"), "nodes are whole numbers"),
        (
            ("--nodes", "12+4", "--reserve", "0,4"),
            "on-demand machine of 4 nodes, or more, so nothing would be given up",
        ),
        (("--nodes", "12+4", "--wait-min", "x"), "expected numbers such as 0,6,12"),
        (("--nodes", "12+4", "--weeks", "0"), "expected a number of weeks or `all`"),
        (("--nodes", "12+4", "--quick", "--weeks", "all"), "--weeks: --quick is two weeks as they were"),
        (("--nodes", "12+4", "--quick", "--pairings", "2"), "--pairings: --quick is two weeks as they were"),
        (("--nodes", "12+4", "--predictor", "peek"), "did you mean 'peak'"),
        (("--nodes", "12+4", "--batch", "absent.swf"), "absent.swf"),
        (("--nodes", "12+4", "--scheduler", "fcsf"), "fcsf"),
    ],
)
def test_wrong_input_is_named_with_status_2_and_nothing_is_left(site, arguments, text):
    done = study(site, *arguments)
    assert done.exit_code == 2, done.output
    assert text in done.stderr
    assert not (site / "out" / "report.html").exists()


def test_two_logs_without_a_week_in_common_are_an_error(site, tmp_path):
    write_swf(log((5, 60, 1), unix=SUNDAY + 50 * WEEK), tmp_path / "ondemand.swf")
    done = study(site, *SMALL)
    assert done.exit_code == 2
    assert "they have no time in common; say --lay-together" in done.stderr


def test_a_today_that_is_not_understood_ends_the_study_before_anything_else_is_run(site):
    calm = load(site / "batch.swf")
    kept = ("number", "submit_s", "run_s", "allocated_procs", "requested_procs")
    columns = {name: calm.column(name) for name in kept}
    write_swf(SwfLog.build(len(calm), calm.header, wait_s=[0] * len(calm), **columns), site / "batch.swf")
    done = study(site, "--nodes", "12+4", "--quick")
    assert done.exit_code == 2, done.output
    assert "up to" in done.stderr or "Today is not understood" in done.stderr
    assert "--believe" in done.stderr
    assert not (site / "out" / "report.html").exists()


@pytest.fixture
def shared_site(tmp_path):
    """A machine of 12 nodes with 4 cores each, half busy with jobs of one core that never waited, and few wide ones."""
    rng = random.Random(3)
    small = [(rng.randrange(3 * WEEK), 3600, 1) for _ in range(3 * 168 * 20)]
    wide = [(day * DAY + 40_000, 7200, 8) for day in range(21)]
    leases = [(day * DAY + 36_000, 1800, 1) for day in range(21)]
    write_swf(log(*sorted(small + wide), procs=48, nodes=12), tmp_path / "batch.swf")
    write_swf(log(*leases, procs=4, nodes=4), tmp_path / "ondemand.swf")
    return tmp_path


SHARED = ("--nodes", "12+4", "--procs-per-node", "4", "--quick", "--reserve", "0,2", "--wait-min", "0",
          "--notice-min", "30", "--predictor", "peak")  # fmt: skip


def test_a_log_of_shared_nodes_is_not_taken_for_one_of_whole_nodes(shared_site):
    done = study(shared_site, *SHARED)
    assert done.exit_code == 2
    assert "nodes were in use at once" in done.stderr
    assert "jobs share nodes: say --shared-nodes" in done.stderr


def test_memory_of_nodes_that_no_job_asked_for_is_an_error(shared_site):
    done = study(shared_site, *SHARED, "--shared-nodes", "--memory-per-node", "64")
    assert done.exit_code == 2
    assert "it does not say how much memory jobs asked for (sacct: AllocTRES)" in done.stderr


def test_with_shared_nodes_today_has_the_waits_of_the_log_and_the_rest_can_be_lent(shared_site):
    done = study(shared_site, *SHARED, "--shared-nodes", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert "share nodes, at most 1" in document["notes"][0]
    for today in document["today"]:
        assert (today["jobs"], today["recorded_wait_min"], today["simulated_wait_min"]) == (7, 0, 0)
        assert today["simulated_used"] == pytest.approx(today["recorded_used"], abs=0.02)
    found = {each["setting"]: each for each in document["settings"]}
    for label in ("split", "basic R=0 W=0"):
        assert (found[label]["rejected"], found[label]["wait_min"], found[label]["shared_wait_min"]) == (
            0,
            0,
            0,
        )
    assert document["advice"][0]["figures"]["setting"] == "basic R=0 W=0"
    assert "Jobs wait 0 s for nodes that jobs share" in document["advice"][0]["text"]
