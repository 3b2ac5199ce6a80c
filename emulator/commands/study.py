"""`emulator study`: questions that an operator has, answered from his own logs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from balancer.console_kit import names_of
from emulator.commands.options import (
    grouped,
    plugin_option,
    refuse,
    schedulers,
    tell_unused,
    usage_option,
    zone_option,
)

if TYPE_CHECKING:
    from emulator.study.answer import Answer
    from emulator.study.attribution import WaitChanges
    from emulator.study.growth import GrowthOutcome
    from emulator.study.judge import Advice, Wishes
    from emulator.study.logs import Logs
    from emulator.study.plausible import Today
    from emulator.study.settings import Setting
    from emulator.sweeps.grid import Sweep
    from emulator.sweeps.store import Store
    from emulator.sweeps.sweep import Outcome

_QUICK_WEEKS = 2


def _numbers(text: str, option: str) -> list[float]:
    from emulator.report.terminal import InputError  # noqa: PLC0415

    try:
        found = sorted({float(part) for part in text.split(",") if part.strip()})
    except ValueError:
        found = [-1.0]
    if any(not 0 <= each < float("inf") for each in found):
        raise InputError(f"{option} {text}: expected numbers such as 0,6,12")
    return found


def _split(text: str | None) -> tuple[int, int]:
    from emulator.report.terminal import InputError  # noqa: PLC0415
    from emulator.workload.sacct_jobs import SIZE_FROM  # noqa: PLC0415

    if text is None:
        raise InputError(
            "--nodes is missing: say how many nodes both clusters have, BATCH+ON_DEMAND, for example 304+68"
            f" (with Slurm, {SIZE_FROM})"
        )
    batch, plus, ondemand = text.partition("+")
    if not plus or not (batch.strip().isdecimal() and ondemand.strip().isdecimal()):
        raise InputError(f"--nodes {text}: expected BATCH+ON_DEMAND, for example 304+68")
    if not int(batch) or not int(ondemand):
        raise InputError(f"--nodes {text}: each of the two clusters has at least one node")
    return int(batch), int(ondemand)


@click.group()
def study() -> None:
    """Answer an operator's question from the logs of the site."""


_SECTIONS = {
    "The two logs": (
        "batch", "ondemand", "nodes", "procs_per_node", "shared_nodes", "memory_per_node", "gpus_per_node",
        "cores_per_node", "lay_together", "down_nodes", "reservations", "usage_column", "time_zone",
        "lenient",
    ),
    "What is tried": (
        "week_count", "pairings", "reserve", "wait_min", "notice_min", "predictors", "scheduler", "qos",
        "associations", "quick",
    ),
    "What you accept": ("accept_rejected", "accept_wait_min", "accept_today", "believe", "node_hour_price", "growth"),
    "How it is done": ("seed", "jobs", "dask", "out", "as_json", "quiet", "plugin"),
}  # fmt: skip


@study.command(cls=grouped(_SECTIONS))
@plugin_option
@usage_option
@zone_option
@click.option("--batch", required=True, type=click.Path(path_type=Path), help="Log of the batch cluster.")
@click.option("--ondemand", "--on-demand", required=True, type=click.Path(path_type=Path),
              help="Log of the on-demand cluster.")  # fmt: skip
@click.option("--nodes", metavar="A+B", help="Nodes of both: batch + on-demand, such as 304+68.  [required]")
@click.option("--procs-per-node", type=click.IntRange(min=1), default=1, show_default=True,
              help="Processors of a batch node, where the log counts processors.")  # fmt: skip
@click.option("--shared-nodes", is_flag=True,
              help="Batch jobs smaller than a node share nodes: replay the nodes that they fill together.")  # fmt: skip
@click.option("--memory-per-node", type=click.FloatRange(min=0, min_open=True), metavar="GIB",
              help="With --shared-nodes: nodes are full by memory too, if the log says what jobs want.")  # fmt: skip
@click.option("--gpus-per-node", type=click.IntRange(min=1),
              help="With --shared-nodes: GPUs of a node. [default: the most that a job had on one]")  # fmt: skip
