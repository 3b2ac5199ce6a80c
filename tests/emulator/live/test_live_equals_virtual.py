"""A live fleet makes the run of virtual time, and a fleet that breaks leaves a result that says so."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from command_line import emulate
from emulator.commands.run import Interrupted
from emulator.kernel.job_states import JobState
from emulator.live.fleet import Fleet, FleetError, run_live
from emulator.live.roles import RunSettings
from emulator.metrics.summary import summarize
from emulator.report import files
from emulator.report.compare import compare
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from emulator.validation.laws import check
from emulator.workload.table import Kind
from gates import GATE

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[3]
BASIC = {"balancer": {"static_reserve": 2, "idle_reserve_s": 600}}
WAITING = {"balancer": {"static_reserve": 1, "wait_s": 600, "idle_reserve_s": 900}}
WAITING_ON_FAILING = {"static_reserve": 2, "wait_s": 600, "idle_reserve_s": 600}
PREDICTED = {
    "algorithm": "hint",
    "idle_reserve_s": 300,
    # Six slots of 36 minutes before the run, and as many in it.
    "predictor": {"seasonal_quantile": {"quantile": 0.8}},
    "slots_per_day": 40,
    "history": [0, 3, 2, 1, 4, 2] * 7,
}
SLOW_CLOUD = {
    "balancer": WAITING["balancer"]
    | {
        "boot_s": 45,
        "delete_s": 30,
        "cloud_faults": [
            {"at_s": 1000, "for_s": 4000, "do": "fail_boots", "nodes": "n[003-006]"},
            {"at_s": 6000, "for_s": 4000, "do": "fail_hosts", "nodes": "n[001-004]"},
        ],
    }
}
WINDOWS = {
    "balancer": BASIC["balancer"]
    | {
        "every": [
            {"windows": "Mon,Tue 01:00-02:30", "nodes": 4, "notice_s": 900},
            {"windows": "daily 04:00-04:45", "nodes": 2, "zone": "Europe/Berlin", "notice_s": 0},
        ],
        "time_zero": "2026-01-05T00:00:00Z",
    }
}
HINT = {"balancer": {"algorithm": "hint", "wait_s": 60, "idle_reserve_s": 300, "notice_s": 1800}}


def scenario(*, mechanism=WAITING, jobs=60, load=0.8, leases_per_day=150, days=0.15, seed=3, **live):
    """A busy morning on 16 nodes."""
    batch = {"days": days, "jobs": jobs, "load": load, "median_run_s": 900, "max_walltime_s": 7200}
    leases = {"days": days, "leases_per_day": leases_per_day, "utilisation": 0.15, "mean_nodes": 2}
    leases |= {"mean_duration_s": 1200, "max_duration_s": 2400, "day_begin_s": 0}
    return from_mapping(
        {
            "name": "morning",
            "seed": seed,
            "nodes": 16,
            "workload": {"generate": [{"daily_batch": batch}, {"bursty_leases": leases}]},
            "mechanism": mechanism,
            "live": {"speed": 12_000} | live,
        }
    )


class Meddler:
    """Looks at a run every now and then; `act(counts)` may kill somebody, True from it ends the run."""

    reason = "SIGINT"

    def __init__(self, act=lambda _: False):
        self.act = act
        self.counts = None

    def watch(self, fleet):
        self.counts = fleet._batch.counts(fleet.replay_log)

    def __bool__(self):
        self.counts.look()
        return self.act(self.counts)


@pytest.fixture
def live(tmp_path, processes):
    """Run a scenario live; `act` meddles with the fleet. Nothing may be left running."""

    def run(scenario, act=None):
        work = tmp_path / "work"
        work.mkdir()
        fleet = Fleet(scenario, prepare(scenario), work)
        meddler = Meddler() if act is None else Meddler(lambda counts: act(fleet, counts))
        meddler.watch(fleet)
        record = fleet.run(meddler, quiet=True)
        assert processes() == []
        return record

    return run


def kill(name, after):
    """An act: SIGKILL one of the fleet once so many jobs have ended."""

    def act(fleet, counts):
        if counts.ended >= after and name in fleet.processes:
            os.kill(fleet.processes[name].pid, signal.SIGKILL)
        return False

    return act


def die_when_asked_for_nodes(after):
    """An act: the batch server dies of the first `pbsnodes -o` once so many jobs have ended."""

    def act(fleet, counts):
        pbsnodes, real = fleet.bin / "pbsnodes", fleet.bin / "real" / "pbsnodes"
        if counts.ended >= after and not real.parent.exists():
            real.parent.mkdir()
            os.link(pbsnodes, real)
            deadly = fleet.bin / "deadly"
            deadly.write_text(
                f'#!/bin/sh\ncase "$1" in -o) kill -9 {fleet.processes["batch"].pid} ;; esac\nexec {real} "$@"\n'
            )
            deadly.chmod(0o755)
            deadly.replace(pbsnodes)
        return False

    return act


def assert_same(scenario, record):
    """The live record is that of virtual time, which is returned."""
    virtual = run_virtual(scenario, prepare(scenario))
    found = compare(virtual, record)
    bound_s = 2 * record.pace["longest_hold_us"] / 1e6 * scenario.live.speed
    assert found.max_start_difference_s <= bound_s
    assert abs(found.mean_wait_difference_percent) <= 2
    assert found.is_same, found
    assert found.decisions_a == (record.jobs.kind == Kind.ON_DEMAND).sum() > 0
    assert (check(virtual), check(record)) == ([], [])
    # The same to the microsecond: moves are taken from the times at which the batch system set its marks.
    figures = summarize(virtual), summarize(record)
    assert figures[0]["node_time_us"] == figures[1]["node_time_us"]
    assert figures[0]["reserve_idle_node_h"] == figures[1]["reserve_idle_node_h"]
    assert figures[1]["problems"] == []
    return virtual


OTHER_SPEEDS = [
    pytest.param(BASIC, 12_000, id="no-wait-fast"),
    pytest.param(WAITING, 3000, id="wait-slow"),
    pytest.param(HINT, 3000, id="hint-with-notice-slow"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "speed"),
    [
        pytest.param(BASIC, 3000, id="no-wait"),
        pytest.param(WAITING, 12_000, id="wait"),
        pytest.param({"balancer": PREDICTED}, 12_000, id="predictor"),
        pytest.param(HINT, 12_000, id="hint-with-notice"),
        pytest.param(WINDOWS, 12_000, id="windows-that-come-again"),
        pytest.param(SLOW_CLOUD, 12_000, id="a-cloud-that-takes-its-time-and-fails"),
        *(OTHER_SPEEDS if GATE.every_speed else ()),
    ],
)
def test_a_live_run_is_the_run_of_virtual_time(live, mechanism, speed):
    wanted = scenario(mechanism=mechanism, speed=speed)
    record = live(wanted)
    assert_same(wanted, record)
    assert {lease.granted for lease in record.leases} == {True, False}, "the scenario tries both"


FAILING = {"model": {"exponential": {"mtbf_s": 1000, "repair_s": 2000}}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "seed"),
    [
        pytest.param({"static_partition": {"ondemand_nodes": 6, "on_failure": "replace"}}, 6, id="partition"),
        pytest.param({"balancer": WAITING_ON_FAILING | {"on_failure": "replace"}}, 4, id="balancer-replaces"),
        *(
            [
                pytest.param({"balancer": WAITING_ON_FAILING | {"on_failure": "end"}}, 4, id="balancer-ends"),
                pytest.param({"balancer": WAITING_ON_FAILING}, 1, id="balancer-keeps"),
            ]
            if GATE.every_speed
            else ()
        ),
    ],
)
def test_nodes_that_fail_are_the_same_in_both_clocks(live, mechanism, seed):
    document = scenario(mechanism=mechanism, seed=seed).as_json()
    wanted = from_mapping(document | {"failures": FAILING})
    record = live(wanted)
    virtual = assert_same(wanted, record)
    assert virtual.figures["leases_hit"] > 0, "the scenario tries it"
    figures = {name: pytest.approx(value) for name, value in virtual.figures.items()}
    assert record.figures == figures


@pytest.mark.slow
def test_hooks_may_be_scripts(live):
    wanted = scenario(jobs=6, load=0.3, leases_per_day=70, hooks="script", seed=5)
    assert_same(wanted, live(wanted))


@pytest.mark.slow
def test_a_fleet_without_a_mechanism_runs_batch_jobs(live):
    document = scenario(jobs=10).as_json()
    document["workload"]["generate"].pop()
    wanted = from_mapping(document | {"mechanism": None})
    record = live(wanted)
    assert compare(run_virtual(wanted, prepare(wanted)), record).is_same
    assert check(record) == []


@pytest.mark.slow
def test_at_a_free_pace_the_laws_hold_and_the_lag_is_told(live):
    record = live(scenario(jobs=30, pace="free", speed=2000, days=0.05, leases_per_day=300))
    assert check(record) == []
    assert record.interrupted == ""
    assert summarize(record)["pace"]["longest_hold_s"] > 0


class TestBroken:
    @pytest.mark.slow
    def test_without_the_balancer_batch_goes_on_and_leases_are_rejected(self, live):
        record = live(scenario(), kill("balancer", after=10))
        assert record.interrupted == ""
        batch = record.jobs.kind == Kind.BATCH
        assert (record.state[batch] == JobState.ENDED).all()
        (mark,) = record.marks
        assert mark.text == "balancer ended with status -9"
        later = [lease for lease in record.leases if lease.decided_us > mark.at_us]
        assert later
        assert {lease.granted for lease in later} == {False}
        assert all(lease.reason for lease in later)
        assert check(record) == []

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "act",
        [
            pytest.param(kill("batch", after=20), id="at-any-time"),
            # The Balancer waits for the effect of its command then, longer than the fleet waits for the Balancer.
            pytest.param(die_when_asked_for_nodes(after=20), id="while-the-balancer-waits-for-it"),
        ],
    )
    def test_without_the_batch_server_the_run_ends_with_what_was_done(self, live, act):
        record = live(scenario(), act)
        assert record.interrupted.startswith("batch ended with status -9")
        assert [mark.text for mark in record.marks] == [
            "the batch server is gone: job times are whole seconds, the reserve is not known",
            f"interrupted: {record.interrupted}",
        ]
        summary = summarize(record)
        assert 20 <= summary["jobs_run"] < 60
        assert summary["jobs_run"] + summary["jobs_unfinished"] == 60
        assert (summary["problems"], check(record)) == ([], [])
        whole = run_virtual(scenario(), prepare(scenario()))
        ended = record.state == JobState.ENDED
        assert (record.start_us[ended] == whole.start_us[ended]).all()
        assert (record.end_us[ended] == whole.end_us[ended]).all()

    @pytest.mark.slow
    def test_a_run_that_is_stopped_is_the_first_part_of_the_whole_run(self, live):
        record = live(scenario(), lambda _, counts: counts.ended >= 20)
        assert record.interrupted == "stopped by SIGINT"
        assert [mark.text for mark in record.marks] == ["interrupted: stopped by SIGINT"]
        assert check(record) == []
        whole = run_virtual(scenario(), prepare(scenario()))
        ran = record.runs.start_us >= 0
        assert ran.sum() >= 20
        jobs = record.runs.job[ran]
        assert (record.runs.start_us[ran] == whole.start_us[jobs]).all()
        assert _decisions_before(record.horizon_us, record) == _decisions_before(record.horizon_us, whole)

    @pytest.mark.slow
    def test_a_strict_run_that_cannot_keep_up_fails(self, tmp_path, processes, monkeypatch):
        monkeypatch.chdir(tmp_path)
        document = scenario(pace="strict", max_lag_s=1e-6).as_json()
        Path("strict.yaml").write_text(yaml.safe_dump(document))
        result = emulate("run", "strict.yaml", "--clock", "live", "--quiet")
        assert result.exit_code == 1
        assert "emulator: the machine cannot keep up: " in result.stderr
        assert "(live.max_lag_s is 1e-06 s)" in result.stderr
        assert files.load_summary(Path("runs/morning-live"))["interrupted"].startswith("the machine cannot")
        assert processes() == []

    @pytest.mark.slow
    def test_a_fleet_that_does_not_start_shows_the_end_of_the_log(self, tmp_path, processes, monkeypatch):
        node = RunSettings.node

        def misled(self, nodes, **more):
            told = node(self, nodes, **more)
            return replace(told, config=told.config | {"hooks": {"kind": "no such kind"}})

        monkeypatch.setattr(RunSettings, "node", misled)
        with pytest.raises(FleetError, match=r"agent ended with status 2:\n.*hooks"):
            run_live(scenario(), prepare(scenario()), tmp_path, Interrupted())
        assert processes() == []


def _decisions_before(time_us, record):
    """What became of each lease, without the words: Nova's client says it otherwise than the Balancer."""
    return [
        (lease.job, lease.granted, lease.decided_us) for lease in record.leases if lease.decided_us < time_us
    ]


