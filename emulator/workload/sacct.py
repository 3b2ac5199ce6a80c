"""Slurm's accounting: what `sacct` prints, in any of its forms of text, with its header.

    SLURM_TIME_FORMAT=%s sacct -a -X -D --parsable2 --noconvert -S START -E END --format=JobIDRaw,Submit,Eligible,
    Start,End,ElapsedRaw,TimelimitRaw,ReqNodes,AllocNodes,NNodes,ReqCPUS,AllocCPUS,NCPUS,State,User,Group,Partition

Columns are told apart by `|` (`--parsable2`, `--parsable`), by another character (`--delimiter`, or a table that was
kept as CSV), or by their widths, which the line of dashes below the header gives. What a row says: `sacct_row.py`.
Rows of job steps are passed over, and counted. Times without an offset from UTC are of the zone that the user names,
else taken to be UTC (`local_times.py`); `%s` avoids both.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

from emulator.workload.csv_lines import csv_fields
from emulator.workload.files import TraceError
from emulator.workload.rows import (
    HEADING,
    Faults,
    Malformed,
    first_line,
    first_lines,
    lines_of,
    no_name_twice,
    without_nuls,
)
from emulator.workload.sacct_jobs import SacctJobs
from emulator.workload.sacct_row import COLUMNS, NEEDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from emulator.workload.swf import SwfLog

_FREE_TEXT = {"SubmitLine", "Comment", "JobName", "AdminComment", "SystemComment", "WorkDir", "Constraints"}
_HAS_COMMAS = {"AllocTRES", "ReqTRES", "NodeList"}
_CALLED = {name.lower(): name for name in (*COLUMNS, *_FREE_TEXT)}
"""As sacct calls its columns: tables that went through another program have them in small letters."""
_MARK = re.compile(r" *[^\w\s\"] *|\t")
"""Between two names, with the blanks of `--delimiter ' | '`."""
_DASHES = re.compile(r"-+( -+)+ *")
_NAMES = re.compile(r"[A-Za-z]+")
_STATE = re.compile(r"\b(COMPLETED|FAILED|TIMEOUT|CANCELLED|RUNNING|PENDING)\b")
_TIME = re.compile(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|1\d{9})\b")
_MOST_ABOVE = 20
_TWO_TIMES, _MANY_FIELDS = 2, 4
"""So many times, or marks `|`, has a line that is taken for one of sacct without its header."""


class SacctFormat:
    """The trace format `sacct`. With `steps`, the rows of job steps are kept as jobs of their own."""

    name = "sacct"

    def __init__(self, *, steps: bool = False) -> None:
        self.steps = steps

    def can_read(self, path: Path) -> bool:
        """True if the first line names columns of sacct."""
        return _is_heading(first_line(path))

    def hint(self, path: Path) -> str | None:
        """What is wrong with a file that sacct may have written, None if it looks like none."""
        line = first_line(path)
        if above := _lines_above_heading(path):
            return f"sacct's header is line {above + 1}: leave out what stands above it"
        has_fields = line.count("|") >= _MANY_FIELDS or len(_TIME.findall(line)) >= _TWO_TIMES
        if has_fields and _STATE.search(line) and not line.startswith(("{", "[", "JobId=")):
            return "if sacct wrote it: write it again without -n (--noheader), the header names the columns"
        names = set(_NAMES.findall(line))
        if {"JobID", "JobIDRaw"} & names and names & {"Submit", "Start", "Elapsed"}:
            return "if sacct wrote it: write it again with the column State (docs/traces.md, Slurm, has all columns)"
        if {"JOBID", "PARTITION"} <= set(line.split()):
            return "squeue shows jobs that have not ended; take the accounting: sacct --parsable2"
        return None

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """All jobs. Raises TraceError naming file and line, and for output that lacks a needed column."""
        lines: Iterator[tuple[int, str]] = lines_of(path)
        written = (each for each in lines if each[1].strip())
        _, heading = next(written, (1, ""))
        after = next(written, None)
        if after is not None and _DASHES.fullmatch(after[1]):
            names, cut = _by_widths(heading, after[1])
            no_name_twice(path, 1, [name for name in names if name in COLUMNS])
        else:
            if not _MARK.search(heading) and " " in heading.strip():
                raise TraceError(
                    f"{path}:1: columns of blanks need the line of dashes below the header; run sacct with --parsable2"
                )
            lines = chain(() if after is None else (after,), lines)
            names, cut = _columns(path, 1, heading)
        for choice in NEEDED:
            if not set(choice) & set(names):
                raise TraceError(
                    f"{path}:1: sacct's output has no column {choice[0]}; run it with --format=JobIDRaw,Submit,"
                    "Start,End,ElapsedRaw,TimelimitRaw,NNodes,NCPUS,State,User,Group,Partition"
                )
        jobs, faults = SacctJobs(steps=self.steps), Faults(lenient)
        for number, line in lines:
            try:
                jobs.take(zip(names, cut(without_nuls(line)), strict=True))
            except Malformed as fault:
                if not line.strip():
                    continue
                if not _is_heading(line) and not _DASHES.fullmatch(line):
                    faults.add(path, number, fault)
                    continue
                # Outputs one behind the other: each has its own.
                jobs.rows.pass_over(HEADING)
                if " " not in line.strip():
                    names, cut = _columns(path, number, line)
            finally:
                if jobs.rows.doubts:
                    faults.tell_doubts(path, number, jobs.rows)
        return jobs.log(path, faults)


def _lines_above_heading(path: Path) -> int:
    """How many lines (messages of programs) stand above sacct's header; 0 if it is the first, or none of the first."""
    lines = enumerate(first_lines(path)[:_MOST_ABOVE])
    return next((above for above, line in lines if "|" in line and _is_heading(line)), 0)


