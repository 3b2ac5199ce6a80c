"""The fleet over two hosts, each with an engine of its own, with one command typed on each."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from balancer.clock import US
from emulator.report import files
from emulator.report.compare import compare
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import load
from emulator.validation.laws import check
from fleet_kit import two_hosts
from fleet_kit.both_clocks import assert_same, proofs_in
from fleet_kit.short_trace import NODES, write_scenario
from parts import OUR_IMAGES

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.needs("root", "fleet-images", "engine-programs", "curl"),
]

ROOT = Path(__file__).parents[4]
TOY = Path(__file__).parents[1] / "toy"
_EMULATOR = [sys.executable, "-c", "from emulator.cli import main; main()"]
_LIMIT_S = 600


@pytest.fixture(scope="module")
def host():
    """The other host; from the second run on it has the image."""
    with two_hosts.another_host() as host:
        yield host


@pytest.fixture
def other(host, alone):
    return host


def what_is_there(docker):
    """Containers, volumes and networks of an engine, and whether it is in a Swarm."""
    lists = (["ps", "-aq"], ["volume", "ls", "-q"], ["network", "ls", "--format", "{{.Name}}"])
    return [sorted(docker(*words).split()) for words in lists] + [
        docker("info", "--format", "{{.Swarm.LocalNodeState}}").strip()
    ]


def here(*words):
    return subprocess.run(
        ["docker", *words], capture_output=True, text=True, check=True, timeout=_LIMIT_S
    ).stdout


def links():
    """Network links of this machine, but those to other hosts of tests: other workers make and end these."""
    found = re.findall(r"^\d+: ([^:@]+)", subprocess.run(
        ["ip", "link"], capture_output=True, text=True, check=True).stdout, re.MULTILINE)  # fmt: skip
    return {name for name in found if not re.fullmatch(r"v\d+[ab]", name)}


@contextmanager
def ended(process):
    """The process; whatever happens, it does not outlive the block."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def up(folder, scenario, address):
    """`emulator fleet swarm up` on this host: the process."""
    out = folder / "runs"
    out.mkdir()
    return subprocess.Popen(
        [*_EMULATOR, "fleet", "swarm", "up", str(scenario), "--hosts", "2", "--address", address,
         "--port", "0", "--fleet", f"swarm{os.getpid()}", "--out", str(out), "--images", OUR_IMAGES],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def invitation(process):
    """What it asks to be typed on the other host; the lines before it."""
    for line in process.stderr:
        if found := re.search(r"hosts:  (curl .*)$", line):
            return found[1]
    raise AssertionError(process.wait())


def run_on_both(other, tmp_path, scenario):
    """The record of the run, and its folder. Nothing is left of it on either host."""
    before = what_is_there(here), what_is_there(other.docker), links()
    with ended(up(tmp_path, scenario, other.here)) as manager:
        typed = other.command("sh", "-c", invitation(manager))
        with ended(subprocess.Popen(typed, env=other.environ)) as worker:
            said = manager.stderr.read()
            assert manager.wait(_LIMIT_S) == 0, said
            assert worker.wait(_LIMIT_S) == 0
    assert f"nodes: {NODES // 2} on {other.here}, {NODES // 2} on {other.address}" in said
    assert (what_is_there(here), what_is_there(other.docker), links()) == before
    folder = tmp_path / "runs" / f"{scenario.stem}-live"
    return files.load(folder), folder


def test_a_run_over_two_hosts_is_that_of_virtual_time_and_leaves_nothing_on_either(other, tmp_path):
    scenario = write_scenario(tmp_path, name="two")
    record, _ = run_on_both(other, tmp_path, scenario)
    wanted = load(scenario)
    found = compare(run_virtual(wanted, prepare(wanted)), record)
    assert found.is_same, found
    assert check(record) == []


def write_wanderer(folder):
    """A job of 400 s that is stopped with a checkpoint on each node but the last, and goes on on the next one."""
    (folder / "one.swf").write_text(
        "; MaxNodes: 8\n; MaxProcs: 8\n1 0 -1 400 1 -1 -1 1 3000 -1 1 1 1 -1 1 -1 -1 -1\n"
    )
    steps = [
        step
        for node in range(NODES - 1)
        for step in ([50 * node + 50, "keep", node], [50 * node + 50, "save_and_stop", 0, 5])
    ]
    document = {
        "name": "wanderer",
        "nodes": NODES,
        "workload": {"trace": "one.swf"},
        "plugins": [f"{TOY / 'rota.py'}:Scripted"],
        "mechanism": {"scripted": {"steps": steps}},
        "live": {"jobs": "emulator-job", "speed": 100},
    }
    path = folder / "wanderer.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.nightly
def test_a_job_goes_on_from_its_checkpoint_on_every_node_of_both_hosts(other, tmp_path):
    scenario = write_wanderer(tmp_path)
    record, folder = run_on_both(other, tmp_path, scenario)
    wanted = load(scenario)
    assert_same(run_virtual(wanted, prepare(wanted)), record)
    assert sorted(record.runs.node.tolist()) == list(range(NODES))
    (proof,) = proofs_in(folder / "logs" / "jobs").values()
    # Nothing was lost, so each run found the checkpoint of the one before; and all of it is in one output.
    assert (proof.done, proof.lost, proof.runs, proof.finished) == (400 * US, 0, NODES, True)
