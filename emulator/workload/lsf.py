"""Accounting files of LSF: `LSB_SHAREDIR/CLUSTER/logdir/lsb.acct`, and the archived `lsb.acct.1`, `lsb.acct.2`, ...

A line a finished job, `"JOB_FINISH" "10.1" TIME JOBID ...`: fields between blanks, strings in quotation marks that are
doubled within. Their order is in lsb.acct(5) (LSF 10.1 reference). A job ends when its record was written. Nodes are
the hosts that it ran on, processors its slots, GPUs what its resource requirement reserves on each host (by `bsub -gpu`
or `-R "rusage[ngpus_excl_p=2]"`). The estimate is the run limit, which newer versions write, else the deadline. A job
that was requeued has a record a run; it is its last one, submitted when the first was. One with a begin time
(`bsub -b`) is submitted then. The run time is without the time in which a job was suspended, where the record has
`runTime` (LSF 9.1.3 and newer).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from emulator.workload.cloud_rows import beginning
from emulator.workload.rows import (
    SUSPENDED,
    UNKNOWN_SUSPENSION,
    Malformed,
    count_or_0,
    files_of,
    first_line,
    read_records,
    unix_time_s,
    whole,
)

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.workload.rows import Rows
    from emulator.workload.swf import SwfLog

_FILE = re.compile(r"lsb\.acct(\.\d+)?(\.gz|\.xz)?")
_FIELD = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
_FINISH = "JOB_FINISH"
_BEGIN = re.compile(rf'"({_FINISH}|EVENT_ADRSV_FINISH|JOB_RESIZE)" "')
_ANY = re.compile(r'"([A-Z][A-Z0-9_]+)" "\d')
"""A record of any kind: versions have added some."""
_FIXED = (
    "type", "version", "eventTime", "jobId", "userId", "options", "numProcessors", "submitTime", "beginTime",
    "termTime", "startTime", "userName", "queue", "resReq", "dependCond", "preExecCmd", "fromHost", "cwd", "inFile",
    "outFile", "errFile", "jobFile",
)  # fmt: skip
_AFTER_USAGE = (
    "mailUser", "projectName", "exitStatus", "maxNumProcessors", "loginShell", "timeEvent", "idx", "maxRMem",
    "maxRSwap", "inFileSpool", "commandSpool", "rsvId", "sla", "exceptMask", "additionalInfo", "exitInfo",
    "warningAction", "warningTimePeriod", "chargedSAAP", "licenseProject", "app", "postExecCmd", "runtimeEstimation",
    "jobGroupName", "requeueEvalues", "options2", "resizeNotifyCmd", "lastResizeTime", "rsvId2", "jobDescription",
)  # fmt: skip
"""After the 19 numbers of resource usage. Older versions end earlier."""
_AFTER_HOSTS = (
    "runLimit", "options3", "avgMem", "effectiveResReq", "srcCluster", "srcJobId", "dstCluster", "dstJobId",
    "forwardTime", "flow_id",
)  # fmt: skip
"""After the usage of each host: the order of real records. lsb.acct(5) lists options3 before the run limit."""
_LONGEST_STILL_S = 60
"""Seconds that a job may need to begin and to end. One that ran for less of its time than that was suspended."""
_FEWEST_AFTER = _AFTER_USAGE.index("idx") + 1
"""The oldest versions write so many."""
_USAGE = 19
_HOST_USAGE = 6
_DONE = 64
"""`jStatus`: 64 done, 32 exited."""
_KILLED = {8, 9, 14, 15}
"""`exitInfo`, TERM_*: killed by its owner or an administrator, with force or without."""
_RUSAGE = re.compile(r"rusage\[([^\]]*)\]")
_NGPUS = re.compile(r"\bngpus(?:_physical|_shared|_excl_[tp])?=(\d{1,9})(?:\.\d*)?(?:/(host|task|job))?")
_REAL = re.compile(r"[-+]?[\d.]+([eE][-+]?\d+)?")
_SLOTS = re.compile(r"(\d{1,9})\*(.+)")
OTHER_SLOTS = "had another number of slots than it asked for, and what it had counts"
_NO_LIMIT = 2**31 - 1
"""LSF's INFINIT_INT."""


