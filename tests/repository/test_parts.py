"""A test says which system parts it needs; one that starts a program without a word fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import parts

TESTS = Path(__file__).parents[1]
HOME_MADE = re.compile(
    r"""shutil\.which|environ(?:\.get\(|\[)["']CI["']|["']CI["'] (?:not )?in os\.environ"""
)
CONFTEST = "import parts\ndef pytest_configure(config): parts.install(config)\n"


@pytest.fixture
def tried(tmp_path, monkeypatch):
    """`tried(text, "curl", CI="1")`: what pytest says of a module on a machine with these programs only."""
    has = tmp_path / "usr"
    has.mkdir()

    def run(text, *programs, **environ):
        for name in programs:
            (has / name).write_text("#!/bin/sh\n")
            (has / name).chmod(0o755)
        (tmp_path / "conftest.py").write_text(
            f"import parts\nfrom pathlib import Path\nparts.SEARCH = {str(has)!r}\n"
            f"parts._SYSTEM = (Path({str(has)!r}),)\n{CONFTEST}"
        )
        (tmp_path / "test_planted.py").write_text(f"import pytest, subprocess\n{text}")
        kept = {name: value for name, value in os.environ.items() if name not in {"CI", "PYTEST_ADDOPTS"}}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", tmp_path,
             tmp_path],
            env=kept | {"PATH": f"{has}:/usr/bin:/bin", "PYTHONPATH": str(TESTS)} | environ,
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        return done.stdout + done.stderr

    return run


RUNS_CURL = 'subprocess.run(["curl", "x"], check=True)'
PLANTED = f"""
def test_by_itself(): {RUNS_CURL}
def test_in_a_script(): subprocess.run(["bash", "-euc", "true; id=$(curl -s x | cat)"], check=True)
def test_in_a_line(): subprocess.run("curl x", shell=True, check=True)
@pytest.fixture
def answer(): {RUNS_CURL}
def test_by_a_fixture(answer): pass
@pytest.mark.needs("git")
def test_that_names_another(): {RUNS_CURL}
"""


def test_a_test_that_starts_curl_and_does_not_say_so_fails(tried):
    said = tried(PLANTED, "curl", "git")
    assert said.count("\nstarts curl and does not say so: @pytest.mark.needs('curl')\n") == 5
    assert "5 failed" in said


@pytest.mark.slow
def test_a_test_that_says_so_is_run_and_where_curl_is_missing_skipped_or_in_ci_failed(tried):
    text = f'@pytest.mark.needs("curl")\ndef test_it(): {RUNS_CURL}\n'
    skipped = tried(text)
    assert "skipped 1 for want of curl (1); they come with: apt-get install curl\n" in skipped
    assert "1 skipped" in skipped
    failed = tried(text, CI="1")
    assert "needs curl: apt-get install curl" in failed
    assert "1 error" in failed
    passed = tried(text, "curl")
    assert "1 passed" in passed
    assert "for want of" not in passed


def test_a_test_that_brings_a_stand_in_needs_nothing(tried):
    text = (
        "import os\ndef test_it(tmp_path, monkeypatch):\n"
        "    (tmp_path / 'curl').write_text('#!/bin/sh\\n')\n"
        "    (tmp_path / 'curl').chmod(0o755)\n"
        "    monkeypatch.setenv('PATH', f'{tmp_path}:{os.environ[\"PATH\"]}')\n"
        f"    {RUNS_CURL}\n"
    )
    assert "1 passed" in tried(text)


def test_a_part_that_nobody_knows_is_told(tried):
    said = tried('@pytest.mark.needs("kurl")\ndef test_it(): pass')
    assert "test_it: needs('kurl') is no part; those there are: slurm, libfaketime" in said


def test_no_test_asks_for_a_program_or_for_ci_in_a_way_of_its_own():
    own = {TESTS / "parts.py", Path(__file__)}
    found = [path for path in TESTS.rglob("*.py") if path not in own and HOME_MADE.search(path.read_text())]
    assert [str(path.relative_to(TESTS)) for path in found] == []


def test_parts_are_brought_by_what_ci_installs():
    (installed,) = re.findall(
        r"^packages=\((.*)\)$", (TESTS.parent / ".ci" / "run").read_text(), re.MULTILINE
    )
    wanted = {package for part in parts.PARTS.values() for package in part.packages}
    assert wanted <= set(installed.split())


def test_what_is_missing_for_a_part_is_missing_for_what_needs_it(monkeypatch):
    monkeypatch.setattr(parts, "is_here", lambda name: name != "engine")
    assert parts.lacking(["fleet-images", "curl"]) == ["engine", "fleet-images"]
    assert parts.brought_by(["engine", "fleet-images"]) == "scripts/docker-engine start, scripts/fleet-images"
    assert parts.brought_by(["curl", "slurm"]) == "apt-get install curl slurmctld slurmd slurm-client"
