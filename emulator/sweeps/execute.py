"""One run of a sweep, in whatever process it is done: a scenario in, a flat row of figures out."""

from __future__ import annotations

import json
import tempfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.metrics import summary
from emulator.metrics.window import window_figures
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from emulator.sweeps.malloc_tuning import return_large_arrays
from emulator.workload.table import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.record.run_record import RunRecord
    from emulator.runs.preparation import Prepared
    from emulator.runs.scenario import Scenario

LEFT_OUT = ("format", "interrupted", "problems")


class RunStoppedError(Exception):
    """The run was ended early: it has no row."""


class RunBrokenError(Exception):
    """A plug-in failed; the text names it, and tells where."""


def execute(scenario_json: str, go_on: Callable[[], bool] | None = None) -> dict[str, Any]:
    """Run a scenario in virtual time and give its figures as one flat row.

    `go_on` is asked now and then; False ends the run. Raises RunStoppedError then, RunBrokenError when a plug-in fails,
    ScenarioError, TraceError or ValueError for input that only the run shows to be wrong.
    """
    return_large_arrays()
    scenario = from_mapping(json.loads(scenario_json))
    on_progress = None if go_on is None else lambda *_: go_on()
    record = run_virtual(scenario, prepared_for(scenario), on_progress)
    if record.traceback:
        raise RunBrokenError(f"{record.interrupted}\n{record.traceback}")
    if record.interrupted:
        raise RunStoppedError(record.interrupted)
    return figures(record, scenario)


def execute_live(scenario_json: str, go_on: Callable[[], bool]) -> dict[str, Any]:
    """The same with a live fleet of processes on this machine, which has it for itself. Also raises FleetError."""
    from emulator.live.fleet import FleetError, run_live  # noqa: PLC0415 - a fleet is much to import

    scenario = from_mapping(json.loads(scenario_json))
    prepared = prepared_for(scenario)
    with tempfile.TemporaryDirectory(prefix="emulator-") as work:
        record = run_live(scenario, prepared, Path(work), _Stop(go_on), quiet=True)
    if not go_on():
        raise RunStoppedError(record.interrupted)
    if record.interrupted:
        raise FleetError(record.interrupted)
    return figures(record, scenario)


@dataclass(frozen=True, slots=True)
class _Stop:
    """What a live run asks whether it is to end."""

    go_on: Callable[[], bool]
    reason: str = "the end of the sweep"

    def __bool__(self) -> bool:
        return not self.go_on()


def figures(record: RunRecord, scenario: Scenario) -> dict[str, Any]:
    """The row of a run. Raises ValueError if its record contradicts itself."""
    threshold_s = scenario.results.bounded_slowdown_threshold_s
    every = summary.figures(record, bounded_slowdown_threshold_s=threshold_s)
    if every["problems"]:
        raise ValueError(f"the record contradicts itself: {every['problems'][0]}")
    found = {name: value for name, value in every.items() if name not in LEFT_OUT}
    if scenario.results.window_s is not None:
        found["window"] = window_figures(
            record, *scenario.results.window_s, without_queue=scenario.results.window_without_queue
        )
    return flat(found)


def flat(figures: dict[str, Any]) -> dict[str, Any]:
    """Nested figures with dots in their names; what is counted by a free text (a reason) as JSON."""
    row: dict[str, Any] = {}
    for name, value in figures.items():
        if name in ("jobs_left_out", "jobs_changed", "ondemand_rejected_by_reason"):
            row[name] = json.dumps(value, sort_keys=True)
        elif isinstance(value, dict):
            row |= {f"{name}.{inner}": each for inner, each in value.items()}
        else:
            row[name] = value
    return row


def prepared_for(scenario: Scenario) -> Prepared:
    """Many runs of a sweep have the same jobs: they are read or made once in a process."""
    key = scenario.keys_of_jobs()
    found = _kept.pop(key, None)
    if found is None:
        while _kept and (len(_kept) == _MOST_KEPT or sum(map(_bytes, _kept.values())) > _MOST_BYTES):
            _kept.popitem(last=False)
        found = prepare(from_mapping(json.loads(key)))
    _kept[key] = found
    return found


_kept: OrderedDict[str, Prepared] = OrderedDict()
"""The last few, those of the last run at the end; of months of a large machine only one at a time."""
_MOST_KEPT = 4
_MOST_BYTES = 128 << 20


def _bytes(prepared: Prepared) -> int:
    jobs = prepared.jobs
    columns = (getattr(jobs, name) for name in COLUMNS)
    return sum(column.nbytes for column in (*columns, *jobs.extra.values()))
