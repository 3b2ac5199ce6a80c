"""Standard Workload Format of the Parallel Workloads Archive: reader and writer.

`;` lines are the header, then one job a line: 18 numbers between blanks, -1 where unknown. Source: D. G.
Feitelson, https://www.cs.huji.ac.il/labs/parallel/workload/swf.html.

Logs in the wild also have aligned columns, fractions (`142.00`), Windows line ends, a nineteenth column, and
comments after the numbers. All of these are read. A line with anything that is no number, or with fewer than
18 fields, is malformed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from itertools import compress, pairwise
from typing import IO, TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from emulator.workload.files import TraceError, has_returns_alone, open_trace, write_whole
from emulator.workload.other_files import hint_of_bytes
from emulator.workload.swf_bursts import BURSTS, are_bursts
from emulator.workload.swf_header import HEADER_KEY, Header

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

Column: TypeAlias = "NDArray[np.int64] | NDArray[np.float64]"

FIELDS = (
    "number",
    "submit_s",
    "wait_s",
    "run_s",
    "allocated_procs",
    "cpu_s",
    "used_memory_kb",
    "requested_procs",
    "requested_s",
    "requested_memory_kb",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding",
    "think_s",
)
"""Our names of the 18 columns, in order."""

UNKNOWN = -1

_FIRST_UNIX_S = 10**8
"""A time of 1973. No log runs for three years before its first job, so such submits are Unix times."""
NODES_KEY = "NodesColumn"
"""Header key of ours: the column beyond the 18th that has the number of whole nodes, from accounting logs."""
GPUS_KEY, HOST_KEY, RESERVATION_KEY, QOS_KEY = "GpusColumn", "HostColumn", "ReservationColumn", "QosColumn"
CONSTRAINT_KEY = "ConstraintColumn"
"""The same for a job's GPUs and the numbers of the one node that it ran on, its reservation, QOS and constraint."""

SAMPLES = "sample of usage"
"""What is passed over where nobody knows jobs, only how much was in use."""
HEADING = "heading again"
"""A line of names (or a header) within a table that was put together from several."""
_BLOCK_BYTES = 4 << 20
_WRITTEN_AT_ONCE = 50_000
_LONGEST_LINE_BYTES = 1 << 20
_MOST_FIELDS = 64
_MOST_COMPLAINTS = 10
_EXACT_CHARACTERS = 15  # so many digits are exact in a double, through which blocks with fractions go
_EXACT = 2**53  # beyond it doubles are whole, but neighbours cannot be told apart
_BIGGEST = 2**62  # also as a double, and with room for sums


class _Byte(IntEnum):
    """What a byte is in a line of numbers; those of words come last."""

    BLANK = 0
    NEWLINE = 1
    NUMERIC = 2
    FOREIGN = 3


_CLASS = np.full(256, _Byte.FOREIGN, np.uint8)
_CLASS[list(b" \t\r\v\f")] = _Byte.BLANK
_CLASS[list(b"\n")] = _Byte.NEWLINE
_CLASS[list(b"0123456789.+-")] = _Byte.NUMERIC

_FEW_BYTES = 64
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_LEADING_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,18})")


