"""Does the runs of a sweep that are not done yet, and writes the tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.sweeps.grid import REPEAT

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.sweeps.grid import Run, Sweep
    from emulator.sweeps.pools import Done, Pool
    from emulator.sweeps.store import Store


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a sweep ended. `failed`: runs without a row, with the reason, in the order of the sweep."""

    rows: int
    skipped: int
    failed: tuple[tuple[Run, str], ...]
    interrupted: bool


def run_sweep(
    sweep: Sweep,
    store: Store,
    pool: Pool,
    *,
    stop: Callable[[], bool] = lambda: False,
    on_done: Callable[[int, int], None] = lambda _done, _all: None,
) -> Outcome:
    """Do what is missing. Finished runs are stored at once; the tables are written whatever happens.

    `on_done(runs over, runs in all)` is called at the begin and after each run; `stop` is asked all the time.
    Runs with the same configuration are done once.
    """
    missing: dict[str, Run] = {}
    for run in sweep.runs:
        if run.key not in missing and store.row(run) is None:
            missing[run.key] = run
    total = len({run.key for run in sweep.runs})
    skipped = total - len(missing)
    failed: dict[str, str] = {}
    over = skipped
    on_done(over, total)
    try:
        if missing:
            for done in pool.done(list(missing.values()), stop):
                over += 1
                _keep(done, store, failed)
                on_done(over, total)
    finally:
        rows = store.write_tables(sweep)
    return Outcome(
        rows=rows,
        skipped=skipped,
        failed=tuple((run, failed[run.key]) for run in missing.values() if run.key in failed),
        interrupted=stop() and over < total,
    )


def _keep(done: Done, store: Store, failed: dict[str, str]) -> None:
    if done.row is not None:
        store.keep(done.run, done.row)
    else:
        failed[done.run.key] = done.error


def describe(run: Run) -> str:
    """A run in words: what is varied in it."""
    return ", ".join(f"{key}={value}" for key, value in run.varied.items() if (key, value) != (REPEAT, 1))
