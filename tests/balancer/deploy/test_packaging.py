"""The service runs with its own packages alone: what only the emulator or a plug-in needs is an extra."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

_WITHOUT = """
import importlib, pkgutil, sys
banned = set(sys.argv[1].split())
class Ban:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in banned:
            raise ImportError(f"{name} is not there")
sys.meta_path.insert(0, Ban())
import balancer
needs_an_extra = {"balancer.drivers.openstack", "balancer.nova.cloud", "balancer.nova.check"}
needs_nova = {
    "balancer.nova.options", "balancer.nova.scheduler_filter", "balancer.nova.second_look",
    "balancer.nova.pending_servers",
}
for module in pkgutil.walk_packages(balancer.__path__, "balancer."):
    if module.name in needs_an_extra | needs_nova:
        continue
    if not module.name.endswith("__main__") and ".migrations" not in module.name:
        importlib.import_module(module.name)
from balancer.http.app import openapi_text
assert openapi_text()
"""


def names(requirements):
    return {requirement.split(">")[0].split("[")[0].split("<")[0].strip() for requirement in requirements}


@pytest.mark.slow
def test_every_module_of_the_service_is_imported_without_the_packages_of_the_emulator():
    only_there = names(PROJECT["optional-dependencies"]["emulator"]) - names(PROJECT["dependencies"])
    modules = {"openstacksdk": "openstack keystoneauth1"}
    banned = " ".join(modules.get(name, name) for name in sorted(only_there))
    assert {"numba", "numpy", "matplotlib", "pyarrow", "docker"} <= set(banned.split())
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, banned], check=False, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_image_of_the_service_has_all_that_the_service_needs():
    """Its packages are picked by name (containers/Dockerfile): a new one must be named there."""
    dockerfile = (ROOT / "containers" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    picked = re.search(r"packages\.py split /opt/venv /opt/balancer ([^&]+)&&", dockerfile)
    brought_by_another = {"flask"}  # apiflask
    assert names(PROJECT["dependencies"]) - {*picked[1].split()} == brought_by_another


def test_a_cloud_whose_package_is_missing_says_what_to_install():
    code = """
import sys
import tomllib
class Ban:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "openstack":
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Ban())
from balancer.config import Config, ConfigError
try:
    Config(nodes="n1", cloud="openstack").make_cloud()
except ConfigError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120
    )
    assert "install this package with its extra, FILE.whl[openstack]" in done.stdout


@pytest.mark.slow
def test_a_wheel_has_what_a_new_user_needs_for_the_first_run(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 5_000_000
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
        names = archive.namelist()
    pages = {name.partition(".data/data/")[2] for name in names if ".data/data/" in name}
    assert pages == {
        "share/balancer/grafana/balancer.json",
        "share/balancer/prometheus/balancer.rules.yml",
        "share/balancer/systemd/balancer-nova.service",
        "share/balancer/systemd/balancer.service",
        "share/man/man1/balancer.1",
        "share/man/man1/emulator.1",
    }
    # As an installed package, not the checkout's: its folder goes before that in the search.
    program = "import sys; from emulator.cli import main; sys.exit(main())"
    path = {
        **os.environ,
        "PYTHONPATH": str(tmp_path / "site"),
    }

    def emulator(*arguments):
        command = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=path, check=False, capture_output=True, text=True, timeout=300
        )
        return done.returncode, done.stdout, done.stderr

    files = {
        "scenarios/default.yaml",
        "scenarios/sweeps/reserve.yaml",
        "traces/day-64.swf",
        "traces/README.md",
    }
    assert emulator("examples", "mine")[0] == 0
    assert all((tmp_path / "mine" / name).is_file() for name in files)
    status, _, said = emulator("examples", "mine")
    assert (status, "already there" in said) == (2, True)
    status, told, said = emulator("trace", "info", "mine/traces/day-64.swf")
    assert (status, "64 nodes" in told, said) == (0, True, "")
    status, told, said = emulator("sweep", "mine/scenarios/sweeps/reserve.yaml", "--dry-run")
    assert (status, "static_reserve" in told, "runs; --dry-run does none" in said) == (0, True, True)


def test_an_image_is_built_of_all_that_a_wheel_is_made_of():
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    needed = {*wheel["packages"], *wheel["force-include"], *wheel["shared-data"]}
    copied = re.findall(
        r"^COPY (\S+) \1$", (ROOT / "containers" / "Dockerfile").read_text("utf-8"), re.MULTILINE
    )
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").split() if line.startswith("!")]
    for places in (copied, sent):
        assert [
            each for each in needed if not any(Path(each).is_relative_to(place) for place in places)
        ] == []
