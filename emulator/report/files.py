"""The results folder: written from a run record in one piece, and read back into one."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.csv
import pyarrow.parquet as pq

from emulator.metrics.summary import FORMAT, plain, summarize
from emulator.record.run_record import RunRecord
from emulator.report import tables
from emulator.report.baseline import Baseline
from emulator.report.batsim_jobs import batsim_table
from emulator.text.file_errors import refuse_odd_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from emulator.report.sheets import Sheet

SUMMARY, JOBS_CSV, JOBS, EVENTS, REPORT = (
    "summary.json",
    "jobs.csv",
    "jobs.parquet",
    "events.parquet",
    "report.html",
)
BASELINE = "baseline.json"
"""The run that the report holds this one against (`emulator/runs/baseline.py`)."""
USERS = "users.csv"
"""Who the users of a log are: not to be given away with the results."""
RESULT_FILES = (JOBS_CSV, JOBS, EVENTS, REPORT, SUMMARY)
_MAY_BE_THERE = (USERS, BASELINE, *RESULT_FILES)
LOGS = "logs"
"""Folder of the logs of a live run's processes."""
_RECORD_KEY = b"emulator.record"
_KEPT = (
    "node_names",
    "begin_us",
    "horizon_us",
    "left_out",
    "counted",
    "recorded",
    "scenario",
    "seed",
    "clock",
)


class ResultsError(Exception):
    """A results folder cannot be written or read; the text says which, why and what to do (exit status 2)."""


def write(
    record: RunRecord,
    out_dir: Path,
    *,
    bounded_slowdown_threshold_s: float = 10,
    logs: Path | None = None,
    report: bool = True,
    user_names: Mapping[int, str] | None = None,
    baseline: Baseline | None = None,
) -> dict[str, Any]:
    """Write the results of a run into `out_dir` and return the summary; `logs` is copied to `out_dir/logs`.

    Without `report` there is no `report.html`: `rewrite_report` makes it whenever it is wanted. `user_names` go into
    `users.csv`, of those whose jobs are in the record; `baseline` into `baseline.json` and the report, nothing else.

    Everything is written into a folder beside it first. A new folder appears by one rename; in a folder that
    holds results already the files are replaced one by one, `summary.json` last, so that a folder with a
    summary is always complete. Raises ResultsError, with nothing changed, if the folder holds something else
    or cannot be written.
    """
    out_dir = Path(out_dir)
    check_target(out_dir)
    summary = summarize(record, bounded_slowdown_threshold_s=bounded_slowdown_threshold_s)
    with folder_for(out_dir) as partial:
        _write_files(record, summary, partial, report=report, baseline=baseline)
        if baseline is not None:
            text = json.dumps(baseline.as_json(), indent=2, ensure_ascii=False, allow_nan=False)
            (partial / BASELINE).write_text(text + "\n", encoding="utf-8")
        if user_names:
            _write_users(record, user_names, partial / USERS)
        if logs is not None:
            shutil.copytree(logs, partial / LOGS)
    return summary


@contextmanager
def folder_for(out_dir: Path) -> Iterator[Path]:
    """A folder beside `out_dir` to write results into, which take their place when nothing was raised."""
    with _writing(out_dir):
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=out_dir.parent, prefix=f".{out_dir.name}."))
        try:
            partial.chmod(0o755)
            yield partial
            _put(partial, out_dir)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def rewrite_report(out_dir: Path) -> Path:
    """Make `report.html` anew from the other files of a results folder."""
    record, summary = load(out_dir), load_summary(out_dir)
    page = _page(record, summary, load_baseline(out_dir))
    with (
        _writing(out_dir),
        tempfile.TemporaryDirectory(dir=out_dir.parent, prefix=f".{out_dir.name}.") as folder,
    ):
        made = Path(folder) / REPORT
        made.write_text(page, encoding="utf-8")
        made.replace(out_dir / REPORT)
    return out_dir / REPORT


