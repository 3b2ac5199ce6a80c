"""Slurm's accounting: the output of `sacct --parsable2` with its header line.

    SLURM_TIME_FORMAT=%s sacct -a -X -D --parsable2 --noconvert -S START -E END --format=JobIDRaw,Submit,Start,
    End,ElapsedRaw,TimelimitRaw,ReqNodes,AllocNodes,NNodes,ReqCPUS,AllocCPUS,NCPUS,State,User,Group,Partition

Rows are jobs; rows of job steps are passed over. A job that was requeued or resized has several rows under one
number: a requeued job is its last run, submitted when it first was; a resized one keeps the size that it was
first given. Times without a time zone are taken to be UTC, so a day's length changes with the clocks: `%s`
avoids that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from emulator.workload.files import TraceError
from emulator.workload.rows import Faults, Malformed, Rows, first_line, lines_of, span_s, whole

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.workload.swf import SwfLog

_NUMBER = re.compile(r"\d+")
_UNSAID = {"", "Unknown", "None", "UNLIMITED", "Partition_Limit", "None assigned", "INVALID"}
_NOT_ENDED = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "COMPLETING"}
_STATUS = {"COMPLETED": 1, "CANCELLED": 5} | dict.fromkeys(_NOT_ENDED, -1)
"""SWF's numbers for Slurm's states; all others are 0, failed."""
_NOT_THE_END = {"REQUEUED", "RESIZING"}
_FREE_TEXT = {"SubmitLine", "Comment", "JobName", "AdminComment", "SystemComment", "WorkDir"}
_NEEDED = (
    ("JobIDRaw", "JobID"),
    ("State",),
    ("Submit",),
    ("Start",),
    ("ElapsedRaw", "Elapsed", "End"),
    ("AllocNodes", "NNodes", "ReqNodes", "AllocCPUS", "NCPUS", "ReqCPUS"),
)


@dataclass(frozen=True, slots=True)
class _First:
    """What the first row of a requeued or resized job said."""

    submit_s: int
    nodes: int
    procs: int
    resized: bool


class SacctFormat:
    """The trace format `sacct`. With `steps`, the rows of job steps are kept as jobs of their own."""

    name = "sacct"

    def __init__(self, *, steps: bool = False) -> None:
        self.steps = steps

    def can_read(self, path: Path) -> bool:
        """True if the first line names columns of sacct."""
        names = first_line(path).split("|")
        return "State" in names and ("JobID" in names or "JobIDRaw" in names)

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """All jobs. Raises TraceError naming file and line, and for output that lacks a needed column."""
        lines = ((number, line) for number, line in lines_of(path) if line.strip())
        _, heading = next(lines, (1, ""))
        names = heading.split("|")
        for choice in _NEEDED:
            if not set(choice) & set(names):
                raise TraceError(
                    f"{path}:1: sacct's output has no column {choice[0]}; run it with --format=JobIDRaw,Submit,"
                    "Start,End,ElapsedRaw,TimelimitRaw,NNodes,NCPUS,State,User,Group,Partition"
                )
        table = _Table(names, steps=self.steps)
        faults = Faults(lenient)
        for number, line in lines:
            try:
                table.take(line)
            except Malformed as fault:
                faults.add(path, number, fault)
        return table.rows.log(path, "from sacct; a requeued job is its last run", faults)


class _Table:
    def __init__(self, names: list[str], *, steps: bool) -> None:
        self.names = names
        self.steps = steps
        self.rows = Rows()
        self.unfinished: dict[str, _First] = {}

    def take(self, line: str) -> None:
        """One row."""
        # Free text may contain the separator; as the last column it can be told from the others.
        cuts = len(self.names) - 1 if self.names[-1] in _FREE_TEXT else -1
        fields = line.split("|", cuts)
        if len(fields) != len(self.names):
            raise Malformed(
                f"{len(fields)} fields where the header has {len(self.names)} (a '|' in a name? put JobName "
                "or SubmitLine last, or leave it out)"
            )
        said = {name: text for name, text in zip(self.names, fields, strict=True) if text not in _UNSAID}
        job = said.get("JobIDRaw") or said.get("JobID") or ""
        found = _NUMBER.match(job)
        if not found:
            raise Malformed(f"the job's number is {job[:40]!r}")
        if "." in job and not self.steps:
            return
        self._job(job, int(found[0]), said)

    def _job(self, job: str, number: int, said: dict[str, str]) -> None:
        state = said.get("State", "").split(" ")[0].rstrip("+")
        if not state:
            raise Malformed("State is missing")
        submit_s, start_s = _time_s(said, "Submit"), _time_s(said, "Start")
        if submit_s is None:
            raise Malformed("Submit is missing")
        nodes = _count(said, ("AllocNodes", "NNodes", "ReqNodes"))
        procs = _count(said, ("AllocCPUS", "NCPUS", "ReqCPUS"))
        first = self.unfinished.pop(job, None)
        if first is not None:
            submit_s = min(submit_s, first.submit_s)
            if first.resized:
                nodes, procs = first.nodes, first.procs
        if state in _NOT_THE_END:
            self.unfinished[job] = _First(submit_s, nodes, procs, state == "RESIZING")
            return
        run_s = -1 if state in _NOT_ENDED or start_s is None else _run_s(said, start_s)
        if start_s is not None and start_s < submit_s:
            raise Malformed(f"Start {start_s} is before Submit {submit_s}")
        size = procs if procs > 0 else nodes
        self.rows.add(
            number=number,
            submit_s=submit_s,
            wait_s=-1 if start_s is None else start_s - submit_s,
            run_s=run_s,
            allocated_procs=size,
            requested_procs=size,
            nodes=nodes,
            requested_s=_limit_s(said),
            status=_STATUS.get(state, 0),
            user=self.rows.users.number(said.get("User") or said.get("UID")),
            group=self.rows.groups.number(said.get("Group") or said.get("GID") or said.get("Account")),
            queue=self.rows.queues.number(said.get("Partition")),
        )


def _time_s(said: dict[str, str], name: str) -> int | None:
    text = said.get(name)
    if text is None:
        return None
    if text.isdecimal():
        return whole(text, name)
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise Malformed(f"{name} is {text[:40]!r}, not a time such as 2026-11-21T01:23:44") from None


def _run_s(said: dict[str, str], start_s: int) -> int:
    """What sacct calls elapsed, else end - start; -1 if it says neither."""
    if "ElapsedRaw" in said:
        return whole(said["ElapsedRaw"], "ElapsedRaw")
    if "Elapsed" in said:
        return span_s(said["Elapsed"], "Elapsed")
    end_s = _time_s(said, "End")
    if end_s is None:
        return -1
    if end_s < start_s:
        raise Malformed(f"End {end_s} is before Start {start_s}")
    return end_s - start_s


def _limit_s(said: dict[str, str]) -> int:
    if "TimelimitRaw" in said:  # in minutes
        return 60 * whole(said["TimelimitRaw"], "TimelimitRaw")
    return span_s(said["Timelimit"], "Timelimit") if "Timelimit" in said else -1


def _count(said: dict[str, str], names: tuple[str, ...]) -> int:
    """The first of these above 0, -1 if none. A job that was cancelled in the queue has 0 allocated."""
    return next((count for name in names if name in said and (count := whole(said[name], name))), -1)