def _is_heading(line: str) -> bool:
    """Whether a line names columns of sacct, in whatever case. That of squeue, in capitals, is none."""
    found = _NAMES.findall(line)
    names = {name.lower() for name in found}
    return (
        "state" in names
        and bool({"jobid", "jobidraw"} & names)
        and "JOBID" not in found
        and not line.startswith("{")
        and "\0" not in line
    )


def _columns(path: Path, number: int, heading: str) -> tuple[list[str], Callable[[str], list[str]]]:
    """The names of the columns of a heading, and what cuts a line into as many fields. Raises TraceError."""
    try:
        names, cut = _by_character(heading)
    except Malformed as fault:
        raise TraceError(f"{path}:{number}: {fault}") from fault
    no_name_twice(path, number, [name for name in names if name in COLUMNS])
    return names, cut


def _by_character(heading: str) -> tuple[list[str], Callable[[str], list[str]]]:
    """The same. Raises Malformed."""
    found = _MARK.search(heading)
    mark = found[0] if found else "|"
    is_quoted = mark != "|" and '"' in heading
    if is_quoted:
        mark = mark.strip()
    names = [
        _CALLED.get(name.lower(), name) for name in (csv_fields if is_quoted else str.split)(heading, mark)
    ]
    ends_in_mark = len(names) > 1 and not names[-1]  # --parsable
    if ends_in_mark:
        names.pop()
    count = len(names)
    at = _with_marks(names)

    def cut(line: str) -> list[str]:
        if mark != "|" and '"' in line:
            fields = csv_fields(line, mark)
        else:
            fields = (line.removesuffix(mark) if ends_in_mark else line).split(mark)
            if len(fields) > count and at is not None:
                behind = at + 1 + len(fields) - count
                fields[at:behind] = [mark.join(fields[at:behind])]
        if len(fields) != count:
            with_commas = [name for name in names if name in _HAS_COMMAS] if mark == "," else []
            raise Malformed(
                f"{len(fields)} fields where the header has {count} "
                + (
                    f"({with_commas[0]} has commas of its own: run sacct with --parsable2)"
                    if with_commas
                    else f"(a {mark!r} in a name? put JobName, SubmitLine or Constraints last, or leave it out)"
                )
            )
        return fields

    return names, cut


def _with_marks(names: Sequence[str]) -> int | None:
    """The column that may have the separator in its text: the only one of such texts, or the last; None if unknown.

    Constraints have it often (`ib|avx`): where others may have it, too, they have to be the last.
    """
    free = [place for place, name in enumerate(names) if name in _FREE_TEXT]
    if len(free) == 1:
        return free[0]
    is_last = names[-1] in _FREE_TEXT and "Constraints" not in names[:-1]
    return len(names) - 1 if is_last else None


def _by_widths(heading: str, dashes: str) -> tuple[list[str], Callable[[str], list[str]]]:
    """The same where each column is as wide as its dashes."""
    spans = [slice(*match.span()) for match in re.finditer("-+", dashes)]

    def pieces(line: str) -> Iterator[str]:
        return (line[span].strip() for span in spans)

    names = list(pieces(heading))

    def cut(line: str) -> list[str]:
        fields = list(pieces(line))
        for name, field in zip(names, fields, strict=True):
            # sacct ends what it cut at the column's width in `+`: no harm in a state or a name.
            if field.endswith("+") and field[0].isdecimal():
                raise Malformed(
                    f"{name} is {field!r}, cut at the width of its column; run sacct with --parsable2"
                )
        return fields

    return names, cut
