"""`emulator calibrate`: what stands for a program in virtual time, held against the program itself."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from emulator.commands.run import InputError, _run, scenario_of
from emulator.scenario import ScenarioError

if TYPE_CHECKING:
    from emulator.schedulers.slurm.calibration import Calibration

_MOST = 20


@click.group()
def calibrate() -> None:
    """Hold a twin in virtual time against the program that it stands for."""


@calibrate.command()
@click.argument("source", metavar="SCENARIO|DIR", type=click.Path(path_type=Path))
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a key of the scenario.")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="Results of the run on Slurm.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
def slurm(source: Path, changes: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Run a scenario on the real Slurm and the same jobs in its twin, and show what differs job by job.

    With a folder of results of `emulator run --clock live` under `live.batch: slurm`, those are taken.
    """
    from emulator.report import files  # noqa: PLC0415 - slow imports only when they are needed
    from emulator.schedulers.slurm.calibration import calibrate as compare  # noqa: PLC0415
    from emulator.workload.files import TraceError  # noqa: PLC0415

    try:
        if source.is_dir():
            record = files.load(source)
        else:
            asked = (*changes, "live.batch=slurm") if not _names_slurm(source, changes) else changes
            scenario = scenario_of(source, asked, trace=None, nodes=None)
            folder = out or Path("runs") / f"{scenario.name}-slurm"
            record, _, _ = _run(scenario, "live", folder, quiet=as_json, check=False, report=False)
        found = compare(record)
    except (ScenarioError, TraceError, files.ResultsError, ValueError) as error:
        raise InputError(str(error)) from error
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
        return
    _show(found)


def _names_slurm(source: Path, changes: tuple[str, ...]) -> bool:
    batch = scenario_of(source, changes, trace=None, nodes=None).live.batch
    return (batch if isinstance(batch, str) else next(iter(batch))) == "slurm"


def _show(found: Calibration) -> None:
    click.echo(
        f"{found.jobs} jobs: mean wait {found.real_mean_wait_s:,.1f} s on Slurm, "
        f"{found.twin_mean_wait_s:,.1f} s in the twin ({found.mean_wait_off:+.2%})"
    )
    apart = found.differences
    click.echo(
        f"starts: {found.median_start_off_s:g} s apart in the median; {len(apart)} jobs more than bf_interval "
        f"({found.bf_interval_s} s)"
    )
    for each in apart[:_MOST]:
        why = (
            "the first of its kind"
            if each.follows is None
            else f"behind job {each.follows}, which differs too"
        )
        click.echo(
            f"  job {each.job} ({each.nodes} nodes, submitted at {each.submit_s:,.0f} s): Slurm {each.real_s:,.0f} s, "
            f"twin {each.twin_s:,.0f} s; {why}"
        )
    if len(apart) > _MOST:
        click.echo(f"  and {len(apart) - _MOST} more (--json has all)")
