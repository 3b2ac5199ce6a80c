"""`emulator reproduce tables`: figures that others have published, number by number."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from balancer.plugins import nearest
from emulator.experiments.logs import find_log
from emulator.experiments.published.table import FOLDER, Outcome, read_table, run_row, table_names
from emulator.report.terminal import stdout_console
from emulator.runs.scenario import ScenarioError
from emulator.text.number_text import number_of, percent
from emulator.workload.files import TraceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.experiments.published.table import FigureCheck, PublishedTable

TABLES = "tables"
"""Stands for all of them where a paper's name is expected."""
_COLOURS = {
    Outcome.EXACT: "green",
    Outcome.LAST_DIGIT: "yellow",
    Outcome.DIFFERS: "red",
    Outcome.BESIDE: "dim",
}


def reproduce_tables(only: Sequence[str], traces: Path, *, as_json: bool, quiet: bool) -> None:
    """Run the tables named `only`, or all; print them. A log that is not in `traces` is told of, and the next is run.

    Raises ScenarioError for a name that is none, and for bad input.
    """
    documents = []
    for path in [_file_of(name) for name in only or table_names()]:
        table = read_table(path)
        if not quiet and not as_json:
            click.echo(f"{path.stem}: {number_of(len(table.rows), 'row')}", err=True)
        found, missing = _run(table, path.stem, traces)
        documents.append(_document(path.stem, table, found, missing))
        if not as_json:
            _print(path.stem, table, found, missing)
    if as_json:
        click.echo(
            json.dumps(documents if len(documents) > 1 else documents[0], indent=2, ensure_ascii=False)
        )


def _file_of(name: str) -> Path:
    """The file of a table by its name; a path is that of a table of one's own."""
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    known = table_names()
    if name not in known:
        raise ScenarioError(
            f"reproduce tables --only {name}: no such table{nearest(name, known)}; one of your own is a .yaml file"
        )
    return FOLDER / f"{name}.yaml"


def _run(table: PublishedTable, name: str, traces: Path) -> tuple[list[FigureCheck], str]:
    """The figures, and what is missing for them, empty if nothing is. Raises ScenarioError."""
    try:
        find_log(traces, table.log)
    except ScenarioError:
        return [], f"{traces} has no {table.log}. {table.log_from}"
    found: list[FigureCheck] = []
    for row in table.rows:
        try:
            found += run_row(table, row, traces)
        except (ScenarioError, TraceError) as error:
            raise ScenarioError(f"{name}: row {row.name}: {error}") from error
    return found, ""


def _document(name: str, table: PublishedTable, found: Sequence[FigureCheck], missing: str) -> dict[str, Any]:
    return {
        "name": name,
        **table.model_dump(include={"title", "paper", "figures_from", "log", "log_from", "about"}),
        "missing": missing,
        "counts": _counts(found),
        "numbers": [each.as_json() for each in found],
    }


def _counts(found: Sequence[FigureCheck]) -> dict[str, int]:
    counted = Counter(each.outcome for each in found)
    return {outcome.value: counted[outcome] for outcome in Outcome}


def _print(name: str, table: PublishedTable, found: Sequence[FigureCheck], missing: str) -> None:
    console = stdout_console()
    console.print(
        f"[bold]{name}[/bold]: {table.title}\n{table.paper}\nFigures: {table.figures_from}\nLog: {table.log}"
    )
    if table.about:
        console.print(table.about)
    if missing:
        console.print(f"Not run: {missing}\n")
        return
    shown = Table("row", "figure", "published", "ours", "")
    for each in found:
        colour = _COLOURS[each.outcome]
        verdict = each.outcome.value
        if each.outcome is Outcome.DIFFERS:
            verdict += "" if each.difference is None else f" by {percent(each.difference, 2, signed=True)}"
        shown.add_row(
            each.row, each.figure, each.published, f"{each.ours:.12g}", f"[{colour}]{verdict}[/{colour}]"
        )
    console.print(shown)
    for reason in dict.fromkeys(each.reason for each in found if each.reason):
        rows = dict.fromkeys(each.row for each in found if each.reason == reason)
        console.print(f"{', '.join(rows)}: {reason}")
    console.print(", ".join(f"{count} {outcome}" for outcome, count in _counts(found).items()) + "\n")
