"""HTCondor's history of jobs: `condor_history -json`, `-jsonl` or `-long`, and the files of the history itself.

    condor_history -json -attributes ClusterId,ProcId,QDate,JobStartDate,JobCurrentStartDate,CompletionDate,\
EnteredCurrentStatus,JobStatus,LastJobStatus,NumJobStarts,RemoteWallClockTime,LastRemoteWallClockTime,LastVacateTime,\
JobUniverse,RequestCpus,CpusProvisioned,RequestGPUs,AssignedGPUs,MaxHosts,RequestMemory,AllowedJobDuration,\
LastRemoteHost,Owner,AcctGroup,ExitCode > condor.json

Names and meaning: HTCondor manual, Job ClassAd Attributes. A job that was started again is its last run
(`JobCurrentStartDate`), submitted when it first was. It ends at `CompletionDate`, or when it was removed if it ran
until then (`LastJobStatus`); one that was held or evicted before that ran for its time on machines. Machines are cut
into slots, so processors, GPUs and the machine are known and whole nodes are not: a study wants `--shared-nodes`.
Jobs of the scheduler and local universes run on the submit host, those of the grid universe in other systems: they are
passed over, as are ads of job sets. Several records of one job (pages
that overlap, or a record a run) are its last run.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

from emulator.workload.cloud_rows import beginning
from emulator.workload.files import read_json_documents
from emulator.workload.rows import (
    Faults,
    Malformed,
    Rows,
    first_line,
    in_years,
    json_line,
    lines_of,
    unix_time_s,
    without_nuls,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from emulator.workload.swf import SwfLog

_LINE = re.compile(r"([A-Za-z_][\w.]*) *= *(.*)")
_BANNERS = ("*** ", "-- ")
"""A line of the history's own files, and one that names the schedd whose jobs follow."""
_JSON = re.compile(r'"(?:QDate|JobStartDate)"\s*:', re.IGNORECASE)
_PARALLEL = 11
_ELSEWHERE = {7: "scheduler", 9: "grid", 12: "local"}
"""`JobUniverse`: those that have no machine of the pool."""
_JOB_TYPES = {None, "", "Job", "(unknown type)"}
_RUNNING, _REMOVED, _COMPLETED, _TRANSFERRING = 2, 3, 4, 6
"""`JobStatus`, and the one before it: `LastJobStatus`."""
_NUMBER = re.compile(r"\d{1,18}(\.\d*)?([eE][-+]?\d{1,2})?")
SUSPENDED = "was suspended, and that time counts as run"
NO_LAST_START = "ran more than once, and the record does not say when last: taken to run since it first began"
_MOST_PROCESSES = 10**6
"""Of a cluster: job 12.3 has the number 12000003."""


class CondorFormat:
    """The trace format `condor`."""

    name = "condor"

    def can_read(self, path: Path) -> bool:
        """True if the file begins with job ClassAds, as JSON or as lines `Name = value`."""
        begin = beginning(path)
        if begin.startswith(("[", "{")):
            return _JSON.search(begin) is not None
        return (
            bool(_LINE.match(begin))
            and re.search(r"^(QDate|ClusterId) = \d+$", begin, re.MULTILINE | re.IGNORECASE) is not None
        )

    def hint(self, path: Path) -> str | None:
        """What is wrong with a file that HTCondor may have written, None if it looks like none."""
        line = first_line(path)
        if {"ID", "OWNER", "SUBMITTED", "RUN_TIME"} <= set(line.split()):
            return "if condor_history wrote it: write it again with -json, its table has no times that can be read"
        if re.match(r"\d{3} \(\d+\.\d+\.\d+\) ", line):
            return "a log of jobs' events, as submit files name it; take condor_history -json"
        if line.startswith("-- Schedd:") or {"OWNER", "BATCH_NAME"} <= set(line.split()):
            return "condor_q shows jobs that have not ended; take condor_history -json"
        if line.startswith("<") and re.search("<(!DOCTYPE )?classads", beginning(path)):
            return "if condor_history wrote it: write it again with -json in place of -xml"
        return None

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """All jobs. Raises TraceError naming file and job."""
        rows, faults = Rows(), Faults(lenient)
        for place, ad in _ads(path):
            try:
                _take(ad, rows)
            except Malformed as fault:
                faults.add(path, place, fault)
        return rows.log(
            path,
            "from HTCondor's history; times are Unix times",
            faults,
            size_from="`condor_status -compact` lists the machines",
        )


