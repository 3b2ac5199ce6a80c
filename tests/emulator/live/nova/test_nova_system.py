"""`live.ondemand: nova` without a Nova: what is an error before anything begins, and what is measured."""

import json
from configparser import ConfigParser
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
import requests

from command_line import emulate
from emulator.live.clock_cost import starts_late_us
from emulator.live.containers.startup import check_containers
from emulator.live.nova.environment import NovaConf
from emulator.live.nova.front import Front, FrontConfig
from emulator.live.ondemand_system import make_ondemand_system
from emulator.live.replay_log import LeaseResult, ReplayLog, read_replay
from emulator.runs.preparation import prepare
from emulator.runs.runner import make_mechanism
from emulator.runs.scenario import ScenarioError, from_mapping

ROOT = Path(__file__).parents[4]
NOVA = {"ondemand": "nova"}


def a_scenario(live=NOVA, **changes):
    generated = {"generate": [{"daily_batch": {"days": 0.05, "jobs": 3}}]}
    return from_mapping({"nodes": 4, "workload": generated, "mechanism": "balancer", "live": live} | changes)


def refusal(scenario):
    with pytest.raises(ScenarioError) as error:
        make_ondemand_system(scenario).check_leases(scenario, prepare(scenario), make_mechanism(scenario))
    return str(error.value)


def test_a_machine_without_nova_is_told_how_to_get_it_before_the_run(tmp_path):
    out = tmp_path / "out"
    changes = [f"--set=live.ondemand.nova.environment={tmp_path / 'nowhere'}", "--set=live.pace=free"]
    called = ["run", str(ROOT / "scenarios" / "default.yaml"), "--clock", "live", "--out", str(out), *changes]
    done = emulate(*called)
    assert done.exit_code == 2
    assert f"live.ondemand: there is no Nova at {tmp_path / 'nowhere'}" in done.output
    assert "scripts/nova-environment" in done.output
    assert not out.exists()


def test_an_environment_that_lacks_packages_is_named_with_them(tmp_path):
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\necho nova psycopg2\n")
    python.chmod(0o755)
    said = refusal(a_scenario({"ondemand": {"nova": {"environment": str(tmp_path)}}}))
    assert f"{tmp_path} lacks nova, psycopg2" in said
    assert "scripts/nova-environment" in said


def test_without_the_balancer_nobody_is_asked():
    assert "needs the mechanism balancer" in refusal(a_scenario(mechanism=None))


def test_its_clock_waits_for_nobody():
    assert a_scenario().live.pace == "free"
    assert "live.pace: held is not possible with this on-demand manager" in refusal(
        a_scenario(NOVA | {"pace": "held"})
    )


def test_a_manager_that_is_not_known_is_an_error_with_the_known_ones():
    said = refusal(a_scenario({"ondemand": "nebula"}))
    assert said.startswith("live.ondemand: ")
    assert "manager, nova" in said


def test_a_fleet_in_containers_has_the_small_manager_only():
    scenario = a_scenario()
    with pytest.raises(ScenarioError, match=r"live\.ondemand: a fleet in containers"):
        check_containers(scenario)


def test_with_our_own_manager_a_scenario_is_stored_as_before():
    assert "ondemand" not in a_scenario({}).as_json()["live"]
    assert a_scenario().as_json()["live"]["ondemand"] == "nova"


def test_a_lease_is_as_late_as_the_grant_of_its_hosts_is_early():
    def request(decided_us, *nodes):
        return SimpleNamespace(decided_us=decided_us, nodes=nodes)

    def lease(decided_us, *hosts):
        return LeaseResult(1, granted=True, decided_us=decided_us, hosts=hosts)

    asked = [request(90, "n1", "n2"), request(40, "n1"), request(10, "n1", "n2"), request(None)]
    leases = [
        lease(30, "n2", "n1"),
        lease(45, "n1"),
        lease(95, "n2", "n1"),
        LeaseResult(2, granted=False, decided_us=5),
    ]
    assert starts_late_us(leases, asked) == [20, 5, 5]


def test_a_replay_log_keeps_the_hosts_of_a_lease(tmp_path):
    log = ReplayLog(tmp_path / "replay.jsonl")
    log.write("lease_granted", 5_000_000, 7, hosts=["n2", "n1"])
    log.write("lease_ended", 9_000_000, 7)
    log.finish(9_000_000, "")
    assert read_replay(tmp_path / "replay.jsonl").leases == {
        7: LeaseResult(7, granted=True, decided_us=5_000_000, ended_us=9_000_000, hosts=("n2", "n1"))
    }


def test_novas_own_log_goes_where_the_logs_of_a_run_are_kept(tmp_path):
    paste = tmp_path / "environment" / "etc" / "nova" / "api-paste.ini"
    paste.parent.mkdir(parents=True)
    paste.write_text("")
    logs = []
    for name, given in (("alone", None), ("run", tmp_path / "logs")):
        folder = tmp_path / name
        folder.mkdir()
        conf = NovaConf(
            environment=tmp_path / "environment", front="http://f", database="sqlite:///{}".format, logs=given
        )
        conf.write(folder)
        found = ConfigParser(strict=False, interpolation=None)
        found.read(folder / "nova.conf")
        logs.append(found["DEFAULT"]["log_file"])
    assert logs == [str(tmp_path / "alone" / "nova.log"), str(tmp_path / "logs" / "nova.log")]


def test_the_front_passes_nova_through_once_it_listens(tmp_path):
    urls = tmp_path / "urls.json"
    front = Front(FrontConfig(hosts=("n1",), urls=urls))
    behind = Front(FrontConfig(hosts=("n1",), urls=urls))
    threads = [Thread(target=each.serve) for each in (front, behind)]
    for thread in threads:
        thread.start()
    try:
        assert requests.get(f"{front.url}/compute/v2.1", timeout=10).status_code == 502
        urls.write_text(json.dumps({"compute": f"{behind.url}/identity"}))
        seen = requests.get(f"{front.url}/compute/v3", timeout=10)
        assert seen.json()["version"]["id"].startswith("v3")
        assert requests.get(f"{front.url}/orchestration", timeout=10).status_code == 404
    finally:
        for each, thread in zip((front, behind), threads, strict=True):
            each.stop()
            thread.join()
            each.close()
