"""An option that takes one value and is given two is refused with status 2: none of them is ignored in silence."""

from __future__ import annotations

import weakref

import click
import pytest

from command_line import balance, emulate
from emulator.cli import main


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("run", "--trace", "a.swf", "--trace", "b.swf"), "--trace"),
        (("run", "a.swf", "--scheduler", "fcfs", "--scheduler", "sjf+easy"), "--scheduler"),
        (("trace", "info", "a.swf", "--nodes", "4", "--nodes", "8"), "--nodes"),
        (
            ("study", "merge", "--batch", "a", "--batch", "b", "--ondemand", "c", "--on-demand", "d"),
            "--batch",
        ),
    ],
)
def test_the_emulator_names_it(tmp_path, monkeypatch, words, option):
    monkeypatch.chdir(tmp_path)
    done = emulate(*words)
    assert done.exit_code == 2
    assert f"emulator: {option} is given more than once, and it takes one value; `emulator" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("status", "--url", "http://a:1", "--url", "http://b:1"),
        ("ledger", "verify", "--db", "a", "--db", "b"),
    ],
)
def test_the_balancer_names_it(words):
    done = balance(*words)
    assert (done.exit_code, f"Error: {words[-2]} is given more than once" in done.stderr) == (2, True), (
        done.output
    )


def test_of_the_services_own_options_the_last_counts_and_that_is_told(tmp_path, monkeypatch):
    """The files of a unit add theirs behind those of others."""
    monkeypatch.chdir(tmp_path)
    done = balance("serve", "--nodes", "n[1", "--nodes", "n[2")
    said = done.stderr.splitlines()
    assert done.exit_code == 2
    assert said[0] == "balancer: --nodes is given more than once, and it takes one value: the last one counts"
    assert "n[2" in said[-1]


def test_options_that_take_many_values_and_switches_may_come_again():
    done = emulate("run", "no.yaml", "--set", "nodes=4", "--set", "seed=1", "--quiet", "--quiet")
    assert done.stderr == "emulator: no.yaml: No such file or directory\n"


def test_a_command_that_is_called_again_says_it_once():
    for _ in range(3):
        done = emulate("run", "--trace", "a.swf", "--trace", "b.swf")
    assert done.stderr.count("--trace") == 1


def test_a_context_of_a_command_line_is_gone_when_nobody_uses_it():
    """It holds open what options opened, such as plug-ins."""
    command = main.get_command(click.Context(main), "run")
    context = weakref.ref(command.make_context("run", ["a.swf"]))
    assert context() is None
