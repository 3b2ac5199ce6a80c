"""`emulator reproduce` finds the logs of the papers in the checkout, and says what to do where they are not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import emulator
from command_line import emulate
from emulator.experiments.logs import checkout_logs, find_log
from emulator.experiments.paper import GROUP, Options, find_paper
from emulator.plugins import plugin_names
from emulator.runs.scenario import ScenarioError
from testdata import TRACES


@pytest.mark.parametrize("name", plugin_names(GROUP))
def test_every_paper_plans_its_runs_with_what_is_in_the_checkout(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paper = find_paper(name)
    traces = checkout_logs() if paper.reads_logs else None
    assert paper.sweep(Options(quick=True, traces=traces, seeds=1)).runs


def test_a_log_is_found_under_each_of_its_names_plain_or_compressed(tmp_path):
    (tmp_path / "b.swf.gz").touch()
    assert find_log(tmp_path, "a.swf", "b.swf") == tmp_path / "b.swf.gz"
    (tmp_path / "b.swf").touch()
    assert find_log(tmp_path, "a.swf", "b.swf") == tmp_path / "b.swf"
    (tmp_path / "a.swf.xz").touch()
    assert find_log(tmp_path, "a.swf", "b.swf") == tmp_path / "a.swf.xz"


def test_a_log_that_is_nowhere_is_named(tmp_path):
    with pytest.raises(ScenarioError, match=r"there is no a\.swf nor b\.swf .*; give --traces a folder"):
        find_log(tmp_path, "a.swf", "b.swf")


def refused(*words: str) -> str:
    done = emulate("reproduce", *words)
    assert done.exit_code == 2, done.output
    return " ".join(done.output.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("hybrid", "--traces", str(TRACES)), "reproduce hybrid: its workloads are generated always"),
        (("realtime", "--stand-in"), "reproduce realtime: its workloads are generated always"),
        (("balancer", "--stand-in", "--traces", str(TRACES)), "give either --traces or --stand-in, not both"),
        (("malleable", "--stand-in"), "reproduce malleable: there is no stand-in for its logs"),
    ],
)
def test_what_makes_no_sense_is_refused(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refused(*words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("paper", ["balancer", "oversubscribe", "malleable"])
def test_a_folder_without_the_logs_is_refused(paper, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "give --traces a folder that has it" in refused(paper, "--traces", str(tmp_path), "--quick")
    assert list(tmp_path.iterdir()) == []


def test_where_only_the_package_is_installed_it_says_where_the_logs_are(tmp_path):
    site = tmp_path / "site"
    shutil.copytree(
        Path(emulator.__file__).parent, site / "emulator", ignore=shutil.ignore_patterns("__pycache__")
    )
    (site / "traces").mkdir()  # some other package of that name
    program = "from emulator.cli import main; main(['reproduce', 'balancer', '--quick'])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "the papers' logs are no part of the installed package: give --traces" in done.stderr
