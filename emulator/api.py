"""`emulator.run`, `compare`, `load` and `sweep`: what the commands of these names do, for programs and notebooks.

Input that is wrong raises what the command prints: `ScenarioError`, `TraceError`, `ResultsError`; a plug-in that
fails raises `PluginError`, with the run so far in its attribute `result`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.plugin_files import IN_PYTHON, in_use, load_plugin_files, with_plugin_object
from balancer.plugins import IN_USE, PluginError
from emulator.plugins import KINDS
from emulator.report import files
from emulator.report.progress import RunProgress, counted
from emulator.report.result import Result, as_pandas, as_polars
from emulator.runs.preparation import prepare
from emulator.runs.runner import make_mechanism, run_or_fail
from emulator.runs.scenario import Scenario, ScenarioError, is_scenario_file, scenario_of
from emulator.validation.laws import assert_lawful
from emulator.workload.frames import GivenJobs, is_jobs, jobs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    import pyarrow as pa

    from balancer.plugins import Plugins
    from emulator.report.compare import Comparison

    Source = str | PathLike[str] | Mapping[str, Any] | Scenario | Any
    """A scenario file (.yaml), a job log, the keys of a scenario, a scenario, or jobs (`workload/frames.py`)."""


def run(
    source: Source,
    *,
    nodes: int | None = None,
    scheduler: Any = None,
    mechanism: Any = None,
    plugins: Iterable[Any] = (),
    seed: int | None = None,
    overrun: str | None = None,
    changes: Mapping[str, Any] | None = None,
    out: str | PathLike[str] | None = None,
    check: bool = False,
    progress: bool | None = None,
) -> Result:
    """Run a scenario or a job log in virtual time, as `emulator run` does.

    What is given goes before what the scenario says. `scheduler`, `mechanism`: as in a scenario, or a function, class
    or object of your own instead of a name (docs/own-policy.md); so in `changes`. `plugins`: such things, or
    `FILE.py:NAME`, besides the scenario's. `changes`: further keys by path, such as
    `{"mechanism.balancer.wait_s": 300}`. `out`: write the results there too. `check`: check the run's invariants.
    `progress`: shown after two seconds; by default on a terminal and in notebooks only.

    Raises ScenarioError, TraceError or ResultsError for bad input, before anything has run, and PluginError.
    """
    given = {
        "nodes": nodes,
        "scheduler": scheduler,
        "mechanism": mechanism,
        "seed": seed,
        "workload.overrun": overrun,
    }
    asked = {key: value for key, value in given.items() if value is not None} | dict(changes or {})
    source, asked = _of_jobs(source, asked)
    known, asked = _with_own(plugins, asked)
    with in_use(known):
        scenario = scenario_of(source, asked)
        if out is not None:
            files.check_target(Path(out))
        prepared = prepare(scenario)
        make_mechanism(scenario)  # a wrong parameter is an error before anything has run
        with RunProgress(
            jobs=len(prepared.jobs), quiet=not _is_watched(progress), what=counted(prepared.jobs)
        ) as shown:
            shown.announce_compiling()

            def on_progress(now_us: int, ended: int, granted: int, rejected: int) -> bool:
                shown.update(now_us, ended, granted, rejected)
                return True

            record, failure = run_or_fail(scenario, prepared, on_progress)
    if check:
        assert_lawful(record)
    result = Result(record, bounded_slowdown_threshold_s=scenario.results.bounded_slowdown_threshold_s)
    if out is not None:
        result.save(out)
    if failure is not None:
        failure.result = result
        raise failure
    return result


def load(folder: str | PathLike[str]) -> Result:
    """The run whose results are in a folder. Raises ResultsError."""
    summary = files.load_summary(Path(folder))
    return Result(
        files.load(Path(folder)), bounded_slowdown_threshold_s=summary["bounded_slowdown_threshold_s"]
    )


def compare(a: Result | str | PathLike[str], b: Result | str | PathLike[str]) -> Comparison:
    """Two runs, or the folders of their results, job by job. Raises ResultsError."""
    one, other = (each if isinstance(each, Result) else load(each) for each in (a, b))
    return one.compare(other)


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The runs of a sweep: `table` has a row for each that is done, `failed` says of the others why they have none."""

    table: pa.Table
    failed: tuple[tuple[str, str], ...] = ()
    varied: tuple[str, ...] = ()
    """The columns that tell the runs apart: label, varied keys, seed."""

    def rank(self, figure: str, *, highest: bool = False) -> pa.Table:
        """The settings in order of the mean of a figure over the seeds, the lowest (or `highest`) first.

        Columns: the varied keys, `mean`, `low` and `high` (95 % of the draws of seeds have the mean between them),
        `from_best`, `from_best_low`, `from_best_high` (the same of the difference to the first row, seed by seed) and
        `differs` (whether that interval leaves out 0). Intervals are null with fewer than 4 seeds. Raises
        ScenarioError for a figure that the table does not have.
        """
        import pyarrow as pa  # noqa: PLC0415 - only then

        from emulator.sweeps.ranking import rank  # noqa: PLC0415

        ranked = rank(self.table.to_pylist(), self.varied, figure, highest=highest)
        return pa.Table.from_pylist([each.as_row() for each in ranked])

    def to_pandas(self) -> Any:
        """The table as a pandas.DataFrame. Raises ImportError where pandas is not installed."""
        return as_pandas(self.table)

    def to_polars(self) -> Any:
        """The table as a polars.DataFrame. Raises ImportError where polars is not installed."""
        return as_polars(self.table)