def _ads(path: Path) -> Iterator[tuple[int | str, Any]]:
    """Each job's attributes, with the line or the name of the job."""
    begin = beginning(path)
    if begin.startswith("{") and _is_json(begin.partition("\n")[0]):
        for number, line in lines_of(path):
            if line.strip():
                yield number, line
    elif begin.startswith(("[", "{")):
        # One behind the other: the answers of several schedds.
        documents = (each if isinstance(each, list) else [each] for each in read_json_documents(path))
        for at, ad in enumerate(chain.from_iterable(documents), 1):
            yield _job_name(ad, at), ad
    else:
        yield from _long(path)


def _is_json(line: str) -> bool:
    """Whether a line is a whole object."""
    try:
        json_line(line)
    except Malformed:
        return False
    return True


def _long(path: Path) -> Iterator[tuple[int, dict[str, str] | Malformed]]:
    """Jobs between empty lines (`-long`), or before lines of three stars (the history's own files)."""
    ad: dict[str, str] = {}
    odd: Malformed | None = None
    begin = 0
    for number, line in lines_of(path):
        if not line.strip() or line.startswith(_BANNERS):
            if begin:
                yield begin, odd or ad
            ad, odd, begin = {}, None, 0
            continue
        begin = begin or number
        try:
            name, text = _attribute(line)
            ad[name] = text
        except Malformed as fault:
            odd = odd or Malformed(f"{fault} (line {number})")
    if begin:
        yield begin, odd or ad


def _attribute(line: str) -> tuple[str, str]:
    match = _LINE.fullmatch(without_nuls(line))
    if match is None:
        raise Malformed(f"{line[:40]!r} is no attribute with its value")
    return match[1], match[2].strip().strip('"')


def _take(record: Any, rows: Rows) -> None:
    if isinstance(record, Malformed):
        raise record
    ad = json_line(record) if isinstance(record, str) else record
    if not isinstance(ad, dict):
        raise Malformed(f"not a job: {str(ad)[:40]}")
    ad = {name.lower(): value for name, value in ad.items()}  # HTCondor does not tell cases apart
    for kind, is_job in (
        (f"{_text(ad, 'MyType')} ad", _text(ad, "MyType") in _JOB_TYPES),
        (f"{_text(ad, 'EpochAdType')} ad", _text(ad, "EpochAdType") in {None, "", "EPOCH"}),
    ):
        if not is_job:
            rows.pass_over(kind)
            return
    universe = _known(ad, "JobUniverse")
    if universe in _ELSEWHERE:
        rows.pass_over(f"job of the {_ELSEWHERE[universe]} universe")
        return
    submit_s = unix_time_s(_text(ad, "QDate"), "QDate")
    start_s = _known(ad, "JobCurrentStartDate") or _known(ad, "JobStartDate")
    status = _known(ad, "JobStatus")
    # Newer versions say when a job was removed as its completion, too.
    end_s = _removed_s(ad, start_s) if status == _REMOVED else _completed_s(ad, status)
    if not _known(ad, "JobCurrentStartDate") and _known(ad, "NumJobStarts") > 1:
        last_s = _known(ad, "LastRemoteWallClockTime")
        if last_s and end_s:
            start_s = end_s - last_s
        else:
            rows.remark(NO_LAST_START)
    in_years(start_s, "JobCurrentStartDate")
    in_years(end_s, "CompletionDate")
    if start_s and (start_s < submit_s or (end_s and end_s < start_s)):
        raise Malformed(f"QDate {submit_s}, start {start_s} and end {end_s} are not in this order")
    if start_s and _known(ad, "CumulativeSuspensionTime"):
        rows.remark(SUSPENDED)
    hosts = max(_known(ad, "MaxHosts"), 1) if universe == _PARALLEL else 1
    requested = (_known(ad, "RequestCpus") or 1) * hosts
    procs = max((_known(ad, "CpusProvisioned") or 1) * hosts, requested)
    memory_mb = _known(ad, "RequestMemory")
    machine = (_text(ad, "LastRemoteHost") or "").rpartition("@")[2]
    owner = _text(ad, "Owner") or _text(ad, "User")
    named = (_text(ad, "GlobalJobId"), _text(ad, "ClusterId"), _text(ad, "ProcId"), submit_s, owner)
    has_number = "clusterid" in ad
    rows.add_run(
        named if has_number or "globaljobid" in ad else len(rows),
        start_s or -1,
        end_s or start_s,
        number=_known(ad, "ClusterId") * _MOST_PROCESSES + _known(ad, "ProcId") if has_number else -1,
        submit_s=submit_s,
        wait_s=start_s - submit_s if start_s else -1,
        run_s=end_s - start_s if start_s and end_s else -1,
        allocated_procs=procs,
        requested_procs=requested,
        gpus=_gpus(ad) * hosts or -1,
        host=rows.host_of({machine} if machine and hosts == 1 else ()),
        requested_s=_known(ad, "AllowedJobDuration") or _known(ad, "AllowedExecuteDuration") or -1,
        requested_memory_kb=memory_mb * 1024 * hosts // procs if memory_mb else -1,
        status=_status(ad, status),
        user=rows.users.number(owner),
        group=rows.groups.number(_text(ad, "AcctGroup")),
    )