@click.option("--down-nodes", type=click.Path(path_type=Path),
              help="When batch nodes were down: a table such as sacctmgr show event prints.")  # fmt: skip
@click.option("--reservations", type=click.Path(path_type=Path),
              help="When reservations held batch nodes: what sacctmgr show reservation prints.")  # fmt: skip
@click.option("--cores-per-node", type=click.IntRange(min=0),
              help="Pack on-demand jobs of one core onto nodes of so many; 0: do not pack. [default: 16 if the log"
              " has only such jobs, else 0]")  # fmt: skip
@click.option("--lay-together", is_flag=True,
              help="Take the first submits of both logs for the same time, if one does not say when.")  # fmt: skip
@click.option("--weeks", "week_count", default="8", show_default=True,
              help="How many weeks, the most challenging first, or `all`.")  # fmt: skip
@click.option("--pairings", type=click.IntRange(min=1), default=2, show_default=True,
              help="1: each week with its own leases; more: also with those of other weeks.")  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of all random streams."
)
@click.option("--reserve", metavar="N,N", help="Static reserves R in nodes. [default: 0 to half of B]")
@click.option("--wait-min", default="0,5,10", show_default=True, help="Longest waits W in minutes.")
@click.option("--notice-min", default="15,30", show_default=True, help="Notices H of the hint algorithm.")
@click.option("--predictor", "predictors", multiple=True, shell_complete=names_of("balancer.predictors"),
              help="Predictors (default: all installed).")  # fmt: skip
@click.option(
    "--scheduler",
    default="fcfs+easy",
    show_default=True,
    shell_complete=schedulers,
    help="See `emulator schedulers`.",
)
@click.option("--qos", metavar="FILE", type=click.Path(path_type=Path),
              help="With slurm:FILE, its QOS: what sacctmgr show qos --parsable2 printed.")  # fmt: skip
@click.option("--associations", metavar="FILE", type=click.Path(path_type=Path),
              help="With slurm:FILE, its associations: what sacctmgr show assoc tree --parsable2 printed.")  # fmt: skip
@click.option("--accept-rejected", type=click.FloatRange(0, 100), default=0.0, show_default=True,
              help="Per cent of the requests that may be rejected.")  # fmt: skip
@click.option("--accept-wait-min", type=click.FloatRange(min=0), default=0.0, show_default=True,
              help="Minutes that an on-demand request may wait (W).")  # fmt: skip
@click.option("--accept-today", type=click.FloatRange(min=1),
              help="Stop if simulated waits of today are so many times the recorded ones, or less. [default: 2;"
              " with --shared-nodes 1.1]")  # fmt: skip
@click.option("--node-hour-price", type=click.FloatRange(min=0), metavar="PRICE",
              help="Say what the nodes that are given up are worth, in whatever money.")  # fmt: skip
@click.option("--growth", metavar="P,P",
              help="Say what changes if either load grows by so many per cent, such as 10,25,50.")  # fmt: skip
@click.option("--believe", is_flag=True, help="Continue although the checks of the log, or of today, fail.")
@click.option("--quick", is_flag=True, help="Two weeks as they were: a first look.")
@click.option("--jobs", type=click.IntRange(min=1), help="Runs at the same time (default: one a core).")
@click.option("--dask", metavar="ADDRESS", help="Run on a Dask cluster.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("studies/merge"), show_default=True,
              help="Folder for runs and report.")  # fmt: skip
@click.option("--lenient", is_flag=True, help="Leave out and count malformed lines.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON on stdout, nothing else.")
@click.option("--quiet", is_flag=True, help="No progress.")
def merge(**options: Any) -> None:
    """Say how many on-demand nodes can be given up, with which algorithm, and what it does to the batch queue.

    Replays weeks of both logs on one machine of A+B nodes and compares with today's split. Runs that are done
    are kept in --out: the same command goes on after Ctrl-C, and more weeks or settings add only what is new.
    """
    from emulator.report.terminal import input_error  # noqa: PLC0415
    from emulator.runs.scenario import ScenarioError  # noqa: PLC0415
    from emulator.workload.files import TraceError  # noqa: PLC0415

    try:
        _merge(**options)
    except (ScenarioError, TraceError, OSError) as error:
        raise input_error(error) from error


