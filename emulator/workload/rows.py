"""What the readers of accounting logs share: rows become a log, names become numbers, faults are counted."""

from __future__ import annotations

import json
import re
import struct
from array import array
from dataclasses import dataclass, field, replace
from io import TextIOWrapper
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from balancer.nodelist import some
from emulator.workload.files import TraceError, has_returns_alone, is_cut, open_trace
from emulator.workload.local_times import LocalTimes
from emulator.workload.swf import (
    CONSTRAINT_KEY,
    FIELDS,
    GPUS_KEY,
    HEADING,
    HOST_KEY,
    NODES_KEY,
    QOS_KEY,
    RESERVATION_KEY,
    SAMPLES,
    UNKNOWN,
    SwfLog,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
    from pathlib import Path

_Value = TypeVar("_Value")
_Time = TypeVar("_Time", int, float)
_MOST_COMPLAINTS = 10
_LONGEST_NAME = 80
_BIGGEST = 2**62
_MOST_DIGITS = 18
_START = 1 << 16
_WAITING_BYTES = 1 << 20
EARLIER_RUN, SAME_RUN = "earlier run of a job that ran again", "second record of the same run"
"""Records that are passed over because another one tells of the job."""
SUSPENDED, UNKNOWN_SUSPENSION = (
    "was suspended, and that time is no part of its run",
    "has a record that does not say how long it was suspended; if it was, that time counts as run",
)
"""Remarks on jobs that stood still for a while."""
UNREAD_KEY = "FilesNotRead"
"""Header key of ours: files of a folder that seem to be of the log and were not read."""
UNSET = frozenset({"4294967294", "4294967295", "18446744073709551614", "18446744073709551615"})
"""What Slurm writes for numbers that nobody said, or that have no end (NO_VAL, INFINITE, of 32 and 64 bits)."""
_WHOLE_FRACTION = re.compile(r"(\d{1,18})\.0*")
_UNITS = ((10**17, 10**9), (10**14, 10**6), (10**11, 1000))
"""Times from these on are in nano-, micro- and milliseconds: no job was submitted as late (the year 5138)."""
LAST_YEAR = 2099
_LATEST_S = 4_102_444_800
"""Later times (a counter at its end, nines, a damaged line) are no times of jobs."""
__all__ = [
    "EARLIER_RUN", "HEADING", "SAME_RUN", "SAMPLES", "SUSPENDED", "UNKNOWN_SUSPENSION", "UNREAD_KEY", "UNSET",
    "Faults", "Malformed", "Names", "Rows",
    "count_or_0", "files_of", "first_line", "first_lines", "in_years", "json_line", "lines_of", "no_name_twice",
    "read_records", "seconds_between", "span_s", "units_a_second", "unix_time_s", "whole", "without_nuls",
]  # fmt: skip
_FURTHER = {
    "nodes": NODES_KEY,
    "gpus": GPUS_KEY,
    "host": HOST_KEY,
    "reservation": RESERVATION_KEY,
    "qos": QOS_KEY,
    "constraint": CONSTRAINT_KEY,
}
"""What accounting logs say beyond SWF, each in a column that the header names."""


class Malformed(ValueError):
    """A line that does not say what it should; the text says why."""


@dataclass(slots=True)
class Faults:
    """Malformed lines: the first is an error, or all are counted if lenient."""

    lenient: bool
    count: int = 0
    complaints: list[str] = field(default_factory=list)

    def add(self, path: Path, place: int | str, reason: object) -> None:
        """`place`: a line's number, or the name of a job where there are no lines. Raises TraceError unless lenient."""
        what, text = "line" if isinstance(place, int) else "job", f"{_at(path, place)}: {reason}"
        if not self.lenient:
            raise TraceError(f"{text}; mend the {what}, or read leniently to leave such {what}s out")
        self.count += 1
        self.tell(text)

    def tell(self, text: str) -> None:
        """One of the first complaints."""
        if len(self.complaints) < _MOST_COMPLAINTS:
            self.complaints.append(text)

    def tell_doubts(self, path: Path, place: int | str, rows: Rows) -> None:
        """What was not understood in the record that was read there, and is kept. Call it behind each record."""
        for reason in rows.doubts:
            self.tell(f"{_at(path, place)}: {reason}")
        rows.doubts.clear()

    def within(self, log: SwfLog) -> SwfLog:
        """The log with its faults."""
        return replace(log, malformed=self.count, complaints=tuple(self.complaints))


def _at(path: Path, place: int | str) -> str:
    if isinstance(place, int):
        return f"{path}:{place}"
    return f"{path}: {_printable(place)[:_LONGEST_NAME]}"


def _printable(text: str) -> str:
    """A text with names of a file in it, whatever their encoding."""
    return text if text.isprintable() else ascii(text)[1:-1]


class Names:
    """Numbers for names, from 1 in the order in which they come; unknown for an empty name."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, name: str | None) -> int:
        if not name:
            return UNKNOWN
        return self.numbers.get(name) or self.numbers.setdefault(name, len(self.numbers) + 1)

    def names(self) -> dict[int, str]:
        return {number: name for name, number in self.numbers.items()}


class Rows:
    """Jobs one by one into a log.

    Beside the columns of SWF there are the number of whole nodes (`nodes`), GPUs (`gpus`), the number of the one node
    that a job ran on (`host`, see `host_of`), and those of its `reservation`, `qos` and `constraint`.
    """

    def __init__(self, clock: LocalTimes | None = None) -> None:
        self._columns: dict[str, array[Any]] = {name: array("q") for name in (*FIELDS, *_FURTHER)}
        """Whole numbers until one with a fraction comes (`put`). What a column is short of is unknown (`_filled`)."""
        self._stored = 0
        """How many jobs are in the columns. The last ones wait for it, packed: one call a job and not one a value."""
        self._names: tuple[str, ...] = ()
        self._waiting, self._layout = bytearray(), struct.Struct("")
        """What those say that wait, in which form."""
        self.clock = LocalTimes() if clock is None else clock
        """Reads the times that say no offset from UTC."""
        self.users, self.groups, self.queues = Names(), Names(), Names()
        self.hosts, self.reservations, self.qos, self.constraints = Names(), Names(), Names(), Names()
        self.passed_over: dict[str, int] = {}
        """How many records of the file are no jobs of their own, by what they are."""
        self.remarks: dict[str, int] = {}
        """What is told of jobs that are kept, and of how many: a line of the header each."""
        self.doubts: list[str] = []
        """What was not understood in the record being read, though its job is kept."""
        self._sources: dict[str, str] = {}
        """The first of each kind of thing that jobs come from."""
        self._runs: dict[Hashable, tuple[int, tuple[bool, float, float]]] = {}

    def __len__(self) -> int:
        return self._stored + (len(self._waiting) // self._layout.size if self._waiting else 0)

    def _store(self) -> None:
        """Put the jobs that wait into the columns."""
        if not self._waiting:
            return
        table = np.frombuffer(self._waiting, [(name, self._columns[name].typecode) for name in self._names])
        for name in self._names:
            self._filled(name).frombytes(table[name].tobytes())
        self._stored += len(table)
        self._waiting = bytearray()

    def _filled(self, name: str) -> array[Any]:
        """A column, as long as there are jobs in the columns."""
        column = self._columns[name]
        column.extend(repeat(UNKNOWN, self._stored - len(column)))
        return column

    def add(self, **values: float) -> None:
        """One job; what is not given is unknown."""
        self.add_row(tuple(values), values.values())

    def add_row(self, names: tuple[str, ...], values: Collection[float]) -> None:
        """Likewise, the names of what is given and its values apart: faster where the names are always the same."""
        if names is not self._names and names != self._names:
            self._store()
            self._names = names
            self._layout = struct.Struct("=" + "".join(self._columns[name].typecode for name in names))
        try:
            self._waiting += self._layout.pack(*values)
        except (struct.error, OverflowError):
            self._add_with_care(dict(zip(names, values, strict=True)))
        if len(self._waiting) >= _WAITING_BYTES:
            self._store()

    def _add_with_care(self, values: dict[str, float]) -> None:
        """The same where a column has to become one of fractions first. Raises Malformed."""
        self._store()
        row = self._stored
        self._stored += 1
        try:
            for name, value in values.items():
                self.put(name, row, value)
        except Malformed:
            self._stored = row
            for column in self._columns.values():
                del column[row:]
            raise

    def value(self, name: str, row: int) -> float:
        """What a row that is there says."""
        self._store()
        value: float = self._filled(name)[row]
        return value

    def put(self, name: str, row: int, value: float) -> None:
        """A value of a row that is there. Raises Malformed for one of more than 64 bits."""
        if not -_BIGGEST <= value <= _BIGGEST:
            raise Malformed(f"{name} is {value:g}, out of range")
        self._store()
        column = self._filled(name)
        try:
            column[row] = value
        except TypeError:  # the first of its column with a fraction
            self._columns[name] = array("d", column)
            self._columns[name][row] = value
            self._names = ()  # those that come have another form

    def pass_over(self, what: str) -> None:
        """A record that is no job of its own."""
        self.passed_over[what] = self.passed_over.get(what, 0) + 1

    def host_of(self, names: Collection[str]) -> int:
        """The number of the node of a job on these nodes; unknown unless it is one."""
        return self.hosts.number(next(iter(names))) if len(names) == 1 else UNKNOWN

    def add_run(self, job: Hashable, begin_s: float, end_s: float, **values: float) -> None:
        """A run of a job (-1: it never began). Of several the last one stays, and the others are passed over."""
        span = (begin_s >= 0, end_s, begin_s)
        row, last = self._runs.get(job, (len(self), None))
        if last is None:
            self.add(**values)
        else:
            self.pass_over(SAME_RUN if span == last else EARLIER_RUN)
            if span < last:
                return
            for name in self._columns:
                self.put(name, row, values.get(name, UNKNOWN))
        self._runs[job] = row, span

    def keep_last_records(self, keys: Sequence[int]) -> None:
        """Of the rows with one key, a number for each row, the one that ended last stays, as of overlapping exports."""
        key, rows = np.unique(np.asarray(keys, np.int64), return_inverse=True)
        if len(key) == len(self):
            return
        self._store()
        wait_s, run_s = (np.asarray(self._filled(name)) for name in ("wait_s", "run_s"))
        # By key, then by how much of the job a record tells; the last one of each key stays.
        order = np.lexsort((np.arange(len(self)), run_s, wait_s >= 0, rows))
        stays = np.sort(order[np.append(np.diff(rows[order]) > 0, True)])
        self.passed_over[SAME_RUN] = self.passed_over.get(SAME_RUN, 0) + len(self) - len(stays)
        for name in self._columns:
            column = self._filled(name)
            self._columns[name] = array(column.typecode, np.asarray(column)[stays].tobytes())
        self._stored = len(stays)

    def remark(self, what: str) -> None:
        """Something to tell of the job being read, which is kept."""
        self.remarks[what] = self.remarks.get(what, 0) + 1

    def remark_on_source(self, kind: str, name: str) -> None:
        """Of the cluster or server of the job being read, if it is another one than the first job's."""
        first = self._sources.setdefault(kind, name)
        if name != first:
            self.remark(
                f"of {kind} {name}, others of {first}: if these are several machines, take each log apart"
            )

    def remark_on_times(self) -> None:
        """To be called behind each record whose times `clock` has read."""
        if self.clock.is_odd:
            for what in self.clock.odd():
                self.remark(what)

    def doubt(self, what: str, reason: object) -> None:
        """A value that is not understood and is taken to be unknown; the job is kept."""
        self.remark(f"{what} not understood, taken to be unknown")
        self.doubts.append(f"{reason}; taken to be unknown")

    def known(self, read: Callable[[str, str], _Value], text: str, name: str, unknown: _Value) -> _Value:
        """What a field says that a job can do without; `unknown` and a doubt if it is malformed."""
        try:
            return read(text, name)
        except Malformed as fault:
            self.doubt(name, fault)
            return unknown

    def log(
        self, source: Path, note: str, faults: Faults, more: tuple[str, ...] = (), *, size_from: str = ""
    ) -> SwfLog:
        """All jobs so far. The header says where the log comes from and what the queues' names are, and `more`.

        `size_from`: see `SwfLog`.
        """
        self._store()
        remarks = {_printable(what): count for what, count in self.remarks.items() if count}
        header = [
            "; Version: 2.2",
            f"; MaxJobs: {len(self)}",
            f"; MaxRecords: {len(self)}",
            f"; Note: {note}",
            *more,
            *self.clock.header(),
            *(f"; Note: {count} jobs: {what}" for what, count in remarks.items()),
            *(f"; Queue: {number} {name}" for name, number in self.queues.numbers.items()),
            *(f"; Reservation: {number} {name}" for name, number in self.reservations.numbers.items()),
            *(f"; Qos: {number} {name}" for name, number in self.qos.numbers.items()),
            *(f"; Constraint: {number} {name}" for name, number in self.constraints.numbers.items()),
        ]
        # Of the others nothing is known, and they take no room.
        said = [name for name, column in self._columns.items() if column]
        named = {name: np.asarray(self._filled(name)) for name in FIELDS if name in said}
        log = SwfLog.build(len(self), header, str(source), **named)
        for name, key in _FURTHER.items():
            column = np.asarray(self._filled(name) if name in said else (), np.int64)
            if (column > 0).any():
                columns = (*log.columns, column)
                log = replace(log, columns=columns, header=(*log.header, f"; {key}: {len(columns)}"))
        return replace(
            faults.within(log),
            passed_over={_printable(what): count for what, count in self.passed_over.items()},
            remarks=remarks,
            user_names=self.users.names(),
            group_names=self.groups.names(),
            size_from=size_from,
        )


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file, plain or compressed, with their numbers from 1; without line ends.

    A carriage return ends a line only where no line feed does.
    """
    with open_trace(path) as stream:
        start = stream.read(_START)
        stream.seek(0)
        mark = "\r" if has_returns_alone(start) else "\n"
        lines = TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline=mark)
        for number, line in enumerate(lines, 1):
            # Files that were put together have a mark each.
            yield number, line.rstrip("\r\n").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
        lines.detach()


def without_nuls(line: str) -> str:
    """The line. Raises Malformed for one with NUL bytes, which a machine leaves that stops while it writes."""
    if "\0" in line:
        raise Malformed("NUL bytes in the line: its writer stopped in the middle")
    return line


def no_name_twice(path: Path, line: int, names: Sequence[str]) -> None:
    """Raises TraceError if two columns of a table mean the same: which counts is unknown."""
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise TraceError(
            f"{path}:{line}: the column {twice!r} is there twice; write the table with one of them"
        )


def json_line(line: str) -> dict[str, Any]:
    """The object of a line of JSON. Raises Malformed."""
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        why = "the line is cut off" if is_cut(error) else error.msg
        raise Malformed(f"not valid JSON: {why} (column {error.colno})") from error
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise Malformed(f"not an object: {line[:40]}")
    return found


def first_lines(path: Path) -> list[str]:
    """The lines of a file's first 64 KiB, of which the last may be cut."""
    with open_trace(path) as stream:
        start = stream.read(_START)
    return start.decode("utf-8", "surrogateescape").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}").splitlines()


