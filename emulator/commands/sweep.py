"""`emulator sweep`: many runs from one file."""

from __future__ import annotations

import json
import os
import sys
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from balancer.clock import US, wall_us
from emulator.commands.options import figures, plugin_option, refuse, tell_unused
from emulator.commands.run import interruptible
from emulator.report.progress import time_left
from emulator.report.terminal import InputError, stdout_console
from emulator.runs.scenario import ScenarioError
from emulator.text.number_text import number, number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from emulator.sweeps.grid import Run, Sweep
    from emulator.sweeps.pools import Pool
    from emulator.sweeps.ranking import Ranked

_SILENT_US = 2 * US
_LINE_US = 5 * US
_SHOWN_FAILURES = 10
_OF_RUNS = {"jobs", "dask", "out", "highest", "keeps_runs", "quiet", "as_json"}
_PAGE = "report.html"


class SweepProgress:
    """One bar on a terminal, a line every five seconds elsewhere, nothing in the first two seconds.

    `costs`: what each run costs beside the others, in the order in which they are begun; the time left goes by them.
    `what`: that which is counted.
    """

    def __init__(self, *, quiet: bool, costs: Iterable[float] = (), what: str = "runs") -> None:
        self._quiet, self._what = quiet, what
        self._cost_of_first = [0.0, *accumulate(costs)]
        self._last = 0
        self._before: float | None = None
        self._began: tuple[int, float] | None = None
        """When the first run was over, and what was done then: until then processes started and kernels were loaded."""
        self._console = Console(stderr=True)
        self._due_us = wall_us() + _SILENT_US
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Take the bar away; the next update begins another one."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def say(self, text: str) -> None:
        """A line above the bar."""
        if not self._quiet:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def update(self, over: int, total: int) -> None:
        """So many of all are over; fewer than before: another count begins."""
        if over < self._last:
            self._before = self._began = None
        self._last = over
        done, all_ = self._cost(over, total), self._cost(total, total)
        if self._before is None:
            self._before = done
        elif self._began is None and done > self._before:
            self._began = wall_us(), done
        if self._quiet or (self._bar is None and wall_us() < self._due_us):
            return
        if not self._console.is_terminal:
            text = ", ".join(filter(None, (f"{over} of {total} {self._what} done", self._left(done, all_))))
            self._console.print(text, highlight=False)
            self._due_us = wall_us() + _LINE_US
            return
        if self._bar is None:
            self._bar = Progress(
                BarColumn(bar_width=24), TextColumn("{task.fields[runs]} {task.fields[what]}  {task.fields[left]}"),
                console=self._console, transient=True,
            )  # fmt: skip
            self._bar.add_task("", total=all_, runs="", what=self._what, left="")
            self._bar.start()
        task = self._bar.task_ids[0]
        self._bar.update(
            task, completed=done, total=all_, runs=f"{over}/{total}", left=self._left(done, all_)
        )

    def _left(self, done: float, all_: float) -> str:
        if self._began is None:
            return ""
        began_us, before = self._began
        return (
            time_left((wall_us() - began_us) / US, (done - before) / (all_ - before)) if all_ > before else ""
        )

    def _cost(self, runs: int, total: int) -> float:
        """Of so many runs; each costs the same if it is not known."""
        return self._cost_of_first[runs] if len(self._cost_of_first) == total + 1 else float(runs)


def refuse_jobs_beside(dask: str | None) -> None:
    """Raises InputError for --jobs of a command that does all on a Dask cluster."""
    if dask is not None:
        refuse({"jobs"}, "the workers of the Dask cluster say how many runs there are at the same time")


def choose_pool(jobs: int | None, dask: str | None) -> Pool:
    """Where to run: a Dask cluster, this process alone, or the cores of this machine."""
    from emulator.sweeps.pools import Cores, DaskCluster, Here, LiveToo  # noqa: PLC0415

    if dask is not None:
        return LiveToo(DaskCluster(dask))
    count = jobs or len(os.sched_getaffinity(0))
    return LiveToo(Cores(count) if count > 1 else Here())


