"""Accounting files of Grid Engine: `$SGE_ROOT/default/common/accounting`, and `accounting.jsonl` of version 9.

A line a run of a job: fields between colons, their order in accounting(5) (Sun, Son of, Univa, Altair), or a JSON
object with the same names (Open Cluster Scheduler, Gridware). Slave tasks of parallel jobs (`pe_taskid`) are parts of a
job and no jobs. One that was rescheduled is its last run. Nodes are not recorded, processors are the slots. The
requested time is `h_rt` (or `s_rt`) of the request that `category` has, the requested memory of a processor its
`h_vmem`, which is of a slot. Times in milliseconds (Univa 8.2 and newer) and
microseconds (version 9) are known by size. A colon in a name shifts the fields behind it: such a line is malformed;
those of a limit (`h_rt=24:00:00`) are told from separators.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from emulator.workload.cloud_rows import beginning
from emulator.workload.rows import (
    UNKNOWN_SUSPENSION,
    Malformed,
    files_of,
    in_years,
    json_line,
    read_records,
    span_s,
    units_a_second,
    whole,
)

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.workload.rows import Rows
    from emulator.workload.swf import SwfLog

FIELDS = (
    "qname",
    "hostname",
    "group",
    "owner",
    "job_name",
    "job_number",
    "account",
    "priority",
    "submission_time",
    "start_time",
    "end_time",
    "failed",
    "exit_status",
    "ru_wallclock",
    "ru_utime",
    "ru_stime",
    "ru_maxrss",
    "ru_ixrss",
    "ru_ismrss",
    "ru_idrss",
    "ru_isrss",
    "ru_minflt",
    "ru_majflt",
    "ru_nswap",
    "ru_inblock",
    "ru_oublock",
    "ru_msgsnd",
    "ru_msgrcv",
    "ru_nsignals",
    "ru_nvcsw",
    "ru_nivcsw",
    "project",
    "department",
    "granted_pe",
    "slots",
    "task_number",
    "cpu",
    "mem",
    "io",
    "category",
    "iow",
    "pe_taskid",
    "maxvmem",
    "arid",
)
"""Of a record, in their order: accounting(5)."""
_WALLCLOCK_AT = FIELDS.index("arid") + 9
"""Univa's and Altair's version writes it behind further names and the command, which may have colons."""
_WALLCLOCK = re.compile(r"\d+\.\d+")
_AT = {name: index for index, name in enumerate(FIELDS)}
_FEWEST = _AT["slots"] + 1
_NUMERIC = ("job_number", "submission_time", "start_time", "end_time", "failed", "exit_status", "slots")
_REAL = (
    "priority",
    "ru_wallclock",
    "ru_utime",
    "ru_stime",
    "task_number",
    "cpu",
    "mem",
    "io",
    "iow",
    "maxvmem",
)
"""Further fields that are numbers: before and behind each name, so that a colon in one is seen."""
_FILE = re.compile(r"accounting(\.jsonl)?([.-]\d+)?(\.gz|\.xz)?")
_CLOCK = re.compile(r"\w=\d*(?::\d*){1,2}(?=[,\s])")
_LAST_CLOCK = tuple(re.compile(rf"\w=\d*(?::\d*){{{colons}}}(?=:)") for colons in (2, 1, 0))
"""Times in a request, and one at its end: how many colons are its own the fields behind it tell."""
_COLON = "\0"
_TASK = re.compile(r"NONE|past_usage|\d+\.\S+|")
"""What stands for a task of a parallel job."""
_LIMIT = re.compile(r"\b([hs])_rt=([^\s,]+)")
_MEMORY = re.compile(r"\bh_vmem=([^\s,]+)")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)([kKmMgGtT]?)")
_BYTES = {
    "": 1, "k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30, "t": 10**12, "T": 2**40,
}  # fmt: skip
_CUT_LIMIT = re.compile(r"_(?:rt|cpu)=$")
_SHIFTED = "a ':' in a name shifts the fields behind it"
_PAUSE_S, _PAUSE_SHARE = 300, 0.05
PAUSED = "lasted longer than its wallclock says it ran (suspended?), and that time counts as run"
SLAVE = "slave task of a parallel job"
_KILLED_BY_USER = 100
"""`failed`: the job ended by a signal; 137 and 143 as exit status are KILL and TERM (qdel)."""
_KILLED = (137, 143)


class GridEngineFormat:
    """The trace format `grid_engine`: one accounting file, or the folder of it and the rotated ones."""

    name = "grid_engine"
    reads_folders = True

    def can_read(self, path: Path) -> bool:
        """True if one of the first lines that are no comments (of the first file) has the fields of a job."""
        files = files_of(path, _FILE)
        begin = beginning(files[0]) if files else ""
        if begin.startswith("{"):
            return all(f'"{name}"' in begin for name in ("job_number", "submission_time", "qname"))
        return any(_looks_like_a_record(line) for line in begin.splitlines())

    def hint(self, path: Path) -> str | None:
        """What is wrong with a file that Grid Engine may have written, None if it looks like none."""
        line = next((each for each in beginning(path).splitlines() if _is_record(each)), "")
        if re.match(
            r"\d{9,16}:(new_job|job_log|acct|queue|queue_consumable|host|host_consumable|sharelog):", line
        ):
            return "Grid Engine's reporting file; take the accounting beside it"
        if line.count(":") >= _FEWEST and not line.startswith(("{", "[")):
            return f"if it is Grid Engine's accounting: {_SHIFTED}"
        return None

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """All jobs. Raises TraceError naming file and line."""
        return read_records(
            path,
            names=_FILE,
            file_names="files named accounting, accounting.0, ...",
            take=_take,
            size_from="`qhost` lists the hosts",
            note="from Grid Engine accounting records; times are Unix times",
            lenient=lenient,
            comment="#",
        )


def _is_record(line: str) -> bool:
    # accounting(5): empty lines and lines of one character are ignored; `#` begins a comment.
    return len(line.strip()) > 1 and not line.startswith("#")


def _looks_like_a_record(line: str) -> bool:
    fields = line.split(":")
    return len(fields) >= _FEWEST and all(fields[_AT[name]].isdecimal() for name in _NUMERIC)


def _of_line(line: str) -> dict[str, str]:
    """A line's fields by their names. Times in a request have colons of their own."""
    try:
        return _of_fields(line.split(":"))
    except Malformed as fault:
        within = _CLOCK.sub(_without_colons, line)
        for clock in _LAST_CLOCK:
            try:
                record = _of_fields(clock.sub(_without_colons, within).split(":"))
            except Malformed:
                continue
            return record | {"category": record.get("category", "").replace(_COLON, ":")}
        raise fault from None


