"""Accounting logs of Torque, PBS Pro and OpenPBS: `$PBS_HOME/server_priv/accounting`, a file a day.

A line is `MM/DD/YYYY HH:MM:SS;TYPE;ID;key=value ...`. A job is its E record: submit = `ctime`, or `etime` for one that
was held or had to wait for another one, start and end as there, so that a job that ran again has its last run only (R
records are the runs before). The record of an array itself (`4[].server`) is no job, its elements are. The run time is
end - start, not `resources_used.walltime`, which excludes the prologue. Nodes and processors are those of `exec_host`;
where there is none those of `exec_vnode`, `unique_node_count` and `total_execution_slots` (Torque), else what was
asked for: `Resource_List.nodes` or `select`, or `nodect` (which counts chunks in OpenPBS) and `ncpus`. On a Cray the
host that is named started the job: its processes are `Resource_List.mppwidth`. GPUs are `exec_gpus`, those of
`exec_vnode`, or asked for, and so is memory (`mem` of `exec_vnode` or `Resource_List`, else `pmem`). A request that is
not understood is unknown, and that is told; the job stays. A record without `ctime` was submitted at its `qtime`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from emulator.workload.rows import (
    Malformed,
    files_of,
    first_line,
    read_records,
    seconds_between,
    span_s,
    unix_time_s,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from emulator.workload.rows import Rows
    from emulator.workload.swf import SwfLog

_Value = TypeVar("_Value")
_RECORD = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(?:\.\d+)?;[A-Za-z]{1,2};[^;]*;")
_DAY = re.compile(r"\d{8}(\.gz|\.xz)?")
_WORD = re.compile(r"([^\s=]+)=(\"[^\"]*\"|\S*)")
_NUMBER = re.compile(r"\d{1,18}")
_SIZE = re.compile(r"(\d{1,18})([kmgtp]?)([bw]?)", re.IGNORECASE)
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_MOST_BYTES = 1 << 60
_A_WORD = 8
"""Bytes of a word, in which sizes may be said."""
_EXEC_HOST = re.compile(r"([^/+]+)/([^+]+)")
_VNODE = re.compile(r"([^():+]+)((?::[^:+()]+)+)")
"""A chunk's part on a node, within `(n1:ncpus=8:ngpus=2+n2:ncpus=8)+(n3:ncpus=4)`."""
_VNODE_CPUS = re.compile(r":ncpus=(\d{1,9})")
_VNODE_MEMORY = re.compile(r":mem=(\w+)")
_VNODE_GPUS = re.compile(r":(?:ngpus|naccelerators)=(\d{1,9})")
_ACCOUNTING = "take the files themselves, server_priv/accounting"
_FIELDS = 4
_PAUSE_S, _PAUSE_SHARE = 300, 0.05
PAUSED = "lasted longer than the walltime it used (suspended?), and that time counts as run"
_DAYS_TO_SECONDS = 3
"""Colons in a limit that has days."""
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

    def hint(self, path: Path) -> str | None:
        """What is wrong with a file that PBS may have written, None if it looks like none."""
        line = first_line(path)
        if re.match(r"Job: \d+\S*$", line):
            return f"tracejob's report on one job: {_ACCOUNTING}"
        if re.match(r"(\d{1,2}/\d{1,2}/\d{4} [\d:]+( [AP]M)?|\d{4}-\d\d-\d\d[T ][\d:.]+);E;", line):
            return f"records of PBS that went through another program, which wrote their dates anew: {_ACCOUNTING}"
        return None

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """All jobs that ended. Raises TraceError naming file and line."""
        return read_records(
            path,
            names=_DAY,
            file_names="daily files named YYYYMMDD",
            take=_take,
            size_from="`pbsnodes -a` lists the nodes",
            note="from PBS accounting records; submit is ctime, times are Unix times",
            lenient=lenient,
        )


