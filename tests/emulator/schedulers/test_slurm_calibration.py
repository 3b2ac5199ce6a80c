"""`emulator calibrate slurm`: a run on Slurm against the twin. The real one is stood for by a run of the twin."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from balancer.clock import US
from command_line import emulate
from emulator.live.slurm.calibration import Difference, begun_s, calibrate, calibrate_results, shares_in_logs
from emulator.report import files
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord

ON_SLURM = {"live": {"batch": "slurm"}, "mechanism": None}


def on_slurm(**settings: Any) -> RunRecord:
    """A job runs, one waits for all nodes, and two fit in front of it; Slurm has these settings."""
    jobs = JobTable.build(
        submit_us=[0, 1 * US, 2 * US, 40 * US],
        run_us=[300 * US, 60 * US, 30 * US, 60 * US],
        estimate_us=[300 * US, 60 * US, 60 * US, 60 * US],
        nodes=[3, 4, 1, 1],
    )
    record = simulate(jobs, 4, SchedulerConfig(decide={"slurm": settings}))
    return replace(record, clock="live", scenario=ON_SLURM)


def test_the_same_rules_are_no_difference() -> None:
    found = calibrate(on_slurm())
    assert (found.jobs, found.mean_wait_off, found.median_start_off_s, found.differences) == (4, 0.0, 0.0, ())


def test_the_twin_is_tried_at_six_phases_of_its_cycle() -> None:
    """Two jobs wait for the cycles, the first of which comes five seconds later with each phase: at 0, 5, ..., 25."""
    found = calibrate(on_slurm())
    waits_s = [
        (299 + third + fourth) / 4
        for third, fourth in ((28, 20), (3, 25), (8, 0), (13, 5), (18, 10), (23, 15))
    ]
    assert found.twin_mean_wait_s == waits_s[0]
    assert (found.twin_least_mean_wait_s, found.twin_most_mean_wait_s) == (min(waits_s), max(waits_s))


@pytest.mark.slow
def test_the_twin_has_the_outages_of_the_run(tmp_path: Path) -> None:
    """The first job lost a node at second 100, which was gone for 50 s; of it what it ran last is told."""
    down = tmp_path / "down.csv"
    down.write_text("node,begin,end\nn001,100,150\n")
    fails = {"model": {"recorded": {"trace": str(down)}}}
    said = {"nodes": 4, "workload": {"trace": "none.swf"}, "failures": fails}
    jobs = JobTable.build(submit_us=[0, 1 * US], run_us=[300 * US, 60 * US], nodes=[3, 4])
    record = simulate(jobs, 4, SchedulerConfig.parse("slurm"))
    record = replace(
        record,
        clock="live",
        scenario={**said, **ON_SLURM},
        start_us=np.array([240 * US, 150 * US]),
        end_us=np.array([540 * US, 210 * US]),
    )
    found = calibrate(record)
    assert (found.differences, found.median_start_off_s) == ((), 0)
    without = calibrate(replace(record, scenario=ON_SLURM))
    assert [(each.job, each.twin_s) for each in without.differences] == [(1, 0.0), (2, 300.0)]


def test_jobs_that_start_apart_are_named_with_the_one_before() -> None:
    found = calibrate(on_slurm(bf_interval=90))
    assert found.differences == (
        Difference(job=3, nodes=1, submit_s=2, real_s=90, twin_s=30, follows=None),
        Difference(job=4, nodes=1, submit_s=40, real_s=180, twin_s=60, follows=3),
    )
    assert found.real_mean_wait_s == pytest.approx((299 + 88 + 140) / 4)
    assert found.twin_mean_wait_s == pytest.approx((299 + 28 + 20) / 4)


def in_turn(count: int, late_s: dict[int, int]) -> RunRecord:
    """Jobs of 4 and 8 nodes of 8, one after the other, whose nodes are free so much later than they end."""
    nodes = np.where(np.arange(count) % 2, 8, 4)
    late_us = np.array([late_s[int(each)] * US for each in nodes])
    jobs = JobTable.build(
        submit_us=[row * US for row in range(count)],
        run_us=100 * US + late_us,
        estimate_us=np.full(count, 300 * US),
        nodes=nodes,
    )
    record = simulate(jobs, 8, SchedulerConfig.parse("slurm"))
    return replace(record, clock="live", scenario=ON_SLURM, end_us=record.end_us - late_us)


def test_nodes_that_slurm_frees_some_seconds_after_an_end_are_free_so_late_in_the_twin() -> None:
    found = calibrate(in_turn(8, {4: 3, 8: 5}))
    assert (found.handovers, found.release_s, found.release_s_per_node) == (7, 1.0, 0.5)
    assert (found.mean_wait_off, found.median_start_off_s, found.differences) == (0.0, 0.0, ())
    assert found.at_once_median_start_off_s == 13.5, "3, 8, 11, 16, ... s: they add up"
    assert found.at_once_mean_wait_off < -0.03


def test_four_starts_behind_an_end_do_not_tell_how_late_nodes_are_free() -> None:
    found = calibrate(in_turn(5, {4: 3, 8: 5}))
    assert (found.handovers, found.release_s, found.release_s_per_node) == (4, 0.0, 0.0)
    assert found.mean_wait_off == found.at_once_mean_wait_off < 0


def test_a_setting_that_explains_it_can_be_tried() -> None:
    assert calibrate(on_slurm(bf_interval=90), bf_interval=90).differences == ()


def test_the_twin_has_the_slurm_conf_and_the_partitions_of_the_run(tmp_path: Path) -> None:
    conf = tmp_path / "site.conf"
    conf.write_text("SchedulerParameters=bf_interval=90\nPartitionName=long Nodes=ALL Default=YES\n")
    named = {"conf": str(conf), "partitions": {1: "long"}}
    record = replace(on_slurm(bf_interval=90), scenario={"live": {"batch": {"slurm": named}}})
    found = calibrate(record)
    assert (found.bf_interval_s, found.differences) == (90, ())


def test_the_twin_has_the_qos_that_the_scenario_says_beside() -> None:
    said = {"qos": {"few": {"GrpJobs": 1}}, "user_qos": {"-1": "few"}}
    record = on_slurm(**said)
    apart = [each.job for each in calibrate(record).differences]
    assert apart == [3, 4], "without it the twin starts them at once"
    told = replace(record, scenario={**ON_SLURM, "scheduler": {"slurm": {**said, "bf_interval": 90}}})
    assert calibrate(told).differences == ()


FAIR = """PriorityType=priority/multifactor
PriorityWeightFairshare=1000
PriorityCalcPeriod=2
"""
ACCOUNTS = """Account|User|Share
root||1
 emulator||1
  emulator|me|1
 physics||1
  physics|ann|1