def first_line(path: Path, *, comment: str = "\n") -> str:
    """The first of them that is neither empty nor a comment; empty if there is none."""
    return next((line for line in first_lines(path) if line.strip() and not line.startswith(comment)), "")


def files_of(path: Path, names: re.Pattern[str]) -> list[Path]:
    """The accounting files of a folder, those with such names in their order; a file is its own."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if names.fullmatch(file.name))


def read_records(
    path: Path,
    *,
    names: re.Pattern[str],
    file_names: str,
    take: Callable[[str, Rows], None],
    note: str,
    size_from: str,
    lenient: bool,
    comment: str = "\n",
) -> SwfLog:
    """The log of a file, or of a folder's files, with a record a line. Raises TraceError naming file and line.

    `take` adds a line to the rows, or raises Malformed. `file_names`: how the files of a folder are named, for people.
    """
    files = files_of(path, names)
    if not files:
        raise TraceError(f"{path}: there are no {file_names}")
    rows, faults = Rows(), Faults(lenient)
    for file in files:
        for number, line in lines_of(file):
            if not line.strip() or line.startswith(comment):
                continue
            try:
                take(without_nuls(line), rows)
            except Malformed as fault:
                faults.add(file, number, fault)
            faults.tell_doubts(file, number, rows)
    beside = path.iterdir() if path.is_dir() else ()
    unread = sorted(file.name for file in beside if names.match(file.name) and file not in files)
    if not unread:
        return rows.log(path, note, faults, size_from=size_from)
    faults.tell(
        f"{path}: not read: {some(unread)} (unpacked, gzip and xz files are, with names as the others have)"
    )
    return rows.log(path, note, faults, (f"; {UNREAD_KEY}: {some(unread)}",), size_from=size_from)


def whole(text: str | None, name: str) -> int:
    """A whole number from 0 on. Raises Malformed naming the field."""
    if text is None:
        raise Malformed(f"{name} is missing")
    try:
        number = int(text)
    except ValueError:
        written = _WHOLE_FRACTION.fullmatch(
            text
        )  # as a table has it that went through a program of statistics
        if written is None:
            raise Malformed(f"{name} is {text[:40]!r}, not a whole number") from None
        number = int(written[1])
    if not 0 <= number <= _BIGGEST:
        raise Malformed(f"{name} is {text[:40]!r}, out of range")
    return number


def unix_time_s(text: str | None, name: str) -> float:
    """A Unix time in seconds, with or without a fraction. Raises Malformed naming the field."""
    whole_part, point, fraction = (text or "").partition(".")
    if point and fraction.strip("0") and whole_part.isdecimal() and fraction.isdecimal():
        time_s: float = float(f"{whole_part}.{fraction}")
    else:
        time_s = whole(text, name)
    if units_a_second(time_s) > 1:
        raise Malformed(f"{name} is {str(text)[:40]}, not a time in seconds")
    return in_years(time_s, name)


def in_years(time_s: _Time, name: str) -> _Time:
    """A Unix time. Raises Malformed naming the field for one that no job had."""
    if time_s >= _LATEST_S:
        raise Malformed(f"{name} is {time_s:.0f}, later than the year {LAST_YEAR}: a wrong time")
    return time_s


def units_a_second(time: float) -> int:
    """How many of a Unix time's units are a second, by its size."""
    return next((units for least, units in _UNITS if time >= least), 1)


def count_or_0(text: str | None) -> int:
    """A whole number that need not be there; 0 where it is not, or something else."""
    return int(text) if text is not None and text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def seconds_between(begin_s: float, end_s: float) -> float:
    """Of two Unix times, to the microsecond: fractions of large numbers are not exact."""
    span = round(end_s - begin_s, 6)
    return int(span) if span == int(span) else span


def span_s(text: str, name: str) -> int:
    """Seconds of `D-HH[:MM[:SS]]` or `[[HH:]MM:]SS`, a fraction cut off. Raises Malformed naming the field."""
    days, dash, clock = text.partition("-")
    parts = (clock if dash else days).partition(".")[0].split(":")
    numbers = [*parts, days] if dash else parts
    if len(parts) > 3 or not all(part.isdecimal() and len(part) <= _MOST_DIGITS for part in numbers):  # noqa: PLR2004 - hours, minutes, seconds
        raise Malformed(f"{name} is {text[:40]!r}, not a time such as 12:30:00 or 1-12:30:00")
    total = 0
    for part in parts:
        total = 60 * total + int(part)
    if dash:  # behind days hours come first
        total *= 60 ** (3 - len(parts))
    return total + (86_400 * int(days) if dash else 0)
