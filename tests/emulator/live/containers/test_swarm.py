"""The fleet over two hosts, each with an engine of its own, with one command typed on each."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from emulator.harness.laws import check
from emulator.report import files
from emulator.report.compare import compare
from emulator.runner import prepare, run_virtual
from emulator.scenario import load
from fleet_kit import two_hosts
from fleet_kit.short_trace import NODES, write_scenario

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[4]
_EMULATOR = [sys.executable, "-c", "from emulator.cli import main; main()"]
_LIMIT_S = 600


@pytest.fixture
def other(engine, alone):
    """The other host."""
    if lacks := two_hosts.missing():
        assert "CI" not in os.environ, lacks
        pytest.skip(f"needs {lacks}")
    with two_hosts.another_host() as host:
        yield host


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
    return set(re.findall(r"^\d+: ([^:@]+)", subprocess.run(
        ["ip", "link"], capture_output=True, text=True, check=True).stdout, re.MULTILINE))  # fmt: skip


@contextmanager
def ended(process):
    """The process; whatever happens, it does not outlive the block."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def up(folder, scenario):
    """`emulator fleet swarm up` on this host: the process."""
    out = folder / "runs"
    out.mkdir()
    return subprocess.Popen(
        [*_EMULATOR, "fleet", "swarm", "up", str(scenario), "--hosts", "2", "--address", two_hosts.HERE,
         "--port", "0", "--fleet", f"swarm{os.getpid()}", "--out", str(out)],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def invitation(process):
    """What it asks to be typed on the other host; the lines before it."""
    for line in process.stderr:
        if found := re.search(r"hosts:  (curl .*)$", line):
            return found[1]
    raise AssertionError(process.wait())


def test_a_run_over_two_hosts_is_that_of_virtual_time_and_leaves_nothing_on_either(other, tmp_path):
    before = what_is_there(here), what_is_there(other.docker), links()
    scenario = write_scenario(tmp_path, name="two")
    with ended(up(tmp_path, scenario)) as manager:
        typed = other.command("sh", "-c", invitation(manager))
        with ended(subprocess.Popen(typed, env=other.environ)) as worker:
            said = manager.stderr.read()
            assert manager.wait(_LIMIT_S) == 0, said
            assert worker.wait(_LIMIT_S) == 0
    assert f"nodes: {NODES // 2} on {two_hosts.HERE}, {NODES // 2} on {two_hosts.THERE}" in said
    record = files.load(tmp_path / "runs" / "two-live")
    wanted = load(scenario)
    found = compare(run_virtual(wanted, prepare(wanted)), record)
    assert found.is_same, found
    assert check(record) == []
    assert (what_is_there(here), what_is_there(other.docker), links()) == before
