"""`emulator whatif`: what another slurm.conf would have done to a log."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from emulator.commands.options import zone_option
from emulator.report.terminal import input_error
from emulator.runs.scenario import ScenarioError
from emulator.text.number_text import grouped, number_of

if TYPE_CHECKING:
    from rich.table import Table

    from emulator.study.whatif import Group, WhatIf


@click.command()
@zone_option
@click.option("--log", "log_path", required=True, metavar="LOG", type=click.Path(path_type=Path),
              help="What sacct printed, or any other job log.")  # fmt: skip
@click.option("--slurm-conf", "conf", metavar="FILE", type=click.Path(path_type=Path),
              help="Today's slurm.conf; without it, Slurm's defaults.")  # fmt: skip
@click.option("--release", metavar="VERSION", help="Its version of Slurm, such as 24.11.5. [default: what scontrol"
              " show config printed, if FILE is that, else the newest that is known]")  # fmt: skip
@click.option("--qos", metavar="FILE", type=click.Path(path_type=Path),
              help="Its QOS: what sacctmgr show qos --parsable2 printed.")  # fmt: skip
@click.option("--associations", metavar="FILE", type=click.Path(path_type=Path),
              help="Its associations: what sacctmgr show assoc tree --parsable2 printed.")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", required=True,
              help="A setting to change: bf_interval=60, nodes.lent=12, ... Repeatable.")  # fmt: skip
@click.option(
    "--nodes", type=click.IntRange(min=1), help="Size of the cluster, if neither log nor slurm.conf says it."
)
@click.option("--procs-per-node", type=click.IntRange(min=1),
              help="Processors of a node, where the log counts processors: jobs have whole nodes. [default: 1, unless"
              " slurm.conf has jobs share nodes]")  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of the intervals' draws."
)
@click.option("--lenient", is_flag=True, help="Leave out and count malformed lines.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def whatif(  # noqa: PLR0917 - click passes them by name
    log_path: Path,
    conf: Path | None,
    release: str | None,
    qos: Path | None,
    associations: Path | None,
    changes: tuple[str, ...],
    nodes: int | None,
    procs_per_node: int | None,
    seed: int,
    lenient: bool,
    as_json: bool,
) -> None:
    """Replay a log under today's slurm.conf and under changed settings, and say who waits how much longer or less.

    Both run in Slurm's twin (docs/slurm-twin.md). How well it meets the waits that the log recorded comes first.
    """
    from emulator.report.progress import RunProgress  # noqa: PLC0415 - slow imports only when they are needed
    from emulator.study.whatif import answer, read_site  # noqa: PLC0415
    from emulator.workload.files import TraceError  # noqa: PLC0415
    from emulator.workload.formats import load  # noqa: PLC0415

    try:
        log = load(log_path, lenient=lenient)
        site = read_site(
            log,
            nodes=nodes,
            procs_per_node=procs_per_node,
            conf=conf,
            release=release,
            changes=_pairs(changes),
            qos=qos,
            associations=associations,
        )
        if not as_json:
            size = f"{number_of(len(site.jobs), 'job')} on {number_of(site.nodes, 'node')}"
            click.echo(f"{size}, under both settings ...", err=True)
        with RunProgress(jobs=2 * len(site.jobs), quiet=as_json, what="jobs of both runs") as progress:
            progress.announce_compiling()
            begin_us = int(site.jobs.submit_us.min())

            def on_progress(now_us: int, ended: int, granted: int, rejected: int) -> bool:
                progress.update(now_us - begin_us, ended, granted, rejected)
                return True

            found = answer(site, seed=seed, on_progress=on_progress)
    except (ScenarioError, TraceError, ValueError, OSError) as error:
        raise input_error(error) from error
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
    else:
        _show(found, changes)


def _pairs(changes: tuple[str, ...]) -> dict[str, Any]:
    import yaml  # noqa: PLC0415

    from balancer.yaml_text import read_yaml  # noqa: PLC0415

    found = {}
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise ScenarioError(f"--set {change}: expected KEY=VALUE, for example bf_interval=60")
        if key.strip() in found:
            raise ScenarioError(f"--set {change}: {key.strip()} is set twice")
        try:
            found[key.strip()] = read_yaml(text)
        except yaml.YAMLError:
            raise ScenarioError(f"--set {change}: {text!r} is no value") from None
    return found


def _show(found: WhatIf, changes: tuple[str, ...]) -> None:
    from emulator.report.terminal import stdout_console  # noqa: PLC0415

    console = stdout_console(highlight=False, soft_wrap=True)
    everybody = found.groups[0]
    if everybody.recorded_min is not None and everybody.same_jobs_min is not None:
        console.print(
            f"Today: jobs waited {grouped(everybody.recorded_min, 1)} min by the log, and wait"
            f" {grouped(everybody.same_jobs_min, 1)} min in the twin.",
            markup=False,
        )
    for doubt in found.doubts:
        console.print(f"* {doubt}", style="yellow", markup=False)
    change = everybody.changed_min - everybody.today_min
    between = _interval(everybody)
    sure = (
        f"95 %: {between}, {found.blocks} {found.unit} drawn with replacement"
        if between
        else "no interval: the log has too few days to draw from"
    )
    console.print(
        f"With {', '.join(changes)}: {grouped(everybody.changed_min, 1)} min,"
        f" {grouped(change, 1, signed=True)} min ({sure}).\n",
        markup=False,
    )
    console.print(_table(found))
    for note in found.notes:
        console.print(f"({note})", markup=False)


def _table(found: WhatIf) -> Table:
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("mean wait, min", no_wrap=True)
    for heading in ("jobs", "recorded", "today", "changed", "change", "95 %"):
        table.add_column(heading, justify="right", no_wrap=True)
    by = ""
    for each in found.groups:
        if each.by not in {by, "all"}:
            table.add_row(f"by {each.by}", style="bold")
        by = each.by
        table.add_row(*_cells(each))
    return table


def _cells(each: Group) -> tuple[str, ...]:
    return (
        each.name if each.by == "all" else f"  {each.name}",
        grouped(each.jobs),
        "" if each.recorded_min is None else grouped(each.recorded_min, 1),
        grouped(each.today_min, 1),
        grouped(each.changed_min, 1),
        grouped(each.changed_min - each.today_min, 1, signed=True),
        _interval(each),
    )


def _interval(each: Group) -> str:
    """Of the change; nothing where there are too few days to say."""
    if each.low_min is None or each.high_min is None:
        return ""
    return f"{grouped(each.low_min, 1, signed=True)} to {grouped(each.high_min, 1, signed=True)}"
