"""Fake commands: small programs on PATH, written by the test that needs them; and the conformance suite."""

from __future__ import annotations

import importlib.util
import os
import stat
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from fleet_kit.slurm_site import Service, states
from polling import until
from service_kit import FakeBatch
from slurm_releases import each_root
from testdata import RECORDED


def load(name: str, path: Path):
    """Test folders are no packages, so that helpers are loaded by their path, once."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


_KIT = load("balancer_driver_kit", Path(__file__).with_name("conformance.py"))


class Programs:
    """A folder in front of PATH; `put` writes a shell program into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls_file = folder / "calls.txt"

    def put(self, name: str, body: str) -> None:
        """`body` is sh; every call is noted with its arguments."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> "{self.calls_file}"\n{body}\n', encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    @property
    def calls(self) -> list[str]:
        return self.calls_file.read_text(encoding="utf-8").splitlines() if self.calls_file.exists() else []


@pytest.fixture
def programs(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return Programs(folder)


@pytest.fixture
def reference():
    """The recorded run of a real Torque: name -> (stdout, stderr, exit status)."""

    def read(name: str) -> tuple[str, str, int]:
        text = (RECORDED / "torque" / name).read_text(encoding="utf-8")
        head, _, rest = text.partition("--- stdout\n")
        assert head.startswith("$ ")
        stdout, _, rest = rest.partition("--- stderr\n")
        stderr, _, status = rest.rpartition("--- exit status: ")
        return stdout, stderr, int(status)

    return read


def pytest_generate_tests(metafunc):
    """The faults are listed in one place, and a fixture comes too late to parametrise with them."""
    for name, faults in (("read_fault", _KIT.READ_FAULTS), ("change_fault", _KIT.CHANGE_FAULTS)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, faults)


@pytest.fixture
def kit():
    """conformance.py."""
    return _KIT


@pytest.fixture
def memory_site():
    """The fake that the service's own tests use."""
    fake = FakeBatch(["free", "other"])

    class MemorySite:
        driver = fake

        def start_job(self, node):
            fake.jobs[node] = "18.server"

        def end_job(self, node):
            del fake.jobs[node]

    return MemorySite()


@pytest.fixture(params=each_root())
def real_slurm(request):
    """`real_slurm(tmp_path, monkeypatch, ...)`: a RealSlurm of each release that is tested."""
    module = load("balancer_real_slurm", Path(__file__).with_name("real_slurm.py"))
    return partial(module.RealSlurm, root=request.param)


@pytest.fixture
def slurm_recording():
    """`slurm_recording("jobs-none.txt")`: what a real Slurm printed."""

    def read(name: str) -> str:
        text = (Path(__file__).parent / "recordings" / "slurm" / name).read_text(encoding="utf-8")
        return text.split("--- stdout\n")[1].split("--- stderr")[0]

    return read


@pytest.fixture
def site(tmp_path, monkeypatch, real_slurm):
    """`site(count=8, hooks="...", **settings)`: a real Slurm and a service for it; all ended with the test."""
    with ExitStack() as stack:

        def make(*, count, hooks="", partitions="", driver=None, **settings):
            driver = {"timeout_s": 12} | (driver or {})
            slurm = real_slurm(
                tmp_path / "slurm",
                monkeypatch,
                hooks=hooks,
                partitions=partitions,
                hold=driver.get("hold", "drain"),
                count=count,
            )
            stack.callback(slurm.close)
            slurm.start()
            until(lambda: states(slurm) == {"idle"})
            service = Service(tmp_path, slurm.names, driver={"slurm": driver}, **settings)
            stack.callback(
                lambda: service.process is None or (service.process.poll() is None and service.end())
            )
            return slurm, service

        yield make
