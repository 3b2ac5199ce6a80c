"""CSV files that say something of single jobs: a header, and lines with a job's number among their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.clock import micros
from emulator.workload.csv_lines import csv_fields
from emulator.workload.files import TraceError
from emulator.workload.rows import Malformed, lines_of, no_name_twice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_LONGEST_S = 9_000_000_000


def lines_by_name(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Where each line is, and what it says by name, nothing of columns that the file has not. Raises TraceError."""
    lines = ((at, line) for at, line in lines_of(path) if line.strip())
    _, heading = next(lines, (1, ""))
    names = [name.strip() for name in heading.split(",")]
    wrong = [name for name in names if name not in columns]
    if "job" not in names or wrong:
        problem = f"has the column {wrong[0]!r}" if wrong else "has no column `job`"
        raise TraceError(f"{path}:1: the header {problem}; columns are {', '.join(columns)}")
    no_name_twice(path, 1, names)
    for at, line in lines:
        where = f"{path}:{at}"
        try:
            fields = csv_fields(line)
        except Malformed as fault:
            raise TraceError(f"{where}: {fault}") from fault
        if len(fields) != len(names):
            raise TraceError(f"{where}: {len(fields)} fields where the header has {len(names)}")
        values = dict.fromkeys(columns, "")
        values |= {name: field.strip() for name, field in zip(names, fields, strict=True)}
        yield where, values


def number_in(values: dict[str, str], name: str, where: str) -> int:
    """A whole number from 0 on. Raises TraceError."""
    text = values[name]
    if not (text.isdecimal() and len(text) <= 18):  # noqa: PLR2004 - 64 bits
        raise TraceError(f"{where}: {name} is {text[:40]!r}, not a whole number")
    return int(text)


def time_us_in(values: dict[str, str], name: str, where: str) -> int:
    """A time in seconds, as microseconds. Raises TraceError."""
    try:
        time_s = float(values[name])
    except ValueError:
        time_s = -1.0
    if not 0 <= time_s <= _LONGEST_S:
        raise TraceError(f"{where}: {name} is {values[name][:40]!r}, not a time in seconds from 0 on")
    return micros(time_s)