def _take(line: str, rows: Rows) -> None:
    if not _RECORD.match(line):
        raise Malformed("not an accounting record (MM/DD/YYYY HH:MM:SS;TYPE;ID;key=value ...)")
    _, kind, job, body = line.split(";", _FIELDS - 1)
    if kind != "E":
        rows.pass_over(f"{kind} record")
        return
    if "[]" in job:
        rows.pass_over("array itself")
        return
    record = dict(_WORD.findall(body))
    created_s, end_s = (
        unix_time_s(record.get("ctime", record.get("qtime")), "ctime"),
        unix_time_s(record.get("end"), "end"),
    )
    start_s = unix_time_s(record.get("start", "0"), "start") or None  # it may have ended before it began
    submit_s = _eligible_s(record, created_s, start_s, rows)
    if not submit_s <= (submit_s if start_s is None else start_s) <= end_s:
        raise Malformed(f"ctime {created_s}, start {start_s} and end {end_s} are not in this order")
    requested = _Request.of(record, rows)
    names, slots = ((), 0) if requested.is_cray else _where(record, rows)
    nodes = (
        len(names)
        or (0 if requested.is_cray else _count(record, "unique_node_count", rows))
        or requested.nodes
    )
    # Torque's and Cobalt's own default is ncpus=1, whatever the nodes are.
    listed_slots = 0 if requested.is_cray else _count(record, "total_execution_slots", rows)
    procs = slots or listed_slots or max(requested.procs, nodes)
    used_s = _used_s(record, rows)
    if (
        start_s is not None
        and used_s >= 0
        and end_s - start_s - used_s > max(_PAUSE_S, _PAUSE_SHARE * used_s)
    ):
        rows.remark(PAUSED)
    if slots and requested.procs not in {0, slots}:
        rows.remark("exec_host has another number of processors than was asked for, and counts")
    found, (_, dot, server) = _NUMBER.match(job), job.partition(".")
    if dot:
        rows.remark_on_source("server", server)
    rows.add_run(
        (job, created_s, record.get("user")),
        -1 if start_s is None else start_s,
        end_s,
        number=int(found[0]) if found else -1,
        submit_s=submit_s,
        wait_s=-1 if start_s is None else seconds_between(submit_s, start_s),
        run_s=-1 if start_s is None else seconds_between(start_s, end_s),
        allocated_procs=procs or nodes or -1,
        requested_procs=procs or nodes or -1,
        nodes=nodes or -1,
        requested_s=requested.limit_s,
        used_memory_kb=_memory_kb(record, procs),
        requested_memory_kb=_requested_kb(record, procs, rows),
        gpus=_gpus(record) or requested.gpus or -1,
        host=rows.host_of(names),
        status=rows.known(_status, record["Exit_status"], "Exit_status", -1)
        if "Exit_status" in record
        else -1,
        user=rows.users.number(record.get("user")),
        group=rows.groups.number(record.get("group")),
        queue=rows.queues.number(record.get("queue")),
    )


def _eligible_s(record: dict[str, str], created_s: float, start_s: float | None, rows: Rows) -> float:
    """When a job might first have run. One that ran again became eligible anew, and waited since it was created."""
    if start_s is None or record.get("run_count", "1") not in {"0", "1"}:
        return created_s
    eligible_s = rows.known(unix_time_s, record.get("etime", "0"), "etime", created_s)
    return eligible_s if created_s <= eligible_s <= start_s else created_s


def _used_s(record: dict[str, str], rows: Rows) -> int:
    name = "resources_used.walltime"
    return rows.known(_limit_s, record[name], name, -1) if name in record else -1


def _count(record: dict[str, str], name: str, rows: Rows) -> int:
    return rows.known(whole, record[name], name, 0) if name in record else 0


