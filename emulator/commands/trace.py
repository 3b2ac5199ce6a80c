"""`emulator trace`: look at job logs before replaying them, and make other workloads of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from balancer.console_kit import names_of
from emulator.commands.options import plugin_option, usage_option, zone_option
from emulator.report.terminal import InputError, input_error, stdout_console
from emulator.text.number_text import grouped, number_of
from emulator.workload.overruns import Overrun, Size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date

    from emulator.workload.swf import SwfLog


_MOST_NODES = 2**31 - 1


_lenient = click.option(
    "--lenient", is_flag=True, help="Leave out and count malformed lines instead of stopping at the first."
)


def _cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """How large the log's cluster is."""
    procs = click.option(
        "--procs-per-node", type=int, default=1, show_default=True, help="Processors of a node."
    )
    nodes = click.option(
        "--nodes", type=int, help="Size of the cluster; without it, the size in the log's header."
    )
    return nodes(procs(command))


_json = click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
_size = click.option(
    "--size",
    type=click.Choice(get_args(Size)),
    default="nodes",
    show_default=True,
    help="Take a job's whole nodes, where the log says them; or its processors; or those it asked for.",
)


@click.group()
def trace() -> None:
    """Look at job logs, convert them, compare their weeks, pack them into leases, generate jobs."""


