"""`emulator replay`: a log on a real cluster that is already there."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from balancer.nodelist import some
from emulator.commands.options import plugin_option
from emulator.commands.run import SIGNAL, scenario_of
from emulator.report.terminal import RunError, input_error

if TYPE_CHECKING:
    from emulator.live.own_cluster import Replay
    from emulator.live.replayer import Replayer

_LOOK_S = 0.2
_SHOWN = 10


@click.command()
@plugin_option
@click.argument("scenario_file", metavar="[SCENARIO.yaml]", required=False, type=click.Path(path_type=Path))
@click.option("--trace", type=click.Path(path_type=Path), help="A job log instead of a scenario.")
@click.option("--nodes", type=int, help="Wider jobs are left out (default: the trace's header).")
@click.option(
    "--set", "changes", metavar="KEY=VALUE", multiple=True, help="Change a key of the scenario. Repeatable."
)
@click.option("--submit", required=True, metavar="slurm|pbs|PLUG-IN",
              help="How jobs are submitted, or, as YAML: '{sbatch: {partitions: {1: debug}}}'.")  # fmt: skip
@click.option("--compress", type=click.FloatRange(min=0, min_open=True), default=1.0, show_default=True,
              help="Divide all times by this: submits, run times, limits.")  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder of the replay (default: runs/NAME-replay)."
)
@click.option(
    "--cancel", is_flag=True, help="Ctrl-C cancels what was submitted; else it is named and left alone."
)
@click.option("--quiet", is_flag=True, help="No progress.")
def replay(  # noqa: PLR0917
    scenario_file: Path | None,
    trace: Path | None,
    nodes: int | None,
    changes: tuple[str, ...],
    submit: str,
    compress: float,
    out: Path | None,
    cancel: bool,
    quiet: bool,
) -> None:
    """Submit the jobs of a log, at their times, to a real Slurm or PBS that is already there.

    Jobs sleep as long as they ran, divided by --compress. When they are over, `emulator run --from-accounting` makes a
    result of them. Exit status 2: bad input, nothing was submitted; 1: some jobs were refused; 130: Ctrl-C.
    """
    import yaml  # noqa: PLC0415 - slow imports only when they are needed

    from balancer.yaml_text import read_yaml  # noqa: PLC0415
    from emulator.live.own_cluster import ALIASES, Replay  # noqa: PLC0415
    from emulator.runs.preparation import prepare  # noqa: PLC0415
    from emulator.runs.runner import check_live  # noqa: PLC0415

    try:
        scenario = scenario_of(scenario_file, changes, trace=trace, nodes=nodes)
        submitter = read_yaml(submit)
        how = ALIASES.get(submitter, submitter) if isinstance(submitter, str) else submitter
        replayed = Replay(out or Path("runs") / f"{scenario.name}-replay", how, compress)
        prepared = prepare(scenario)
        check_live(scenario, prepared)
        replayer = replayed.prepare(scenario, prepared)
        if cancel:
            replayed.cancel_command()
    except (ValueError, TypeError, OSError, yaml.YAMLError) as error:
        raise input_error(error) from error
    interrupted = _run(replayer, quiet=quiet)
    _tell(replayed, is_cancelled=cancel and interrupted)
    sys.exit(SIGNAL + signal.SIGINT if interrupted else int(bool(replayed.result().failed)))


def _run(replayer: Replayer, *, quiet: bool) -> bool:
    """Until all is submitted, or the user does not want any more; whether that."""
    from emulator.live.process import stop_on_signal  # noqa: PLC0415
    from emulator.report.progress import RunProgress  # noqa: PLC0415

    interrupted, is_over = threading.Event(), threading.Event()

    def stop() -> None:
        interrupted.set()
        replayer.stop()

    def follow() -> None:
        with RunProgress(
            jobs=replayer.job_count, end_us=replayer.last_us, quiet=quiet, verb="submitted"
        ) as progress:
            while not is_over.wait(_LOOK_S):
                counted = replayer.counted
                progress.update(
                    replayer.now_us(), counted.get("submitted", 0) + counted.get("submit_failed", 0)
                )

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stop_on_signal(stop)
    follower = threading.Thread(target=follow)
    follower.start()
    try:
        replayer.run()
    finally:
        is_over.set()
        follower.join()
        for number, handler in before.items():
            signal.signal(number, handler)
    return interrupted.is_set()


def _tell(replayed: Replay, *, is_cancelled: bool) -> None:
    """What was submitted, what became of it, and what to do next."""
    from emulator.live.own_cluster import OwnClusterError  # noqa: PLC0415

    result = replayed.result()
    ids = list(result.job_ids.values())
    named = some(ids, _SHOWN)
    click.echo(f"{len(ids)} jobs were submitted ({named or 'none'}); {replayed.log} names them all")
    for number, reason in list(result.failed.items())[:_SHOWN]:
        click.echo(f"emulator: job {number} was refused: {reason}", err=True)
    if is_cancelled:
        try:
            click.echo(f"{replayed.cancel()} jobs were cancelled")
        except OwnClusterError as error:
            raise RunError(str(error)) from error
    else:
        click.echo(
            f"when they are over: emulator run --from-accounting sacct|FILE --replay {replayed.folder}"
        )
