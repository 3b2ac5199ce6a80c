"""Accounting logs of Torque, PBS Pro and OpenPBS: `$PBS_HOME/server_priv/accounting`, a file a day.

A line is `MM/DD/YYYY HH:MM:SS;TYPE;ID;key=value ...`. A job is its E record: submit = `ctime`, start and end
as there, so that a job that ran again has its last run only (R records are the runs before). The run time is
end - start, not `resources_used.walltime`, which excludes the prologue. Nodes are `unique_node_count`
(Torque) or `Resource_List.nodect` (OpenPBS), processors `total_execution_slots` or `Resource_List.ncpus`, or
what `exec_host` says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from emulator.workload.rows import Malformed, files_of, first_line, read_records, span_s, whole

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.workload.rows import Rows
    from emulator.workload.swf import SwfLog

_RECORD = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z]{1,2};[^;]*;")
_DAY = re.compile(r"\d{8}(\.gz|\.xz)?")
_WORD = re.compile(r"([^\s=]+)=(\S*)")
_NUMBER = re.compile(r"\d+")
_KILOBYTES = re.compile(r"(\d+)kb")
_EXEC_HOST = re.compile(r"([^/+]+)/([^+]+)")
_FIELDS = 4
_DELETED = 271
"""Exit status of a job that was deleted: 256 + SIGTERM."""


class PbsFormat:
    """The trace format `pbs`: one accounting file, or the folder of daily files named YYYYMMDD."""

    name = "pbs"
    reads_folders = True

    def can_read(self, path: Path) -> bool:
        """True if the (first) file begins with an accounting record."""
        files = files_of(path, _DAY)
        return bool(files) and _RECORD.match(first_line(files[0])) is not None

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """All jobs that ended. Raises TraceError naming file and line."""
        return read_records(
            path,
            names=_DAY,
            said_names="daily files named YYYYMMDD",
            take=_take,
            note="from PBS accounting records; submit is ctime, times are Unix times",
            lenient=lenient,
        )


def _take(line: str, rows: Rows) -> None:
    if not _RECORD.match(line):
        raise Malformed("not an accounting record (MM/DD/YYYY HH:MM:SS;TYPE;ID;key=value ...)")
    _, kind, job, body = line.split(";", _FIELDS - 1)
    if kind != "E":
        return
    said = dict(_WORD.findall(body))
    submit_s, end_s = whole(said.get("ctime"), "ctime"), whole(said.get("end"), "end")
    start_s = whole(said["start"], "start") if "start" in said else None  # it may have ended before it began
    if not submit_s <= (submit_s if start_s is None else start_s) <= end_s:
        raise Malformed(f"ctime {submit_s}, start {start_s} and end {end_s} are not in this order")
    nodes = _first(said, ("unique_node_count", "Resource_List.nodect"))
    procs = _first(said, ("total_execution_slots", "Resource_List.ncpus"))
    if not nodes or not procs:
        hosts, slots = _hosts(said.get("exec_host", ""))
        nodes, procs = nodes or hosts, procs or slots
    names = {host for host, _ in _EXEC_HOST.findall(said.get("exec_host", ""))}
    limit = said.get("Resource_List.walltime")
    found = _NUMBER.match(job)
    rows.add(
        number=int(found[0]) if found else -1,
        submit_s=submit_s,
        wait_s=-1 if start_s is None else start_s - submit_s,
        run_s=-1 if start_s is None else end_s - start_s,
        allocated_procs=procs or nodes or -1,
        requested_procs=procs or nodes or -1,
        nodes=nodes or -1,
        requested_s=-1 if limit is None else span_s(limit, "Resource_List.walltime"),
        used_memory_kb=_memory_kb(said, procs),
        gpus=_gpus(said),
        host=rows.host_of(names),
        status=_status(said.get("Exit_status")),
        user=rows.users.number(said.get("user")),
        group=rows.groups.number(said.get("group")),
        queue=rows.queues.number(said.get("queue")),
    )


def _first(said: dict[str, str], names: tuple[str, ...]) -> int:
    """The first of these that the record says, 0 if none."""
    return next((whole(said[name], name) for name in names if name in said), 0)


def _hosts(text: str) -> tuple[int, int]:
    """Different hosts and slots of `n02/0-1+n01/0,3` (Torque) or `p01/0*2+p02/0*2` (OpenPBS)."""
    hosts: set[str] = set()
    slots = 0
    for host, where in _EXEC_HOST.findall(text):
        hosts.add(host)
        _, star, times = where.partition("*")
        if star:
            slots += whole(times, "exec_host")
            continue
        for part in where.split(","):
            low, _, high = part.partition("-")
            slots += whole(high or low, "exec_host") - whole(low, "exec_host") + 1
    return len(hosts), slots


def _gpus(said: dict[str, str]) -> int:
    """GPUs of the job: OpenPBS sums them, Torque lists each (`n01-gpu/0+n01-gpu/1`); -1 if it has none."""
    if said.get("exec_gpus"):
        return len(said["exec_gpus"].split("+"))
    return whole(said.get("Resource_List.ngpus", "0"), "Resource_List.ngpus") or -1


def _memory_kb(said: dict[str, str], procs: int) -> int:
    """Kilobytes a processor, as SWF counts them."""
    match = _KILOBYTES.fullmatch(said.get("resources_used.mem", ""))
    return int(match[1]) // max(procs, 1) if match else -1


def _status(text: str | None) -> int:
    """SWF's: 1 completed, 0 failed, 5 cancelled."""
    if text is None:
        return -1
    try:
        code = int(text)
    except ValueError:
        raise Malformed(f"Exit_status is {text[:40]!r}, not a whole number") from None
    return {0: 1, _DELETED: 5}.get(code, 0)