@click.command()
@plugin_option
@click.argument("grid", metavar="GRID.yaml", type=click.Path(path_type=Path))
@click.option("--jobs", type=click.IntRange(min=1), help="Runs at the same time (default: one a core).")
@click.option(
    "--dask", metavar="ADDRESS", help="Run on the Dask cluster with this scheduler, tcp://HOST:PORT."
)
@click.option("--clock", "clocks", multiple=True, type=click.Choice(["virtual", "live"]), default=("virtual",),
              help="Virtual time (default), or real processes; give it twice for each run on both.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the results (default: sweeps/NAME).")
@click.option("--rank", "figure", metavar="FIGURE", shell_complete=figures,
              help="Order the settings by this figure, the lowest first, with intervals over the seeds."
              " [default: mean_wait_s]")  # fmt: skip
@click.option("--highest", is_flag=True, help="With --rank: the highest first.")
@click.option("--keep-runs", "keeps_runs", is_flag=True,
              help="Write the results of each virtual run too, into kept/; the page links their reports.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--json", "as_json", is_flag=True, help="The settings in order as JSON; no progress.")
@click.option("--dry-run", is_flag=True, help="Check everything and list the runs; run nothing.")
def sweep(  # noqa: PLR0917
    grid: Path,
    jobs: int | None,
    dask: str | None,
    clocks: tuple[str, ...],
    out: Path | None,
    figure: str | None,
    highest: bool,
    keeps_runs: bool,
    quiet: bool,
    as_json: bool,
    dry_run: bool,
) -> None:
    """Run every combination that GRID.yaml asks for and write one table, a row a run.

    Runs that are finished already are skipped, so an interrupted sweep goes on where it was, and a larger
    grid runs only what is new. Ctrl-C keeps what is finished. Live runs are done one after the other here.
    """
    from emulator.sweeps import ranking  # noqa: PLC0415
    from emulator.sweeps.page import WAIT  # noqa: PLC0415
    from emulator.sweeps.side_by_side import print_beside  # noqa: PLC0415
    from emulator.sweeps.store import CSV, PARQUET, Store  # noqa: PLC0415
    from emulator.sweeps.sweep import describe, run_sweep  # noqa: PLC0415

    try:
        refuse_jobs_beside(dask)
        plan = _plan(grid, clocks, figure)
        if dry_run:
            _list(plan)
            return
        folder = out or Path("sweeps") / plan.name
        store = Store(folder)
        with SweepProgress(quiet=quiet or as_json) as progress, interruptible() as interrupted:
            outcome = run_sweep(
                plan, store, choose_pool(jobs, dask), stop=lambda: bool(interrupted), on_done=progress.update
            )
    except ScenarioError as error:
        raise InputError(str(error)) from error
    for run, reason in outcome.failed[:_SHOWN_FAILURES]:
        click.echo(f"emulator: {describe(run)}: {reason}", err=True)
    if len(outcome.failed) > _SHOWN_FAILURES:
        click.echo(f"emulator: and {len(outcome.failed) - _SHOWN_FAILURES} more failed", err=True)
    is_interrupted = outcome.interrupted
    if keeps_runs and not is_interrupted:
        done = [run for run in plan.runs if store.row(run) is not None]
        is_interrupted = _keep_runs(done, folder, quiet=quiet or as_json)
    has_page = bool(outcome.rows) and _write_page(folder, plan, figure, highest=highest)
    ranked = _ranking(folder / PARQUET, plan.varied_keys, figure, highest=highest) if outcome.rows else []
    if as_json:
        _print_json(folder, outcome.rows, figure, ranked)
    else:
        already = f" ({number(outcome.skipped)} were there already)" if outcome.skipped else ""
        click.echo(f"{number_of(outcome.rows, 'run')}{already} in {folder / PARQUET} and {CSV}")
        if has_page:
            click.echo(f"The settings in order, with intervals: {folder / _PAGE}")
        if len(set(clocks)) > 1:
            print_beside(folder / PARQUET)
        if ranked and (figure is not None or len(ranked) > 1):
            stdout_console().print(ranking.table(ranked, figure or WAIT))
    if is_interrupted:
        click.echo("Interrupted; the same command goes on from here.", err=as_json)
        sys.exit(130)
    if outcome.failed:
        sys.exit(1)


