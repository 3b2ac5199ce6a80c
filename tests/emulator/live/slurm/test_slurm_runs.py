"""Scenarios on the real Slurm, on a faster clock: the run ends, its record keeps the laws, nobody is left behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from balancer.clock import US
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.live.fleet import Fleet
from emulator.live.slurm.calibration import calibrate
from emulator.record.run_record import NodePool
from emulator.report.compare import compare, render
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping, load
from emulator.validation.laws import check
from emulator.workload.table import Kind
from slurm_releases import batch, each_root, release_of

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(570),
]
ROOT = Path(__file__).parents[4]
of_each_release = pytest.mark.parametrize("root", each_root("libfaketime"))
of_each_release_beside = pytest.mark.parametrize("root", each_root("libfaketime")[1:])
by_night_of_each = pytest.mark.parametrize("root", each_root("libfaketime", by_night=True))


class Meddler:
    """Asked every now and then whether the run is to end; `act()` may do something to it."""

    reason = "SIGINT"

    def __init__(self, act=lambda: False):
        self.act = act

    def __bool__(self):
        return bool(self.act())


def morning(**live):
    """A busy morning on 8 nodes."""
    days = 0.12
    batch = {"days": days, "jobs": 30, "load": 0.7, "median_run_s": 900, "max_walltime_s": 3600}
    leases = {"days": days, "leases_per_day": 100, "utilisation": 0.15, "mean_nodes": 2, "day_begin_s": 0}
    leases |= {"mean_duration_s": 1200, "max_duration_s": 2400}
    return from_mapping(
        {
            "name": "morning",
            "seed": 3,
            "nodes": 8,
            "workload": {"generate": [{"daily_batch": batch}, {"bursty_leases": leases}]},
            "mechanism": {"balancer": {"static_reserve": 1, "wait_s": 600, "idle_reserve_s": 600}},
            "live": {"batch": "slurm", "speed": 300} | live,
        }
    )


def run(scenario, work, processes, act=lambda fleet: False):
    work.mkdir()
    fleet = Fleet(scenario, prepare(scenario), work)
    record = fleet.run(Meddler(lambda: act(fleet)), quiet=True)
    assert processes(work) == []
    # Its own: another run may be under way beside this one.
    assert [path for path in fleet._batch._time.files if path.exists()] == []
    assert check(record) == []
    return record


PREEMPTION = """\
PreemptExemptTime={exempt}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=ALL PriorityTier=10 Default=YES {low}
PartitionName=high Nodes=ALL PriorityTier=20
"""


def run_of_two(tmp_path, processes, root, low="", exempt="-1"):
    """The record of a job of all four nodes, and one of two nodes in a higher partition five minutes later."""
    (tmp_path / "site.conf").write_text(PREEMPTION.format(low=low, exempt=exempt))
    jobs = [
        "1 0 0 900 4 -1 -1 4 1200 -1 1 1 1 -1 1 -1 -1 -1",
        "2 300 0 120 2 -1 -1 2 300 -1 1 1 1 -1 2 -1 -1 -1",
    ]
    (tmp_path / "two.swf").write_text("\n".join(["; MaxNodes: 4", *jobs, ""]))
    site = {"conf": str(tmp_path / "site.conf"), "partitions": {1: "low", 2: "high"}}
    scenario = from_mapping(
        {
            "name": "preempt",
            "nodes": 4,
            "workload": {"trace": str(tmp_path / "two.swf")},
            "live": {"batch": batch(root, **site), "speed": 60},
        }
    )

    return run(scenario, tmp_path / "work", processes)


def outcomes_of(record, job):
    return [RunOutcome(how).name for how in record.runs.outcome[record.runs.job == job]]


@of_each_release
def test_a_job_of_a_higher_tier_takes_the_nodes_of_one_that_waits_again(tmp_path, processes, root):
    record = run_of_two(tmp_path, processes, root)

    runs = record.runs
    assert [outcomes_of(record, job) for job in (0, 1)] == [["REQUEUED", "FINISHED"], ["FINISHED"]]
    low, high = (runs.start_us[runs.job == job] for job in (0, 1))
    assert runs.end_us[runs.job == 0][0] <= high[0] < low[1]


@by_night_of_each
def test_a_job_takes_the_nodes_of_one_whose_grace_is_over(tmp_path, processes, root):
    record = run_of_two(tmp_path, processes, root, low="GraceTime=120")

    runs = record.runs
    # 24.11 does not forget that it told the job to leave, and requeues it once more when it has ended.
    again = 2 if release_of(root) == "24.11" else 1
    low = ["REQUEUED"] * again + ["FINISHED"]
    assert [outcomes_of(record, job) for job in (0, 1)] == [low, ["FINISHED"]]
    left, high = runs.end_us[runs.job == 0][0], runs.start_us[runs.job == 1][0]
    assert record.jobs.submit_us[1] + 119 * US <= left <= high, "Slurm's times are whole seconds"


@by_night_of_each
def test_a_job_takes_the_nodes_of_one_that_has_run_for_long_enough(tmp_path, processes, root):
    record = run_of_two(tmp_path, processes, root, exempt="00:07:00")

    runs = record.runs
    assert [outcomes_of(record, job) for job in (0, 1)] == [["REQUEUED", "FINISHED"], ["FINISHED"]]
    low = runs.job == 0
    assert runs.end_us[low][0] - runs.start_us[low][0] >= 419 * US, "Slurm's times are whole seconds"


def batch_states(record):
    return record.state[record.jobs.kind == Kind.BATCH]


@of_each_release
def test_the_default_scenario_on_64_nodes_of_the_real_slurm_at_300_times(tmp_path, processes, root):
    scenario = load(
        ROOT / "scenarios" / "default.yaml",
        (
            f"live.batch={json.dumps(batch(root))}",
            "live.speed=300",
            "workload.generate.0.daily_batch.days=0.12",
            "workload.generate.0.daily_batch.jobs=80",
            "workload.generate.0.daily_batch.max_walltime_s=3600",
            "workload.generate.1.bursty_leases.days=0.12",
            "workload.generate.1.bursty_leases.day_begin_s=0",
            "mechanism.balancer.wait_s=6000",  # 20 s of wall time, which a busy machine may need for an answer
        ),
    )
    record = run(scenario, tmp_path / "work", processes)
    virtual = run_virtual(scenario, prepare(scenario))
    Console(width=100).print(render(compare(virtual, record)))
    print(record.pace)

    assert record.interrupted == ""
    assert set(batch_states(record)) == {JobState.ENDED}
    assert any(lease.granted for lease in record.leases)
    assert record.pace["run_over_nominal_mean_us"] >= 0
    # A second of wall time is 300 s here: a machine that is that slow is not a test of Slurm.
    assert record.pace["run_over_nominal_mean_us"] < 300e6
    one = record.runs.outcome == RunOutcome.FINISHED
    assert np.all(record.runs.end_us[one] >= record.runs.start_us[one])


@of_each_release_beside
def test_the_twin_starts_the_jobs_of_a_slice_when_slurm_does(tmp_path, processes, root):
    path = ROOT / "scenarios" / "slurm-slices" / "gaia-cores.yaml"
    record = run(load(path, (f"live.batch={json.dumps(batch(root))}",)), tmp_path / "work", processes)
    found = calibrate(record, release=root.name)
    print(found)
    assert found.jobs == 87
    # On a quiet machine 0.5 %; where others want the processors, Slurm's own cycles come late.
    assert found.mean_wait_off == pytest.approx(0, abs=0.05)
    assert found.median_start_off_s <= found.bf_interval_s
    # The figure can fail: if memory were no reason to wait, jobs would start earlier.
    blind = calibrate(record, release=root.name, select={"cores": 12})
    assert blind.mean_wait_off < found.mean_wait_off - 0.01


@by_night_of_each
def test_a_controller_that_dies_and_a_node_that_dies_are_told_and_the_run_ends(tmp_path, processes, root):
    killed = []

    def kill(fleet):
        ended = fleet._batch.counts(fleet.replay_log)
        ended.look()
        for name, after in (("slurmctld", 3), ("slurmd-n008", 6)):
            if ended.ended >= after and name in fleet.processes and name not in killed:
                killed.append(name)
                os.kill(fleet.processes[name].pid, signal.SIGKILL)
        return False

    record = run(morning(batch=batch(root)), tmp_path / "work", processes, kill)

    assert record.interrupted == ""
    assert set(batch_states(record)) == {JobState.ENDED}
    texts = [mark.text for mark in record.marks]
    assert "slurmctld ended with status -9 and was started again" in texts
    assert "slurmd-n008 ended with status -9" in texts


@by_night_of_each
def test_a_run_that_is_broken_off_has_what_ran_until_then(tmp_path, processes, root):
    def stop(fleet):
        counts = fleet._batch.counts(fleet.replay_log)
        counts.look()
        return counts.ended >= 3

    record = run(morning(batch=batch(root)), tmp_path / "work", processes, stop)

    assert record.interrupted == "stopped by SIGINT"
    assert {JobState.ENDED, JobState.FUTURE} <= set(batch_states(record))


@pytest.mark.needs("slurm", "libfaketime")
def test_nobody_is_left_when_the_run_itself_is_killed(tmp_path, processes):
    text = """