def _merge(**options: Any) -> None:
    from emulator.report.terminal import InputError  # noqa: PLC0415
    from emulator.study import plausible  # noqa: PLC0415
    from emulator.study.logs import pairs, week_name  # noqa: PLC0415
    from emulator.study.merge import plan  # noqa: PLC0415
    from emulator.study.settings import SPLIT  # noqa: PLC0415
    from emulator.sweeps.grid import LABEL, Sweep  # noqa: PLC0415
    from emulator.sweeps.store import Store  # noqa: PLC0415
    from emulator.sweeps.sweep import describe  # noqa: PLC0415
    from emulator.text.number_text import number_of  # noqa: PLC0415

    if options["quick"]:
        unused = {"week_count"} if options["pairings"] == 1 else {"week_count", "pairings"}
        refuse(unused, "--quick is two weeks as they were")
    batch_nodes, ondemand_nodes = _split(options["nodes"])
    options["percents"] = [] if options["growth"] is None else _numbers(options["growth"], "--growth")
    tried = _settings(options, ondemand_nodes)
    folder: Path = options["out"]
    silent = options["quiet"] or options["as_json"]
    store = Store(folder)  # an error there comes before the work

    def tell(text: str) -> None:
        if not silent:
            click.echo(text, err=True)

    logs, weeks = _read(options, batch_nodes, tell)
    pairings = 1 if options["quick"] or len(weeks) == 1 else options["pairings"]
    if pairings < options["pairings"]:
        tell_unused({"pairings"}, "there is one week, whose leases have no other week to go with")
    sweep = plan(
        logs,
        pairs(weeks, pairings, options["seed"]),
        tried,
        ondemand_nodes=ondemand_nodes,
        scheduler=options["decides"],
        seed=options["seed"],
        folder=folder / "weeks",
    )
    counts = ((len(tried), "setting"), (len(weeks), "week"), (pairings, "pairing"))
    tell(
        f"{number_of(len(sweep.runs), 'run')}: {', '.join(number_of(*each) for each in counts)}; today's split first"
    )
    record = plausible.recorded(logs, weeks, [week_name(logs, week) for week in weeks])
    told = {name: options[name] for name in ("procs_per_node", "shared_nodes")}
    doubts = _doubt(plausible.doubts_of_the_log(record, batch_nodes, **told), options)
    # Today first: if it is not understood, the other settings are not worth their time.
    rows, outcome = _run(
        Sweep(sweep.name, tuple(run for run in sweep.runs if run.varied[LABEL] == SPLIT)), store, options
    )
    if outcome.failed and not rows:
        raise InputError(f"no run of today could be made: {outcome.failed[0][1]}")
    today = plausible.beside_simulated(record, rows, batch_nodes=batch_nodes, ondemand_nodes=ondemand_nodes)
    tell(plausible.sentence(today))
    tell(plausible.trust(today))
    farthest = options["accept_today"]
    if farthest is None:
        farthest = plausible.FARTHEST_SHARED if options["shared_nodes"] else plausible.FARTHEST
    doubts += _doubt(plausible.doubts_of_today(today, farthest), options)
    doubts += plausible.why_unknown(today)
    rows, outcome = _run(sweep, store, options)
    for run, reason in outcome.failed:
        click.echo(f"emulator: {describe(run)}: {reason}", err=True)
    if outcome.failed:
        doubts.append(
            f"{len(outcome.failed)} runs failed, so settings are not compared on the same weeks; the same command tries"
            " them again."
        )
    _answer(rows, tried, logs, weeks, today, sweep, options, doubts)
    if outcome.failed:
        sys.exit(1)


