"""`emulator run`: a scenario or a trace, in virtual time or live."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from emulator.commands.options import changes as complete_changes
from emulator.commands.options import grouped, plugin_option, refuse, refuse_others, schedulers, usage_option
from emulator.report.terminal import InputError, RunError
from emulator.runs.scenario import (
    Scenario,
    ScenarioError,
    apply_change,
    from_mapping,
    is_scenario_file,
    load,
    of_trace,
)
from emulator.workload.overruns import Overrun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emulator.live.resume import ResumableRun
    from emulator.record.run_record import RunRecord
    from emulator.report.baseline import Baseline
    from emulator.report.watch_page import WatchPage
    from emulator.runs.preparation import Prepared


_STDERR = 2
_ENDING = b"emulator: ending the run; once more stops at once, without results\n"
_OF_ACCOUNTING = {
    "accounting", "replay", "scenario_file", "out", "as_json", "anonymous", "no_report", "check", "quiet",
    "with_traceback", "plugin", "trace",
}  # fmt: skip
SIGNAL = 128
"""Exit status of a run that a signal ended: this and the signal's number, as in a shell."""


class Interrupted:
    """Set by Ctrl-C (or SIGTERM) while a run is on: the run ends soon and leaves a valid, partial result."""

    def __init__(self) -> None:
        self.number = 0
        self._is_hurried = False

    def __bool__(self) -> bool:
        return self.number > 0

    @property
    def reason(self) -> str:
        return signal.Signals(self.number).name if self.number else ""

    def by(self, number: int, _: Any) -> None:
        if not self.number:
            self.number = number
            os.write(_STDERR, _ENDING)  # print is not safe in a handler
        elif not self._is_hurried:
            # The second time the user means it; a third one must not keep us from ending our processes.
            self._is_hurried = True
            raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[Interrupted]:
    """Catch SIGINT and SIGTERM for the time of a run."""
    interrupted = Interrupted()
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, interrupted.by) for number in signals]
    try:
        yield interrupted
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


_SECTIONS = {
    "What runs": (
        "changes", "trace", "nodes", "scheduler", "overrun", "usage_column", "time_zone", "plugin", "seed",
    ),
    "Live": ("clock", "speed", "keep"),
    "Results": ("out", "as_json", "anonymous", "no_report", "baseline", "streamed", "check"),
    "While it runs": ("watch", "quiet", "with_traceback"),
    "Of a replay": ("accounting", "replay"),
}  # fmt: skip


@click.command(cls=grouped(_SECTIONS))
@plugin_option
@usage_option
@click.argument(
    "scenario_file", metavar="[SCENARIO.yaml | LOG]", required=False, type=click.Path(path_type=Path)
)
@click.option("--clock", type=click.Choice(["virtual", "live"]), default="virtual", show_default=True,
              help="Virtual time, or real processes on an accelerated clock.")  # fmt: skip
@click.option("--speed", type=float, help="Live: cluster seconds in a second (default: the scenario's).")
@click.option("--seed", type=int, help="Seed of all random streams (default: the scenario's).")
@click.option("--set", "changes", metavar="KEY=VALUE", multiple=True, shell_complete=complete_changes,
              help="Change a key of the scenario, for example mechanism.balancer.wait_s=300. Repeatable.")  # fmt: skip
@click.option("--trace", type=click.Path(path_type=Path), help="The job log to run, instead of LOG.")
@click.option("--nodes", type=int, help="Number of nodes (default: the trace's header).")
@click.option(
    "--scheduler", shell_complete=schedulers, help="ORDER[+BACKFILL[+CHOICE]]; see `emulator schedulers`."
)
@click.option("--overrun", type=click.Choice(get_args(Overrun)),
              help="Jobs that ran longer than their estimate: extend that (default), kill, or run_on.")  # fmt: skip
@click.option("--time-zone", metavar="ZONE",
              help="Whose clock wrote times of the log that say no offset from UTC (Europe/Berlin).")  # fmt: skip
