"""The commands `emulator report`, `compare`, `export` and `gui`; the main command line mounts them (`COMMANDS`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from emulator.commands.options import plugin_option, refuse
from emulator.report import compare as comparing
from emulator.report import files
from emulator.report.pairs import METRICS, HeatMap, Pairs, write_jobs
from emulator.report.summary_text import print_summary
from emulator.report.terminal import InputError, RunError, input_error, stdout_console

if TYPE_CHECKING:
    from emulator.metrics.heat import Average


_FOLDER = click.Path(path_type=Path)
_OPENS_WITHIN_S = 5
_NO_BROWSER = (
    "no browser could be started here; open the file above in one, or copy it to a machine that has one"
)


@click.command()
@plugin_option
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def report(folder: Path, as_json: bool) -> None:
    """Make report.html anew from the results in DIR, and show the summary."""
    try:
        summary = files.load_summary(folder)
        files.rewrite_report(folder)
    except files.ResultsError as error:
        raise InputError(str(error)) from error
    if as_json:
        click.echo(files.to_json(summary), nl=False)
    else:
        print_summary(summary, folder)


@click.command()
@click.argument("folder_a", metavar="BASELINE", type=_FOLDER)
@click.argument("others", metavar="DIR...|FILE", type=_FOLDER, nargs=-1, required=True)
@click.option("--same", is_flag=True, help="Show too how far the runs are the same, job by job; exit status 1 where"
              " they are not.")  # fmt: skip
@click.option("--other-workloads", is_flag=True,
              help="Compare runs of different workloads too (exit status 2 without this).")  # fmt: skip
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
    others: tuple[Path, ...],
    same: bool,
    other_workloads: bool,
    metric: str | None,
    average: Average,
    page: Path | None,
    job_file: Path | None,
    as_json: bool,
) -> None:
    """What changed from the run in BASELINE to each other: a live run and a virtual one, or two mechanisms.

    With a FILE in the place of the second DIR, the schedule that another simulator made of the same jobs (its CSV file,
    AccaSim's sched- file, CQSim's .rst): which rule of scheduling explains the differences.

    The exit status is 0 when the runs are compared, 1 when they differ and --same is given (or a FILE differs), 2 when
    their workloads differ, a DIR cannot be read or a FILE not written.
    """
    only_pair = metric or page or job_file
    if not (metric or page):
        refuse({"average"}, "it is that of a heat map (--heat-map, --html)")
    if any(other.is_file() for other in others):
        if only_pair or same or other_workloads or len(others) > 1:
            raise InputError(
                f"{others[0]} is a file: it is compared start by start, with --json and nothing else"
            )
        _explain(folder_a, others[0], as_json)
    if only_pair and len(others) > 1:
        raise InputError("--heat-map, --html and --jobs compare two runs; name one DIR after the baseline")
    try:
        a = files.load(folder_a)
        records = [files.load(other) for other in others]
    except files.ResultsError as error:
        raise InputError(str(error)) from error
    found = [comparing.compare(a, b) for b in records]
    refused = (
        [comparison for comparison in found if comparison.workload_difference] if not other_workloads else []
    )
    heat = None
    if only_pair and not refused:
        pairs = Pairs.of(a, records[0])
        heat = HeatMap.of(pairs, metric or "slowdown", average)
        _write_pair(found[0], pairs, heat, (str(folder_a), str(others[0])), page, job_file)
    shown = heat if metric else None
    if as_json:
        _print_json(found, shown)
    else:
        _print_comparisons(found, str(folder_a), [str(other) for other in others], same=same, heat=shown)
    if refused:
        raise InputError("the workloads differ; --other-workloads compares the runs all the same")
    click.get_current_context().exit(1 if same and not all(comparison.is_same for comparison in found) else 0)


def _write_pair(  # noqa: PLR0917
    comparison: comparing.Comparison,
    pairs: Pairs,
    heat: HeatMap,
    names: tuple[str, str],
    page: Path | None,
    job_file: Path | None,
) -> None:
    try:
        if page is not None:
            from emulator.report import html  # noqa: PLC0415 - only where a page is made

            page.write_text(html.render_comparison(comparison, heat, names), encoding="utf-8")
        if job_file is not None:
            write_jobs(pairs, job_file)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be written: {error.strerror}") from error


def _print_json(found: list[comparing.Comparison], heat: HeatMap | None) -> None:
    """One object for two runs, a list of them for more."""
    shown = [
        comparison.to_json() | ({} if heat is None else {"heat_map": heat.to_json()}) for comparison in found
    ]
    click.echo(json.dumps(shown[0] if len(shown) == 1 else shown, indent=2))


def _print_comparisons(
    found: list[comparing.Comparison], baseline: str, names: list[str], *, same: bool, heat: HeatMap | None
) -> None:
    console = stdout_console()
    for name, comparison in zip(names, found, strict=True):
        if len(found) > 1:
            click.echo(f"{name} against {baseline}:")
        console.print(comparing.render(comparison, name_a=baseline, name_b=name, same=same))
        if len(found) > 1:
            click.echo()
    if heat is not None:
        console.print(heat.render())
    lines = list(
        dict.fromkeys(
            comparing.interval_line(comparison.mean_wait_change_s)
            for comparison in found
            if not comparison.is_same
        )
    )
    for line in lines:
        click.echo(line)


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
        raise InputError(str(error)) from error
    except OSError as error:
        raise input_error(error) from error
    for end in texts:
        click.echo(prefix.with_name(prefix.name + end))


def _explain(ours: Path, log: Path, as_json: bool) -> None:
    from emulator.report import rules  # noqa: PLC0415 - compiled code, only here
    from emulator.report.theirs import read_theirs  # noqa: PLC0415

    try:
        found = rules.explain(files.load(ours), read_theirs(log))
    except files.ResultsError as error:
        raise InputError(str(error)) from error
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        stdout_console().print(rules.render(found, name=str(log)))
    click.get_current_context().exit(0 if found.is_same else 1)


@click.command()
@click.argument("folder", metavar="[DIR]", type=_FOLDER, required=False)
@click.option("--print", "print_only", is_flag=True, help="Only print where the report is.")
def gui(folder: Path | None, print_only: bool) -> None:
    """Open the report of DIR in the browser; by default the newest one of runs/, studies/, sweeps/ and reproduce/.

    Exit status: 1 no browser could be started, 2 there is no report.
    """
    folder = folder or _newest()
    page = folder / files.REPORT
    try:
        page = page if page.exists() else files.rewrite_report(folder)
    except files.ResultsError as error:
        raise InputError(str(error)) from error
    click.echo(page)
    if not print_only and not _is_opened(page.absolute()):
        raise RunError(_NO_BROWSER)


def _is_opened(page: Path) -> bool:
    """Whether the desktop's browser was started. A program that is still there after a while is taken for it."""
    if sys.platform != "linux":
        return click.launch(page.as_uri()) == 0
    try:
        opener = subprocess.Popen(["xdg-open", page], stderr=subprocess.DEVNULL)
        return opener.wait(_OPENS_WITHIN_S) == 0
    except OSError:
        return False
    except subprocess.TimeoutExpired:
        return True


def _newest() -> Path:
    """The folder of the newest results: a run's, whose page may not be made yet, or a page. Raises InputError."""
    found = [*Path("runs").glob(f"*/{files.SUMMARY}")]
    for kind in ("studies", "sweeps", "reproduce"):
        found += Path(kind).glob(f"*/{files.REPORT}")
    if not found:
        raise InputError(
            "there are no results in runs/, studies/, sweeps/ and reproduce/; name the folder with the results"
        )
    return max(found, key=lambda path: path.stat().st_mtime_ns).parent


COMMANDS = (report, compare, export, gui)