@dataclass(frozen=True, eq=False)
class SwfLog:
    """A job log, row by row as in its file.

    `header` has the comment lines without line ends, as found. `columns` has at least 18 arrays of equal
    length, each int64, or float64 if any of its values has a fraction; those beyond the 18th are kept as
    they come. `malformed` counts the lines that a lenient reader left out; `complaints` tells the first ten.
    `passed_over` counts the records of an accounting log that are no jobs of their own, by what they are, `remarks`
    the jobs of which there is something to tell, by that. `user_names`:
    who the users are, and `group_names` which groups (or accounts), by the numbers that a reader gave them; empty where
    the log itself has numbers. `size_from`: where the size of the cluster stands, if the log does not say it.
    """

    columns: tuple[Column, ...]
    header: tuple[str, ...] = ()
    source: str = "<memory>"
    malformed: int = 0
    complaints: tuple[str, ...] = field(default=())
    passed_over: Mapping[str, int] = field(default_factory=dict)
    remarks: Mapping[str, int] = field(default_factory=dict)
    user_names: Mapping[int, str] = field(default_factory=dict)
    group_names: Mapping[int, str] = field(default_factory=dict)
    size_from: str = ""

    def __post_init__(self) -> None:
        if len(self.columns) < len(FIELDS):
            raise ValueError(f"a log has at least {len(FIELDS)} columns, not {len(self.columns)}")
        if len({len(column) for column in self.columns}) > 1:
            raise ValueError("the columns of a log must be of equal length")
        for line in self.header:
            if not line.startswith(";") or "\n" in line:
                raise ValueError(f"a header line starts with ';' and is one line, not {line!r}")

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def records(self) -> int:
        """The records of the file: each is a row, one that was passed over, or malformed.

        Rows that were made of samples of usage are no records, the samples are.
        """
        rows = 0 if SAMPLES in self.passed_over else len(self)
        return rows + sum(self.passed_over.values()) + self.malformed

    @classmethod
    def build(
        cls,
        rows: int,
        header: Sequence[str] = (),
        source: str = "<memory>",
        **columns: Sequence[float] | NDArray[Any],
    ) -> Self:
        """A log from named columns (see FIELDS); the others are unknown."""
        unnamed = set(columns) - set(FIELDS)
        if unnamed:
            raise ValueError(f"no such column: {', '.join(sorted(unnamed))}")
        unknown = np.full(rows, UNKNOWN, np.int64)
        unknown.setflags(write=False)  # one for all columns of which nothing is known
        made = (_narrow(np.asarray(columns[name])) if name in columns else unknown for name in FIELDS)
        kept = tuple(column if (column != UNKNOWN).any() else unknown for column in made)
        return cls(columns=kept, header=tuple(header), source=source)

    def column(self, name: str) -> Column:
        """One of the 18 columns by its name in FIELDS."""
        return self.columns[FIELDS.index(name)]

    @property
    def nodes(self) -> Column | None:
        """The whole nodes of each job, where the log says them beside the processors (see NODES_KEY)."""
        return self.further(NODES_KEY)

    def further(self, key: str) -> Column | None:
        """The column beyond the 18th that this key of the header names, None if there is none."""
        index = self.key_int(key)
        return (
            None if index is None or not len(FIELDS) < index <= len(self.columns) else self.columns[index - 1]
        )

    @cached_property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        """The header's `Key: value` lines; a key may be there several times (Queue, Note)."""
        found: dict[str, tuple[str, ...]] = {}
        for line in self.header:
            if match := HEADER_KEY.match(line):
                key, value = match.groups()
                found[key] = (*found.get(key, ()), value)
        return found

    @cached_property
    def zero_unix_s(self) -> int | None:
        """The Unix time of the log's time 0, None if the log does not say when it was.

        A header's UnixStartTime, or 0 where submits are Unix times themselves: accounting logs have no other.
        """
        if middle_submit_s(self.column("submit_s")) >= _FIRST_UNIX_S:
            return 0
        return self.key_int("UnixStartTime") or None

    @property
    def says_size(self) -> bool:
        """Whether the header says how large the cluster is."""
        return bool(self.key_int("MaxProcs") or self.key_int("MaxNodes"))

    def names_of(self, key: str) -> dict[int, str]:
        """Names that the header gives to numbers: `; Queue: 1 debug`."""
        pairs = (line.split(None, 1) for line in self.keys.get(key, ()))
        return {int(pair[0]): pair[1] for pair in pairs if len(pair) > 1 and pair[0].isdecimal()}

    def key_int(self, key: str) -> int | None:
        """The number that a header value starts with (1152 in `MaxNodes: 1,152 (batch)`), None if absent."""
        for value in self.keys.get(key, ()):
            if match := _LEADING_NUMBER.match(value):
                return int(match.group().replace(",", ""))
        return None