@click.option("--from-accounting", "accounting", metavar="sacct|FILE",
              help="Run nothing: what became of a replay (--replay), by sacct, a file with what it printed, "
              "Slurm's job log, or the folder of PBS's accounting.")  # fmt: skip
@click.option("--replay", type=click.Path(path_type=Path), help="Folder of `emulator replay`.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the results (default: runs/NAME).")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on stdout, nothing else.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--watch", is_flag=True,
              help="Show the run on a page while it lasts; its address is printed on stderr.")  # fmt: skip
@click.option("--stream", "streamed", is_flag=True,
              help="Read the log, and write jobs and events, in blocks: for logs that do not fit into memory. "
              "Plain schedulers; no report.")  # fmt: skip
@click.option("--keep", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Live: keep the run in this folder. Ctrl-C stops it; the same command goes on with it.")  # fmt: skip
@click.option("--anonymous", is_flag=True,
              help="No users.csv, which has the names of users; other files have their numbers.")  # fmt: skip
@click.option("--no-report", is_flag=True, help="No report.html; `emulator report DIR` makes it later.")
@click.option("--baseline/--no-baseline", default=None,
              help="Beside it the same run without the mechanism, or FCFS with EASY: in the report and baseline.json "
              "(default: up to 100 000 jobs, in virtual time).")  # fmt: skip
@click.option(
    "--traceback", "with_traceback", is_flag=True, help="When a plug-in fails: show where in its code."
)
@click.option(
    "--check", is_flag=True, help="Check the run against its invariants (no job lost, none run twice)."
)
def run(  # noqa: PLR0917
    scenario_file: Path | None,
    clock: str,
    speed: float | None,
    seed: int | None,
    changes: tuple[str, ...],
    trace: Path | None,
    nodes: int | None,
    scheduler: str | None,
    overrun: str | None,
    time_zone: str | None,
    accounting: str | None,
    replay: Path | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    watch: bool,
    streamed: bool,
    keep: Path | None,
    anonymous: bool,
    no_report: bool,
    baseline: bool | None,
    with_traceback: bool,
    check: bool,
) -> None:
    """Run a scenario (.yaml) or a job log (any other file) and write its results into one folder.

    Without --clock live everything happens in virtual time. Ctrl-C ends the run early with a valid, partial
    result (exit status 130); a second one stops at once. Exit status 2: bad input, nothing was written; 1: a
    plug-in or a live run failed half-way, what was done until then is written.
    """
    from emulator.plugins.failure import PluginError, traceback_of  # noqa: PLC0415
    from emulator.report.files import ResultsError  # noqa: PLC0415 - slow imports only when they are needed
    from emulator.sweeps.malloc_tuning import return_large_arrays  # noqa: PLC0415
    from emulator.workload.files import TraceError  # noqa: PLC0415

    return_large_arrays()
    report = not (no_report or streamed)
    try:
        if accounting is not None or replay is not None:
            refuse_others(_OF_ACCOUNTING, "--from-accounting runs nothing, and a replay knows its scenario")
            folder, record, summary, status = _from_accounting(
                accounting, replay, scenario_file or trace, out, check=check, report=report
            )
        else:
            if clock != "live":
                refuse({"speed"}, "virtual time has no speed; it is that of --clock live")
            scenario = scenario_of(
                scenario_file, changes, trace=trace, nodes=nodes, scheduler=scheduler, overrun=overrun,
                time_zone=time_zone, seed=seed, speed=speed,
            )  # fmt: skip
            folder = out or Path("runs") / f"{scenario.name}{'-live' if clock == 'live' else ''}"
            do: Callable[..., Any] = _stream if streamed else _run
            record, summary, status = do(
                scenario, clock, folder, quiet=quiet or as_json, check=check, report=report, watch=watch, keep=keep,
                anonymous=anonymous, baseline=baseline,
            )  # fmt: skip
    except (ScenarioError, TraceError, ResultsError) as error:
        raise InputError(str(error)) from error
    except PluginError as error:  # before anything has run
        if with_traceback:
            click.echo(traceback_of(error), err=True, nl=False)
        raise RunError(str(error)) from error
    except KeyboardInterrupt:
        click.echo("emulator: stopped at once; no results were written", err=True)
        sys.exit(SIGNAL + signal.SIGINT)
    traceback = getattr(record, "traceback", "") if with_traceback else ""
    _show(summary, folder, as_json=as_json, has_report=report, traceback=traceback)
    sys.exit(status)


def _show(summary: dict[str, Any], folder: Path, *, as_json: bool, has_report: bool, traceback: str) -> None:
    """What came of the run, on the terminal."""
    from emulator.report.files import load_baseline, to_json  # noqa: PLC0415
    from emulator.report.summary_text import print_summary  # noqa: PLC0415

    if as_json:
        click.echo(to_json(summary), nl=False)
    else:
        print_summary(summary, folder, has_report=has_report, baseline=load_baseline(folder))
    if traceback:
        click.echo(traceback, err=True, nl=False)
    if summary["interrupted"]:
        click.echo(f"emulator: {summary['interrupted']}; what was done is in {folder}", err=True)


def scenario_of(
    path: Path | None,
    changes: tuple[str, ...],
    *,
    trace: Path | None,
    nodes: int | None,
    scheduler: str | None = None,
    overrun: str | None = None,
    time_zone: str | None = None,
    seed: int | None = None,
    speed: float | None = None,
) -> Scenario:
    """The scenario file with the command line's changes, or one made of the command line alone."""
    values = {
        "nodes": nodes, "scheduler": scheduler, "workload.overrun": overrun,
        "workload.time_zone": time_zone, "seed": seed, "live.speed": speed,
    }  # fmt: skip
    said = {key: value for key, value in values.items() if value is not None}
    _check_said_once(said, changes)
    changes = (*(f"{key}={value}" for key, value in said.items()), *changes)
    if path is not None and trace is not None:
        raise ScenarioError("give either a scenario file or --trace, not both")
    if path is not None and is_scenario_file(path):
        return load(path, changes)
    trace = path or trace
    if path is not None and "=" in path.name and not path.exists():
        raise ScenarioError(f"{path}: there is no such file; `--set {path}` changes a key of a scenario")
    if trace is None:
        raise ScenarioError("give a scenario file or a job log; scenarios/default.yaml is a good start")
    document = of_trace(trace)
    for change in changes:
        apply_change(document, change)
    return from_mapping(document, "command line")


def _check_said_once(said: dict[str, Any], changes: tuple[str, ...]) -> None:
    """Raises ScenarioError for a change of a key, or of all that it is in, that an option of its own says."""
    for change in changes:
        key = change.partition("=")[0].strip()
        for name in said:
            if f"{name}.".startswith(f"{key}."):
                option = f"--{name.rpartition('.')[2].replace('_', '-')}"
                raise ScenarioError(f"--set {change}: {option} says it, too; leave one of the two out")


def _run(
    scenario: Scenario,
    clock: str,
    folder: Path,
    *,
    quiet: bool,
    check: bool,
    report: bool,
    watch: bool = False,
    keep: Path | None = None,
    anonymous: bool = False,
    baseline: bool | None = None,
) -> tuple[RunRecord, dict[str, Any], int]:
    """Run and write. Returns the record, its summary and the exit status."""
    if keep is not None and clock != "live":
        raise ScenarioError("--keep: only a live run can be stopped and gone on with (--clock live)")
    if baseline and clock == "live":
        raise ScenarioError("--baseline: a live run has none; leave it out")
    from emulator.report import files  # noqa: PLC0415
    from emulator.runs.baseline import plain_scenario  # noqa: PLC0415
    from emulator.runs.preparation import prepare  # noqa: PLC0415
    from emulator.runs.runner import make_mechanism  # noqa: PLC0415
    from emulator.runs.trace_doubts import with_doubts  # noqa: PLC0415

    if baseline and plain_scenario(scenario) is None:
        raise ScenarioError(
            f"--baseline: there is none beside {scenario.scheduler_config.label}; leave it out"
        )
    files.check_target(folder)
    prepared = prepare(scenario)
    make_mechanism(scenario)  # a wrong parameter is an error before anything has run
    with interruptible() as interrupted, _folder(keep, scenario, prepared) as (scratch, resumable):
        logs = None
        with _page(scenario, is_shown=watch) as page:
            if clock == "live":
                logs = scratch / files.LOGS
                record = _live(
                    scenario, prepared, folder, logs, interrupted, quiet=quiet, page=page, resumable=resumable
                )
            else:
                record = _virtual(scenario, prepared, interrupted, quiet=quiet, page=page)
            if page is not None:
                page.end(record)
        if check:
            from emulator.validation.laws import assert_lawful  # noqa: PLC0415

            assert_lawful(record)
        record = replace(record, recorded=with_doubts(record.recorded, scenario, prepared.nodes))
        beside = None
        if clock == "virtual" and not record.interrupted:
            is_shown = report if baseline is None else baseline
            beside = _baseline(
                scenario, prepared, interrupted, is_shown=is_shown, is_asked=bool(baseline), quiet=quiet
            )
        threshold_s = scenario.results.bounded_slowdown_threshold_s
        with scenario.plugged_in():  # what the mechanism shows
            summary = files.write(
                record,
                folder,
                bounded_slowdown_threshold_s=threshold_s,
                logs=logs,
                report=report,
                user_names=None if anonymous else prepared.user_names,
                baseline=beside,
            )
        if resumable is not None:
            resumable.forget()
        if interrupted and record.interrupted:
            return record, summary, SIGNAL + interrupted.number
        return record, summary, int(bool(record.interrupted))


def _baseline(
    scenario: Scenario,
    prepared: Prepared,
    interrupted: Interrupted,
    *,
    is_shown: bool,
    is_asked: bool,
    quiet: bool,
) -> Baseline | None:
    """The run beside it. Why there is none is said on stderr, where it is not what was asked for."""
    from emulator.runs.baseline import plain_scenario, run_baseline, why_not  # noqa: PLC0415

    if not is_shown or plain_scenario(scenario) is None:
        return None
    why = "" if is_asked else why_not(len(prepared.jobs))
    if not why:
        try:
            return run_baseline(scenario, prepared, lambda: not interrupted)
        except ValueError as error:  # the plain run knows not all that this one does
            why = str(error)
    if is_asked:
        raise ScenarioError(f"--baseline: {why}")
    if not quiet:
        click.echo(f"emulator: no baseline: {why}", err=True)
    return None


def _stream(
    scenario: Scenario, clock: str, folder: Path, *, check: bool, watch: bool, keep: Path | None, **more: bool
) -> tuple[None, dict[str, Any], int]:
    """Run and write block by block; there is no record. Ctrl-C ends it without results."""
    from emulator.report import files  # noqa: PLC0415
    from emulator.stream.run import stream  # noqa: PLC0415

    if clock == "live" or watch or check or more["baseline"] or keep is not None:
        raise ScenarioError("--stream goes with none of --clock live, --watch, --check, --baseline, --keep")
    files.check_target(folder)
    with interruptible() as interrupted:
        return None, stream(scenario, folder, go_on=lambda: not interrupted), 0


@contextmanager
def _folder(
    keep: Path | None, scenario: Scenario, prepared: Prepared
) -> Iterator[tuple[Path, ResumableRun | None]]:
    """Where a live run's processes write, and the run that is kept there."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="emulator-") as scratch:
            yield Path(scratch), None
        return
    from emulator.live import resume  # noqa: PLC0415 - only for live runs

    with resume.keep(keep.absolute(), scenario, prepared.nodes) as run:
        yield run.folder, run


def _from_accounting(
    accounting: str | None,
    replay: Path | None,
    scenario_file: Path | None,
    out: Path | None,
    *,
    check: bool,
    report: bool,
) -> tuple[Path, RunRecord, dict[str, Any], int]:
    """The folder of the results, the record of what happened, its summary and the exit status."""
    from emulator.live.own_cluster import OwnClusterError, read_back  # noqa: PLC0415
    from emulator.live.slurm.accounting import AccountingError  # noqa: PLC0415
    from emulator.report import files  # noqa: PLC0415

    if scenario_file is not None:
        raise ScenarioError(f"a replay knows its scenario; leave {scenario_file} out")
    if accounting is None or replay is None:
        raise ScenarioError(
            "--from-accounting and --replay go together: what was submitted, and what became of it"
        )
    folder = out or replay / "results"
    files.check_target(folder)
    try:
        scenario, record = read_back(accounting, replay)
    except (OwnClusterError, AccountingError) as error:
        raise ScenarioError(str(error)) from error
    if check:
        from emulator.validation.laws import assert_lawful  # noqa: PLC0415

        assert_lawful(record)
    threshold_s = scenario.results.bounded_slowdown_threshold_s
    summary = files.write(record, folder, bounded_slowdown_threshold_s=threshold_s, report=report)
    return folder, record, summary, int(bool(record.interrupted))


@contextmanager
def _page(scenario: Scenario, *, is_shown: bool) -> Iterator[WatchPage | None]:
    """The page of the run while it lasts, if somebody wants one. Raises RunError where it cannot listen."""
    if not is_shown:
        yield None
        return
    from emulator.report.watch_page import WatchPage  # noqa: PLC0415 - only for who asks

    threshold_s = scenario.results.bounded_slowdown_threshold_s
    try:
        page = WatchPage(scenario.name, bounded_slowdown_threshold_s=threshold_s)
    except OSError as error:
        raise RunError(f"--watch: cannot listen on 127.0.0.1: {error.strerror}") from error
    with page:
        click.echo(f"emulator: watch the run at {page.url}", err=True)
        yield page


def _virtual(
    scenario: Scenario,
    prepared: Prepared,
    interrupted: Interrupted,
    *,
    quiet: bool,
    page: WatchPage | None,
) -> RunRecord:
    from emulator.report.progress import RunProgress, counted  # noqa: PLC0415
    from emulator.runs.runner import run_virtual  # noqa: PLC0415

    with RunProgress(jobs=len(prepared.jobs), quiet=quiet, what=counted(prepared.jobs)) as progress:
        progress.announce_compiling()

        def on_progress(now_us: int, ended: int, granted: int, rejected: int) -> bool:
            progress.update(now_us, ended, granted, rejected)
            return not interrupted

        return run_virtual(scenario, prepared, on_progress, page=page)


def _live(
    scenario: Scenario,
    prepared: Prepared,
    folder: Path,
    logs: Path,
    interrupted: Interrupted,
    *,
    quiet: bool,
    page: WatchPage | None,
    resumable: ResumableRun | None,
) -> RunRecord:
    from emulator.live.fleet import FleetError, run_live  # noqa: PLC0415
    from emulator.live.resume import RunSuspended  # noqa: PLC0415

    try:
        return run_live(
            scenario, prepared, logs.parent, interrupted, quiet=quiet, page=page, resumable=resumable
        )
    except RunSuspended as stands:
        click.echo(f"emulator: {stands}; the same command goes on with it", err=True)
        sys.exit(SIGNAL + interrupted.number)
    except FleetError as error:
        copy = folder / logs.name
        shutil.copytree(logs, copy, dirs_exist_ok=True)
        raise RunError(f"{error}\n  (all logs: {copy})") from error