class LsfFormat:
    """The trace format `lsf`: one accounting file, or the folder of them."""

    name = "lsf"
    reads_folders = True

    def can_read(self, path: Path) -> bool:
        """True if the (first) file begins with an accounting record."""
        files = files_of(path, _FILE)
        return bool(files) and _BEGIN.match(first_line(files[0], comment="#")) is not None

    def hint(self, path: Path) -> str | None:
        """What is wrong with a file that LSF may have written, None if it looks like none."""
        line = first_line(path, comment="#")
        if line.startswith("Accounting information about jobs that are"):
            return (
                "bacct prints no years; take the file that it reads, LSB_SHAREDIR/CLUSTER/logdir/lsb.acct"
                " (bacct -f names another)"
            )
        if re.match(r'"JOB_(NEW|START|STATUS|EXECUTE|ACCEPT)" "', line):
            return "lsb.events has jobs that have not ended; take lsb.acct beside it"
        if re.match(r"Job <\d+(\[\d+\])?>, ", line):
            return "bhist and bjobs -l are for reading; take LSF's accounting file lsb.acct"
        if {"JOBID", "FROM_HOST"} <= set(line.split()) or '"COMMAND":"bjobs"' in beginning(path).replace(
            " ", ""
        ):
            return "bjobs shows jobs of the last hour; take LSF's accounting file lsb.acct"
        return None

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """All jobs that ended. Raises TraceError naming file and line."""
        return read_records(
            path,
            names=_FILE,
            file_names="files named lsb.acct, lsb.acct.1, ...",
            take=_take,
            size_from="`bhosts` lists the hosts",
            note="from LSF accounting records; times are Unix times",
            lenient=lenient,
            comment="#",
        )


def _take(line: str, rows: Rows) -> None:
    match = _ANY.match(line)
    if match is None:
        raise Malformed('not an accounting record ("JOB_FINISH" "10.1" TIME JOBID ...)')
    if match[1] != _FINISH:
        rows.pass_over(f"{match[1]} record")
        return
    found = _FIELD.findall(line)
    if any('"' in word for _, word in found):
        raise Malformed("the record is cut off within a text, or a quotation mark in one is not doubled")
    record, hosts = _named([text or word for text, word in found])
    submit_s, start_s, end_s = (
        unix_time_s(record.get(name), name) for name in ("submitTime", "startTime", "eventTime")
    )
    ran = start_s > 0
    if not submit_s <= (start_s if ran else submit_s) <= end_s:
        raise Malformed(
            f"submitTime {submit_s}, startTime {start_s} and eventTime {end_s} are not in this order"
        )
    # As LSF itself numbers an array's elements.
    number = whole(record["jobId"], "jobId") | count_or_0(record.get("idx")) << 32
    job = number, submit_s, record["userName"]
    if ran and submit_s < (begin_s := unix_time_s(record.get("beginTime"), "beginTime")) <= start_s:
        submit_s = begin_s
    slots = [_slots(host) for host in hosts]
    nodes = {host for _, host in slots}
    requested = rows.known(whole, record["numProcessors"], "numProcessors", 0)
    procs = sum(count for count, _ in slots) or requested
    if nodes and requested not in {0, procs}:
        rows.remark(OTHER_SLOTS)
    limit_s = count_or_0(record.get("runLimit")) or (
        count_or_0(record.get("termTime")) - start_s if ran else 0
    )
    memory_kb = count_or_0(record.get("maxRMem"))
    rows.add_run(
        job,
        start_s if ran else -1,
        end_s,
        number=number,
        submit_s=submit_s,
        wait_s=start_s - submit_s if ran else -1,
        run_s=_run_s(record, end_s - start_s, rows) if ran else -1,
        allocated_procs=procs or -1,
        requested_procs=requested or procs or -1,
        nodes=len(nodes) or -1,
        host=rows.host_of(nodes),
        gpus=_gpus(record, hosts=len(nodes), slots=procs) or -1,
        reservation=rows.reservations.number(record.get("rsvId")),
        requested_s=limit_s if 0 < limit_s < _NO_LIMIT else -1,
        used_memory_kb=memory_kb // procs if memory_kb > 0 and procs else -1,
        status=_status(record),
        user=rows.users.number(record["userName"]),
        group=rows.groups.number(record.get("projectName")),
        queue=rows.queues.number(record["queue"]),
    )


