"""Fake Torque commands: small programs on PATH, written by the test that needs them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[4] / "shared" / "reference" / "torque"


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
        text = (REFERENCE / name).read_text(encoding="utf-8")
        head, _, rest = text.partition("--- stdout\n")
        assert head.startswith("$ ")
        stdout, _, rest = rest.partition("--- stderr\n")
        stderr, _, status = rest.rpartition("--- exit status: ")
        return stdout, stderr, int(status)

    return read
