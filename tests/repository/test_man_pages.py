"""The manual pages that wheels carry are those of the commands as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAN = ROOT / "docs" / "man"

sys.path.insert(0, str(ROOT / "docs" / "site"))

from man_pages import page  # noqa: E402


@pytest.mark.parametrize("name", ["balancer", "emulator"])
def test_a_manual_page_says_what_the_command_says_of_itself(name):
    assert (MAN / f"{name}.1").read_text("utf-8") == page(name), "old: run python docs/site/man_pages.py"


def test_all_commands_and_their_options_are_in_the_manual():
    pages = {name: page(name) for name in ("balancer", "emulator")}
    assert ".SS balancer ledger verify" in pages["balancer"]
    assert ".SS emulator study merge" in pages["emulator"]
    assert r"\fB\-\-no\-report\fR" in pages["emulator"]
    assert len(re.findall(r"^\.SS", pages["balancer"] + pages["emulator"], re.MULTILINE)) > 40


@pytest.mark.needs("groff")
@pytest.mark.parametrize("name", ["balancer", "emulator"])
def test_the_formatter_has_nothing_to_say_against_a_manual_page(name):
    made = subprocess.run(
        ("groff", "-man", "-Tutf8", "-ww", MAN / f"{name}.1"), capture_output=True, text=True, check=True
    )
    assert made.stderr == ""


@pytest.mark.parametrize(
    ("program", "words", "offered"),
    [
        ("emulator", "emulator re", {"replay", "report", "reproduce"}),
        ("balancer", "balancer le", {"ledger"}),
        ("balancer", "balancer ledger ba", {"backup"}),
    ],
)
def test_the_shell_completes_commands(program, words, offered):
    done = subprocess.run(
        (Path(sys.executable).with_name(program),),
        env={
            "PATH": "/usr/bin",
            f"_{program.upper()}_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert {line.partition(",")[2] for line in done.stdout.split()} == offered, done.stderr
