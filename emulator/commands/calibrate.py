"""`emulator calibrate`: what stands for a program in virtual time, held against the program itself."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from emulator.commands.options import refuse
from emulator.commands.run import _run, scenario_of
from emulator.report.terminal import InputError
from emulator.runs.scenario import ScenarioError
from emulator.text.number_text import grouped, number_of, percent

if TYPE_CHECKING:
    from emulator.live.slurm.calibration import Calibration

_MOST = 20


@click.group()
def calibrate() -> None:
    """Hold a twin in virtual time against the program that it stands for."""


@calibrate.command()
@click.argument(
    "sources", metavar="SCENARIO|DIR...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a key of the scenario.")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="Results of the run on Slurm.")
@click.option(
    "--repeats", type=click.IntRange(min=1), default=1, help="Run it so often, into DIR-1, DIR-2, ..."
)
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
def slurm(
    sources: tuple[Path, ...], changes: tuple[str, ...], out: Path | None, repeats: int, as_json: bool
) -> None:
    """Run a scenario on the real Slurm and the same jobs in its twin, and show what differs job by job.

    With folders of results of `emulator run --clock live` under `live.batch: slurm`, those are taken. Repeats of one
    scenario differ on Slurm: several runs say how much of a difference is Slurm's own.
    """
    from emulator.live.slurm.calibration import calibrate_results, run_of  # noqa: PLC0415
    from emulator.report import files  # noqa: PLC0415 - slow imports only when they are needed
    from emulator.workload.files import TraceError  # noqa: PLC0415

    scenarios = [source for source in sources if not source.is_dir()]
    if not scenarios:
        refuse({"changes", "out", "repeats"}, "nothing is run, since each DIR has its results")
    if len(scenarios) > 1:
        refuse({"out"}, f"{len(scenarios)} scenarios would write into one folder")
    found: dict[str, Calibration] = {}
    runs: dict[str, dict[str, Any]] = {}
    try:
        for source in sources:
            if source.is_dir():
                record = files.load(source)
                found[str(source)] = calibrate_results(source, record)
                runs[str(source)] = run_of(record, source)
                continue
            overrides = (*changes, "live.batch=slurm") if not _names_slurm(source, changes) else changes
            scenario = scenario_of(source, overrides, trace=None, nodes=None)
            name = out or Path("runs") / f"{scenario.name}-slurm"
            for number in range(1, repeats + 1):
                folder = name if repeats == 1 else name.with_name(f"{name.name}-{number}")
                record, _, _ = _run(scenario, "live", folder, quiet=as_json, check=False, report=False)
                found[str(folder)] = calibrate_results(folder, record)
                runs[str(folder)] = run_of(record, folder)
    except (ScenarioError, TraceError, files.ResultsError, ValueError) as error:
        raise InputError(str(error)) from error
    if as_json:
        shown = [{"run": run, **runs[run], **asdict(each)} for run, each in found.items()]
        click.echo(json.dumps(shown if len(shown) > 1 else shown[0], indent=2))
        return
    for run, each in found.items():
        if len(found) > 1:
            click.echo(run)
        _show(each)
    if len(found) > 1:
        _show_all(list(found.values()))


def _names_slurm(source: Path, changes: tuple[str, ...]) -> bool:
    return scenario_of(source, changes, trace=None, nodes=None).live.batch_name == "slurm"


def _show(found: Calibration) -> None:
    click.echo(
        f"{number_of(found.jobs, 'job')}: mean wait {grouped(found.real_mean_wait_s, 1)} s on Slurm, "
        f"{grouped(found.twin_mean_wait_s, 1)} s in the twin ({percent(found.mean_wait_off, 2, signed=True)}; "
        f"{grouped(found.twin_least_mean_wait_s, 1)} to {grouped(found.twin_most_mean_wait_s, 1)} s by when its"
        " backfill cycles come)"
    )
    apart = found.differences
    click.echo(
        f"starts: {found.median_start_off_s:g} s apart in the median; {number_of(len(apart), 'job')} more than "
        f"bf_interval ({found.bf_interval_s} s)"
    )
    if found.release_s or found.release_s_per_node:
        click.echo(
            f"nodes: free on Slurm {found.release_s:.1f} s and {found.release_s_per_node:.2f} s a node after a job's"
            f" end (the median line of {found.handovers} starts), so in the twin; at once there:"
            f" {percent(found.at_once_mean_wait_off, 2, signed=True)},"
            f" {found.at_once_median_start_off_s:g} s in the median"
        )
    for each in apart[:_MOST]:
        why = (
            "the first of its kind"
            if each.follows is None
            else f"behind job {each.follows}, which differs too"
        )
        click.echo(
            f"  job {each.job} ({number_of(each.nodes, 'node')}, submitted at {grouped(each.submit_s)} s):"
            f" Slurm {grouped(each.real_s)} s, twin {grouped(each.twin_s)} s; {why}"
        )
    if len(apart) > _MOST:
        click.echo(f"  and {len(apart) - _MOST} more (--json has all)")


def _show_all(runs: list[Calibration]) -> None:
    """The runs together: how far Slurm is from itself, and the twin from Slurm."""
    waits_s = [each.real_mean_wait_s for each in runs]
    real_s = sum(waits_s) / len(runs)
    twin_s = sum(each.twin_mean_wait_s for each in runs) / len(runs)
    off = f" ({percent(twin_s / real_s - 1, 2, signed=True)})" if real_s else ""
    click.echo(
        f"all {len(runs)} runs: mean wait {grouped(real_s, 1)} s on Slurm"
        f" ({grouped(min(waits_s), 1)} to {grouped(max(waits_s), 1)} s), "
        f"{grouped(twin_s, 1)} s in the twin{off}"
    )
