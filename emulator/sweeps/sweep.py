"""Does the runs of a sweep that are not done yet, and writes the tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emulator.sweeps.chains import Chains
from emulator.sweeps.grid import REPEAT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    chains: Chains | None = None,
) -> Outcome:
    """Do what is missing. Finished runs are stored at once; the tables are written whatever happens.

    `on_done(runs over, runs in all)` is called at the begin and after each run; `stop` is asked all the time.
    Runs with the same configuration are done once; what `chains` settles is stored and not done.
    """
    chains = Chains() if chains is None else chains
    every = {run.key: run for run in sweep.in_turn}
    in_order = dict.fromkeys(run.key for run in sweep.runs)
    rows_before = {key: store.row(run) for key, run in every.items()}
    missing = {key: every[key] for key, row in rows_before.items() if row is None}
    total, skipped = len(every), len(every) - len(missing)
    open_ = dict(missing)
    failed: dict[str, str] = {}
    try:
        for key, row in rows_before.items():
            _settle(every[key], row, chains, open_, store)
        on_done(total - len(open_), total)
        if open_:
            wanted = chains.in_turn(open_) if chains.chains else list(open_.values())
            for done in pool.done(wanted, stop):
                open_.pop(done.run.key, None)
                _keep(done, store, failed)
                _settle(done.run, done.row, chains, open_, store)
                on_done(total - len(open_), total)
    finally:
        rows = store.write_tables(sweep)
    return Outcome(
        rows=rows,
        skipped=skipped,
        failed=tuple((every[key], failed[key]) for key in in_order if key in failed),
        interrupted=stop() and bool(open_),
    )


def _settle(
    run: Run, row: Mapping[str, Any] | None, chains: Chains, open_: dict[str, Run], store: Store
) -> None:
    """What a row, if there is one, says of other runs that are not over."""
    if row is not None:
        for other in chains.settled(run, row):
            if open_.pop(other.key, None) is not None:
                store.keep(other, dict(row))


def _keep(done: Done, store: Store, failed: dict[str, str]) -> None:
    if done.row is not None:
        store.keep(done.run, done.row)
    else:
        failed[done.run.key] = done.error


def describe(run: Run) -> str:
    """A run in words: what is varied in it."""
    return ", ".join(f"{key}={value}" for key, value in run.varied.items() if (key, value) != (REPEAT, 1))
