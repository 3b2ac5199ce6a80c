"""Options stand in groups, names are completed, and errors have one form."""

from __future__ import annotations

import re

import pytest

from command_line import emulate
from emulator.plugins import plugin_names


def completed(words, place):
    """What the shell is offered for the word at `place`."""
    asked = {"_EMULATOR_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(place)}
    done = emulate(env=asked)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("command", "sections"),
    [
        (("run",), ["What runs", "Live", "Results", "While it runs", "Of a replay", "Other options"]),
        (
            ("study", "merge"),
            ["The two logs", "What is tried", "What you accept", "How it is done", "Other options"],
        ),
    ],
)
def test_options_stand_in_groups_and_only_help_in_none(command, sections):
    text = emulate(*command, "--help").stdout
    assert re.findall(r"^(\S.*):$", text, re.MULTILINE) == sections
    other = text[text.index("Other options:") :]
    assert re.findall(r"--[\w-]+", other) == ["--help"]


def test_papers_and_schedulers_are_completed():
    assert completed("emulator reproduce ", 2) == plugin_names("emulator.papers")
    assert completed("emulator run --scheduler fcf", 3) == ["fcfs"]
    assert {"fcfs+easy", "fcfs+conservative", "fcfs+none"} <= set(
        completed("emulator run --scheduler fcfs+", 3)
    )
    assert {"mechanism=", "moldable="} <= set(completed("emulator run --set m", 3))
    assert completed("emulator run --set mechanism=hyb", 3) == ["mechanism=hybrid"]
    assert completed("emulator run --set scheduler=fcf", 3) == ["scheduler=fcfs"]
    assert "transform" in completed("emulator plugins ", 2)
    assert completed("emulator trace generate lub", 3) == ["lublin"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "--bogus"), "`emulator run --help` shows what there is"),
        (("compare",), "Missing argument 'BASELINE'"),
        (("compare", "no-such-folder", "nor-this"), "no-such-folder/summary.json does not exist"),
        (("trace", "info", "no-such-log"), "no-such-log"),
        (("bogus",), "unknown command 'bogus'"),
        (("bogus.swf",), "bogus.swf: no such file"),
        (("run", "nodes=64nodes"), "nodes=64nodes: there is no such file; `--set nodes=64nodes` changes a key"),
        (("run", "scenarios/default.yaml", "nodes=64"), "`--set KEY=VALUE` changes a key of a scenario"),
        (("run", "scenarios/default.yaml", "--set", "nodes=64nodes"), "nodes: '64nodes' is neither a number"),
    ],
)  # fmt: skip
def test_every_error_has_the_same_prefix_and_is_one_line(arguments, said, request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    done = emulate(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("emulator: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_table_in_a_pipe_keeps_all_its_digits(tmp_path, request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    monkeypatch.setenv("COLUMNS", "20")
    name = "a-folder-with-quite-a-long-name"
    assert emulate("run", "scenarios/default.yaml", "--out", str(tmp_path / name), "--quiet").exit_code == 0
    done = emulate("compare", str(tmp_path / name), str(tmp_path / name))
    assert "…" not in done.stdout
    assert re.search("^batch jobs run +300 +300 +the same", done.stdout, re.MULTILINE)