def sweep(
    source: Source,
    grid: Mapping[str, Sequence[Any]] | None = None,
    *,
    points: Sequence[Mapping[str, Any]] = (),
    seeds: int | Sequence[int] | None = None,
    plugins: Iterable[Any] = (),
    changes: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    out: str | PathLike[str] | None = None,
    progress: bool | None = None,
    on_done: Callable[[int, int], None] | None = None,
) -> SweepResult:
    """Run every combination of a grid, as `emulator sweep` does.

    `source`: as in `run`, or, without anything else, a sweep file. `grid`: path of keys to values, all combinations
    are run; `points`: paths and values that go together; `seeds`: which, or how many (docs/sweeps.md). `jobs`: runs at
    the same time, one a core by default, and one in all where a value or plug-in is a function of your own and not
    `FILE.py:NAME`, since other processes do not have it. `out`: the folder that keeps finished runs, so that a second
    call does what is missing; without it nothing is kept. `on_done(runs over, runs in all)` is called after each run.

    Raises ScenarioError for bad input, before anything has run.
    """
    from emulator.commands.sweep import SweepProgress, choose_pool  # noqa: PLC0415 - only then
    from emulator.sweeps.grid import expand, load_sweep, sweep_of  # noqa: PLC0415
    from emulator.sweeps.store import PARQUET, Store  # noqa: PLC0415
    from emulator.sweeps.sweep import describe, run_sweep  # noqa: PLC0415

    if jobs is not None and jobs < 1:
        raise ScenarioError(f"jobs: at least 1 run at the same time, not {jobs}")
    source, changes = _of_jobs(source, changes or {})
    known, own = _with_own(
        plugins, {"grid": grid or {}, "points": points, "changes": changes, "seeds": seeds}
    )
    has_own = any(each.source.startswith(IN_PYTHON) for each in known.things)
    with ExitStack() as stack:
        stack.enter_context(in_use(known))
        if grid is None and not points and seeds is None and _is_file(source):
            plan = load_sweep(Path(os.fspath(source)))  # type: ignore[arg-type] # a path: `_is_file`
        else:
            base = scenario_of(source, own["changes"]).as_json()
            told = {
                "name": base["name"],
                "scenario": base,
                "grid": {key: _values(key, values) for key, values in own["grid"].items()},
                "points": own["points"],
                "seeds": own["seeds"],
            }
            plan = expand(sweep_of(told, "sweep"), base)
        folder = Path(out) if out is not None else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shown = stack.enter_context(SweepProgress(quiet=not _is_watched(progress)))

        def told_of(over: int, total: int) -> None:
            shown.update(over, total)
            if on_done is not None:
                on_done(over, total)

        outcome = run_sweep(plan, Store(folder), choose_pool(1 if has_own else jobs, None), on_done=told_of)
        import pyarrow.parquet as pq  # noqa: PLC0415

        table = pq.read_table(folder / PARQUET)
    failed = tuple((describe(each), reason) for each, reason in outcome.failed)
    return SweepResult(table, failed, plan.varied_keys)


def _values(key: str, values: Any) -> list[Any]:
    """Those of a key of a grid. Raises ScenarioError where it is one value, no list."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise ScenarioError(f"grid: {key}: a list of values is expected, not {values!r} alone: [{values!r}]")
    return list(values)


def _is_file(source: Source) -> bool:
    return isinstance(source, str | os.PathLike) and is_scenario_file(Path(source))


def _of_jobs(source: Source, changes: Mapping[str, Any]) -> tuple[Source, dict[str, Any]]:
    """Jobs instead of a scenario, or as its workload, are a change of the scenario: it is written down by names."""
    if is_jobs(source):
        return {"name": "jobs"}, {"workload": source, **changes}
    if isinstance(source, Mapping) and is_jobs(source.get("workload")):
        without = {key: value for key, value in source.items() if key != "workload"}
        return without, {"workload": source["workload"], **changes}
    return source, dict(changes)


def _with_own(plugins: Iterable[Any], values: Mapping[str, Any]) -> tuple[Plugins, dict[str, Any]]:
    """The plug-ins that are known from here on, and the values with the names of those that stood in them.

    Raises ScenarioError.
    """
    known = IN_USE.get()

    def named(value: Any) -> Any:
        nonlocal known
        if isinstance(value, np.generic | np.ndarray | range):
            value = list(value) if isinstance(value, range) else value.tolist()
        if is_jobs(value):
            known, name = with_plugin_object(known, GivenJobs(jobs_of(value)), KINDS)
            return {"generate": [name]}
        if isinstance(value, Mapping):
            return {named(key): named(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [named(inner) for inner in value]
        if value is None or isinstance(value, str | int | float | os.PathLike):
            return value
        known, name = with_plugin_object(known, value, KINDS)
        return name

    try:
        every = list(plugins)
        known = load_plugin_files([each for each in every if isinstance(each, str)], KINDS, known)
        for each in every:
            if not isinstance(each, str):
                known, _ = with_plugin_object(known, each, KINDS, may_rename=False)
        written: dict[str, Any] = named(values)
    except PluginError as error:
        raise ScenarioError(f"plugins: {error}") from error
    except ValueError as error:
        raise ScenarioError(str(error)) from error
    return known, written


def _is_watched(progress: bool | None) -> bool:
    return (sys.stderr.isatty() or "ipykernel" in sys.modules) if progress is None else progress
