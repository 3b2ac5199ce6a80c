"""What tests leave open fails the run, also where only the end of a worker finds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CONFTEST = """
import gc
from leaks import LeaksPlugin
gc.disable()
def pytest_configure(config): config.pluginmanager.register(LeaksPlugin(), "leaks")
"""
PLANTED = """
def test_that_opens_a_file(tmp_path):
    kept = [open(tmp_path / "file", "w")]
    {last}
    kept.append(kept)  # only a collection finds it
"""


@pytest.fixture
def run(tmp_path):
    """The status and the output of a run of one test, in one worker, whose last line is this."""

    def run(last):
        (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
        (tmp_path / "test_planted.py").write_text(PLANTED.format(last=last), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir",
             tmp_path, tmp_path],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(TESTS)}, cwd=tmp_path,
            check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout

    return run


@pytest.mark.slow
def test_a_file_that_is_left_open_fails_the_run_whose_tests_all_passed(run):
    status, output = run("pass")
    assert (status, "1 passed" in output, "left open by some test: unclosed file" in output) == (
        1,
        True,
        True,
    )


@pytest.mark.slow
def test_a_file_that_is_closed_does_not(run):
    status, output = run("kept[0].close()")
    assert (status, "1 passed" in output, "left open" in output) == (0, True, False)