def _grown(  # noqa: PLR0917 - all of one study
    rows: list[dict[str, Any]],
    tried: list[Setting],
    logs: Logs,
    weeks: list[int],
    advice: list[tuple[str, Advice]],
    wishes: Wishes,
    options: dict[str, Any],
) -> tuple[GrowthOutcome, ...]:
    """What becomes of the first recommendation when either load grows; nothing without one, or unless asked for."""
    from emulator.study.growth import candidates, outcomes, plan_growth  # noqa: PLC0415
    from emulator.sweeps.store import Store  # noqa: PLC0415
    from emulator.sweeps.sweep import describe  # noqa: PLC0415

    percents = [each for each in options["percents"] if each]
    if not percents or not advice or not advice[0][1].meets:
        return ()
    recommended, nodes = advice[0][1].figures.setting, _split(options["nodes"])[1]
    settings = candidates(tried, recommended, wishes)
    growth = plan_growth(
        logs, weeks, settings, percents, ondemand_nodes=nodes, scheduler=options["decides"],
        seed=options["seed"], folder=options["out"] / "weeks",
    )  # fmt: skip
    if not (options["quiet"] or options["as_json"]):
        click.echo(f"{len(growth.sweep.runs)} runs more: each load grown by {options['growth']} %", err=True)
    grown_rows, outcome = _run(growth.sweep, Store(options["out"] / "growth"), options)
    for run, reason in outcome.failed:
        click.echo(f"emulator: {describe(run)}: {reason}", err=True)
    return outcomes(rows, grown_rows, growth, settings, recommended, wishes, nodes)


