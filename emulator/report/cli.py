"""The commands `emulator report`, `compare`, `export` and `gui`; the main command line mounts them (`COMMANDS`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from emulator.report import compare as comparing
from emulator.report import files
from emulator.report.pairs import METRICS, HeatMap, Pairs, write_jobs
from emulator.report.summary_text import print_summary

if TYPE_CHECKING:
    from emulator.metrics.heat import Average


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
        print_summary(summary, folder)


@click.command()
@click.argument("folder_a", metavar="DIR", type=_FOLDER)
@click.argument("folder_b", metavar="DIR|FILE", type=_FOLDER)
@click.option("--heat-map", "metric", type=click.Choice(list(METRICS)),
              help="By size and run time: the average of this in the second run over that in the first.")  # fmt: skip
@click.option("--average", type=click.Choice(["mean", "median"]), default="mean", show_default=True,
              help="Of the heat map's classes.")  # fmt: skip
@click.option("--html", "page", metavar="FILE", type=_FOLDER, help="Write a page with the heat map (of slowdown, if"
              " none is named).")  # fmt: skip
@click.option("--jobs", "job_file", metavar="FILE", type=_FOLDER,
              help="Write a CSV file with the metrics of each job in both runs.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def compare(  # noqa: PLR0917
    folder_a: Path,
    folder_b: Path,
    metric: str | None,
    average: Average,
    page: Path | None,
    job_file: Path | None,
    as_json: bool,
) -> None:
    """Compare two runs job by job: a live run with a virtual one, or two mechanisms on the same jobs.

    With a FILE in the place of the second DIR, the schedule that another simulator made of the same jobs (its CSV file,
    AccaSim's sched- file, CQSim's .rst): which rule of scheduling explains the differences.

    The exit status is 0 when they are the same, 1 when they differ, 2 when a DIR cannot be read or a FILE not written.
    """
    if folder_b.is_file():
        if metric or page or job_file:
            raise UsableError(
                f"{folder_b} is a file: it is compared start by start, with --json and nothing else"
            )
        _explain(folder_a, folder_b, as_json)
    try:
        a, b = files.load(folder_a), files.load(folder_b)
    except files.ResultsError as error:
        raise UsableError(str(error)) from error
    comparison, pairs = comparing.compare(a, b), Pairs.of(a, b)
    heat = HeatMap.of(pairs, metric or "slowdown", average)
    names = str(folder_a), str(folder_b)
    try:
        if page is not None:
            from emulator.report import html  # noqa: PLC0415 - only where a page is made

            page.write_text(html.render_comparison(comparison, heat, names), encoding="utf-8")
        if job_file is not None:
            write_jobs(pairs, job_file)
    except OSError as error:
        raise UsableError(f"{error.filename}: cannot be written: {error.strerror}") from error
    if as_json:
        shown = {} if metric is None else {"heat_map": heat.to_json()}
        click.echo(json.dumps(comparison.to_json() | shown, indent=2))
    else:
        console = Console()
        console.print(comparing.render(comparison, name_a=names[0], name_b=names[1]))
        if metric is not None:
            console.print(heat.render())
    click.get_current_context().exit(0 if comparison.is_same else 1)


@click.command()
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.argument("program", type=click.Choice(["batsim", "accasim"]))
@click.option("--out", "prefix", metavar="PREFIX", type=_FOLDER, required=True,
              help="What the names of the files begin with.")  # fmt: skip
def export(folder: Path, program: str, prefix: Path) -> None:
    """Write the results in DIR as another simulator would.

    batsim: PREFIX_jobs.csv, PREFIX_schedule.csv and PREFIX_machine_states.csv. accasim: PREFIX, its dispatching plan.
    """
    from emulator.report.exports import EXPORTS  # noqa: PLC0415 - only here
    from emulator.workload.files import write_whole  # noqa: PLC0415

    try:
        texts = EXPORTS[program](files.load(folder))
        if program == "batsim":
            texts["_jobs.csv"] = (folder / files.JOBS_CSV).read_text(encoding="utf-8")
        for end, text in texts.items():
            with write_whole(prefix.with_name(prefix.name + end)) as file:
                file.write(text.encode())
    except files.ResultsError as error:
        raise UsableError(str(error)) from error
    except OSError as error:
        raise UsableError(f"{error.filename}: {error.strerror}") from error
    for end in texts:
        click.echo(prefix.with_name(prefix.name + end))


def _explain(ours: Path, theirs: Path, as_json: bool) -> None:
    from emulator.report import rules  # noqa: PLC0415 - compiled code, only here
    from emulator.report.theirs import read_theirs  # noqa: PLC0415

    try:
        found = rules.explain(files.load(ours), read_theirs(theirs))
    except files.ResultsError as error:
        raise UsableError(str(error)) from error
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        Console().print(rules.render(found, name=str(theirs)))
    click.get_current_context().exit(0 if found.is_same else 1)


@click.command()
@click.argument("folder", metavar="[DIR]", type=_FOLDER, required=False)
@click.option("--print", "print_only", is_flag=True, help="Only print where the report is.")
def gui(folder: Path | None, print_only: bool) -> None:
    """Open the report of DIR in the browser; by default the newest one of the folders in runs/."""
    folder = folder or _newest(Path("runs"))
    try:
        files.load_summary(folder)
        page = folder / files.REPORT
        page = page if page.exists() else files.rewrite_report(folder)
    except files.ResultsError as error:
        raise UsableError(str(error)) from error
    click.echo(page)
    if not print_only and click.launch(page.absolute().as_uri()):
        click.echo("no browser could be started; open the file above yourself", err=True)


def _newest(runs: Path) -> Path:
    """The folder of the newest results. Raises UsableError."""
    summaries = sorted(runs.glob(f"*/{files.SUMMARY}"), key=lambda path: path.stat().st_mtime_ns)
    if not summaries:
        raise UsableError(
            f"there are no results in {runs}/; name the folder that a run wrote its results into"
        )
    return summaries[-1].parent


COMMANDS = (report, compare, export, gui)