@trace.command()
@plugin_option
@usage_option
@zone_option
@click.argument("file", type=click.Path(path_type=Path))
@_cluster
@click.option(
    "--overrun",
    type=click.Choice(get_args(Overrun)),
    default="extend",
    show_default=True,
    help="A job that ran longer than its estimate: raise the estimate, cut the run time, or leave both.",
)
@_size
@_lenient
@_json
@click.option("--plot", type=click.Path(path_type=Path), help="Also draw them: a .png or .svg file.")
def info(  # noqa: PLR0917 - click passes them by name
    file: Path,
    nodes: int | None,
    procs_per_node: int,
    overrun: Overrun,
    size: Size,
    lenient: bool,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Show what is in a job log: jobs, load, estimates, sizes, and what is left out and why."""
    # Imports are here so that `emulator --help` does not wait for them.
    import json  # noqa: PLC0415

    from emulator.workload.formats import load  # noqa: PLC0415
    from emulator.workload.info import describe, render  # noqa: PLC0415
    from emulator.workload.rules import to_jobs  # noqa: PLC0415

    try:
        log = load(file, lenient=lenient)
        workload = to_jobs(log, nodes=nodes, procs_per_node=procs_per_node, overrun=overrun, size=size)
        figures = describe(log, workload)
        if plot is not None:
            from emulator.workload.plot import plot_workload  # noqa: PLC0415

            plot_workload(workload, plot)
    except (ValueError, OSError) as error:
        raise input_error(error) from error
    if as_json:
        click.echo(json.dumps(figures.as_dict(), indent=2))
    else:
        stdout_console(highlight=False, soft_wrap=True).print(render(figures))


@trace.command()
@plugin_option
@usage_option
@zone_option
@click.argument("file", metavar="LOG", type=click.Path(path_type=Path))
@_cluster
@click.option("--down-nodes", type=click.Path(path_type=Path),
              help="When nodes were down: a table such as sacctmgr show event prints.")  # fmt: skip
@click.option("--reservations", type=click.Path(path_type=Path),
              help="When reservations held nodes: what sacctmgr show reservation prints.")  # fmt: skip
@_size
@_lenient
@_json
def check(  # noqa: PLR0917
    file: Path,
    nodes: int | None,
    procs_per_node: int,
    down_nodes: Path | None,
    reservations: Path | None,
    size: Size,
    lenient: bool,
    as_json: bool,
) -> None:
    """Say what was understood of a job log, what is left out and why, and what is likely wrong with it.

    Exit status: 0 nothing looks wrong, 1 something does, 2 the log cannot be read.
    """
    import json  # noqa: PLC0415
    import sys  # noqa: PLC0415

    from emulator.workload import check as checking  # noqa: PLC0415
    from emulator.workload.formats import find_format  # noqa: PLC0415
    from emulator.workload.rules import cluster_size, to_jobs  # noqa: PLC0415

    try:
        reader = find_format(file)
        log = reader.read(file, lenient=lenient)
        is_size_known = nodes is not None or log.says_size
        known = (
            (cluster_size(log, procs_per_node) if nodes is None else nodes) if is_size_known else _MOST_NODES
        )
        workload = to_jobs(
            log,
            nodes=known,
            procs_per_node=procs_per_node,
            size=size,
        )
        if not is_size_known:
            workload = replace(workload, nodes=int(workload.jobs.nodes.max()))
        found = checking.check(
            log, workload, format_name=reader.name, is_size_known=is_size_known, down_nodes=down_nodes,
            reservations=reservations,
        )  # fmt: skip
    except (ValueError, OSError) as error:
        raise input_error(error) from error
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=2))
    else:
        stdout_console(highlight=False, soft_wrap=True).print(checking.render(found))
    sys.exit(1 if found.doubts else 0)


@trace.command()
@plugin_option
@usage_option
@zone_option
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@_lenient
def convert(source: Path, target: Path, lenient: bool) -> None:
    """Write a log in any known format as SWF: OUT ends in .swf, .swf.gz or .swf.xz."""
    from emulator.workload.formats import load  # noqa: PLC0415
    from emulator.workload.rules import check_has_jobs, with_times_of_jobs  # noqa: PLC0415
    from emulator.workload.swf import write_swf  # noqa: PLC0415

    if not target.name.endswith((".swf", ".swf.gz", ".swf.xz")):
        raise InputError(f"{target}: the name must end in .swf, .swf.gz or .swf.xz")
    if target.exists() and source.exists() and target.samefile(source):
        raise InputError(f"{target} is the log itself; name another file")
    try:
        log = load(source, lenient=lenient)
        check_has_jobs(log)
        records = log.records
        log, left_out = with_times_of_jobs(log)
        write_swf(log, target)
    except (ValueError, OSError) as error:
        raise input_error(error) from error
    of_all = "" if records == len(log) else f" of {grouped(records)} records"
    click.echo(f"{target}: {number_of(len(log), 'job')}{of_all}{_left_out(log, left_out)}")


@trace.command()
@plugin_option
@usage_option
@zone_option
@click.argument("logs", metavar="DIR|FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--nodes", type=int, help="Size of the batch cluster; without it, the size in the header.")
@click.option(
    "--on-demand",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Jobs on demand: log or folder. Repeatable.",
)
@click.option(
    "--usage",
    "usages",
    metavar="DATE=CORE_HOURS",
    multiple=True,
    help="The on-demand usage of a week whose log is missing. Repeatable.",
)
@_lenient
@_json
def weeks(  # noqa: PLR0917
    logs: tuple[Path, ...],
    nodes: int | None,
    on_demand: tuple[Path, ...],
    usages: tuple[str, ...],
    lenient: bool,
    as_json: bool,
) -> None:
    """Compare the weeks of logs: free nodes, on-demand usage, and which week is the most challenging."""
    import json  # noqa: PLC0415

    from emulator.workload import challenge  # noqa: PLC0415
    from emulator.workload.rules import cluster_size  # noqa: PLC0415

    known = dict(_usage(text) for text in usages)
    try:
        batch = [_load_rows(path, lenient=lenient) for path in logs]
        figures = challenge.weeks(
            batch,
            [_load_rows(path, lenient=lenient) for path in on_demand],
            nodes=cluster_size(batch[0]) if nodes is None else nodes,
            known_core_hours=known,
        )
    except (ValueError, OSError) as error:
        raise input_error(error) from error
    if as_json:
        hardest = challenge.most_challenging_week(figures)
        document = {"weeks": [week.as_dict() for week in figures], "hardest": hardest.begin.isoformat()}
        click.echo(json.dumps(document, indent=2))
    else:
        stdout_console(highlight=False, soft_wrap=True).print(challenge.render(figures))


@trace.command()
@plugin_option
@usage_option
@zone_option
@click.argument("logs", metavar="DIR|FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--nodes", type=int, default=372, show_default=True, help="Nodes of the cluster, for its utilisation."
)
@click.option("--cores-per-vm", type=int, default=16, show_default=True, help="Cores of a virtual machine.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Store the leases (of one log): .parquet or .npz."
)
@click.option(
    "--history",
    type=click.Path(path_type=Path),
    help="Write the nodes requested in each six-hour slot (of one log): CSV for `balancer predictor backtest`.",
)
@_lenient
@_json
def pack(  # noqa: PLR0917
    logs: tuple[Path, ...],
    nodes: int,
    cores_per_vm: int,
    out: Path | None,
    history: Path | None,
    lenient: bool,
    as_json: bool,
) -> None:
    """Pack the jobs of shared nodes onto virtual machines and show the leases that come of it."""
    import json  # noqa: PLC0415

    from emulator.workload import store  # noqa: PLC0415
    from emulator.workload.packing import describe, render, to_leases, vms_for, write_history  # noqa: PLC0415
    from emulator.workload.rules import check_has_jobs  # noqa: PLC0415

    if (out is not None or history is not None) and len(logs) > 1:
        raise InputError(
            "--out stores the leases of one log, and so does --history; give one, or a folder of weeks"
        )
    rows = []
    try:
        for path in logs:
            log = _load_rows(path, lenient=lenient)
            if out is not None or history is not None:
                check_has_jobs(log)
            need = vms_for(log, cores_per_vm)
            leases = to_leases(need)
            if history is not None:
                write_history(leases, log.key_int("UnixStartTime") or 0, history)
            rows.append(describe(str(path), leases, need, nodes))
            if out is not None:
                store.save(leases, out)
    except (ValueError, OSError) as error:
        raise input_error(error) from error
    if as_json:
        click.echo(json.dumps([row.as_dict() for row in rows], indent=2))
    else:
        stdout_console(highlight=False, soft_wrap=True).print(render(rows))


@trace.command()
@plugin_option
@click.argument("generator", metavar="GENERATOR", shell_complete=names_of("emulator.generators"))
@click.option("--nodes", type=int, default=372, show_default=True, help="Size of the cluster.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the random stream.")
@click.option("--target", help="Show printed figures beside the obtained ones, for example U66-Main.")
@click.option("--out", type=click.Path(path_type=Path), help="Store the jobs: .parquet or .npz.")
@_json
def generate(  # noqa: PLR0917
    generator: str, nodes: int, seed: int, target: str | None, out: Path | None, as_json: bool
) -> None:
    """Generate jobs and show their figures. GENERATOR as in a scenario: lcrc_batch, 'lcrc_batch: {load: 0.8}'."""
    import json  # noqa: PLC0415

    import yaml  # noqa: PLC0415

    from balancer.yaml_text import read_yaml  # noqa: PLC0415
    from emulator.workload import store  # noqa: PLC0415
    from emulator.workload.generators import GROUP, parse_generators  # noqa: PLC0415
    from emulator.workload.paper_workloads import compare, figures, render  # noqa: PLC0415
    from emulator.workload.plugin_errors import jobs_from  # noqa: PLC0415
    from emulator.workload.streams import stream  # noqa: PLC0415

    try:
        (made,) = parse_generators([read_yaml(generator)])
        jobs = jobs_from(GROUP, made, "generate", stream(seed, "workload.generate.0"), nodes=nodes)
        obtained = figures(jobs, nodes=nodes)
        rows = compare(target, obtained)
        if out is not None:
            store.save(jobs, out)
    except yaml.YAMLError as error:
        raise InputError(f"{generator}: not valid YAML") from error
    except (ValueError, OSError) as error:
        raise input_error(error) from error
    if as_json:
        document = {name: {"printed": printed, "obtained": value} for name, printed, value in rows}
        click.echo(json.dumps(document, indent=2))
    else:
        stdout_console(highlight=False, soft_wrap=True).print(render(target or "", rows))


@trace.command()
@plugin_option
@usage_option
@zone_option
@click.argument("file", type=click.Path(path_type=Path))
@_cluster
@click.option(
    "--model",
    type=click.Choice(["lublin", "jann"]),
    default="lublin",
    show_default=True,
    help="Lublin and Feitelson's (a cycle of the day, sizes by shares), or Jann's (moments by ranges of sizes).",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the jobs that are compared.")
@click.option("--out", type=click.Path(path_type=Path), help="Write a scenario with the model (.yaml).")
@_size
@_lenient
@_json
def fit(  # noqa: PLR0917
    file: Path,
    nodes: int | None,
    procs_per_node: int,
    model: str,
    seed: int,
    out: Path | None,
    size: Size,
    lenient: bool,
    as_json: bool,
) -> None:
    """Fit a workload model to a log, and show both.

    What it prints goes into a scenario's `workload`; other `days` and `load` make longer and busier logs of such jobs.
    """
    import json  # noqa: PLC0415

    import yaml  # noqa: PLC0415

    from emulator.workload import fit_jann, fit_lublin  # noqa: PLC0415
    from emulator.workload.formats import load  # noqa: PLC0415
    from emulator.workload.rules import to_jobs  # noqa: PLC0415
    from emulator.workload.streams import stream  # noqa: PLC0415

    if out is not None and out.suffix not in {".yaml", ".yml"}:
        raise InputError(f"{out}: a scenario's name ends in .yaml")
    try:
        log = load(file, lenient=lenient)
        workload = to_jobs(log, nodes=nodes, procs_per_node=procs_per_node, size=size)
        fitted = fit_jann.fit if model == "jann" else fit_lublin.fit
        found = fitted(workload.jobs, workload.nodes)
        made = found.model.generate(stream(seed, "workload.generate.0"), nodes=workload.nodes)
        both = [fit_lublin.figures(each, workload.nodes) for each in (workload.jobs, made)]
        part = {"nodes": workload.nodes, "workload": {"generate": [found.as_part()]}}
        if out is not None:
            scenario = {"name": out.stem, "seed": seed, **part}
            out.write_text(f"# Fitted to {file.name}.\n{yaml.safe_dump(scenario, sort_keys=False)}")
    except (ValueError, OSError) as error:
        raise input_error(error) from error
    if as_json:
        click.echo(json.dumps({**part, "log": both[0], "model": both[1]}, indent=2))
    else:
        click.echo(yaml.safe_dump(part, sort_keys=False), nl=False)
        stdout_console(highlight=False, soft_wrap=True).print(fit_lublin.render(file.name, *both))


def _usage(text: str) -> tuple[date, float]:
    from datetime import date  # noqa: PLC0415
    from math import isfinite  # noqa: PLC0415

    day, _, number = text.partition("=")
    try:
        begin, hours = date.fromisoformat(day), float(number)
    except ValueError:
        hours = -1.0
    if not isfinite(hours) or hours < 0:
        raise InputError(f"--usage {text}: expected DATE=CORE_HOURS, for example 2015-04-05=12499")
    return begin, hours


def _load_rows(path: Path, *, lenient: bool) -> SwfLog:
    """A log for a command that looks at its rows themselves, without those whose times no job had."""
    from emulator.workload.formats import load  # noqa: PLC0415
    from emulator.workload.rules import with_times_of_jobs  # noqa: PLC0415

    log, left_out = with_times_of_jobs(load(path, lenient=lenient))
    for reason, count in left_out.items():
        click.echo(f"{path}: {grouped(count)} x {reason} left out", err=True)
    return log


def _left_out(log: SwfLog, left_out: Mapping[str, int]) -> str:
    said = "".join(f", {grouped(count)} x {what} passed over" for what, count in log.passed_over.items())
    said += "".join(f", {grouped(count)} x {reason} left out" for reason, count in left_out.items())
    if log.malformed:
        said += f", {number_of(log.malformed, 'malformed line')} left out"
    return said + "".join(f"\n  {line}" for line in log.complaints)