import sys
from pathlib import Path
from emulator.live.fleet import Fleet
from emulator.runs.runner import prepare
from emulator.runs.scenario import from_mapping
import json
scenario = from_mapping(json.loads(sys.argv[1]))
class Tell:
    reason = ""
    def __bool__(self):
        print("on its way", flush=True)
        return False
work = Path(sys.argv[2])
work.mkdir()
Fleet(scenario, prepare(scenario), work).run(Tell(), quiet=True)
"""
    work = tmp_path / "work"
    command = [sys.executable, "-c", text, json.dumps(morning().as_json()), str(work)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as fleet:
        for line in fleet.stdout:
            if line == "on its way\n" and (work / "logs" / "jobcomp.txt").exists():
                break
        fleet.kill()
    end = 200
    while processes(work) and end:
        end -= 1
        subprocess.run(["sleep", "0.1"], check=True)
    assert processes(work) == []


@by_night_of_each
def test_reservations_of_the_scenario_are_kept_by_the_real_slurm(tmp_path, processes, root):
    """A downtime of three nodes and one node for user 2, whoever is late."""
    downtime = {"start_s": 2400, "end_s": 5400, "nodes": "n[001-003]"}
    course = {"start_s": 600, "end_s": 36_000, "nodes": "n004", "users": [2]}
    limit_s, users = [600, 3600, 600, 600], [1, 1, 2, 1]
    rows = [
        f"{number} {number * 60} -1 300 1 -1 -1 1 {limit} -1 1 {user} 1 -1 -1 -1 -1 -1\n"
        for number, (limit, user) in enumerate(zip(limit_s, users, strict=True), 1)
    ]
    (tmp_path / "four.swf").write_text("; MaxNodes: 4\n" + "".join(rows))
    scenario = from_mapping(
        {
            "name": "reservations",
            "nodes": 4,
            "workload": {"trace": str(tmp_path / "four.swf")},
            "scheduler": {"slurm": {"reservations": {"downtime": downtime, "course": course}}},
            "live": {"batch": batch(root), "speed": 300},
        }
    )
    record = run(scenario, tmp_path / "work", processes)

    assert set(record.state) == {JobState.ENDED}
    start_s = dict(zip(record.runs.job.tolist(), record.runs.start_us / 1e6, strict=True))
    node = dict(zip(record.runs.job.tolist(), record.runs.node.tolist(), strict=True))
    assert {row: at == 3 for row, at in node.items()} == {0: False, 1: False, 2: True, 3: False}
    assert start_s[1] >= downtime["end_s"], "its limit is an hour"
    assert start_s[2] >= course["start_s"]
    for row in (0, 3):
        assert start_s[row] + limit_s[row] <= downtime["start_s"] or start_s[row] >= downtime["end_s"]


@by_night_of_each
def test_jobs_of_the_real_slurm_wait_for_gpus_while_cores_are_free(tmp_path, processes, root):
    """A node of four cores, one of two GPUs: a job has both GPUs, one waits for a GPU, and one wants none."""
    gpus, limit_s = [2, 1, 0], [1200, 600, 300]
    rows = [
        f"{number} {number * 60} -1 {limit - 60} 1 -1 -1 1 {limit} -1 1 1 1 -1 -1 -1 -1 -1 {some}\n"
        for number, (limit, some) in enumerate(zip(limit_s, gpus, strict=True), 1)
    ]
    (tmp_path / "three.swf").write_text("; GpusColumn: 19\n" + "".join(rows))
    core_jobs = {"trace": str(tmp_path / "three.swf"), "cores": 2, "gpus": True}
    kinds = {"plain": {"nodes": "n001", "cores": 4}, "gpu": {"nodes": "n002", "cores": 2, "gpus": 2}}
    scenario = from_mapping(
        {
            "name": "gpus",
            "nodes": 2,
            "workload": {"generate": [{"core_jobs": core_jobs}]},
            "scheduler": {"slurm": {"select": {"kinds": kinds}}},
            "live": {"batch": batch(root), "speed": 100},
        }
    )
    record = run(scenario, tmp_path / "work", processes)

    assert set(record.state) == {JobState.ENDED}
    first_end = record.end_us[0]
    assert record.start_us[1] >= first_end, "no GPU is left"
    assert record.end_us[2] < first_end, "it wants none"


@by_night_of_each
def test_nodes_fail_and_are_maintained_when_the_scenario_says_so_and_jobs_wait_again(
    tmp_path, processes, root
):
    rest = "1800 -1 1 1 1 1 1 -1 -1 -1"
    lines = (f"1 0 -1 300 2 -1 -1 2 {rest}\n", f"2 10 -1 300 1 -1 -1 1 {rest}\n")
    (tmp_path / "two.swf").write_text("".join(lines))
    (tmp_path / "down.csv").write_text("node,begin,end\nn001,100,130\n")
    window = {"begin_s": 200, "end_s": 230, "drain_s": 50, "nodes": ["n003"]}
    scenario = from_mapping(
        {
            "name": "outages",
            "nodes": 4,
            "workload": {"trace": str(tmp_path / "two.swf")},
            "failures": {"model": {"recorded": {"trace": str(tmp_path / "down.csv")}}},
            "maintenance": [window],
            # What Slurm needs to end a job takes seconds of the wall: they must be less than its two minutes.
            "live": {"batch": batch(root), "speed": 15},
        }
    )
    record = run(scenario, tmp_path / "work", processes)

    assert record.interrupted == ""
    assert set(record.state) == {JobState.ENDED}
    requeued = np.flatnonzero(record.runs.outcome == RunOutcome.REQUEUED)
    assert len(requeued) == 2, "both jobs lost a node"
    for row in requeued:
        (after,) = np.flatnonzero(
            (record.runs.job == record.runs.job[row]) & (np.arange(len(record.runs.job)) > row)
        )
        assert record.runs.start_us[after] >= record.runs.end_us[row] // US * US + 121 * US
    pools = [(record.node_names[node], move.pool) for move in record.moves for node in move.nodes]
    assert pools == [(name, pool) for name in ("n001", "n003") for pool in (NodePool.DOWN, NodePool.OA_IDLE)]
