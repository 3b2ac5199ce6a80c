"""Accounting files of Grid Engine (Sun, Son of, Univa, Altair): `$SGE_ROOT/default/common/accounting`.

A line a job: fields between colons, their order in accounting(5). Slave tasks of parallel jobs (`pe_taskid`)
are parts of a job and no jobs. Nodes are not recorded, processors are the slots. The requested time is `h_rt`
(or `s_rt`) of the request that `category` has. Times in milliseconds (Univa 8.2 and newer) are known by size.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from emulator.workload.rows import Faults, Malformed, Rows, first_line, lines_of, whole

if TYPE_CHECKING:
    from pathlib import Path

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
_AT = {name: index for index, name in enumerate(FIELDS)}
_FEWEST = _AT["slots"] + 1
_NUMERIC = ("job_number", "submission_time", "start_time", "end_time", "failed", "exit_status", "slots")
_MILLISECONDS = 10**11
"""No job was submitted in seconds as late as this (the year 5138)."""
_LIMIT = re.compile(r"\b[hs]_rt=(\d+)\b")
_KILLED_BY_USER = 100
"""`failed`: the job ended by a signal; 137 and 143 as exit status are KILL and TERM (qdel)."""
_KILLED = (137, 143)


class GridEngineFormat:
    """The trace format `grid_engine`."""

    name = "grid_engine"

    def can_read(self, path: Path) -> bool:
        """True if the first line that is no comment has the fields of a job."""
        fields = first_line(path, comment="#").split(":")
        return len(fields) >= _FEWEST and all(fields[_AT[name]].isdecimal() for name in _NUMERIC)

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """All jobs. Raises TraceError naming file and line."""
        rows, faults = Rows(), Faults(lenient)
        for number, line in lines_of(path):
            if not _is_record(line):
                continue
            try:
                _take(line.split(":"), rows)
            except Malformed as fault:
                faults.add(path, number, fault)
        return rows.log(path, "from Grid Engine accounting records; times are Unix times", faults)


def _is_record(line: str) -> bool:
    # accounting(5): empty lines and lines of one character are ignored; `#` begins a comment.
    return len(line.strip()) > 1 and not line.startswith("#")


def _take(fields: list[str], rows: Rows) -> None:
    if len(fields) < _FEWEST:
        raise Malformed(f"{len(fields)} fields where an accounting record has at least {_FEWEST}")
    said = dict(zip(FIELDS, fields, strict=False))
    if said.get("pe_taskid", "NONE") not in {"NONE", ""}:
        return
    number, submit, start, end = (
        whole(said[name], name) for name in ("job_number", "submission_time", "start_time", "end_time")
    )
    submit_s, start_s, end_s = (
        time / 1000 if time > _MILLISECONDS else time for time in (submit, start, end)
    )
    ran = start_s > 0
    if ran and not submit_s <= start_s <= end_s:
        raise Malformed(f"submission {submit}, start {start} and end {end} are not in this order")
    slots = whole(said["slots"], "slots")
    limit = _LIMIT.search(said.get("category", ""))
    rows.add(
        number=number,
        submit_s=submit_s,
        wait_s=start_s - submit_s if ran else -1,
        run_s=end_s - start_s if ran else -1,
        allocated_procs=slots,
        requested_procs=slots,
        requested_s=int(limit[1]) if limit else -1,
        host=rows.host_of([said["hostname"]] if ran and slots == 1 else []),
        status=_status(said),
        user=rows.users.number(said["owner"]),
        group=rows.groups.number(said["group"]),
        queue=rows.queues.number(said["qname"]),
    )


def _status(said: dict[str, str]) -> int:
    """SWF's: 1 completed, 0 failed, 5 cancelled."""
    failed, code = whole(said["failed"], "failed"), whole(said["exit_status"], "exit_status")
    if failed == _KILLED_BY_USER and code in _KILLED:
        return 5
    return 1 if failed == 0 and code == 0 else 0
