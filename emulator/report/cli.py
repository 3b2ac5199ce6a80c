"""The commands `emulator report` and `emulator compare`; the main command line mounts them (`COMMANDS`)."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console

from emulator.report import compare as comparing
from emulator.report import files
from emulator.report.progress import render_summary


class UsableError(click.ClickException):
    """An error of the input: its text on stderr and exit status 2."""

    exit_code = 2


_FOLDER = click.Path(path_type=Path)


@click.command()
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def report(folder: Path, as_json: bool) -> None:
    """Make report.html anew from the results in DIR, and show the summary."""
    try:
        summary = files.load_summary(folder)
        files.rewrite_report(folder)
    except files.ResultsError as error:
        raise UsableError(str(error)) from error
    if as_json:
        click.echo(files.to_json(summary), nl=False)
    else:
        Console().print(render_summary(summary, folder))


@click.command()
@click.argument("folder_a", metavar="DIR", type=_FOLDER)
@click.argument("folder_b", metavar="DIR", type=_FOLDER)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def compare(folder_a: Path, folder_b: Path, as_json: bool) -> None:
    """Compare two runs job by job, for example a live run with a virtual one.

    The exit status is 0 when they are the same, 1 when they differ, 2 when a DIR cannot be read.
    """
    try:
        comparison = comparing.compare(files.load(folder_a), files.load(folder_b))
    except files.ResultsError as error:
        raise UsableError(str(error)) from error
    if as_json:
        click.echo(json.dumps(comparison.to_json(), indent=2))
    else:
        Console().print(comparing.render(comparison, name_a=str(folder_a), name_b=str(folder_b)))
    click.get_current_context().exit(0 if comparison.is_same else 1)


COMMANDS = (report, compare)
