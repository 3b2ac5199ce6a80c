"""What a sweep leaves in its folder: one small file a finished run, and the tables made of them.

OUT/runs/KEY.json      written in one piece as soon as the run is over; a second sweep skips it
OUT/results.parquet    one row a run, in the order of the sweep
OUT/results.csv        the same for people and spreadsheets
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from emulator.provenance import sources
from emulator.scenario import ScenarioError

if TYPE_CHECKING:
    from emulator.sweeps.grid import Run, Sweep

PARQUET, CSV, RUNS = "results.parquet", "results.csv", "runs"
_KEY, _SOURCES = "config_hash", "sources"


class Store:
    """The folder of a sweep. Raises ScenarioError if it cannot be written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs = folder / RUNS
        self._rows: dict[str, dict[str, Any]] = {}
        """Rows that were read or written here: the tables are made of them."""
        try:
            self._runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ScenarioError(f"{folder}: {error.strerror}; name another folder with --out") from error
        # What a killed sweep was writing at that moment.
        for partial in self._runs.glob(".*.partial"):
            partial.unlink(missing_ok=True)

    def row(self, run: Run) -> dict[str, Any] | None:
        """The figures of a run that is finished."""
        if run.key in self._rows:
            return self._rows[run.key]
        try:
            row: dict[str, Any] = json.loads((self._runs / f"{run.key}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ScenarioError(f"{self._runs / run.key}.json is damaged ({error}); delete it") from error
        self._rows[run.key] = row
        return row

    def keep(self, run: Run, row: dict[str, Any]) -> None:
        """Store a finished run."""
        text = json.dumps(row, allow_nan=False)
        partial = f"{self._runs}/.{run.key}.json.{os.getpid()}.partial"
        try:
            with open(partial, "w", encoding="utf-8") as file:  # noqa: PTH123 - thousands a sweep
                file.write(text)
            os.rename(partial, f"{self._runs}/{run.key}.json")  # noqa: PTH104 - the same
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
        self._rows[run.key] = row

    def write_tables(self, sweep: Sweep) -> int:
        """Write both tables of what is finished; returns how many rows they have."""
        rows, names = [], sweep.varied_keys
        for run in sweep.runs:
            figures = self.row(run)
            if figures is not None:
                varied = {key: _cell(run.varied.get(key)) for key in names}
                rows.append(varied | figures | {_KEY: run.key, _SOURCES: sources()})
        columns = list(dict.fromkeys(name for row in rows for name in row))
        table = pa.table({name: _column([row.get(name) for row in rows]) for name in columns})
        _replace(self.folder / PARQUET, lambda partial: pq.write_table(table, partial, compression="zstd"))
        _replace(self.folder / CSV, lambda partial: pa_csv.write_csv(table, partial))
        return len(rows)


def _replace(path: Path, write: Any) -> None:
    """The file appears complete or not at all; several sweeps may write it at once."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        write(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _cell(value: Any) -> Any:
    """A varied value as one cell: mappings and lists as JSON."""
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


def _column(values: list[Any]) -> pa.Array:
    """One type a column: where a sweep varies a key over numbers and texts, texts."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    elif len(kinds) > 1:
        values = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pa.array(values)
