"""`emulator reproduce`: a paper's experiments and its claims, one by one."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow.parquet as pq
from rich.table import Table

from balancer.clock import seconds, wall_us
from balancer.console_kit import names_of
from emulator.commands.options import plugin_option, refuse_others
from emulator.commands.reproduce_tables import TABLES, reproduce_tables
from emulator.commands.run import interruptible
from emulator.commands.sweep import SweepProgress, choose_pool, refuse_jobs_beside
from emulator.experiments import fit as fit_
from emulator.experiments.atlas import command
from emulator.experiments.atlas.prior import HasAtlas
from emulator.experiments.atlas.worlds import Interrupted
from emulator.experiments.claims import counted, judge, open_points, summary, worlds
from emulator.experiments.criteria import Outcome as ClaimOutcome
from emulator.experiments.logs import checkout_logs
from emulator.experiments.paper import GROUP, LEAST_SEEDS, Options, find_paper
from emulator.experiments.readings import HasReadings, parse, value_of
from emulator.plugins import plugin_names
from emulator.record.provenance import file_digest, versions
from emulator.report.terminal import InputError, stdout_console
from emulator.runs.scenario import ScenarioError
from emulator.sweeps.grid import Sweep
from emulator.sweeps.store import PARQUET, Store
from emulator.sweeps.sweep import describe, run_sweep
from emulator.text.number_text import grouped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from emulator.experiments.claims import Verdict
    from emulator.experiments.paper import Paper
    from emulator.sweeps.pools import Pool
    from emulator.sweeps.sweep import Outcome


_MARKS = {
    ClaimOutcome.HOLDS: "[green]yes[/green]", ClaimOutcome.FAILS: "[red]no[/red]", ClaimOutcome.OPEN: "cannot be told",
    ClaimOutcome.UNTESTED: "[dim]not tested[/dim]",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Job:
    """One paper as it is asked for: all that can be wrong with it has been looked at."""

    name: str
    paper: Paper
    options: Options
    plan: Sweep
    ways: Sequence[Mapping[str, str]]
    """With --fit, all ways to read it."""
    folder: Path
    stand_in: bool

    @property
    def provenance(self) -> dict[str, Any]:
        """What figures came from: which seeds, options, logs and versions."""
        options, plan = self.options, self.plan
        return {
            "paper": self.name,
            "seeds": sorted({int(run.varied["seed"]) for run in plan.runs}),
            "options": {"quick": options.quick, "stand_in": self.stand_in, "seeds": options.seeds},
            "traces": {path.name: file_digest(path) for run in plan.runs for path in run.files},
            "versions": versions(),
        }


@click.command()
@plugin_option
@click.argument(
    "papers", nargs=-1, required=True, metavar="PAPER...", shell_complete=names_of("emulator.papers")
)
@click.option("--quick", is_flag=True, help="Less than a minute: five seeds and fewer settings.")
@click.option("--traces", type=click.Path(path_type=Path, file_okay=False, exists=True),
              help="Folder with the paper's own logs (default: `traces` of the checkout).")  # fmt: skip
@click.option("--stand-in", is_flag=True, help="Generated workloads in place of the logs.")
@click.option("--read", "read", multiple=True, metavar="NAME=VALUE",
              help="Read a point that the paper leaves open in this way (repeatable).")  # fmt: skip
@click.option(
    "--fit", is_flag=True, help="Try all ways to read the paper (but for --read), on seeds of their own."
)
@click.option(
    "--atlas",
    is_flag=True,
    help="Judge the claims of the quick experiments in all worlds that agree with what the paper prints.",
)
@click.option("--worlds", "world_count", type=click.IntRange(min=1),
              help="With --atlas: how many worlds (default: 200, with --quick 20).")  # fmt: skip
@click.option("--world", "world_id", metavar="ID", help="Run the experiments in one world of the atlas.")
@click.option("--only", multiple=True, metavar="NAME",
              help="Of `tables`: this one, or a .yaml file of your own (repeatable).")  # fmt: skip
@click.option("--seeds", type=click.IntRange(min=1), help="How many seeds.")
@click.option("--jobs", type=click.IntRange(min=1), help="Runs at the same time (default: one a core).")
@click.option("--dask", metavar="ADDRESS", help="Run on a Dask cluster.")
@click.option("--out", type=click.Path(path_type=Path),
              help="Folder for the runs (default: reproduce/PAPER; of several papers, OUT/PAPER each).")  # fmt: skip
@click.option("--json", "as_json", is_flag=True,
              help="Print the claims as JSON on stdout, nothing else (of several papers, a list).")  # fmt: skip
@click.option("--quiet", is_flag=True, help="No progress.")
def reproduce(  # noqa: PLR0917
    papers: tuple[str, ...],
    quick: bool,
    traces: Path | None,
    stand_in: bool,
    read: tuple[str, ...],
    fit: bool,
    atlas: bool,
    world_count: int | None,
    world_id: str | None,
    only: tuple[str, ...],
    seeds: int | None,
    jobs: int | None,
    dask: str | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the experiments of each PAPER and say claim by claim whether it holds, and why not. `all`: of all papers.

    `tables` stands for tables that others have published: number by number, exact or with the reason.

    What counts was written down beforehand: a difference needs a margin and a test over the seeds, a figure the
    precision that the paper prints. Runs are kept in --out and not done again. The exit status is 0 whatever the
    verdicts are.
    """
    if TABLES in papers or only:
        _tables(papers, only, traces, as_json=as_json, quiet=quiet)
        return
    if "all" in papers and len(papers) > 1:
        raise InputError("reproduce: all stands alone: leave out the other names")
    names = list(dict.fromkeys(plugin_names(GROUP) if papers == ("all",) else papers))
    try:
        _check_atlas(
            names, atlas=atlas, count=world_count, world=world_id, options={"--fit": fit, "--seeds": seeds}
        )
        if not atlas:  # which has work of its own here
            refuse_jobs_beside(dask)
        pool = choose_pool(jobs, dask)
        paper_jobs = [
            _job(name, quick=quick, traces=traces, stand_in=stand_in, read=read, fit=fit, seeds=seeds,
                   world=world_id, atlas=atlas,
                   folder=_folder(name, out, kind="atlas" if atlas or world_id else "fit" if fit else "",
                                  is_alone=len(names) == 1))
            for name in (_with_atlas(names) if atlas and papers == ("all",) else names)
        ]  # fmt: skip
    except ScenarioError as error:
        raise InputError(str(error)) from error
    if atlas:
        found = [_run_atlas(job, pool, world_count, jobs, quiet=quiet, as_json=as_json) for job in paper_jobs]
        _print_json(found, as_json=as_json)
        return
    rows, documents, has_failed = [], [], False
    for job in paper_jobs:
        begun_us = wall_us()
        if len(paper_jobs) > 1 and not quiet and not as_json:
            click.echo(f"{job.name}: {grouped(len(job.plan.runs))} runs", err=True)
        outcome = _run(job.plan, job.folder, pool, quiet=quiet or as_json)
        has_failed |= bool(outcome.failed)
        if fit:
            documents.append(_tell_fit(job, quiet=as_json))
            continue
        verdicts, document = _tell(job, quiet=as_json)
        documents.append(document)
        counts = [str(count) for count in counted(verdicts).values()]
        rows.append([job.name, *counts, str(len(job.plan.runs)), _minutes(wall_us() - begun_us)])
    _print_json(documents, as_json=as_json)
    if len(rows) > 1 and not as_json:
        _print_all(rows)
    if has_failed:
        sys.exit(1)


