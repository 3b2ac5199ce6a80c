"""Each plug-in of `examples/site_plugins`, used from its file, or installed (test_site_plugins.py)."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from balancer.clock import US, SystemClock
from balancer.config import read_config
from balancer.console.commands import cli as balancer
from balancer.drivers.base import NodeStatus
from balancer.drivers.cloud import CloudStatus
from emulator.cli import main as emulator

FOLDER = Path(__file__).parents[2] / "examples" / "site_plugins" / "site_plugins"
INSTALLED = "SITE_PLUGINS_INSTALLED" in os.environ
CLOCKWORK = {"clockwork": {"jobs": 12, "widest": 3}}
LEASES = {"clockwork": {"jobs": 4, "every_s": 1200, "leases": True, "widest": 3}}


def files(*sources):
    return [] if INSTALLED else [f"{FOLDER}/{source}" for source in sources]


def options(*sources):
    return [f"--plugin={each}" for each in files(*sources)]


def invoke(command, *arguments):
    result = CliRunner().invoke(command, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def run(tmp_path):
    """The summary of a run. The plug-ins are named in the scenario."""

    def summary(scenario, *sources):
        path = tmp_path / "scenario.yaml"
        path.write_text(yaml.safe_dump({"nodes": 16, "plugins": files(*sources)} | scenario))
        return json.loads(invoke(emulator, "run", path, "--out", tmp_path / "out", "--json", "--check"))

    return summary


def test_a_mechanism_a_generator_a_transform_and_a_queue_order(run):
    summary = run(
        {
            "workload": {"generate": [CLOCKWORK, LEASES], "transforms": ["power_of_two"]},
            "scheduler": "least_area+easy",
            "mechanism": {"idle_only": {"keep_free": 1}},
        },
        "mechanism.py:IdleOnly",
        "generator.py:Clockwork",
        "transform.py:PowerOfTwo",
        "queue_order.py:least_area",
    )
    assert (summary["jobs_run"], summary["ondemand_granted"]) == (12, 4)


@pytest.mark.parametrize(
    ("scheduler", "source"),
    [("fcfs+short_first", "backfill.py:short_first"), ("widest_that_fits", "scheduler.py:widest_that_fits")],
)
def test_a_backfill_rule_and_a_whole_scheduler(run, scheduler, source):
    summary = run(
        {"workload": {"generate": [CLOCKWORK]}, "scheduler": scheduler}, source, "generator.py:Clockwork"
    )
    assert summary["jobs_run"] == 12


def test_a_predictor_of_run_times(run):
    summary = run(
        {
            "workload": {"generate": [CLOCKWORK]},
            "scheduler": {"backfill": "easy", "predict": {"part_of_estimate": {"part": 0.25}}},
        },
        "run_time_predictor.py:PartOfEstimate",
        "generator.py:Clockwork",
    )
    assert summary["jobs_run"] == 12


def test_an_algorithm_and_a_predictor(run):
    summary = run(
        {
            "workload": {"generate": [CLOCKWORK, LEASES]},
            "mechanism": {
                "balancer": {"algorithm": {"keep_some": {"keep": 15}}, "predictor": {"always": {"nodes": 2}}}
            },
        },
        "algorithm.py:KeepSome",
        "predictor.py:Always",
        "generator.py:Clockwork",
    )
    assert (summary["ondemand_granted"], summary["ondemand_rejected"]) == (0, 4)


def test_a_trace_format_and_a_topology(run, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("submit_s,run_s,nodes\n0,100,3\n10,100,5\n")
    summary = run(
        {
            "workload": {"trace": str(log)},
            "mechanism": {"realtime": {"scheme": "baseline", "topology": {"racks": {"rack_nodes": 8}}}},
        },
        "trace_format.py:SimpleCsv",
        "topology.py:Racks",
    )
    assert (summary["jobs_run"], summary["mean_wait_s"]) == (2, 0)


def test_a_trace_format_for_the_commands_that_look_at_logs(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("submit_s,run_s,nodes\n0,100,3\n10,100,5\n")
    shown = invoke(
        emulator, "trace", "info", log, "--nodes", 8, "--json", *options("trace_format.py:SimpleCsv")
    )
    assert json.loads(shown)["jobs"] == 2


@pytest.mark.slow
def test_a_contention_model(run):
    summary = run(
        {
            "workload": {"generate": [CLOCKWORK]},
            "mechanism": {
                "oversubscribe": {
                    "cores": 1,
                    "multiplicity": 2,
                    "contention": {"memory_bound": {"efficiency": 50}},
                }
            },
        },
        "contention.py:MemoryBound",
        "generator.py:Clockwork",
    )
    assert summary["jobs_run"] == 12


def test_a_speedup(run):
    summary = run(
        {
            "workload": {"generate": [CLOCKWORK]},
            "scheduler": "fcfs+conservative",
            "mechanism": {"malleable": {"speedup": {"power_law": {"exponent": 0.9}}}},
        },
        "speedup.py:PowerLaw",
        "generator.py:Clockwork",
    )
    assert summary["jobs_run"] == 12


def test_a_failure_model(run):
    summary = run(
        {"workload": {"generate": [CLOCKWORK]}, "failures": {"model": {"one_by_one": {"every_h": 1}}}},
        "failure.py:OneByOne",
        "generator.py:Clockwork",
    )
    assert summary["node_time_h"]["DOWN"] > 0


def test_the_strategies_of_the_mechanism_hybrid(run):
    summary = run(
        {
            "workload": {"generate": [CLOCKWORK, LEASES]},
            "mechanism": {"hybrid": {"strategy": "collect+wait_for_ends"}},
        },
        "hybrid_notice.py:Collect",
        "hybrid_arrival.py:WaitForEnds",
        "generator.py:Clockwork",
    )
    assert summary["preemptions"] == 0


@pytest.mark.live
@pytest.mark.slow
def test_a_batch_system_and_a_submitter_of_live_runs(tmp_path):
    sources = files("batch_system.py:NotedTorque", "submitter.py:NotedQsub", "generator.py:Clockwork")
    scenario = {"nodes": 4, "workload": {"generate": [CLOCKWORK]}, "plugins": sources}
    scenario["live"] = {"batch": "noted_torque", "speed": 20_000}
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(scenario))
    out = tmp_path / "out"
    invoke(emulator, "run", tmp_path / "scenario.yaml", "--clock", "live", "--out", out, "--quiet", "--check")
    assert len((out / "logs" / "submitted.txt").read_text().splitlines()) == 12


@pytest.mark.live
@pytest.mark.slow
def test_an_on_demand_manager_of_live_runs(tmp_path):
    sources = files("ondemand_system.py:KeptServers", "generator.py:Clockwork")
    scenario = {
        "nodes": 4, "workload": {"generate": [CLOCKWORK, LEASES]}, "mechanism": {"balancer": {"wait_s": 600}},
        "live": {"ondemand": "kept_servers", "pace": "held", "speed": 20_000}, "plugins": sources,
    }  # fmt: skip
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(scenario))
    out = tmp_path / "out"
    invoke(emulator, "run", tmp_path / "scenario.yaml", "--clock", "live", "--out", out, "--quiet", "--check")
    assert (out / "logs" / "servers").read_text()


def test_a_paper(tmp_path):
    known = options("paper.py:BACKFILLING")
    shown = invoke(
        emulator, "reproduce", "backfilling", "--seeds=5", "--jobs=1", "--json", "--out", tmp_path, *known
    )
    (claim,) = json.loads(shown)["claims"]
    assert claim["holds"] is True


def test_drivers_and_a_clock(tmp_path):
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "n1").write_text("idle")
    (tmp_path / "pool" / "n2").write_text("busy")
    (tmp_path / "hosts").write_text("n1 vm-a vm-b\n")
    config = tmp_path / "balancer.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "nodes": "n1",
                "plugins": files(
                    "batch_driver.py:FolderDriver", "cloud_driver.py:HostList", "clock.py:ShiftedClock"
                ),
                "clock": {"shifted": {"ahead_s": 86400}},
                "driver": {"folder": {"folder": str(tmp_path / "pool")}},
                "cloud": {"host_list": {"file": str(tmp_path / "hosts")}},
            }
        )
    )
    made = read_config(config, {})
    driver, cloud = made.make_driver(), made.make_cloud()
    assert made.make_clock().now_us() > SystemClock().now_us() + 86_000 * US
    driver.reclaim_nodes(["n1", "n2"])
    found = {"n1": NodeStatus("offline", marked=True), "n2": NodeStatus("busy")}
    assert driver.get_status_of_all_nodes() == found, "a running job is not touched"
    assert cloud.get_status_of_hosts() == {"n1": CloudStatus(enabled=False, vms=("vm-a", "vm-b"))}


@pytest.mark.skipif(INSTALLED, reason="is a file")
def test_the_example_of_the_page_runs(tmp_path, monkeypatch):
    page = (FOLDER.parents[2] / "docs" / "plugins.md").read_text()
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (command,) = re.findall(r"^    emulator (run .*)$", page, re.MULTILINE)
    (tmp_path / "my.py").write_text(source)
    (tmp_path / "scenarios").symlink_to(FOLDER.parents[2] / "scenarios")
    monkeypatch.chdir(tmp_path)
    invoke(emulator, *shlex.split(command), "--out", tmp_path / "out", "--quiet")
    stored = json.loads((tmp_path / "out" / "summary.json").read_text())["scenario"]
    assert stored["mechanism"] == {"balancer": {"algorithm": "keep_some"}}


def test_the_listings_show_them_with_parameters(tmp_path):
    known = options("algorithm.py:KeepSome")
    (algorithm,) = (
        one
        for one in json.loads(invoke(balancer, "algorithms", "--json", *known))
        if one["name"] == "keep_some"
    )
    assert algorithm["parameters"] == {"keep": 2}
    assert algorithm["about"].startswith("Grants from idle nodes")
    known = options("generator.py:Clockwork", "mechanism.py:IdleOnly")
    listed = json.loads(invoke(emulator, "plugins", "--json", *known))
    assert listed["generator"]["clockwork"]["parameters"]["every_s"] == 600
    assert listed["mechanism"]["idle_only"]["parameters"] == {"keep_free": 0}


def test_a_platform_format(run, tmp_path):
    (tmp_path / "hosts").write_text("# inventory\nn1\nn2\n\nn3\n")
    keys = {"nodes": str(tmp_path / "hosts"), "workload": {"generate": [CLOCKWORK]}}
    assert run(keys, "platform.py:Inventory", "generator.py:Clockwork")["nodes"] == 3