def check_target(out_dir: Path) -> None:
    """Raise ResultsError unless results may be written into `out_dir`: best asked before a long run."""
    out_dir = Path(out_dir)
    try:
        refuse_odd_name(out_dir)
    except ValueError as error:
        raise ResultsError(str(error)) from error
    existing = next(path for path in (out_dir, *out_dir.absolute().parents) if path.exists())
    if existing != out_dir:
        if not existing.is_dir() or not os.access(existing, os.W_OK):
            what = "may not be written" if existing.is_dir() else "is a file"
            raise ResultsError(f"cannot make {out_dir}: {existing} {what}; name another folder with --out")
        return
    if not out_dir.is_dir():
        raise ResultsError(f"{out_dir} is a file; name a folder for the results")
    with _writing(out_dir):
        names = {path.name for path in out_dir.iterdir()}
    if SUMMARY in names:
        if _format_of(out_dir / SUMMARY) != FORMAT:
            raise ResultsError(f"{out_dir / SUMMARY} was not written by this program; name another folder")
    elif foreign := sorted(names - {*_MAY_BE_THERE, LOGS}):
        raise ResultsError(
            f"{out_dir} is not empty and holds no results of ours (found {foreign[0]}); name another folder"
        )


def load_summary(out_dir: Path) -> dict[str, Any]:
    """`summary.json` of a results folder."""
    path = Path(out_dir) / SUMMARY
    if Path(out_dir).is_file():
        folder = Path(out_dir).parent
        where = f", {folder}" if (folder / SUMMARY).is_file() else ""
        raise ResultsError(f"{out_dir} is a file; name the folder that a run wrote its results into{where}")
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ResultsError(
            f"{path} does not exist; name the folder that a run wrote its results into"
        ) from None
    except (OSError, ValueError) as error:
        raise ResultsError(f"cannot read {path}: {error}") from error
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        raise ResultsError(f"{path} is not a summary in the format {FORMAT}")
    return summary


def load(out_dir: Path) -> RunRecord:
    """The record that a results folder was written from, of its parquet files and its summary.

    Moves and lease outcomes come back in order of time. The scenario comes back in JSON's types.
    """
    out_dir = Path(out_dir)
    summary = load_summary(out_dir)
    try:
        jobs = pq.read_table(out_dir / JOBS)
        events = pq.read_table(out_dir / EVENTS)
        fields = json.loads(pq.read_metadata(out_dir / JOBS).metadata[_RECORD_KEY])
        job_table, state, start_us, end_us = tables.jobs_from(jobs)
        runs, moves, leases, marks = tables.events_from(events, job_table)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ResultsError(f"cannot read the results in {out_dir}: {error}") from error
    return RunRecord(
        jobs=job_table,
        state=state,
        start_us=start_us,
        end_us=end_us,
        runs=runs,
        moves=moves,
        leases=leases,
        marks=marks,
        pace=tables.pace_from(summary.get("pace", {})),
        wall_s=summary["wall_s"],
        interrupted=summary["interrupted"],
        figures=summary.get("mechanism", {}),
        **fields
        | {"node_names": tuple(fields["node_names"]), "not_followed": tuple(fields.get("not_followed", ()))},
    )


def _write_files(
    record: RunRecord, summary: dict[str, Any], folder: Path, *, report: bool, baseline: Baseline | None
) -> None:
    _ = record.runs.node  # laid out when it is first looked at: not by both threads
    # The text of numbers and their packing are other programs' code, which lets a second thread work.
    with ThreadPoolExecutor(1) as beside:
        page = folder / REPORT
        knows = copy_context()  # plug-ins from files, which have a picture of their own
        writes = [beside.submit(knows.run, _write_page, record, summary, baseline, page)] if report else []
        writes.append(beside.submit(_write_csv, batsim_table(record), folder / JOBS_CSV))
        _write_parquet(tables.jobs_table(record), folder / JOBS, kept_metadata(record))
        _write_parquet(tables.events_table(record), folder / EVENTS)
        for other in writes:
            other.result()
    (folder / SUMMARY).write_text(to_json(summary), encoding="utf-8")


def _write_users(record: RunRecord, names: Mapping[int, str], path: Path) -> None:
    there = set(record.jobs.user.tolist())
    with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("user", "name"))
        writer.writerows((number, name) for number, name in sorted(names.items()) if number in there)


