"""What a row of Slurm's accounting says of a job, whatever form it came in (`sacct.py`, `sacct_json.py`).

A job that was requeued or resized has several rows under one number: a requeued job is its last run, submitted when
it first was; a resized one keeps the size that it was first given. The components of a heterogeneous job, which start
together, are one job where the number tells them (`5+0`, `5+1`). Time in which a job was suspended is not part of
`Elapsed`, nor of its run time here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from emulator.workload.rows import Malformed, Rows, span_s, whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from emulator.workload.rows import Faults
    from emulator.workload.swf import SwfLog

_NUMBER = re.compile(r"\d+")
_UNSAID = {"", "Unknown", "None", "UNLIMITED", "Partition_Limit", "None assigned", "INVALID"}
_NOT_ENDED = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "COMPLETING"}
_STATUS = {"COMPLETED": 1, "CANCELLED": 5} | dict.fromkeys(_NOT_ENDED, -1)
"""SWF's numbers for Slurm's states; all others are 0, failed."""
_GPUS = re.compile(r"(?:^|,)gres/gpu(:[^=,]+)?=(\d+)")
_GPUS_OF_A_NODE = re.compile(r"(?:^|,)(?:gres:)?gpu(?::[A-Za-z][^:,(]*)?(?::(\d+))?(?=[,(]|$)")
_SEVERAL = re.compile(r"[\[,]")
_MEMORY = re.compile(r"(?:^|,)mem=([^,]+)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
_KIB = {"K": 1, "": 1024, "M": 1024, "G": 1024**2, "T": 1024**3, "P": 1024**4}
"""Slurm counts memory in MiB where it names no unit."""
_NOT_THE_END = {"REQUEUED", "RESIZING"}
NEEDED = (
    ("JobIDRaw", "JobID"),
    ("State",),
    ("Submit",),
    ("Start",),
    ("ElapsedRaw", "Elapsed", "End"),
    ("AllocNodes", "NNodes", "ReqNodes", "AllocCPUS", "NCPUS", "ReqCPUS"),
)
"""One of each must be there."""


@dataclass(frozen=True, slots=True)
class _First:
    """What the first row of a requeued or resized job said."""

    number: int
    submit_s: int
    nodes: int
    procs: int
    resized: bool


class SacctJobs:
    """Takes rows in the order of the output. With `steps`, those of job steps are kept as jobs of their own."""

    def __init__(self, *, steps: bool = False) -> None:
        self.steps = steps
        self.rows = Rows()
        self._unfinished: dict[str, _First] = {}
        self._leaders: dict[str, int] = {}
        """Row of the first component of each heterogeneous job and of each of its runs."""

    def take(self, row: Mapping[str, str]) -> None:
        """One row by sacct's names. Raises Malformed naming the field."""
        said = {name: text for name, text in row.items() if text not in _UNSAID}
        job = said.get("JobIDRaw") or said.get("JobID") or ""
        found = _NUMBER.match(job)
        if not found:
            raise Malformed(f"the job's number is {job[:40]!r}")
        if "." in job and not self.steps:
            return
        self._job(job, int(found[0]), said)

    def log(self, path: Path, faults: Faults) -> SwfLog:
        """All jobs. One whose last row says that it was requeued is there without a run time."""
        for first in self._unfinished.values():
            self.rows.add(number=first.number, submit_s=first.submit_s, nodes=first.nodes)
        return self.rows.log(path, "from sacct; a requeued job is its last run", faults)

    def _job(self, job: str, number: int, said: dict[str, str]) -> None:
        state = said.get("State", "").split(" ")[0].rstrip("+")
        if not state:
            raise Malformed("State is missing")
        submit_s, start_s = _time_s(said, "Submit"), _time_s(said, "Start")
        if submit_s is None:
            raise Malformed("Submit is missing")
        nodes = _count(said, ("AllocNodes", "NNodes", "ReqNodes"))
        procs = _count(said, ("AllocCPUS", "NCPUS", "ReqCPUS"))
        first = self._unfinished.pop(job, None)
        if first is not None:
            submit_s = min(submit_s, first.submit_s)
            if first.resized:
                nodes, procs = first.nodes, first.procs
        if state in _NOT_THE_END:
            self._unfinished[job] = _First(number, submit_s, nodes, procs, state == "RESIZING")
            return
        run_s = -1 if state in _NOT_ENDED or start_s is None else _run_s(said, start_s)
        if start_s is not None and start_s < submit_s:
            raise Malformed(f"Start {start_s} is before Submit {submit_s}")
        size = procs if procs > 0 else nodes
        gpus = _gpus(said, nodes)
        if self._is_component(said.get("JobID", job), start_s, nodes, size, gpus):
            return
        self.rows.add(
            number=number,
            submit_s=submit_s,
            wait_s=-1 if start_s is None else start_s - submit_s,
            run_s=run_s,
            allocated_procs=size,
            requested_procs=size,
            nodes=nodes,
            requested_s=_limit_s(said),
            requested_memory_kb=_memory_kb(said, size),
            gpus=gpus,
            host=self._host(said),
            reservation=self.rows.reservations.number(said.get("Reservation")),
            status=_STATUS.get(state, 0),
            user=self.rows.users.number(said.get("User") or said.get("UID")),
            group=self.rows.groups.number(said.get("Group") or said.get("GID") or said.get("Account")),
            queue=self.rows.queues.number(said.get("Partition")),
        )

    def _is_component(self, job: str, start_s: int | None, nodes: int, size: int, gpus: int) -> bool:
        """Whether it is a further component of a heterogeneous job; then its size is added to the first one's."""
        leader, plus, component = job.partition("+")
        if not plus or not component.isdecimal():
            return False
        run = f"{leader} {start_s}"
        at = self._leaders.setdefault(run, len(self.rows))
        if at == len(self.rows):
            return False
        for name, more in (
            ("nodes", nodes), ("allocated_procs", size), ("requested_procs", size), ("gpus", gpus),
        ):  # fmt: skip
            column = self.rows.columns[name]
            column[at] = max(column[at], 0) + max(more, 0)
        self.rows.columns["host"][at] = -1
        return True

    def _host(self, said: dict[str, str]) -> int:
        names = said.get("NodeList", "")
        return -1 if _SEVERAL.search(names) else self.rows.hosts.number(names)


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