def _tables(
    papers: tuple[str, ...], only: tuple[str, ...], traces: Path | None, *, as_json: bool, quiet: bool
) -> None:
    """Figures that others have published. Raises InputError."""
    if papers != (TABLES,):
        raise InputError(
            f"reproduce: {TABLES} stands alone, and --only goes with it: reproduce {TABLES} --only NAME"
        )
    refuse_others({"only", "traces", "as_json", "quiet", "plugin"}, f"not used by reproduce {TABLES}")
    try:
        reproduce_tables(only, checkout_logs() if traces is None else traces, as_json=as_json, quiet=quiet)
    except ScenarioError as error:
        raise InputError(str(error)) from error


def _print_json(documents: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        click.echo(
            json.dumps(documents if len(documents) > 1 else documents[0], indent=2, ensure_ascii=False)
        )


def _folder(name: str, out: Path | None, *, kind: str, is_alone: bool) -> Path:
    """Where the runs are; `kind`: fit, atlas, or empty."""
    if out is not None and is_alone:
        return out
    return (out or Path("reproduce")) / (f"{name}-{kind}" if kind else name)


def _check_atlas(
    names: Sequence[str], *, atlas: bool, count: int | None, world: str | None, options: Mapping[str, Any]
) -> None:
    """Raises ScenarioError for options of the atlas that do not go together."""
    if count is not None and not atlas:
        raise ScenarioError("--worlds says how many worlds --atlas draws: give both")
    if atlas and world is not None:
        raise ScenarioError("give either --atlas or --world, not both")
    if world is not None and len(names) > 1:
        raise ScenarioError(f"--world {world}: give the one paper that this world is of")
    for option, value in options.items():
        if value and (atlas or world is not None):
            raise ScenarioError(
                f"{option} does not go with --atlas or --world: a world has one seed, and --worlds says how many"
            )


def _with_atlas(names: Sequence[str]) -> list[str]:
    """The papers of which somebody has written down what they leave open."""
    return [name for name in names if isinstance(find_paper(name), HasAtlas)]


def _run_atlas(
    job: _Job, pool: Pool, count: int | None, jobs: int | None, *, quiet: bool, as_json: bool
) -> dict[str, Any]:
    """The atlas of a paper, printed and written; returns what `atlas.json` has."""
    is_silent = quiet or as_json

    world_count = count or (command.QUICK_WORLDS if job.options.quick else command.WORLDS)
    try:
        with (
            SweepProgress(quiet=is_silent, what="draws") as drawing,
            SweepProgress(quiet=is_silent) as progress,
            interruptible() as interrupted,
        ):

            def of_runs(over: int, total: int) -> None:
                drawing.end()
                progress.update(over, total)

            request = command.Request(
                world_count,
                job.folder,
                pool,
                jobs,
                lambda: bool(interrupted),
                of_runs,
                drawing.update,
                lambda text: drawing.say(f"{job.name}: {text}"),
            )
            atlas = command.run_atlas(job.name, job.paper, job.options, request)
    except ScenarioError as error:
        raise InputError(str(error)) from error
    except Interrupted:
        click.echo(f"Interrupted: finished runs are in {job.folder}; the same command goes on.", err=True)
        sys.exit(130)
    if not as_json:
        command.show(atlas, job.folder)
    return atlas.as_json()


def _job(
    name: str,
    *,
    quick: bool,
    traces: Path | None,
    stand_in: bool,
    read: tuple[str, ...],
    fit: bool,
    atlas: bool,
    world: str | None,
    seeds: int | None,
    folder: Path,
) -> _Job:
    """Raises ScenarioError."""
    paper = find_paper(name)
    folder_of_logs = _logs(name, paper, traces, stand_in=stand_in)
    known = paper.readings() if isinstance(paper, HasReadings) else ()
    options = Options(quick=quick, traces=folder_of_logs, seeds=seeds, readings=parse(read, known))
    if atlas:
        command.subject_of(name, paper).paper.prior().without(options.readings)
        return _Job(name, paper, options, Sweep("atlas", ()), [], folder, stand_in)
    if world is not None:
        options = command.find_world(name, world, options, folder)
        return _Job(name, paper, options, paper.sweep(options), [], folder / f"world-{world}", stand_in)
    plan, ways = _fitting(name, paper, options) if fit else (paper.sweep(options), [])
    return _Job(name, paper, options, plan, ways, folder, stand_in)


def _tell(job: _Job, *, quiet: bool) -> tuple[list[Verdict], dict[str, Any]]:
    """Judge what ran, write `claims.json` and the report, and print them; the second: what `claims.json` has."""
    paper, options, folder = job.paper, job.options, job.folder
    found = worlds(pq.read_table(folder / PARQUET).to_pylist())
    claims = paper.claims(options)
    if options.world:
        claims = [replace(claim, criterion=claim.criterion.in_one_world()) for claim in claims]
    verdicts = judge(claims, found)
    known = paper.readings() if isinstance(paper, HasReadings) else ()
    document = {
        "title": paper.title,
        "about": paper.about(options),
        **job.provenance,
        "readings": {each.name: value_of(options, each) for each in known},
        **({"world": dict(options.world)} if options.world else {}),
        "counts": counted(verdicts),
        "claims": [verdict.as_json() for verdict in verdicts],
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    (folder / "claims.json").write_text(text, encoding="utf-8")
    from emulator.experiments.page import render  # noqa: PLC0415 - next to its use

    (folder / "report.html").write_text(render(paper, options, verdicts, found), encoding="utf-8")
    if not quiet:
        _print(paper, options, verdicts, [*paper.tables(found)], folder)
    return verdicts, document


def _run(plan: Sweep, folder: Path, pool: Pool, *, quiet: bool) -> Outcome:
    """Do what is missing and say what failed. Raises InputError; ends the command when it is interrupted."""
    try:
        with (
            SweepProgress(quiet=quiet, costs=plan.costs) as progress,
            interruptible() as interrupted,
        ):
            outcome = run_sweep(
                plan, Store(folder), pool, stop=lambda: bool(interrupted), on_done=progress.update
            )
    except ScenarioError as error:
        raise InputError(str(error)) from error
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
    if options.seeds is not None and options.seeds < LEAST_SEEDS:
        raise ScenarioError(f"reproduce {name} --fit: with fewer than {LEAST_SEEDS} seeds no claim can hold")
    plan, ways = fit_.plan(paper, options, paper.readings())
    if len(ways) < 2:  # noqa: PLR2004
        raise ScenarioError(
            f"reproduce {name} --fit: every reading is given with --read, so nothing is left to try"
        )
    return plan, ways


def _tell_fit(job: _Job, *, quiet: bool) -> dict[str, Any]:
    """Write `fit.json` and print the front; returns what the file has."""
    known = job.paper.readings() if isinstance(job.paper, HasReadings) else ()
    found = fit_.scores(job.paper, job.options, job.ways, job.folder)
    document = {
        **job.provenance, "readings": job.options.readings, "ways": [each.as_json() for each in found],
    }  # fmt: skip
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    (job.folder / "fit.json").write_text(text, encoding="utf-8")
    if not quiet:
        console = stdout_console()
        console.print(fit_.table(found, known))
        console.print(
            f"{len(found)} ways were tried, on seeds from {fit_.FIRST_SEED} on; all are in {job.folder}/fit.json."
        )
    return document


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
    console = stdout_console()
    console.print(f"[bold]{paper.title}[/bold]")
    console.print(summary(verdicts), markup=False, highlight=False)
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
            console.print(f"[bold]{verdict.claim.id}[/bold]: {verdict.reason}", highlight=False)
    for text, ids in open_points(verdicts).items():
        console.print(f"[bold]{', '.join(ids)}[/bold] may be explained so: {text}", highlight=False)
    console.print(f"\nRuns, claims.json and report.html are in {folder}.")


def _print_all(rows: Sequence[Sequence[str]]) -> None:
    table = Table("paper", "hold", "do not", "cannot be told", "not tested", "runs", "wall time, min",
                  title="All papers", title_justify="left")  # fmt: skip
    for row in rows:
        table.add_row(*row)
    console = stdout_console()
    console.print()
    console.print(table)


def _minutes(span_us: int) -> str:
    return f"{seconds(span_us) / 60:.1f}"
