"""The results of each run of a sweep in a folder of its own, with its report (`emulator sweep --keep-runs`).

A sweep keeps the figures of a run alone. Its results are made by doing it once more: in virtual time a run is the same
each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.report import files
from emulator.runs.runner import run_virtual
from emulator.sweeps.execute import prepared_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from emulator.sweeps.grid import Run, Sweep

FOLDER = "kept"
_SHORT = 12


def keep_runs(
    runs: Sequence[Run],
    folder: Path,
    *,
    stop: Callable[[], bool] = lambda: False,
    on_done: Callable[[int, int], None] = lambda _done, _all: None,
) -> None:
    """Write `kept/KEY` for each virtual run that has none yet. Raises ResultsError where they cannot be written."""
    every = {run.key: run for run in runs if not run.is_live}
    for count, run in enumerate(every.values()):
        on_done(count, len(every))
        if not _report_of(run, folder).exists():
            record = run_virtual(run.scenario, prepared_for(run.scenario), lambda *_: not stop())
            if record.interrupted or stop():
                return
            threshold_s = run.scenario.results.bounded_slowdown_threshold_s
            files.write(record, _report_of(run, folder).parent, bounded_slowdown_threshold_s=threshold_s)
    on_done(len(every), len(every))


def links_of(sweep: Sweep, folder: Path) -> dict[str, str]:
    """The reports that are there, relative to the sweep's folder, by the runs' keys."""
    return {
        run.key: _report_of(run, folder).relative_to(folder).as_posix()
        for run in sweep.runs
        if not run.is_live and _report_of(run, folder).exists()
    }


def _report_of(run: Run, folder: Path) -> Path:
    return folder / FOLDER / run.key[:_SHORT] / files.REPORT
