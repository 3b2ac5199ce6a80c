"""What `scripts/setup` says on a machine on which it cannot work: one line, status 2, nothing written."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FULL_DISK = "printf 'Avail\\n120\\n'"
OLD_PYTHON = 'case "$1" in -c) exit 1 ;; *) echo "Python 3.9.2" ;; esac'


@pytest.fixture
def checkout(tmp_path):
    """A checkout without an environment, and a folder of programs that stand before the system's."""
    for name in ("scripts/setup", "requirements.lock", "requirements-test.lock", "pyproject.toml"):
        (tmp_path / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "checkout" / name)
    (tmp_path / "bin").mkdir()
    return tmp_path / "checkout"


def words_of_setup(checkout, program, body, *arguments):
    """Of a run in which `program` is a shell script of this body; it is refused and leaves nothing."""
    stand_in = checkout.parent / "bin" / program
    stand_in.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    stand_in.chmod(0o755)
    before = sorted(checkout.rglob("*"))
    environment = {**os.environ, "PATH": f"{stand_in.parent}:{os.environ['PATH']}"}
    environment.pop("PYTHON", None)
    done = subprocess.run(
        [checkout / "scripts/setup", *arguments],
        check=False, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert (done.returncode, sorted(checkout.rglob("*"))) == (2, before)
    return done.stdout


@pytest.mark.parametrize(("arguments", "needed_mb"), [((), 900), (("--test",), 1500)])
def test_too_little_space_is_said_before_anything_is_written(checkout, arguments, needed_mb):
    assert words_of_setup(checkout, "df", FULL_DISK, *arguments) == (
        f"scripts/setup: no space: .venv takes about {needed_mb} MB, and 120 MB are free in {checkout}. "
        "Nothing was changed.\n"
    )


def test_a_python_that_is_too_old_is_named(checkout):
    assert words_of_setup(checkout, "python3", OLD_PYTHON) == (
        "scripts/setup: Python 3.11 or newer is needed; Python 3.9.2 found. Set PYTHON=/path/to/python3.11.\n"
    )
