"""Dependencies, arrays, cancellations and deadlines from a file (transform `relations`)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from balancer.clock import micros
from emulator.workload.files import TraceError
from emulator.workload.relations import (
    ARRAY,
    ARRAY_LIMIT,
    CANCEL,
    DEADLINE,
    DELAY,
    KIND,
    KIND_NAMES,
    NUMBER,
)
from emulator.workload.rows import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from emulator.workload.table import JobTable

_MOST_DEPENDENCIES = 1000
_LONGEST_S = 9_000_000_000
_COLUMNS = ("job", "after", "kind", "delay_s", "cancel_after_s", "deadline_after_s", "array", "array_limit")


@dataclass(frozen=True, slots=True)
class Relations:
    """The transform `relations`: dependencies, arrays, cancellations and deadlines from a CSV file with a header.

    `job` and any of `after`, `kind` (after, afterok, afternotok, afterany, think; afterany if empty), `delay_s`,
    `cancel_after_s`, `deadline_after_s`, `array` and `array_limit`. A job that waits for several others has a line for
    each. Jobs that the workload does not have are passed over.
    """

    trace: str

    def __post_init__(self) -> None:
        if not isinstance(self.trace, str | Path):
            raise ValueError(f"relations: trace must be the name of a file, not {self.trace!r}")  # noqa: TRY004 - a border: one kind of error

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002
        place = {number: row for row, number in enumerate(jobs.number.tolist())}
        columns: dict[str, NDArray[np.int64]] = {}
        count: dict[int, int] = {}

        def put(name: str, row: int, value: int) -> None:
            if name not in columns:
                columns[name] = jobs.column(name)
            columns[name][row] = value

        for where, said in _lines(Path(self.trace)):
            row = place.get(_number(said, "job", where))
            if row is None:
                continue
            if said["after"]:
                count[row] = count.get(row, 0) + 1
                if count[row] > _MOST_DEPENDENCIES:
                    raise TraceError(f"{where}: a job can wait for {_MOST_DEPENDENCIES} others at most")
                suffix = "" if count[row] == 1 else f"_{count[row]}"
                put(NUMBER + suffix, row, _number(said, "after", where))
                put(KIND + suffix, row, _kind(said, where))
                put(DELAY + suffix, row, _time_us(said, "delay_s", where) if said["delay_s"] else 0)
            for name, column in (("cancel_after_s", CANCEL), ("deadline_after_s", DEADLINE)):
                if said[name]:
                    put(column, row, _time_us(said, name, where))
            for name, column in (("array", ARRAY), ("array_limit", ARRAY_LIMIT)):
                if said[name]:
                    put(column, row, _number(said, name, where))
        return jobs.with_extra(**columns)


def _lines(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Where each line is, and what it says by name."""
    lines = ((at, line) for at, line in lines_of(path) if line.strip())
    _, heading = next(lines, (1, ""))
    names = [name.strip() for name in heading.split(",")]
    wrong = [name for name in names if name not in _COLUMNS]
    if "job" not in names or wrong:
        problem = f"has the column {wrong[0]!r}" if wrong else "has no column `job`"
        raise TraceError(f"{path}:1: the header {problem}; columns are {', '.join(_COLUMNS)}")
    for at, line in lines:
        fields = next(csv.reader([line]))
        where = f"{path}:{at}"
        if len(fields) != len(names):
            raise TraceError(f"{where}: {len(fields)} fields where the header has {len(names)}")
        said = dict.fromkeys(_COLUMNS, "")
        said |= {name: field.strip() for name, field in zip(names, fields, strict=True)}
        yield where, said


def _number(said: dict[str, str], name: str, where: str) -> int:
    text = said[name]
    if not (text.isdecimal() and len(text) <= 18):  # noqa: PLR2004 - 64 bits
        raise TraceError(f"{where}: {name} is {text[:40]!r}, not a whole number")
    if name == "array_limit" and int(text) == 0:
        raise TraceError(f"{where}: array_limit is 0, so none of its jobs could ever run")
    return int(text)


def _kind(said: dict[str, str], where: str) -> int:
    kind = KIND_NAMES.get(said["kind"] or "afterany")
    if kind is None:
        raise TraceError(f"{where}: kind is {said['kind'][:40]!r}; known: {', '.join(KIND_NAMES)}")
    return int(kind)


def _time_us(said: dict[str, str], name: str, where: str) -> int:
    try:
        time_s = float(said[name])
    except ValueError:
        time_s = -1.0
    if not 0 <= time_s <= _LONGEST_S:
        raise TraceError(f"{where}: {name} is {said[name][:40]!r}, not a time in seconds from 0 on")
    return micros(time_s)
