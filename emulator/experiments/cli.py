"""`emulator reproduce`: a paper's experiments and its claims, one by one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from emulator.commands.options import plugin_option
from emulator.commands.run import InputError, interruptible
from emulator.experiments import fit as fit_
from emulator.experiments.claims import counted, judge, summary, worlds
from emulator.experiments.criteria import Outcome as ClaimOutcome
from emulator.experiments.logs import checkout_logs
from emulator.experiments.paper import Options, find_paper
from emulator.experiments.readings import HasReadings, parse, value_of
from emulator.provenance import file_digest, versions
from emulator.scenario import ScenarioError
from emulator.sweeps.cli import SweepProgress, choose_pool
from emulator.sweeps.store import PARQUET, Store
from emulator.sweeps.sweep import describe, run_sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.experiments.claims import Verdict
    from emulator.experiments.paper import Paper
    from emulator.sweeps.grid import Sweep
    from emulator.sweeps.pools import Pool
    from emulator.sweeps.sweep import Outcome


_MARKS = {
    ClaimOutcome.HOLDS: "[green]yes[/green]", ClaimOutcome.FAILS: "[red]no[/red]", ClaimOutcome.OPEN: "cannot be told",
    ClaimOutcome.UNTESTED: "[dim]not tested[/dim]",
}  # fmt: skip


@click.command()
@plugin_option
@click.argument("paper")
@click.option("--quick", is_flag=True, help="Seconds instead of minutes: fewer seeds and settings.")
@click.option("--traces", type=click.Path(path_type=Path, file_okay=False, exists=True),
              help="Folder with the paper's own logs (default: `traces` of the checkout).")  # fmt: skip
@click.option("--stand-in", is_flag=True, help="Generated workloads in place of the logs.")
@click.option("--read", "read", multiple=True, metavar="NAME=VALUE",
              help="Read a point that the paper leaves open in this way (repeatable).")  # fmt: skip
@click.option(
    "--fit", is_flag=True, help="Try all ways to read the paper (but for --read), on seeds of their own."
)
@click.option("--seeds", type=click.IntRange(min=1), help="How many seeds.")
@click.option("--jobs", type=click.IntRange(min=1), help="Runs at the same time (default: one a core).")
@click.option("--dask", metavar="ADDRESS", help="Run on a Dask cluster.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for the runs (default: reproduce/PAPER)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the claims as JSON on stdout, nothing else.")
@click.option("--quiet", is_flag=True, help="No progress.")
def reproduce(  # noqa: PLR0917
    paper: str,
    quick: bool,
    traces: Path | None,
    stand_in: bool,
    read: tuple[str, ...],
    fit: bool,
    seeds: int | None,
    jobs: int | None,
    dask: str | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the experiments of PAPER and say claim by claim whether it holds, and why not.

    What counts was written down beforehand: a difference needs a margin and a test over the seeds, a figure the
    precision that the paper prints. Runs are kept in --out and not done again. The exit status is 0 whatever the
    verdicts are.
    """
    try:
        experiments = find_paper(paper)
        folder_of_logs = _logs(paper, experiments, traces, stand_in=stand_in)
        known = experiments.readings() if isinstance(experiments, HasReadings) else ()
        options = Options(quick=quick, traces=folder_of_logs, seeds=seeds, readings=parse(read, known))
        folder = out or Path("reproduce") / (f"{paper}-fit" if fit else paper)
        ways: list[dict[str, str]] = []
        if fit:
            plan, ways = _fitting(paper, experiments, options)
        else:
            plan = experiments.sweep(options)
        outcome = _run(plan, folder, choose_pool(jobs, dask), quiet=quiet or as_json)
    except ScenarioError as error:
        raise InputError(str(error)) from error
    if fit:
        told = _provenance(paper, options, plan, stand_in=stand_in)
        _tell_fit(experiments, options, ways, folder, told, as_json=as_json)
        sys.exit(1 if outcome.failed else 0)
    found = worlds(pq.read_table(folder / PARQUET).to_pylist())
    verdicts = judge(experiments.claims(options), found)
    document = {
        "title": experiments.title,
        "about": experiments.about(options),
        **_provenance(paper, options, plan, stand_in=stand_in),
        "readings": {each.name: value_of(options, each) for each in known},
        "counts": counted(verdicts),
        "claims": [verdict.as_json() for verdict in verdicts],
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    (folder / "claims.json").write_text(text, encoding="utf-8")
    from emulator.experiments.page import render  # noqa: PLC0415 - next to its use

    (folder / "report.html").write_text(render(experiments, options, verdicts, found), encoding="utf-8")
    if as_json:
        click.echo(text, nl=False)
    else:
        _print(experiments, options, verdicts, [*experiments.tables(found)], folder)
    if outcome.failed:
        sys.exit(1)


def _provenance(name: str, options: Options, plan: Sweep, *, stand_in: bool) -> dict[str, Any]:
    """What figures came from: which seeds, options, logs and versions."""
    return {
        "paper": name,
        "seeds": sorted({int(run.varied["seed"]) for run in plan.runs}),
        "options": {"quick": options.quick, "stand_in": stand_in, "seeds": options.seeds},
        "traces": {path.name: file_digest(path) for run in plan.runs for path in run.files},
        "versions": versions(),
    }


def _run(plan: Sweep, folder: Path, pool: Pool, *, quiet: bool) -> Outcome:
    """Do what is missing and say what failed. Raises ScenarioError; ends the command when it is interrupted."""
    with SweepProgress(quiet=quiet) as progress, interruptible() as interrupted:
        outcome = run_sweep(
            plan, Store(folder), pool, stop=lambda: bool(interrupted), on_done=progress.update
        )
    if outcome.interrupted:
        click.echo(f"Interrupted: {outcome.rows} runs are in {folder}; the same command goes on.", err=True)
        sys.exit(130)
    for run, reason in outcome.failed:
        click.echo(f"emulator: {describe(run)}: {reason}", err=True)
    return outcome


def _fitting(name: str, paper: Paper, options: Options) -> tuple[Sweep, list[dict[str, str]]]:
    """All ways to read the paper as one sweep. Raises ScenarioError where there is only one, or too few seeds."""
    if not isinstance(paper, HasReadings):
        raise ScenarioError(f"reproduce {name} --fit: this paper names no readings")
    if options.seeds is not None and options.seeds < fit_.LEAST_SEEDS:
        raise ScenarioError(
            f"reproduce {name} --fit: with fewer than {fit_.LEAST_SEEDS} seeds no claim can hold"
        )
    plan, ways = fit_.plan(paper, options, paper.readings())
    if len(ways) < 2:  # noqa: PLR2004
        raise ScenarioError(
            f"reproduce {name} --fit: every reading is given with --read, so nothing is left to try"
        )
    return plan, ways


def _tell_fit(
    paper: Paper,
    options: Options,
    ways: list[dict[str, str]],
    folder: Path,
    told: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    known = paper.readings() if isinstance(paper, HasReadings) else ()
    found = fit_.scores(paper, options, ways, folder)
    document = {**told, "readings": options.readings, "ways": [each.as_json() for each in found]}
    text = json.dumps(document, indent=2) + "\n"
    (folder / "fit.json").write_text(text, encoding="utf-8")
    if as_json:
        click.echo(text, nl=False)
        return
    console = Console()
    console.print(fit_.table(found, known))
    console.print(
        f"{len(found)} ways were tried, on seeds from {fit_.FIRST_SEED} on; all are in {folder}/fit.json."
    )


def _logs(name: str, paper: Paper, traces: Path | None, *, stand_in: bool) -> Path | None:
    """The folder with the logs; None: the paper reads none, or is to run on its stand-in. Raises ScenarioError."""
    if not paper.reads_logs and (traces is not None or stand_in):
        raise ScenarioError(
            f"reproduce {name}: its workloads are generated always, so --traces and --stand-in mean nothing; a"
            " scenario of your own replays your trace with its mechanism"
        )
    if stand_in and traces is not None:
        raise ScenarioError("give either --traces or --stand-in, not both")
    return traces if traces is not None or stand_in or not paper.reads_logs else checkout_logs()


def _print(
    paper: Paper, options: Options, verdicts: Sequence[Verdict], tables: Sequence[Table], folder: Path
) -> None:
    console = Console()
    console.print(f"[bold]{paper.title}[/bold]")
    console.print(paper.about(options), markup=False, highlight=False)
    for table in tables:
        console.print()
        console.print(table)
    table = Table(
        "claim",
        "paper",
        "ours",
        "spread",
        "kind",
        "holds",
        title="Claims",
        title_justify="left",
        show_lines=True,
    )
    for verdict in verdicts:
        claim = verdict.claim
        what = f"[bold]{claim.id}[/bold] {claim.statement} [dim]({claim.where})[/dim]"
        mark = _MARKS[verdict.outcome]
        table.add_row(what, claim.paper, verdict.ours, verdict.spread, claim.criterion.kind, mark)
    console.print()
    console.print(table)
    for verdict in verdicts:
        if not verdict.holds or verdict.also:
            console.print(f"[bold]{verdict.claim.id}[/bold]: {verdict.why}", highlight=False)
    console.print(f"\n{summary(verdicts)} Runs, claims.json and report.html (plots) are in {folder}.")
