"""Logs as the authors of the Balancer paper published them: a CSV file a week, named by its Sunday.

Source: GitHub nimbusproject/LcrcOnDemand, `workload_traces` (Liu et al. 2018). Each file has a header line and
times in seconds from the begin of its week. A folder of such files is one log: its weeks follow each other by
their dates, and time 0 is the begin of the first. Whose midnight that was: `local_times.py`.
"""

from __future__ import annotations

import io
import re
from datetime import date, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from emulator.workload.files import TraceError, open_trace
from emulator.workload.local_times import LocalTimes
from emulator.workload.rows import Malformed, first_line, no_name_twice

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from emulator.workload.rows import Faults

DAY_S = 86_400
WEEK_S = 7 * DAY_S
_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})\.csv(\.xz|\.gz)?")
_BIGGEST = 2**53  # whole numbers are exact in a double up to here


def week_begin(path: Path) -> date | None:
    """The date in a weekly file's name, None if it is named otherwise."""
    match = _NAME.fullmatch(path.name)
    try:
        return date.fromisoformat(match[1]) if match else None
    except ValueError:
        return None


def week_files(path: Path) -> list[Path]:
    """A file, or the weekly files of a folder in the order of their dates."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if week_begin(file) is not None)


def starts_with(path: Path, names: tuple[str, ...]) -> bool:
    """Whether the file, or the first weekly file of the folder, has this header line."""
    files = week_files(path)
    return bool(files) and first_line(files[0]).startswith(",".join(names))


def read_weeks(
    path: Path, names: tuple[str, ...], shifted: tuple[str, ...], faults: Faults
) -> tuple[dict[str, NDArray[np.int64]], list[str]]:
    """The named columns of a week, or of a folder's weeks, and header lines for the log.

    The columns in `shifted` are times: they count from the first week's begin. Raises TraceError.
    """
    files = week_files(path)
    if not files:
        raise TraceError(f"{path}: there are no weekly files such as 2015-04-05.csv.xz")
    clock = LocalTimes()

    def midnight_s(file: Path) -> int | None:
        day = week_begin(file)
        return None if day is None else int(clock.unix_s(datetime(day.year, day.month, day.day)))  # noqa: DTZ001 - `clock` knows

    first_s = midnight_s(files[0])
    parts = []
    for file in files:
        part = _read_csv(file, names, faults)
        begin_s = midnight_s(file)
        if first_s is not None and begin_s is not None:
            for name in shifted:
                part[name] = part[name] + (begin_s - first_s)
        parts.append(part)
    header = ["; Version: 2.2"]
    if first_s is not None:
        header += [f"; UnixStartTime: {first_s}", *clock.header()]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}, header


def _read_csv(path: Path, names: tuple[str, ...], faults: Faults) -> dict[str, NDArray[np.int64]]:
    with open_trace(path) as stream:
        text = stream.read()
    heading = text.partition(b"\n")[0].decode("utf-8", "backslashreplace").strip()
    no_name_twice(path, 1, [name for name in heading.split(",") if name in names])
    try:
        # Line by line only if anything is wrong: that finds the line.
        table = pa_csv.read_csv(
            io.BytesIO(text),
            convert_options=pa_csv.ConvertOptions(
                include_columns=list(names), column_types={name: pa.int64() for name in names}, null_values=[]
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return _read_lines(path, text, names, faults)
    return {name: table.column(name).to_numpy() for name in names}


def _read_lines(
    path: Path, text: bytes, names: tuple[str, ...], faults: Faults
) -> dict[str, NDArray[np.int64]]:
    lines = text.decode("utf-8", "backslashreplace").splitlines()
    header = lines[0].split(",") if lines else []
    missing = [name for name in names if name not in header]
    if missing:
        raise TraceError(f"{path}:1: the header line has no column {missing[0]}; expected {','.join(names)}")
    places = [header.index(name) for name in names]
    rows: list[list[int]] = []
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        try:
            rows.append(_numbers(line.split(","), header, places))
        except Malformed as fault:
            faults.add(path, number, fault)
    matrix = np.array(rows, np.int64).reshape(len(rows), len(names))
    return {name: matrix[:, index] for index, name in enumerate(names)}


def _numbers(fields: list[str], header: list[str], places: list[int]) -> list[int]:
    if len(fields) != len(header):
        raise Malformed(f"{len(fields)} fields where the header has {len(header)}")
    numbers = []
    for place in places:
        try:
            value = float(fields[place])
        except ValueError:
            raise Malformed(f"{header[place]} is {fields[place][:40]!r}, not a number") from None
        if not abs(value) <= _BIGGEST:
            raise Malformed(f"{header[place]} is {fields[place][:40]!r}, out of range")
        numbers.append(round(value))
    return numbers
