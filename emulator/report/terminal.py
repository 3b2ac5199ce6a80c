"""What all commands print alike: one form of errors, and tables that lose nothing."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import click

from emulator.text.file_errors import ADVICE, refusal

if TYPE_CHECKING:
    from rich.console import Console

_EXTRA_KEY = re.compile(r"unexpected extra arguments? \(.*\w=")
_NO_LIMIT = 100_000
"""Columns of a file or a pipe."""


class InputError(click.ClickException):
    """Bad input: one clear line, exit status 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"emulator: {self.message}", file=file, err=file is None)


class RunError(InputError):
    """The input is good, what was asked for could not be done: exit status 1."""

    exit_code = 1


class UsageError(InputError):
    """What click says of a command line, in the form of all errors, with the command that has the help."""

    def __init__(self, error: click.UsageError) -> None:
        help_of = "" if error.ctx is None else f" `{error.ctx.command_path} --help` shows what there is"
        said = " ".join(error.format_message().split()).rstrip(".")
        # A key of the scenario that was given as a word of its own.
        hint = "; `--set KEY=VALUE` changes a key of a scenario" if _EXTRA_KEY.search(said) else ""
        joint = "" if not help_of or said.endswith("?") else ";"
        super().__init__(f"{said}{hint}{joint}{help_of}")


class StoppedError(InputError):
    """Ctrl-C, where a command has no results of its own to name: exit status 130, as shells have it."""

    exit_code = 130

    def __init__(self) -> None:
        super().__init__("stopped by the user; run the same command again")


def file_error(error: OSError) -> InputError | None:
    """The error as one line with what to do; None if no file that the user named can have been the cause."""
    if error.errno not in ADVICE:
        return None
    where = "" if error.filename is None else f"{error.filename}: "
    return InputError(f"{where}{refusal(error)}")


def input_error(error: Exception) -> InputError:
    """What was wrong with an input, as one line."""
    return (file_error(error) if isinstance(error, OSError) else None) or InputError(str(error))


def stdout_console(**options: Any) -> Console:
    """For tables and texts on stdout; where that is no terminal, lines are as long as what is in them."""
    from rich.console import Console  # noqa: PLC0415 - slow to load; most runs need none

    width = None if sys.stdout.isatty() else _NO_LIMIT
    return Console(width=width, **options)