def _completed_s(ad: dict[str, Any], status: int) -> int:
    return _known(ad, "CompletionDate") or (_known(ad, "EnteredCurrentStatus") if status == _COMPLETED else 0)


def _removed_s(ad: dict[str, Any], start_s: int) -> int:
    """When a job that was removed left its machine, 0 if that is unknown."""
    if not start_s:
        return 0
    removed_s = _known(ad, "EnteredCurrentStatus") or _known(ad, "CompletionDate")
    if _known(ad, "LastJobStatus") in {_RUNNING, _TRANSFERRING}:
        return removed_s
    # It was held or idle when it was removed. Its time on machines is that of all its runs, unless there was one.
    first_s, starts = _known(ad, "JobStartDate"), _known(ad, "NumJobStarts")
    is_first_run = starts == 1 or (not starts and first_s == start_s)
    for name in ("LastRemoteWallClockTime", *(["RemoteWallClockTime"] if is_first_run else [])):
        if _NUMBER.fullmatch(wall := _text(ad, name) or ""):
            end_s = start_s + round(float(wall))
            return min(end_s, removed_s) if removed_s else end_s
    vacated_s = _known(ad, "LastVacateTime")
    return vacated_s if vacated_s >= start_s else 0


def _text(ad: dict[str, Any], name: str) -> str | None:
    value = ad.get(name.lower())
    return None if value is None else str(value)


def _known(ad: dict[str, Any], name: str) -> int:
    """A whole number, 0 where it is unknown: not there, undefined, or an expression that was not evaluated.

    Reals are written as 1.600000000000000E+01.
    """
    text = _text(ad, name) or ""
    return (int(text) if text.isdecimal() else int(float(text))) if _NUMBER.fullmatch(text) else 0


def _gpus(ad: dict[str, Any]) -> int:
    """GPUs on each machine: those it was given (`CUDA0,CUDA1`), else as many as it asked for."""
    assigned = _text(ad, "AssignedGPUs")
    if assigned and assigned != "undefined":
        return len(assigned.split(","))
    return _known(ad, "GPUsProvisioned") or _known(ad, "RequestGPUs")


def _job_name(ad: Any, place: int) -> str:
    known = isinstance(ad, dict) and "ClusterId" in ad
    return f"job {ad['ClusterId']}.{ad.get('ProcId', 0)}" if known else f"job {place}"


def _status(ad: dict[str, Any], status: int) -> int:
    """SWF's: 1 completed, 0 failed, 5 cancelled, -1 not ended."""
    if status == _REMOVED:
        return 5
    if status != _COMPLETED:
        return -1
    by_signal = str(_text(ad, "ExitBySignal")).lower() == "true"
    return 1 if _text(ad, "ExitCode") in {None, "0"} and not by_signal else 0
