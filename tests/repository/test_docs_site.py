"""The docs site builds, whole and without a network; the operator's tutorial does what it says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from polling import until

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorials" / "operator.md"
_FETCHED = re.compile(r"""<(?:script|link|img)[^>]*(?:src|href)=["'](?:https?:)?//""")


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path):
    site = tmp_path / "site"
    run = subprocess.run(
        [sys.executable, ROOT / "docs" / "site" / "build.py", site],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    pages = {page.relative_to(site).as_posix(): page.read_text("utf-8") for page in site.rglob("*.html")}
    assert {"index.html", "tutorials/operator.html", "checkout/CHANGELOG.html"} <= pages.keys()
    assert "emulator.sweep" in pages["reference/python.html"]
    assert "--idle-hold-s" in pages["reference/commands.html"]
    assert (
        'href="reference/claims.html#the-twin-and-the-real-slurm"' in pages["slurm-twin.html"]
    )  # a file's page
    assert [name for name, text in pages.items() if _FETCHED.search(text)] == []


def shell_of(page):
    """The lines of a page's blocks of commands."""
    return [line.strip() for line in page.read_text("utf-8").splitlines() if line.startswith("    ")]


@pytest.mark.slow
def test_an_operator_tries_the_service_on_a_machine_that_is_a_folder(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    lines = shell_of(TUTORIAL)
    serve = next(number for number, line in enumerate(lines) if line.startswith("balancer serve"))
    until_busy = next(number for number, line in enumerate(lines) if "echo busy" in line)

    def run(script, url=""):
        return subprocess.run(
            ["bash", "-ec", script],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "BALANCER_URL": url},
            capture_output=True,
            text=True,
            check=False,
        )

    def words():
        return sorted(file.read_text("utf-8").strip() for file in (tmp_path / "machine").iterdir())

    prepared = "\n".join(lines[:serve])
    ready = tmp_path / "ready.json"
    service = subprocess.Popen(
        ["bash", "-ec", f"{prepared}\nexec {lines[serve]} --port 0 --ready-file {ready}"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        stdout=subprocess.DEVNULL,
    )
    try:
        until(lambda: ready.exists() and ready.read_text())
        url = re.search(r'"url": "([^"]+)"', ready.read_text())[1]
        until(lambda: words() == ["idle"] * 6 + ["offline"] * 2)  # the reserve
        for command in lines[serve + 1 : until_busy]:
            shown = run(command, url)
            assert shown.returncode == 0, (command, shown.stderr)
        until(lambda: words() == ["idle"] * 5 + ["offline"] * 3)  # granted: R counts them
        run(lines[until_busy])
        assert words() == ["busy"] * 5 + ["offline"] * 3
    finally:
        service.send_signal(signal.SIGTERM)
        assert service.wait(60) == 0