def _run(sweep: Sweep, store: Store, options: dict[str, Any]) -> tuple[list[dict[str, Any]], Outcome]:
    """Do what is missing of these runs: their rows. Ends the process when somebody interrupts."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    from emulator.commands.run import interruptible  # noqa: PLC0415
    from emulator.commands.sweep import SweepProgress, choose_pool  # noqa: PLC0415
    from emulator.study.longer_waits import chains  # noqa: PLC0415
    from emulator.sweeps.store import PARQUET  # noqa: PLC0415
    from emulator.sweeps.sweep import run_sweep  # noqa: PLC0415

    silent = options["quiet"] or options["as_json"]
    with SweepProgress(quiet=silent) as progress, interruptible() as interrupted:
        outcome = run_sweep(
            sweep, store, choose_pool(options["jobs"], options["dask"]),
            stop=lambda: bool(interrupted), on_done=progress.update, chains=chains(sweep),
        )  # fmt: skip
    if outcome.interrupted:
        click.echo(
            f"Interrupted: {outcome.rows} runs are in {store.folder}; the same command goes on.", err=True
        )
        sys.exit(130)
    return pq.read_table(store.folder / PARQUET).to_pylist(), outcome


def _answer(  # noqa: PLR0917 - all of one study
    rows: list[dict[str, Any]],
    tried: list[Setting],
    logs: Logs,
    weeks: list[int],
    today: list[Today],
    sweep: Sweep,
    options: dict[str, Any],
    doubts: list[str],
) -> None:
    """Write page, document and tables, and print the answer."""
    from emulator.report.terminal import stdout_console  # noqa: PLC0415
    from emulator.study import held_out, judge, show  # noqa: PLC0415
    from emulator.study.answer import Answer  # noqa: PLC0415
    from emulator.study.answer_document import answer_document  # noqa: PLC0415
    from emulator.study.merge import PAIRING  # noqa: PLC0415
    from emulator.study.verdict import KEEP, verdict  # noqa: PLC0415
    from emulator.workload.files import write_whole  # noqa: PLC0415

    folder: Path = options["out"]
    wishes = judge.Wishes(options["accept_rejected"] / 100, options["accept_wait_min"])
    advice = _advice(rows, tried, wishes, options["seed"])
    unannounced = [each for each in tried if each.algorithm != "hint"]
    announced = [each for each in tried if each.algorithm == "hint"]
    trial = held_out.on_trial(rows, unannounced, wishes)
    verdicts = [
        verdict(each, held_out.on_trial(rows, announced, wishes) if prefix else trial, wishes, doubts)
        for prefix, each in advice
    ]
    if not advice or advice[0][0]:  # without a notice there is nothing to judge, and that is the question
        verdicts.insert(0, verdict(None, None, wishes, doubts))
    is_open = verdicts[0].value != KEEP  # else there is nothing to say of whom it costs what
    answer = Answer(
        verdicts=tuple(verdicts),
        found=tuple(judge.figures(rows, tried)),
        advice=tuple(advice),
        wishes=wishes,
        logs=logs,
        weeks=tuple(weeks),
        today=tuple(today),
        ondemand_nodes=_split(options["nodes"])[1],
        pairings=max(run.varied[PAIRING] for run in sweep.runs),
        scheduler=options["scheduler"],
        ratios=judge.ratios(rows, tried, seed=options["seed"]),
        held_out=trial,
        wait_changes=_wait_changes(sweep, logs, advice, options["jobs"]) if is_open else None,
        price=options["node_hour_price"],
        growth=_grown(rows, tried, logs, weeks, advice, wishes, options) if is_open else (),
    )
    if not answer.growth and any(options["percents"]):
        tell_unused({"growth"}, "no merger is recommended, so there is none whose growth to tell")
    if not any(each.meets and answer.verdict_of(each).value != KEEP for _, each in advice):
        tell_unused({"node_hour_price"}, "no merger is recommended, so no nodes are given up")
    text = json.dumps(answer_document(answer), indent=2, ensure_ascii=False) + "\n"
    files = {"report.html": show.page(answer), "study.json": text, **show.tables(answer)}
    for name, content in files.items():
        with write_whole(folder / name) as stream:
            stream.write(content.encode())
    if options["as_json"]:
        click.echo(text, nl=False)
        return
    _print(answer)
    stdout_console(highlight=False, soft_wrap=True).print(
        f"\nRuns, {', '.join(files)} are in {folder}.", markup=False
    )


def _print(answer: Answer) -> None:
    """The answer on the terminal."""
    from emulator.report.terminal import stdout_console  # noqa: PLC0415
    from emulator.study import first_screen, plausible, show, wording  # noqa: PLC0415

    console = stdout_console(highlight=False, soft_wrap=True)
    console.print(answer.verdicts[0].sentence + "\n", markup=False)
    for name, value, remark in first_screen.tiles(answer):
        console.print(f"{name}: {value}{f' ({remark})' if remark else ''}", markup=False)
    console.print(plausible.trust(answer.today) + "\n", markup=False)
    console.print(show.terminal_table(answer))
    console.print("\n" + show.LEGEND, markup=False)
    for paragraph in wording.recommendations(answer):
        console.print("\n" + " ".join(paragraph), markup=False)
    if answer.growth:
        console.print()
        console.print(show.growth_table(answer))
    for line in [
        wording.growth(answer),
        *wording.proofs(answer),
        plausible.sentence(answer.today),
    ]:
        if line:
            console.print("\n" + line, markup=False)
    for note in answer.logs.notes:
        console.print(f"({note})", markup=False)


def _wait_changes(
    sweep: Sweep, logs: Logs, advice: list[tuple[str, Advice]], jobs: int | None
) -> WaitChanges | None:
    """Whom the first recommendation costs what; None if nothing keeps to the wishes."""
    from balancer.clock import US  # noqa: PLC0415
    from emulator.study.attribution import wait_changes  # noqa: PLC0415
    from emulator.study.merge import PAIRING  # noqa: PLC0415
    from emulator.study.settings import SPLIT  # noqa: PLC0415
    from emulator.sweeps.grid import LABEL  # noqa: PLC0415

    if not advice or not advice[0][1].meets:
        return None
    labels = (SPLIT, advice[0][1].figures.setting.label)
    today, then = (
        [run for run in sweep.runs if run.varied[LABEL] == label and run.varied[PAIRING] == 1]
        for label in labels
    )
    return wait_changes(
        today, then, logs.warm_up_us / US, logs.shared_queue,
        processes=jobs or len(os.sched_getaffinity(0)),
    )  # fmt: skip


def _doubt(doubts: list[str], options: dict[str, Any]) -> list[str]:
    """The doubts. Raises InputError with what is not understood, unless the user goes on all the same."""
    from emulator.report.terminal import InputError  # noqa: PLC0415

    if doubts and not options["believe"]:
        raise InputError(" ".join([*doubts, "To go on all the same: --believe."]))
    for doubt in doubts:
        click.echo(f"emulator: {doubt}", err=True)
    return list(doubts)


def _settings(options: dict[str, Any], ondemand_nodes: int) -> list[Setting]:
    from balancer.plugins import PREDICTORS, make_plugin, plugin_names  # noqa: PLC0415
    from emulator.report.terminal import InputError  # noqa: PLC0415
    from emulator.study.settings import default_reserves, settings  # noqa: PLC0415

    reserves: list[float] = [*default_reserves(ondemand_nodes)]
    if options["reserve"] is not None:
        reserves = _numbers(options["reserve"], "--reserve")
        if any(each != int(each) for each in reserves):
            raise InputError(f"--reserve {options['reserve']}: nodes are whole numbers")
        if reserves and max(reserves) >= ondemand_nodes:
            raise InputError(
                f"--reserve {options['reserve']}: {max(reserves):g} is as much as the on-demand machine of"
                f" {ondemand_nodes} nodes, or more, so nothing would be given up; say less than {ondemand_nodes}"
            )
    names = options["predictors"] or plugin_names(PREDICTORS)
    try:
        for name in names:
            make_plugin(PREDICTORS, name)
    except ValueError as error:
        raise InputError(f"--predictor: {error}") from error
    return settings(
        [int(each) for each in reserves],
        _numbers(options["wait_min"], "--wait-min"),
        _numbers(options["notice_min"], "--notice-min"),
        names,
    )


def _read(options: dict[str, Any], batch_nodes: int, tell: Any) -> tuple[Logs, list[int]]:
    """Both logs, and the weeks to replay."""
    from emulator.report.terminal import InputError  # noqa: PLC0415
    from emulator.study.logs import read_logs, usable_weeks  # noqa: PLC0415
    from emulator.study.site_scheduler import under_scheduler  # noqa: PLC0415
    from emulator.workload.formats import load  # noqa: PLC0415

    weeks_option = options["week_count"]
    if weeks_option != "all" and not (weeks_option.isdecimal() and int(weeks_option)):
        raise InputError(f"--weeks {weeks_option}: expected a number of weeks or `all`")
    for name in ("memory_per_node", "gpus_per_node"):
        if options[name] is not None and not options["shared_nodes"]:
            raise InputError(
                f"--{name.replace('_', '-')} goes with --shared-nodes: other jobs have whole nodes"
            )
    files = {name: options[name] for name in ("qos", "associations")}
    if not options["scheduler"].startswith("slurm:"):
        refuse(set(files), "without --scheduler slurm:FILE no job has one")
    loaded = []
    for name in ("batch", "ondemand"):
        tell(f"reading {options[name]}")
        loaded.append(load(options[name], lenient=options["lenient"]))
    logs = read_logs(
        *loaded,
        batch_nodes=batch_nodes,
        procs_per_node=options["procs_per_node"],
        cores_per_node=options["cores_per_node"],
        lay_together=options["lay_together"],
        shared_nodes=options["shared_nodes"],
        memory_gib_per_node=options["memory_per_node"],
        gpus_per_node=options["gpus_per_node"],
        down_nodes=options["down_nodes"],
        reservations=options["reservations"],
        overrun="kill" if options["scheduler"].startswith("slurm") else "extend",
    )
    logs, options["decides"] = under_scheduler(
        logs, options["scheduler"], _split(options["nodes"])[1], **files
    )
    weeks = usable_weeks(logs)
    if not weeks:
        raise InputError(
            f"{options['batch']} and {options['ondemand']} have no complete week in common with batch jobs and leases"
        )
    count = len(weeks) if weeks_option == "all" else int(weeks_option)
    return logs, weeks[: _QUICK_WEEKS if options["quick"] else count]


def _advice(
    rows: list[dict[str, Any]], tried: list[Setting], wishes: Wishes, seed: int
) -> list[tuple[str, Advice]]:
    """What to take without a notice from users, and what with one."""
    from emulator.study.judge import advise  # noqa: PLC0415

    without = advise(rows, [each for each in tried if each.algorithm != "hint"], wishes, seed=seed)
    found = [] if without is None else [("", without)]
    baseline = [each for each in tried if not each.is_merger or each.algorithm == "hint"]
    announced = advise(rows, baseline, wishes, seed=seed)
    if announced is not None:
        found.append(("If on-demand users give notice: ", announced))
    return found