@dataclass(frozen=True, slots=True)
class _Request:
    """What a job asked for; 0 where that is unknown, the limit -1."""

    nodes: int
    procs: int
    gpus: int
    limit_s: int
    is_cray: bool
    """It said processes of a Cray's compute nodes, which are not among its hosts."""

    @classmethod
    def of(cls, record: dict[str, str], rows: Rows) -> _Request:
        """Of a record. What is not understood in it is unknown."""

        def value(name: str, read: Callable[[str, str], _Value], unknown: _Value) -> _Value:
            return rows.known(read, record[name].strip("\"'"), name, unknown) if name in record else unknown

        limit_s = value("Resource_List.walltime", _limit_s, -1)
        if width := value("Resource_List.mppwidth", whole, 0):
            depth, each = (value(f"Resource_List.{name}", whole, 0) for name in ("mppdepth", "mppnppn"))
            nodes = -(-width // each) if each else 0
            return cls(nodes=nodes, procs=width * (depth or 1), gpus=0, limit_s=limit_s, is_cray=True)
        # Some batch systems say in nodect what others say in nodes.
        where = "nodect" if ":" in record.get("Resource_List.nodect", "") else "nodes"
        if "Resource_List.nodes" not in record and "Resource_List.select" in record:
            nodes, procs, gpus = value("Resource_List.select", _selected, (0, 0, 0))
        else:
            nodes, procs, gpus = value(f"Resource_List.{where}", _requested_nodes, (0, 0, 0))
        return cls(
            nodes=nodes or (value("Resource_List.nodect", whole, 0) if where == "nodes" else 0),
            procs=procs or value("Resource_List.ncpus", whole, 0),
            gpus=value("Resource_List.ngpus", whole, 0) or gpus,
            limit_s=limit_s,
            is_cray=False,
        )


def _requested_nodes(text: str, name: str) -> tuple[int, int, int]:
    """Nodes, processors and GPUs of Torque's `2:ppn=28:gpus=2:bigmem+n7:ppn=4#shared`."""
    nodes = procs = gpus = 0
    for part in text.partition("#")[0].split("+"):
        first, *properties = part.split(":")
        each = dict(_WORD.findall(" ".join(properties)))
        count = int(first) if first.isdecimal() else 1  # else the name of a node, or of a property
        nodes += count
        procs += count * whole(each.get("ppn", "1"), f"ppn of {name}")
        gpus += count * whole(each.get("gpus", each.get("gpu", "0")), f"gpus of {name}")
    return nodes, procs, gpus


def _selected(text: str, name: str) -> tuple[int, int, int]:
    """Chunks, processors and GPUs of PBS Pro's `2:ncpus=28:ngpus=4+1:ncpus=4`."""
    chunks = procs = gpus = 0
    for part in text.split("+"):
        first, *resources = part.split(":")
        is_number = first.isdecimal()
        each = dict(_WORD.findall(" ".join(resources if is_number else [first, *resources])))
        count = int(first) if is_number else 1
        chunks += count
        procs += count * whole(each.get("ncpus", "1"), f"ncpus of {name}")
        gpus += count * whole(each.get("ngpus", "0"), f"ngpus of {name}")
    return chunks, procs, gpus


def _limit_s(text: str, name: str) -> int:
    """Seconds of `[[[DD:]HH:]MM:]SS`."""
    days, _, clock = text.partition(":")
    if text.count(":") == _DAYS_TO_SECONDS and days.isdecimal():
        return 86_400 * int(days) + span_s(clock, name)
    return span_s(text, name)


def _where(record: dict[str, str], rows: Rows) -> tuple[Collection[str], int]:
    """The nodes that a job ran on and how many slots it had there, 0 if that is unsaid."""
    if "exec_host" in record or "exec_vnode" not in record:
        return _hosts(record.get("exec_host", ""), rows)
    parts = _VNODE.findall(record["exec_vnode"])
    names = {name.partition("[")[0] for name, _ in parts}
    return names, sum(int(count) for _, has in parts for count in _VNODE_CPUS.findall(has))


def _hosts(text: str, rows: Rows) -> tuple[set[str], int]:
    """The hosts and the number of slots of `n02/0-1+n01/0,3` (Torque) or `p01/0*2+p02/0*2` (OpenPBS)."""
    hosts: set[str] = set()
    slots = 0
    try:
        for host, where in _EXEC_HOST.findall(text):
            hosts.add(host)
            _, star, times = where.partition("*")
            if star:
                slots += whole(times, "exec_host")
                continue
            for part in where.split(","):
                low, _, high = part.partition("-")
                slots += whole(high or low, "exec_host") - whole(low, "exec_host") + 1
    except Malformed as fault:
        rows.doubt("exec_host", fault)
        return set(), 0
    return hosts, slots


def _gpus(record: dict[str, str]) -> int:
    """GPUs that the job had: Torque lists each (`n01-gpu/0+n01-gpu/1`), OpenPBS those of each chunk; 0 if unsaid."""
    if record.get("exec_gpus"):
        return len(record["exec_gpus"].split("+"))
    return sum(int(count) for count in _VNODE_GPUS.findall(record.get("exec_vnode", "")))


def _memory_kb(record: dict[str, str], procs: int) -> int:
    """Kilobytes a processor, as SWF counts them."""
    try:
        of_all = _size_bytes(record.get("resources_used.mem", ""), "resources_used.mem")
    except Malformed:  # many versions write none, or what they could not measure
        return -1
    return of_all // 1024 // max(procs, 1)


def _requested_kb(record: dict[str, str], procs: int, rows: Rows) -> int:
    """Kilobytes a processor that the job was given, else asked for; -1 if that is unsaid."""
    if given := _VNODE_MEMORY.findall(record.get("exec_vnode", "")):
        of_all = sum(rows.known(_size_bytes, each, "mem of exec_vnode", 0) for each in given)
    elif "Resource_List.mem" in record:
        of_all = rows.known(_size_bytes, record["Resource_List.mem"], "Resource_List.mem", 0)
    elif "Resource_List.pmem" in record:
        of_all = procs * rows.known(_size_bytes, record["Resource_List.pmem"], "Resource_List.pmem", 0)
    else:
        return -1
    return round(of_all / 1024 / max(procs, 1)) or -1


def _size_bytes(text: str, name: str) -> int:
    """Of `4gb`, `512kw` or `1024`. Raises Malformed naming the field."""
    match = _SIZE.fullmatch(text.strip("\"'"))
    if match is None:
        raise Malformed(f"{name} is {text[:40]!r}, not memory such as 4gb")
    found = int(match[1]) * _BYTES[match[2].lower()] * (_A_WORD if match[3].lower() == "w" else 1)
    if found > _MOST_BYTES:
        raise Malformed(f"{name} is {text[:40]!r}, more than any machine has")
    return found


def _status(text: str, name: str) -> int:
    """SWF's: 1 completed, 0 failed, 5 cancelled."""
    try:
        code = int(text)
    except ValueError:
        raise Malformed(f"{name} is {text[:40]!r}, not a whole number") from None
    return {0: 1, _DELETED: 5}.get(code, 0)