def _without_colons(match: re.Match[str]) -> str:
    return match[0].replace(":", _COLON)


def _of_fields(fields: list[str]) -> dict[str, str]:
    """A line's fields by their names, each that is a number checked to be one."""
    if len(fields) < _FEWEST:
        raise Malformed(f"{len(fields)} fields where an accounting record has at least {_FEWEST}")
    record = dict(zip(FIELDS, fields, strict=False))
    if _WALLCLOCK.fullmatch(wallclock := next(iter(fields[_WALLCLOCK_AT:]), "")):
        record["wallclock"] = wallclock
    if _CUT_LIMIT.search(record.get("category", "")):
        raise Malformed(f"category ends in a limit without its value ({_SHIFTED})")
    if not _TASK.fullmatch(record.get("pe_taskid", "")):
        raise Malformed(f"pe_taskid is {record['pe_taskid'][:40]!r}, not a task ({_SHIFTED})")
    for name in FIELDS:
        text = record.get(name, "0")
        if (name in _NUMERIC and not text.isdecimal()) or (name in _REAL and not _is_real(text)):
            kind = "number" if name in _REAL else "whole number"
            raise Malformed(f"{name} is {text[:40]!r}, not a {kind} ({_SHIFTED})")
    return record


def _is_real(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _of_json(line: str) -> dict[str, str]:
    record = json_line(line)
    usage = _part(record, "usage")
    record |= {"wallclock": _part(_part(usage, "usage"), "wallclock") or _part(usage, "wallclock")}
    return {
        name: str(record[name]) for name in (*FIELDS, "type", "wallclock") if record.get(name) is not None
    }


def _part(document: Any, name: str) -> Any:
    return document.get(name) if isinstance(document, dict) else None


def _take(line: str, rows: Rows) -> None:
    if not _is_record(line):
        return
    record = _of_json(line) if line.lstrip().startswith("{") else _of_line(line)
    if record.get("type", "acct") != "acct":
        rows.pass_over(f"{record['type']} record")
        return
    number, submit, start, end = (
        whole(record.get(name), name) for name in ("job_number", "submission_time", "start_time", "end_time")
    )
    slots = whole(record.get("slots"), "slots")
    status = _status(record)
    if record.get("pe_taskid", "NONE") not in {"NONE", ""}:
        rows.pass_over(SLAVE)
        return
    ran = start > 0
    if ran and not submit <= start <= end:
        raise Malformed(f"submission {submit}, start {start} and end {end} are not in this order")
    a_second = units_a_second(max(submit, start))
    for name, units in (("submission_time", submit), ("start_time", start), ("end_time", end)):
        in_years(units / a_second, name)
    if ran:
        _tell_pauses(record, _seconds(end - start, a_second), rows)
    rows.add_run(
        (number, record.get("task_number"), submit, record.get("owner")),
        start if ran else -1,
        end,
        number=number,
        submit_s=_seconds(submit, a_second) if submit else -1,  # of a job that failed before it began
        # Of whole numbers: differences of large fractions are not exact.
        wait_s=_seconds(start - submit, a_second) if ran else -1,
        run_s=_seconds(end - start, a_second) if ran else -1,
        allocated_procs=slots,
        requested_procs=slots,
        requested_s=_limit_s(record.get("category", ""), rows),
        requested_memory_kb=_memory_kb(record.get("category", ""), rows),
        host=rows.host_of([record["hostname"]] if ran and slots == 1 and "hostname" in record else []),
        status=status,
        user=rows.users.number(record.get("owner")),
        group=rows.groups.number(record.get("group")),
        queue=rows.queues.number(record.get("qname")),
    )


def _tell_pauses(record: dict[str, str], lasted_s: float, rows: Rows) -> None:
    """Remark on a job from its start to its end that may have been suspended in between."""
    wallclock = record.get("wallclock", "")
    if not _is_real(wallclock):
        rows.remark(UNKNOWN_SUSPENSION)
    elif lasted_s - float(wallclock) > max(_PAUSE_S, _PAUSE_SHARE * lasted_s):
        rows.remark(PAUSED)


def _limit_s(request: str, rows: Rows) -> int:
    """Seconds of the hard limit, else of the soft one; -1 if there is none."""
    limits = {kind: text for kind, text in _LIMIT.findall(request) if text.upper() != "INFINITY"}
    text = limits.get("h") or limits.get("s")
    return -1 if text is None else rows.known(_clock_s, text, "h_rt", -1)


def _memory_kb(request: str, rows: Rows) -> int:
    """KiB of each slot, -1 if none is requested."""
    found = _MEMORY.search(request)
    if found is None or found[1].upper() == "INFINITY":
        return -1
    return rows.known(_size_kb, found[1], "h_vmem", -1)


def _size_kb(text: str, name: str) -> int:
    """Of a number of bytes with a unit: those in capitals are powers of 1024, others of 1000 (sge_types(1))."""
    size = _SIZE.fullmatch(text)
    if size is None:
        raise Malformed(f"{name} is {text[:40]!r}, not memory such as 4G or 500M")
    return round(float(size[1]) * _BYTES[size[2]] / 1024)


def _clock_s(text: str, name: str) -> int:
    """Of `[H]:[M]:[S]`, or seconds: what is 0 may be left out (sge_types(1))."""
    return span_s(":".join(part or "0" for part in text.split(":")), name)


def _seconds(units: int, a_second: int) -> float:
    return units / a_second if units % a_second else units // a_second


def _status(record: dict[str, str]) -> int:
    """SWF's: 1 completed, 0 failed, 5 cancelled."""
    failed, code = whole(record.get("failed"), "failed"), whole(record.get("exit_status"), "exit_status")
    if failed == _KILLED_BY_USER and code in _KILLED:
        return 5
    return 1 if failed == 0 and code == 0 else 0