"""


def with_fair_shares(folder: Path) -> RunRecord:
    """Results of a run whose slurmctld began 67 s before it; user 1 is ann, and who ran it has the jobs of user 2."""
    (folder / "logs").mkdir()
    (folder / "logs" / "slurm.conf").write_text("SlurmUser=me\n")
    (folder / "logs" / "slurmctld-log.txt").write_text(
        "[2026-01-01T00:03:53.003] slurmctld version 26.05.5 started on cluster emulator\n"
    )
    (folder / "logs" / "sacct.txt").write_text(
        "JobIDRaw|Submit\n1|2026-01-01T00:05:10\n2|2026-01-01T00:06:00\n"
    )
    (folder / "logs" / "sacctmgr-assoc.txt").write_text(ACCOUNTS)
    (folder / "fair.conf").write_text(FAIR)
    live = {
        "conf": str(folder / "fair.conf"),
        "accounting": "slurmdbd",
        "users": {"1": "ann"},
        "accounts": {"1": "physics"},
    }
    users = [1, 2, 1, 2]
    jobs = JobTable.build(
        submit_us=[(67 + each) * US for each in (10, 60, 61, 62)],
        run_us=[50 * US, 20 * US, 300 * US, 300 * US],
        estimate_us=[60 * US, 60 * US, 300 * US, 300 * US],
        nodes=[4] * 4,
        user=users,
        group=users,
    )
    said = {"conf": folder / "fair.conf", "associations": folder / "logs" / "sacctmgr-assoc.txt"}
    said |= {"users": {1: "ann", 2: "me"}, "accounts": {1: "physics", 2: "emulator"}}
    record = simulate(jobs, 4, SchedulerConfig(decide={"slurm": said}))
    in_time = {name: getattr(record, name) - 67 * US for name in ("start_us", "end_us")}
    jobs = replace(record.jobs, submit_us=record.jobs.submit_us - 67 * US)
    return replace(record, jobs=jobs, clock="live", scenario={"live": {"batch": {"slurm": live}}}, **in_time)


def test_the_twin_has_the_fair_shares_of_the_run_and_works_them_out_when_its_slurm_did(
    tmp_path: Path,
) -> None:
    record = with_fair_shares(tmp_path)
    assert begun_s(tmp_path, record) == -67
    assert calibrate_results(tmp_path, record).differences == ()
    shares = shares_in_logs(tmp_path, record)
    assert [each.job for each in calibrate(record, **shares).differences] == [3, 4], "at other times"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"clock": "virtual"}, "this is no run on the real Slurm"),
        ({"scenario": {"live": {"batch": "torque"}}}, "this is no run on the real Slurm"),
        ({"scenario": {**ON_SLURM, "mechanism": "balancer"}}, "a mechanism moved nodes"),
        ({"interrupted": "stopped by the user"}, "some jobs of this run never started"),
    ],
)
def test_what_cannot_be_compared_is_told(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        calibrate(replace(on_slurm(), **changes))


def test_several_runs_say_how_far_slurm_is_from_itself(tmp_path: Path) -> None:
    folders = []
    for interval in (30, 90):
        folders.append(str(tmp_path / f"every-{interval}"))
        files.write(on_slurm(bf_interval=interval), Path(folders[-1]))
    done = emulate("calibrate", "slurm", *folders)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert [line for line in lines if line in folders] == folders
    assert lines[-1] == (
        "all 2 runs: mean wait 109.2 s on Slurm (86.8 to 131.8 s), 86.8 s in the twin (-20.59 %)"
    )
    as_json = emulate("calibrate", "slurm", *folders, "--json")
    assert [each["run"] for each in json.loads(as_json.output)] == folders
    (one,) = (emulate("calibrate", "slurm", folders[0], "--json"),)
    assert json.loads(one.output)["jobs"] == 4


def test_as_json_it_says_which_run_it_was(tmp_path: Path) -> None:
    record = on_slurm()
    files.write(replace(record, scenario={**ON_SLURM, "name": "site"}, pace={"speed": 120.0}), tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "slurmctld-log.txt").write_text(
        "slurmctld version 24.11.5 started on cluster site\n"
    )
    done = emulate("calibrate", "slurm", tmp_path, "--json")
    found = json.loads(done.output)
    run = {name: found[name] for name in ("run", "scenario", "nodes", "speed", "slurm")}
    assert run == {"run": str(tmp_path), "scenario": "site", "nodes": 4, "speed": 120.0, "slurm": "24.11.5"}