def middle_submit_s(submit_s: Column) -> float:
    """Of the submits that are known the middle one, which a wrong one among them hardly moves; -1 if none is."""
    known_s = submit_s[submit_s >= 0]
    middle = len(known_s) // 2
    return float(np.partition(known_s, middle)[middle]) if len(known_s) else UNKNOWN


class SwfFormat:
    """The trace format `swf`."""

    name = "swf"

    def can_read(self, path: Path) -> bool:
        """True if the name says .swf, or if the file starts with a header line or a line of 18 numbers."""
        if ".swf" in (suffix.lower() for suffix in path.suffixes[-2:]):
            return hint_of_bytes(path) is None
        with open_trace(path) as stream:
            start = stream.read(1 << 16)
        if b"\0" in start[:_FEW_BYTES]:  # UTF-16, or no text
            return False
        for line in start.removeprefix(_BYTE_ORDER_MARK).splitlines():
            if line.strip() and not line.lstrip().startswith(b"#"):
                words = line.split()
                return line.lstrip().startswith(b";") or (
                    len(words) >= len(FIELDS) and all(map(_NUMBER.fullmatch, words))
                )
        return False

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """The log in a file, plain, gzip or xz. Raises TraceError; see `SwfLog.malformed` for `lenient`."""
        reader = _Reader(path, lenient=lenient)
        with open_trace(path) as stream:
            for block in _blocks(stream, path):
                reader.take(block)
        return _without_bursts(reader.log())

    def read_blocks(self, path: Path, *, lenient: bool = False) -> Iterator[SwfLog]:
        """The log in parts, in order, each with the header so far; `malformed` counts the lines of its part."""
        reader = _Reader(path, lenient=lenient)
        with open_trace(path) as stream:
            for block in _blocks(stream, path):
                reader.take(block)
                if reader.chunks or reader.malformed:
                    yield reader.log()
                    reader.chunks, reader.malformed, reader.header.again = [], 0, 0


def _without_bursts(log: SwfLog) -> SwfLog:
    """The log without the lines of partial executions, counted."""
    parts = are_bursts(log.column("number"), log.column("status"))
    if not parts.any():
        return log
    columns = tuple(column[~parts] for column in log.columns)
    return replace(log, columns=columns, passed_over={**log.passed_over, BURSTS: int(parts.sum())})


def write_swf(log: SwfLog, path: Path) -> None:
    """Write a log: the header as it is, then the numbers one blank apart. Reading it gives equal data.

    The file is compressed when its name ends in .gz or .xz, and appears only when it is complete.
    """
    with write_whole(path) as stream:
        for line in log.header:
            stream.write(line.encode("utf-8", "surrogateescape") + b"\n")
        # Of many columns nothing is known: they are not written anew for each job.
        is_known = [True, *((column != UNKNOWN).any() for column in log.columns[1:])]
        line_of = (" ".join("%r" if known else str(UNKNOWN) for known in is_known) + "\n").__mod__
        columns = tuple(compress(log.columns, is_known))
        for begin in range(0, len(log), _WRITTEN_AT_ONCE):
            part = (column[begin : begin + _WRITTEN_AT_ONCE].tolist() for column in columns)
            stream.write("".join(map(line_of, zip(*part, strict=True))).encode())


def _blocks(stream: IO[bytes], path: Path) -> Iterator[bytes]:
    """The stream in blocks of whole lines, each ending in a line end."""
    rest = b""
    is_first, has_returns = True, False
    while data := stream.read(_BLOCK_BYTES):
        has_returns = has_returns_alone(data) if is_first else has_returns
        is_first = False
        if has_returns:
            data = data.replace(b"\r", b"\n")
        cut = data.rfind(b"\n") + 1
        if cut:
            yield rest + data[:cut]
            rest = data[cut:]
        else:
            rest += data
        if len(rest) > max(_LONGEST_LINE_BYTES, _BLOCK_BYTES):
            raise TraceError(f"{path}: a line of more than {_LONGEST_LINE_BYTES} bytes; this is no job log")
    if rest:
        yield rest + b"\n"