def _write_page(record: RunRecord, summary: dict[str, Any], baseline: Baseline | None, path: Path) -> None:
    path.write_text(_page(record, summary, baseline), encoding="utf-8")


def _page(record: RunRecord, summary: dict[str, Any], baseline: Baseline | None) -> str:
    from emulator.report import html  # noqa: PLC0415 - only where a page is made

    return html.render(record, summary, baseline)


def load_baseline(out_dir: Path) -> Baseline | None:
    """`baseline.json` of a results folder; None: it has none. Raises ResultsError."""
    path = Path(out_dir) / BASELINE
    try:
        return Baseline.from_json(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError) as error:
        raise ResultsError(
            f"cannot read {path}: {error}; without the file the report has no baseline"
        ) from error


def to_json(summary: dict[str, Any]) -> str:
    """A summary as text: two spaces of indent, keys in their order, NaN refused."""
    return json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def kept_metadata(record: RunRecord) -> dict[bytes, str]:
    """What `jobs.parquet` keeps beside its rows: the rest of the record."""
    fields = {name: plain(getattr(record, name)) for name in _KEPT}
    if record.not_followed:
        fields["not_followed"] = list(record.not_followed)
    return {_RECORD_KEY: json.dumps(fields, ensure_ascii=False)}


class ParquetFile:
    """A Parquet file, written row group by row group."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None

    def write(self, table: pa.Table, nodes: str) -> None:
        """One row group; `nodes`: its column of node lists."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._path, table.schema, compression="zstd", **_encoding(table, nodes)
            )
        self._writer.write_table(table)

    def close(self, metadata: dict[bytes, str] | None = None) -> None:
        if self._writer is not None:
            if metadata is not None:
                self._writer.add_key_value_metadata(metadata)
            self._writer.close()
            self._writer = None


class CsvFile:
    """A CSV file, written sheet by sheet."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._has_header = False

    def write(self, sheet: Sheet) -> None:
        for block in sheet.blocks():
            if not self._has_header:
                self._file.write((",".join(block.column_names) + "\n").encode())
                self._has_header = True
            pyarrow.csv.write_csv(block, self._file, pyarrow.csv.WriteOptions(include_header=False))

    def close(self) -> None:
        self._file.close()


def _write_parquet(sheet: Sheet, path: Path, metadata: dict[bytes, str] | None = None) -> None:
    file = ParquetFile(path)
    try:
        for block in sheet.blocks():
            file.write(block, sheet.name)
    finally:
        file.close(metadata)


_RISING = ("time_us", "job", "run", "submit_us", "start_us", "end_us")
"""Columns whose numbers rise, or nearly so."""


def _encoding(table: pa.Table, nodes: str) -> dict[str, Any]:
    """Nodes, and what rises, as differences from one to the next: those of an interval take nearly no room."""
    by_difference = [nodes, *(name for name in _RISING if name in table.column_names)]
    return {
        "use_dictionary": [name for name in table.column_names if name not in by_difference],
        "column_encoding": {
            f"{nodes}.list.element" if name == nodes else name: "DELTA_BINARY_PACKED"
            for name in by_difference
        },
    }


def _write_csv(sheet: Sheet, path: Path) -> None:
    file = CsvFile(path)
    try:
        file.write(sheet)
    finally:
        file.close()


def _put(partial: Path, out_dir: Path) -> None:
    if not out_dir.exists() or not any(out_dir.iterdir()):
        partial.rename(out_dir)  # also takes the place of an empty folder
        return
    (out_dir / SUMMARY).unlink(missing_ok=True)
    shutil.rmtree(out_dir / LOGS, ignore_errors=True)  # of the run whose results go
    if (partial / LOGS).exists():
        (partial / LOGS).rename(out_dir / LOGS)
    for name in _MAY_BE_THERE:
        if (partial / name).exists():
            (partial / name).replace(out_dir / name)
        else:
            (out_dir / name).unlink(missing_ok=True)  # a report of the run whose results go


def _format_of(path: Path) -> object:
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return summary.get("format") if isinstance(summary, dict) else None


@contextmanager
def _writing(out_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error  # libraries add words of their own
        raise ResultsError(
            f"cannot write results into {out_dir}: {reason}; free space or name another folder with --out"
        ) from error
