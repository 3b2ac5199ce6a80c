"""`emulator trace`: look at job logs before replaying them."""

from __future__ import annotations

from pathlib import Path

import click


class BadInput(click.ClickException):
    """What the user gave cannot be used: one line, exit status 2."""

    exit_code = 2


@click.group()
def trace() -> None:
    """Look at job logs."""


@trace.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--nodes", type=int, help="Size of the cluster; without it, the size in the log's header.")
@click.option("--procs-per-node", type=int, default=1, show_default=True, help="Processors of a node.")
@click.option(
    "--overrun",
    type=click.Choice(["extend", "kill"]),
    default="extend",
    show_default=True,
    help="A job that ran longer than its estimate: raise the estimate, or cut the run time.",
)
@click.option(
    "--lenient", is_flag=True, help="Leave out and count malformed lines instead of stopping at the first."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--plot", type=click.Path(path_type=Path), help="Also draw them: a .png or .svg file.")
def info(  # noqa: PLR0917 - click passes them by name
    file: Path,
    nodes: int | None,
    procs_per_node: int,
    overrun: str,
    lenient: bool,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Show what is in a job log: jobs, load, estimates, sizes, and what is left out and why."""
    # Imports are here so that `emulator --help` does not wait for them.
    import json  # noqa: PLC0415

    from rich.console import Console  # noqa: PLC0415

    from emulator.workload.formats import load  # noqa: PLC0415
    from emulator.workload.info import describe, render  # noqa: PLC0415
    from emulator.workload.rules import to_jobs  # noqa: PLC0415

    try:
        log = load(file, lenient=lenient)
        workload = to_jobs(
            log,
            nodes=nodes,
            procs_per_node=procs_per_node,
            overrun="kill" if overrun == "kill" else "extend",
        )
        figures = describe(log, workload)
        if plot is not None:
            from emulator.workload.plot import plot_workload  # noqa: PLC0415

            plot_workload(workload, plot)
    except (ValueError, OSError) as error:
        raise BadInput(str(error)) from error
    if as_json:
        click.echo(json.dumps(figures.as_dict(), indent=2))
    else:
        Console(highlight=False, soft_wrap=True).print(render(figures))