class _Reader:
    """Takes blocks of whole lines: parses the even lines of a block at once and the odd ones with care."""

    def __init__(self, path: Path, *, lenient: bool) -> None:
        self.path = path
        self.lenient = lenient
        self.width = 0
        self.lines_before = 0
        self.header = Header(path)
        self.chunks: list[list[Column]] = []
        self.malformed = 0
        self.complaints: list[str] = []
        self.jobs = 0

    def take(self, block: bytes) -> None:
        ends, fields, odd = _survey(block)
        if not self.width:
            even = fields[~odd & (fields >= len(FIELDS))]
            self.width = int(even[0]) if even.size and even[0] <= _MOST_FIELDS else len(FIELDS)
        odd |= (fields != self.width) & (fields > 0)
        even_rows = np.flatnonzero(~odd & (fields > 0))
        matrix = _parse_even(block, ends, odd, len(even_rows), self.width)
        if matrix is None:  # something like `1-2`: numeric characters that are no number
            odd = fields > 0
            even_rows = even_rows[:0]
            matrix = np.empty((0, self.width), np.int64)
        careful = self._parse_odd(block, ends, np.flatnonzero(odd), even_rows)
        self._add(even_rows, matrix, careful)
        self.jobs += len(even_rows) + len(careful)
        self.lines_before += len(ends)

    def log(self) -> SwfLog:
        width = max([len(FIELDS), *(len(chunk) for chunk in self.chunks)])
        columns: list[Column] = []
        for index in range(width):
            parts: list[NDArray[Any]] = [
                chunk[index] if index < len(chunk) else np.full(len(chunk[0]), UNKNOWN, np.int64)
                for chunk in self.chunks
            ]
            columns.append(np.concatenate(parts) if parts else np.empty(0, np.int64))
        return SwfLog(
            columns=tuple(columns),
            header=tuple(self.header.lines),
            source=str(self.path),
            malformed=self.malformed,
            complaints=tuple(self.complaints),
            passed_over={HEADING: self.header.again} if self.header.again else {},
            size_from=self.header.size_from(),
        )

    def _parse_odd(
        self,
        block: bytes,
        ends: NDArray[np.intp],
        odd_rows: NDArray[np.intp],
        even_rows: NDArray[np.intp],
    ) -> dict[int, list[int | float]]:
        rows: dict[int, list[int | float]] = {}
        for row in odd_rows.tolist():
            begin = int(ends[row - 1]) + 1 if row else 0
            # Files that were put together have a mark each.
            line = block[begin : int(ends[row])].removeprefix(_BYTE_ORDER_MARK)
            if line.lstrip().startswith(b"#"):
                line = b";" + line.lstrip()
            body, comment, _ = line.partition(b";")
            words = body.split()
            if not words:
                if comment:
                    text = line[line.index(b";") :].rstrip(b"\r")
                    above = self.jobs + int(np.searchsorted(even_rows, row)) + len(rows)
                    self.header.take(
                        text.decode("utf-8", "surrogateescape"), self.lines_before + row + 1, above
                    )
                continue
            numbers = _numbers(words)
            if isinstance(numbers, str):
                self._complain(self.lines_before + row + 1, numbers)
            else:
                rows[row] = numbers
        return rows

    def _complain(self, line: int, reason: str) -> None:
        text = f"{self.path}:{line}: {reason}"
        if not self.lenient:
            raise TraceError(f"{text}; mend the line, or read leniently to leave such lines out")
        self.malformed += 1
        if len(self.complaints) < _MOST_COMPLAINTS:
            self.complaints.append(text)

    def _add(
        self,
        even_rows: NDArray[np.intp],
        matrix: NDArray[Any],
        careful: dict[int, list[int | float]],
    ) -> None:
        if not careful:
            if len(even_rows):
                self.chunks.append([_narrow(column) for column in matrix.T])
            return
        # The careful rows go where they stood between the even ones.
        careful_rows = np.array(sorted(careful), np.intp)
        order = np.argsort(np.concatenate((even_rows, careful_rows)), kind="stable")
        width = max(matrix.shape[1], *(len(numbers) for numbers in careful.values()))
        columns: list[Column] = []
        for index in range(width):
            even: NDArray[Any] = np.full(len(even_rows), UNKNOWN, np.int64)
            if index < matrix.shape[1]:
                even = _narrow(matrix[:, index])
            odd = np.array(
                [
                    careful[row][index] if index < len(careful[row]) else UNKNOWN
                    for row in careful_rows.tolist()
                ]
            )
            columns.append(np.concatenate((even, _narrow(odd)))[order])
        self.chunks.append(columns)