def _memory_kb(said: dict[str, str], procs: int) -> int:
    """Memory of each processor in KiB, by what was allocated, else asked for; -1 if it says neither."""
    texts = (match[1] for name in ("AllocTRES", "ReqTRES") if (match := _MEMORY.search(said.get(name, ""))))
    match = _SIZE.fullmatch(next(texts, ""))
    if match is None or procs <= 0:
        return -1
    return round(float(match[1]) * _KIB[match[2]] / procs)


def _gpus(said: dict[str, str], nodes: int) -> int:
    """GPUs of the job, by what was allocated, else asked for; -1 if it has none. Old versions say them of a node."""
    for name in ("AllocTRES", "ReqTRES"):
        found = _GPUS.findall(said.get(name, ""))
        if found:  # gres/gpu is the sum of all types, where it is there
            return max(
                sum(int(count) for kind, count in found if kind),
                *(int(count) for kind, count in found if not kind),
                0,
            )
    for name in ("AllocGRES", "ReqGRES"):
        of_a_node = [int(count or 1) for count in _GPUS_OF_A_NODE.findall(said.get(name, ""))]
        if of_a_node:
            return sum(of_a_node) * max(nodes, 1)
    return -1


def _count(said: dict[str, str], names: tuple[str, ...]) -> int:
    """The first of these above 0, -1 if none. A job that was cancelled in the queue has 0 allocated."""
    return next((count for name in names if name in said and (count := whole(said[name], name))), -1)
