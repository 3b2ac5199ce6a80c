"""When another program started each job: its results, of whatever form, as starts by job number.

Known: tables with a header (ours, Batsim's `jobs.csv`, ElastiSim's job statistics, or any with a job and its start or
wait), AccaSim's `sched-` file and CQSim's `.rst`. Compressed files as well.
"""

from __future__ import annotations

import calendar
import csv
import io
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.report.files import ResultsError
from emulator.workload.files import TraceError, open_trace

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_JOB = ("job_id", "job", "job_number", "number", "id")
_START = ("start", "start_s", "starting_time", "start_time")
_WAIT = ("wait", "wait_s", "waiting_time", "wait_time")
_SUBMIT = ("submit", "submit_s", "submission_time", "submit_time", "queued_time")
_NUMBER = re.compile(r"(?:.*!)?(\d+)$")
"""Batsim writes `w0!17` for job 17 of the workload that it knows as w0."""
_DATE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_ACCASIM = re.compile(rf"([^;]+);[^;]*;({_DATE})__.*__({_DATE});({_DATE});")
_CQSIM_COLUMNS = ("id", "procs", "procs", "estimate", "run", "wait", "submit", "start", "end")


@dataclass(frozen=True, slots=True)
class TheirJob:
    """A job's start and submit in s of their clock, or its wait; None where the file does not say."""

    start_s: float | None
    submit_s: float | None = None
    wait_s: float | None = None


def read_theirs(path: Path) -> dict[int, TheirJob]:
    """By job number; jobs that did not start are left out. Raises ResultsError naming file, line and field."""
    try:
        with open_trace(path) as stream:
            text = stream.read().decode("utf-8-sig")
    except (TraceError, UnicodeDecodeError) as error:
        named = "" if str(path) in str(error) else f"{path}: "
        raise ResultsError(f"{named}{error}") from error
    first = next((line for line in text.splitlines() if line.strip()), "")
    if _ACCASIM.match(first):
        found = _of_accasim(path, text)
    elif first.count(";") == len(_CQSIM_COLUMNS) - 1 and first[0].isdigit():
        found = _of_rows(path, csv.reader(io.StringIO(text), delimiter=";"), _CQSIM_COLUMNS, 1)
    else:
        found = _of_table(path, text, first)
    if not found:
        raise ResultsError(f"{path}: no job of it started")
    return found


def _of_accasim(path: Path, text: str) -> dict[int, TheirJob]:
    found: dict[int, TheirJob] = {}
    for line, row in enumerate(text.splitlines(), 1):
        fields = _ACCASIM.match(row)
        if fields is None:
            raise ResultsError(f"{path}:{line}: no line of AccaSim's schedule: {row[:60]!r}")
        _put(
            found, _job(path, line, fields[1]), TheirJob(_seconds(fields[3]), _seconds(fields[2])), path, line
        )
    return found


def _seconds(date: str) -> float:
    return float(calendar.timegm(time.strptime(date, "%Y-%m-%d %H:%M:%S")))


def _of_table(path: Path, text: str, first: str) -> dict[int, TheirJob]:
    delimiter = max(",;\t", key=first.count)
    rows = csv.reader(io.StringIO(text), delimiter=delimiter)
    names = [name.strip().lower().replace(" ", "_") for name in next(rows, [])]
    if _place(names, _JOB) is None or (_place(names, _START) is None and _place(names, _WAIT) is None):
        raise ResultsError(
            f"{path}: not a schedule: its first line must name a job ({', '.join(_JOB)}) and its start"
            f" ({', '.join(_START)}) or wait ({', '.join(_WAIT)}); or AccaSim's sched- file, or CQSim's .rst"
        )
    return _of_rows(path, rows, names, 2)


def _of_rows(path: Path, rows: Iterable[list[str]], names: Iterable[str], line: int) -> dict[int, TheirJob]:
    names = list(names)
    choices = {"start_s": _START, "submit_s": _SUBMIT, "wait_s": _WAIT}
    places = {key: _place(names, known) for key, known in choices.items()}
    at = names.index(next(name for name in _JOB if name in names))
    found: dict[int, TheirJob] = {}
    for place, row in enumerate(rows, line):
        if not row:
            continue
        if len(row) != len(names):
            raise ResultsError(f"{path}:{place}: {len(row)} fields where there are {len(names)} columns")
        values = {key: _value(path, place, names, row, column) for key, column in places.items()}
        job = TheirJob(**values)
        if job.start_s is not None or job.wait_s is not None:
            _put(found, _job(path, place, row[at]), job, path, place)
    return found


def _place(names: list[str], known: tuple[str, ...]) -> int | None:
    return next((names.index(name) for name in known if name in names), None)


def _value(path: Path, line: int, names: list[str], row: list[str], column: int | None) -> float | None:
    if column is None or not row[column].strip():
        return None
    try:
        value = float(row[column])
    except ValueError:
        raise ResultsError(f"{path}:{line}: {names[column]} is {row[column]!r}, not a number") from None
    return None if value < 0 else value


def _job(path: Path, line: int, text: str) -> int:
    numbered = _NUMBER.match(text.strip())
    if numbered is None:
        raise ResultsError(f"{path}:{line}: the job {text!r} has no number")
    return int(numbered[1])


def _put(found: dict[int, TheirJob], number: int, job: TheirJob, path: Path, line: int) -> None:
    if number in found:
        raise ResultsError(f"{path}:{line}: job {number} is there twice")
    found[number] = job
