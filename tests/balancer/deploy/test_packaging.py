"""The service runs with its own packages alone: what only the emulator or a plug-in needs is an extra."""

from __future__ import annotations

import subprocess
import sys
import tomllib
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
needs_an_extra = {"balancer.drivers.openstack"}
for module in pkgutil.walk_packages(balancer.__path__, "balancer."):
    if module.name not in needs_an_extra and not module.name.endswith("__main__") and ".migrations" not in module.name:
        importlib.import_module(module.name)
from balancer.app import openapi_text
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


def test_a_cloud_whose_package_is_missing_says_what_to_install():
    code = """
import sys
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
    assert "pip install 'balancer-emulator[openstack]'" in done.stdout
