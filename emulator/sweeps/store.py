"""What a sweep leaves in its folder: a line for each finished run, and the tables made of them.

OUT/runs/*.jsonl       a line a run, written in one piece as soon as it is over; a second sweep skips it
OUT/results.parquet    one row a run, in the order of the sweep
OUT/results.csv        the same for people and spreadsheets
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from balancer.whole_file import replacing
from emulator.record.provenance import sources
from emulator.runs.scenario import ScenarioError
from emulator.sweeps.journal import Journal
from emulator.text.file_errors import refuse_odd_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from emulator.sweeps.grid import Run, Sweep

PARQUET, CSV, RUNS = "results.parquet", "results.csv", "runs"
_SUMMARY = "summary.json"
"""Of a single run, whose folder is its own."""
CONFIG_HASH = "config_hash"
"""The column with what tells a run from all others (`Run.key`)."""
_SOURCES, _ROW = "sources", "row"


class Store:
    """The folder of a sweep. Raises ScenarioError if it cannot be written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        runs = folder / RUNS
        self._journal = Journal(runs)
        self._rows: dict[str, dict[str, Any]] = {}
        """By key, as they were read or written here: the tables are made of them."""
        if (folder / _SUMMARY).exists():
            raise ScenarioError(f"{folder} holds the results of one run; name another folder with --out")
        try:
            refuse_odd_name(folder)
        except ValueError as error:
            raise ScenarioError(str(error)) from error
        try:
            runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ScenarioError(f"{folder}: {error.strerror}; name another folder with --out") from error
        with _refusals(folder):
            self._look()

    def row(self, run: Run) -> dict[str, Any] | None:
        """The figures of a run that is finished."""
        return self._rows.get(run.key)

    def keep(self, run: Run, row: dict[str, Any]) -> None:
        """Store a finished run. Raises ScenarioError if it cannot be written."""
        line = json.dumps({CONFIG_HASH: run.key, _ROW: row}, allow_nan=False)
        with _refusals(self.folder):
            self._journal.add(line)
        self._rows[run.key] = row

    def _look(self) -> None:
        """Read what others have finished. Raises ScenarioError that names file and line."""
        for line in self._journal.new():
            try:
                found = json.loads(line.text)
                self._rows.setdefault(found[CONFIG_HASH], found[_ROW])
            except (ValueError, KeyError, TypeError) as error:
                raise ScenarioError(
                    f"{line.path}, line {line.number}: damaged ({error}); delete it"
                ) from error

    def write_tables(self, sweep: Sweep) -> int:
        """Write both tables of what is finished, here or by others; returns how many rows they have.

        Raises ScenarioError if they cannot be written.
        """
        with _refusals(self.folder):
            self._look()
        rows, names = [], sweep.varied_keys
        for run in sweep.runs:
            figures = self.row(run)
            if figures is not None:
                varied = {key: _cell(run.varied.get(key)) for key in names}
                rows.append(varied | figures | {CONFIG_HASH: run.key, _SOURCES: sources()})
        columns = list(dict.fromkeys(name for row in rows for name in row))
        table = pa.table({name: _column([row.get(name) for row in rows]) for name in columns})
        with _refusals(self.folder):
            with replacing(self.folder / PARQUET) as draft:
                pq.write_table(table, draft, compression="zstd")
            with replacing(self.folder / CSV) as draft:
                pa_csv.write_csv(table, draft)
        return len(rows)


@contextmanager
def _refusals(folder: Path) -> Iterator[None]:
    """What the operating system refuses, as ScenarioError."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        reason = os.strerror(error.errno) if error.errno else error  # libraries add words of their own
        raise ScenarioError(f"{where}: {reason}; what is finished is kept") from error


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