@pytest.mark.slow
class TestCtrlC:
    @pytest.fixture
    def long_run(self, tmp_path, processes):
        """`emulator run --clock live` in the middle of its work."""
        (tmp_path / "s.yaml").write_text(yaml.safe_dump(scenario(speed=600).as_json()))
        command = [sys.executable, "-c", "from emulator.cli import main; main()"]
        with subprocess.Popen(
            [*command, "run", "s.yaml", "--clock", "live", "--out", "out"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr.readline().startswith("cluster time")
            yield process
            process.kill()

    def test_it_leaves_a_partial_result_with_logs_and_no_process(self, long_run, tmp_path, processes):
        assert len(processes()) >= 6
        long_run.send_signal(signal.SIGINT)
        _, errors = long_run.communicate(timeout=200)
        assert long_run.returncode == 130, errors
        assert "emulator: stopped by SIGINT; what was done is in out" in errors
        assert files.load_summary(tmp_path / "out")["interrupted"] == "stopped by SIGINT"
        assert check(files.load(tmp_path / "out")) == []
        logs = {path.name for path in (tmp_path / "out" / "logs").iterdir()}
        assert logs == {"agent.log", "balancer.log", "batch.log", "ondemand.log", "replayer.log"}
        assert processes() == []

    def test_a_second_one_stops_at_once_and_leaves_no_process_either(self, long_run, tmp_path, processes):
        long_run.send_signal(signal.SIGINT)
        while "once more stops at once" not in long_run.stderr.readline():
            pass
        long_run.send_signal(signal.SIGINT)
        long_run.communicate(timeout=200)
        assert long_run.returncode == 130
        assert not (tmp_path / "out").exists()
        assert processes() == []