def _survey(block: bytes) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
    """Of each line: where it ends, how many fields it has, and whether it needs care."""
    kinds = _CLASS[np.frombuffer(block, np.uint8)]
    ends = np.flatnonzero(kinds == _Byte.NEWLINE)
    in_word = kinds >= _Byte.NUMERIC
    edges = np.flatnonzero(in_word[1:] != in_word[:-1]) + 1
    if in_word[0]:
        edges = np.concatenate(([0], edges))
    begins, stops = edges[::2], edges[1::2]  # a block ends in a line end, so every word has a stop
    fields = np.diff(np.searchsorted(begins, ends), prepend=0)
    strange = np.concatenate(
        (np.flatnonzero(kinds == _Byte.FOREIGN), begins[(stops - begins) > _EXACT_CHARACTERS])
    )
    odd = np.zeros(len(ends), np.bool_)
    odd[np.searchsorted(ends, strange)] = True
    return ends, fields, odd


def _parse_even(
    block: bytes, ends: NDArray[np.intp], odd: NDArray[np.bool_], rows: int, width: int
) -> NDArray[Any] | None:
    """The lines that are not odd as a matrix, None if not every word of them is a number."""
    if rows == 0:
        return np.empty((0, width), np.int64)
    text = block
    if odd.any():
        begins = np.concatenate(([0], ends[:-1] + 1))
        change = np.flatnonzero(np.diff(odd)) + 1
        runs = np.concatenate(([0], change, [len(odd)]))
        text = b"".join(
            block[begins[first] : ends[last - 1] + 1]
            for first, last in pairwise(runs.tolist())
            if not odd[first]
        )
    dtype = np.float64 if b"." in text else np.int64
    try:
        values: NDArray[Any] = np.fromstring(text, dtype, sep=" ")
    except ValueError:
        return None
    if values.size != rows * width:
        return None
    return values.reshape(rows, width)


def _numbers(words: list[bytes]) -> list[int | float] | str:
    """The numbers of a line, or what is wrong with it."""
    numbers: list[int | float] = []
    for index, word in enumerate(words):
        if not _NUMBER.fullmatch(word):
            name = f" ({FIELDS[index]})" if index < len(FIELDS) else ""
            text = word[:40].decode("utf-8", "backslashreplace")
            return f"field {index + 1}{name} is {text!r}, not a number"
        whole = word.lstrip(b"+-").isdigit()
        # Python refuses to make numbers of thousands of digits; such a word is too large anyway.
        number = (int(word) if whole else float(word)) if len(word) < 1000 else float("inf")  # noqa: PLR2004
        if not abs(number) <= _BIGGEST:
            return f"field {index + 1} is too large"
        # `3.00` is 3: one such word must not make doubles of the large whole numbers in its column.
        numbers.append(int(number) if abs(number) < _EXACT and number == int(number) else number)
    if not len(FIELDS) <= len(numbers) <= _MOST_FIELDS:
        return f"{len(numbers)} fields where the Standard Workload Format has {len(FIELDS)}"
    return numbers


def _narrow(column: NDArray[Any]) -> Column:
    """int64 if every value is whole, else float64. Raises ValueError for what is no finite number."""
    if column.dtype.kind in "iu":
        return column.astype(np.int64, copy=False)
    values = column.astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        raise ValueError("the columns of a log must be finite numbers")
    if (np.rint(values) == values).all() and (np.abs(values) < _EXACT).all():
        return values.astype(np.int64)
    return values
