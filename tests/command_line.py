"""`emulator WORDS...` and `balancer WORDS...` in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from balancer.console.commands import cli
from emulator.cli import main

if TYPE_CHECKING:
    from click.testing import Result


def emulate(*words: object, **options: Any) -> Result:
    """What the command prints, and its exit status; `options` as for `CliRunner.invoke`."""
    return CliRunner().invoke(main, [str(word) for word in words], prog_name="emulator", **options)


def study_merge(batch: object, ondemand: object, out: object, *more: object) -> Result:
    """On one core, with one predictor and one notice."""
    usual = ("--jobs", 1, "--predictor", "peak", "--notice-min", 30, "--out", out)
    return emulate("study", "merge", "--batch", batch, "--ondemand", ondemand, *usual, *more)


def balance(*words: object, **options: Any) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="balancer", **options)