def _plan(grid: Path, clocks: tuple[str, ...], figure: str | None) -> Sweep:
    """The runs. Raises ScenarioError, also for a figure to rank them by that none of them can have."""
    from emulator.sweeps.figure_names import check_figure  # noqa: PLC0415
    from emulator.sweeps.grid import load_sweep, on_clocks  # noqa: PLC0415

    if set(clocks) == {"live"}:
        refuse({"jobs", "dask"}, "live runs are done here, one after the other")
        refuse({"keeps_runs"}, "a live run is not the same a second time")
    if figure is not None:
        check_figure(figure)
    return on_clocks(load_sweep(grid), tuple(dict.fromkeys(clocks)))


def _list(plan: Sweep) -> None:
    from emulator.sweeps.sweep import describe  # noqa: PLC0415

    tell_unused(_OF_RUNS, "of runs and their results: not used by --dry-run")
    for run in plan.runs:
        click.echo(f"{run.key}  {describe(run)}")
    click.echo(f"{number_of(len(plan.runs), 'run')}; --dry-run does none of them", err=True)


def _keep_runs(runs: Sequence[Run], folder: Path, *, quiet: bool) -> bool:
    """Write the results of each; whether that was interrupted."""
    from emulator.report.files import ResultsError  # noqa: PLC0415
    from emulator.sweeps.kept_runs import keep_runs  # noqa: PLC0415

    try:
        with SweepProgress(quiet=quiet) as progress, interruptible() as interrupted:
            keep_runs(runs, folder, stop=lambda: bool(interrupted), on_done=progress.update)
    except ResultsError as error:
        raise InputError(str(error)) from error
    return bool(interrupted)


def _write_page(folder: Path, plan: Sweep, figure: str | None, *, highest: bool) -> bool:
    """Write `report.html`, where the runs can be ranked; where not, the tables are all there is."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - where a table is read

    from emulator.sweeps.kept_runs import links_of  # noqa: PLC0415
    from emulator.sweeps.page import WAIT, page  # noqa: PLC0415
    from emulator.sweeps.store import PARQUET  # noqa: PLC0415
    from emulator.workload.files import write_whole  # noqa: PLC0415

    try:
        rows, links = pq.read_table(folder / PARQUET).to_pylist(), links_of(plan, folder)
        text = page(plan.name, rows, plan.varied_keys, figure or WAIT, highest=highest, links=links)
    except ScenarioError:
        return False  # --rank says it
    with write_whole(folder / _PAGE) as file:
        file.write(text.encode())
    return True


def _ranking(parquet: Path, varied: Sequence[str], figure: str | None, *, highest: bool) -> list[Ranked]:
    """The settings in order. Raises InputError for a figure that was asked for and that there is not."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - where a table is read

    from emulator.sweeps.page import WAIT  # noqa: PLC0415
    from emulator.sweeps.ranking import rank  # noqa: PLC0415

    try:
        return rank(pq.read_table(parquet).to_pylist(), varied, figure or WAIT, highest=highest)
    except ScenarioError as error:
        if figure is None:
            return []  # the tables are all there is
        raise InputError(f"--{error}") from error


def _print_json(folder: Path, runs: int, figure: str | None, ranked: Sequence[Ranked]) -> None:
    from emulator.sweeps.page import WAIT  # noqa: PLC0415

    settings = [each.as_row() for each in ranked]
    click.echo(
        json.dumps(
            {"folder": str(folder), "runs": runs, "figure": figure or WAIT, "settings": settings}, indent=2
        )
    )
