"""The fleet in containers makes the run of virtual time; whoever dies in the middle, nothing is lost."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import yaml

from emulator.kernel.job_states import JobState, RunOutcome
from emulator.live.torque.commands import install_commands
from emulator.live.torque.protocol import request
from emulator.live.watch import WENT_ON
from emulator.report import files
from emulator.report.compare import compare
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import load
from emulator.validation.laws import check
from emulator.workload.table import Kind
from fleet_kit.both_clocks import nothing_is_lost
from fleet_kit.short_trace import write_scenario

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.needs("fleet-images"),
    pytest.mark.timeout(1500),
]


def test_a_run_in_containers_is_the_run_of_virtual_time_and_can_be_driven_from_outside(compose, tmp_path):
    fleet = compose("kth", write=_with_predictor)
    fleet.wait_for_jobs(3)

    # The batch system's and the cloud's commands, from this machine.
    batch = fleet.address("batch", 15001)
    install_commands(tmp_path / "bin", batch)
    nodes = _run(tmp_path / "bin" / "pbsnodes", "-l", "all").split()[::2]
    assert nodes == [f"n{number:03d}" for number in range(1, 9)]
    assert "Job ID" in _run(tmp_path / "bin" / "qstat")
    facts = request(batch, {"do": "export"})["facts"]
    assert len({facts[node]["address"] for node in nodes}) == 8
    assert all(facts[node]["cores"] >= 1 and facts[node]["memory_kib"] > 0 for node in nodes)
    assert json.loads(_openstack(fleet, "hypervisor", "list", "-f", "json"))
    assert _openstack(fleet, "server", "list", "-f", "value") is not None

    status, folder = fleet.result()
    assert status == 0, fleet("logs", "--tail", "50", check=False)
    assert (folder / "summary.json").stat().st_uid == fleet.runs.stat().st_uid
    record = files.load(folder)
    scenario = load(fleet.scenario)
    virtual = run_virtual(scenario, prepare(scenario))
    found = compare(virtual, record)
    assert found.is_same, found
    assert found.decisions_a == (record.jobs.kind == Kind.ON_DEMAND).sum() > 0
    assert check(record) == []
    assert {lease.granted for lease in record.leases} == {True, False}


def test_qsub_from_outside_is_a_job_of_the_fleet(compose, tmp_path):
    fleet = compose("outside", pace="free", speed=60)
    fleet.wait_for_jobs(1)
    install_commands(tmp_path / "bin", fleet.address("batch", 15001))
    job = _run(tmp_path / "bin" / "qsub", "-l", "nodes=1,walltime=00:10:00", text="sleep 1\n").strip()
    assert job.endswith(".server")
    assert _run(tmp_path / "bin" / "qstat", job)


@pytest.mark.nightly
def test_each_container_is_paused_cut_off_or_killed_by_hand_and_nothing_is_lost(compose):
    fleet = compose("killed", patience_s=3, speed=100)  # so that it is not over before the last one is killed
    fleet.wait_for_jobs(2)
    docker = fleet.docker

    docker("pause", "balancer")
    fleet.wait_for_silence()
    docker("unpause", "balancer")
    fleet.wait_for_silence(of_nobody=True)

    network = f"{fleet.project}_default"
    docker("network", "disconnect", network, "node")
    docker("network", "connect", network, "node")
    for service in ("batch", "balancer", "replayer"):
        docker("restart", "-t", "0", service)
    for name in ("n001", "ondemand", "controller"):
        fleet.fleet("fault", "kill", name)
        fleet.fleet("fault", "start", name)

    status, folder = fleet.result()
    assert status == 0, fleet("logs", "--tail", "50", check=False)
    record = files.load(folder)
    nothing_is_lost(record)
    said = [mark.text for mark in record.marks]
    assert {"fault: kill n001", "fault: kill ondemand"} <= set(said)
    assert any(text.startswith(f"{WENT_ON}: ") for text in said)
    assert any(re.fullmatch(r"\w+ was silent for \d+ s: the clock goes on without it", text) for text in said)
    assert any(text.endswith(" is back: the clock waits for it again") for text in said)


def test_all_containers_are_paused_or_killed_at_once_and_nothing_is_lost(compose):
    fleet = compose("all", speed=200)  # so that it is not over before they are killed
    fleet.wait_for_jobs(2)
    stood_s = fleet.cluster_time_s()
    fleet.docker_all("pause")
    fleet.docker_all("unpause")
    assert fleet.wait_for_jobs(4) >= 4
    fleet.docker_all("kill")
    fleet("up", "-d", "--no-build")
    status, folder = fleet.result()
    assert status == 0, fleet("logs", "--tail", "50", check=False)
    record = files.load(folder)
    nothing_is_lost(record)
    went_on = [mark for mark in record.marks if mark.text.startswith(f"{WENT_ON}: ")]
    assert len(went_on) == 1
    assert went_on[0].at_us >= stood_s * 1e6


def test_a_run_whose_volume_is_full_ends_and_says_so_and_its_jobs_and_leases_are_accounted_for(compose):
    small = {"type": "tmpfs", "device": "tmpfs", "o": "size=16m,uid=1000,gid=1000"}
    fleet = compose("full", changes={"version": "3.8", "volumes": {"fleet": {"driver_opts": small}}})
    fleet.wait_for_jobs(2)
    fleet("exec", "-T", "batch", "sh", "-c", "cat /dev/zero >/fleet/filler", check=False)
    status, folder = fleet.result()
    assert status == 1
    record = files.load(folder)
    # Less than 1 MiB is free, which may be rounded up.
    assert re.match(r"the volume of /fleet is full: (0\.\d|1\.0) MiB of 16 MiB", record.interrupted)
    assert check(record) == []
    assert (record.state == JobState.ENDED).sum() >= 2


@pytest.mark.nightly
def test_a_typed_ctrl_c_in_mid_run_then_down_and_up_goes_on_with_every_node_accounted_for_and_at_the_same_pace(
    compose,
):
    fleet = compose("again", speed=100)  # so that it is not over before somebody has looked
    first_pace = fleet.pace_until_jobs(8)
    before = fleet.status()
    fleet.ctrl_c("up", "--no-build", "--exit-code-from", "controller", seen=b"Attaching")
    assert fleet("ps", "--services", "--filter", "status=running").split() == []
    fleet("down", "-t", "20")
    fleet("up", "-d", "--no-build")
    # Generous, because others use this machine too: what this is about is a factor of forty.
    assert fleet.pace_until_jobs(25) > first_pace / 8
    status, folder = fleet.result()
    assert status == 0, fleet("logs", "--tail", "50", check=False)
    record = files.load(folder)
    nothing_is_lost(record)
    (mark,) = record.marks
    runs = record.runs
    # A node may have been given up before, on a machine with too much to do: that run was not under way.
    was_under_way = (
        (runs.start_us <= mark.at_us) & (runs.end_us >= mark.at_us) & (runs.end_us > runs.start_us)
    )
    again = np.unique(runs.job[(runs.outcome == RunOutcome.REQUEUED) & was_under_way])
    numbers = ", ".join(map(str, record.jobs.number[again]))
    said = f"{len(again)} job{'s' * (len(again) > 1)} began again, since their nodes were lost ({numbers})"
    assert mark.text == f"{WENT_ON}: {said if len(again) else 'nothing that was under way differs'}"
    assert mark.at_us >= before["cluster_time_s"] * 1e6
    scenario = load(fleet.scenario)
    first = (record.end_us >= 0) & (record.end_us < mark.at_us)
    virtual = run_virtual(scenario, prepare(scenario))
    assert first.sum() >= 8
    assert (record.start_us[first] == virtual.start_us[first]).all()


def test_faults_of_a_scenario_happen_at_their_times_and_the_ledger_may_be_in_postgresql(compose, postgres):
    faults = [
        {"at_s": 900, "do": "pause", "target": "n002", "for_s": 300},
        {"at_s": 1800, "do": "disconnect", "target": "n003", "for_s": 300},
        {"at_s": 3000, "do": "kill", "target": "database", "for_s": 60},
    ]
    fleet = compose("faulty", faults=faults, environ=postgres)
    fleet.fleet("follow")
    status, folder = fleet.result()
    assert status == 0
    record = files.load(folder)
    nothing_is_lost(record)
    assert record.moves  # by the ledger
    assert [(mark.at_us / 1e6, mark.text) for mark in record.marks] == [
        (900, "fault: pause n002"),
        (1200, "fault: unpause n002"),
        (1800, "fault: disconnect n003"),
        (2100, "fault: connect n003"),
        (3000, "fault: kill database"),
        (3060, "fault: start database"),
    ]


def _with_predictor(folder, *, name, **live):
    path = write_scenario(folder, name=name, **live)
    document = yaml.safe_load(path.read_text())
    document["mechanism"]["balancer"] |= {
        "predictor": {"seasonal_quantile": {"quantile": 0.8}},
        "slots_per_day": 24,
        "history": [2] * 48,
    }
    path.write_text(yaml.safe_dump(document))
    return path


def _run(*command, text=""):
    environ = os.environ | {"TORQUE_USER": "alice"}
    return subprocess.run(
        list(map(str, command)),
        input=text,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout


def _openstack(fleet, *words):
    host, port = fleet.address("ondemand", 8774)
    login = {
        "OS_AUTH_URL": f"http://{host}:{port}/identity/v3", "OS_USERNAME": "admin", "OS_PASSWORD": "secret",
        "OS_PROJECT_NAME": "admin", "OS_USER_DOMAIN_ID": "default", "OS_PROJECT_DOMAIN_ID": "default",
        "OS_REGION_NAME": "RegionOne", "OS_IDENTITY_API_VERSION": "3",
    }  # fmt: skip
    command = [sys.executable, "-W", "ignore", "-m", "openstackclient.shell", *words]
    done = subprocess.run(
        command, env=os.environ | login, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