def _run_s(record: dict[str, str], lasted_s: float, rows: Rows) -> float:
    """Of a job from its start to its end: how long it ran, without the time in which it was suspended."""
    ran_s = count_or_0(record.get("runTime"))
    if not ran_s:
        rows.remark(UNKNOWN_SUSPENSION)
    elif ran_s < lasted_s - _LONGEST_STILL_S:
        rows.remark(SUSPENDED)
        return ran_s
    return lasted_s


def _named(fields: list[str]) -> tuple[dict[str, str], list[str]]:
    """The fields by their names, and the hosts that the job ran on."""
    record = dict(zip(_FIXED, fields, strict=False))
    at = len(_FIXED)
    at += 1 + _number_at(fields, at, "numAskedHosts")
    hosts_end = at + 1 + _number_at(fields, at, "numExHosts")
    hosts = fields[at + 1 : hosts_end]
    record["jStatus"] = _text_at(fields, hosts_end, "jStatus")
    at = hosts_end + 4  # status, host factor, the job's name and its command
    for name, text in zip(range(1, 1 + _USAGE), fields[at:], strict=False):
        if not _REAL.fullmatch(text):
            raise Malformed(f"number {name} of the resource usage is {text[:40]!r}, so fields are shifted")
    at += _USAGE
    _text_at(fields, at + _FEWEST_AFTER - 1, "idx")
    record |= dict(zip(_AFTER_USAGE, fields[at:], strict=False))
    at += len(_AFTER_USAGE)
    if at < len(fields):  # pairs of submitEXT, usage of each host, then the run limit in seconds
        at += 1 + 2 * _number_at(fields, at, "the number of submitEXT")
        if at < len(fields):
            at += 1 + _HOST_USAGE * _number_at(fields, at, "numHostRusage")
            record |= dict(zip(_AFTER_HOSTS, fields[at:], strict=False))
            at += len(_AFTER_HOSTS)
            # Before the output folder LSF 10 has two times (acJobWaitTime, totalProvisionTime), LSF 9 has none.
            at += 3 if at < len(fields) and fields[at].isdecimal() else 1
            record |= dict(zip(("runTime",), fields[at:], strict=False))
    return record, hosts


def _text_at(fields: list[str], at: int, name: str) -> str:
    if at >= len(fields):
        raise Malformed(f"the record ends before {name}")
    return fields[at]


def _number_at(fields: list[str], at: int, name: str) -> int:
    return whole(_text_at(fields, at, name), name)


def _gpus(record: dict[str, str], *, hosts: int, slots: int) -> int:
    """GPUs of the job; 0 if it asked for none. Of requirements that differ from host to host the most, on each."""
    reserved = _RUSAGE.findall(record.get("effectiveResReq") or record.get("resReq", ""))
    times = {"": hosts, "host": hosts, "task": slots if hosts else 0, "job": min(hosts, 1)}
    return max((int(count) * times[of] for text in reserved for count, of in _NGPUS.findall(text)), default=0)


def _slots(host: str) -> tuple[int, str]:
    """How many slots on which host: `8*host` is the short form of eight times `host`."""
    match = _SLOTS.fullmatch(host)
    return (int(match[1]), match[2]) if match else (1, host)


def _status(record: dict[str, str]) -> int:
    """SWF's: 1 completed, 0 failed, 5 cancelled."""
    if whole(record["jStatus"], "jStatus") == _DONE:
        return 1
    return 5 if count_or_0(record.get("exitInfo")) in _KILLED else 0
