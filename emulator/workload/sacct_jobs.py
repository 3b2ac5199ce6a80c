"""What a row of Slurm's accounting says of a job, whatever form it came in (`sacct.py`, `sacct_json.py`).

A job that was requeued, preempted, lost a node or was resized has several rows under one number (of one cluster and
user, each submitted before the one above it was a day over): it is its last run, submitted when it first was; a resized
one keeps the size that it was first given. A job that waited for another one or for its begin time comes when it was
eligible. Rows may come newest first. The components of a heterogeneous job, which start together, are one job where
the number tells them (`5+0`, `5+1`). Time in which a job was suspended is no part of `Elapsed`, nor of its run time
here: without that column it is `End` - `Start` - `Suspended`.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from emulator.workload.local_times import SACCT_REMEDY, LocalTimes
from emulator.workload.rows import (
    LAST_YEAR,
    SAME_RUN,
    SUSPENDED,
    UNKNOWN_SUSPENSION,
    UNSET,
    Malformed,
    Rows,
    in_years,
    span_s,
    whole,
)
from emulator.workload.sacct_tres import MOST_KEPT, gpus_of, memory_kb, nodes_in, tres_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from emulator.workload.rows import Faults
    from emulator.workload.swf import SwfLog

_NUMBER = re.compile(r"\d+")
_UNSAID = {
    "",
    "Unknown",
    "None",
    "NULL",
    "UNLIMITED",
    "Partition_Limit",
    "None assigned",
    "INVALID",
    "nan",
    "NaN",
    "NaT",
    *UNSET,
}
_NOT_ENDED = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "COMPLETING"}
_STATUS = {"COMPLETED": 1, "CANCELLED": 5} | dict.fromkeys(_NOT_ENDED, -1)
"""SWF's numbers for Slurm's states; all others are 0, failed."""
_SEVERAL = re.compile(r"[\[,]")
_NO_END, _MAYBE_THE_END = {"REQUEUED", "RESIZING"}, {"PREEMPTED", "NODE_FAIL"}
_MAY_GO_ON = _NO_END | _MAYBE_THE_END
_LATE_S = 86_400
"""A further run is submitted no longer than this after the one before it was over: numbers come again in time."""
_COUNT = re.compile(r"(\d{1,12})(\.50?)?([KMG])")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_CLOCK_FORMATS = {12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_DATE_ONLY = re.compile(r"(?:19|20)\d\d(-?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])")
_A_DAY, _LONGEST_DATE, _LONGEST_UNIX = 8, 10, 11
"""Characters of a date without the time of day, such a date with dashes, and the largest Unix time in seconds."""
_FIRST_YEAR = 1970
_FRACTION = re.compile(r"\d{9,11}\.\d*")
_HOW = "run sacct with SLURM_TIME_FORMAT=%s"
STEPS, RUNS, RESIZES, COMPONENTS, SIBLINGS = (
    "step of a job", "earlier run of a job that ran again", "earlier size of a resized job",
    "further component of a heterogeneous job", "federated job that another cluster ran",
)  # fmt: skip
"""What a row is that is a part of a job."""
NEEDED = (
    ("JobIDRaw", "JobID"),
    ("State",),
    ("Submit",),
    ("Start",),
    ("ElapsedRaw", "Elapsed", "End"),
    ("AllocNodes", "NNodes", "ReqNodes", "AllocCPUS", "NCPUS", "ReqCPUS", "AllocTRES", "NodeList"),
)
"""One of each must be there."""
COLUMNS = (
    *(name for choice in NEEDED for name in choice), "Eligible", "Suspended", "TimelimitRaw", "Timelimit",
    "ReqTRES", "ReqMem", "AllocGRES", "ReqGRES", "Reservation", "Cluster", "User", "UID", "Group", "GID", "Account",
    "Partition",
)  # fmt: skip
"""All that are read."""
_NODE_COLUMNS = ("AllocNodes", "NNodes", "ReqNodes")
_CPU_COLUMNS = ("AllocCPUS", "NCPUS", "ReqCPUS")
"""What a job had, what it had or asked for, what it asked for."""
NO_FIRST_SIZE = "resized, and the row of its first size is not there; its wait is unknown"
OTHER_NODES = "had another number of nodes than it asked for, and what it had counts"
_GIVEN = (
    "number", "submit_s", "wait_s", "run_s", "allocated_procs", "requested_procs", "nodes", "requested_s",
    "requested_memory_kb", "gpus", "host", "reservation", "status", "user", "group", "queue",
)  # fmt: skip
"""What a row says of its job, in this order."""


@dataclass(slots=True)  # not frozen: a million of them are made
class _Row:
    """A row, with what the rows before it say of its job: when it was first submitted, and its first size."""

    job: str
    number: int
    state: str
    said: Mapping[str, str]
    submitted_s: int
    submit_s: int
    start_s: int | None
    run_s: int
    limit_s: int
    nodes: int
    procs: int
    key: tuple[str, str, str]
    """Who is the same job."""

    @property
    def is_second_size(self) -> bool:
        """Whether it was "submitted" while it ran: the row of a resized job, without the one before it."""
        return self.start_s is not None and self.start_s < self.submit_s <= self.start_s + self.run_s

    def goes_on_in(self, other: _Row) -> bool:
        """Whether another row is a further run of this job, or it with another size."""
        return self.is_followed_at(other.submitted_s)

    def is_followed_at(self, submitted_s: float) -> bool:
        """Whether a run of this number that was submitted then is a further one of this job."""
        over_s = (self.submitted_s if self.start_s is None else self.start_s) + max(self.run_s, 0)
        return self.submitted_s <= submitted_s <= over_s + _LATE_S


class SacctJobs:
    """Takes rows in the order of the output. With `steps`, those of job steps are kept as jobs of their own."""

    def __init__(self, *, steps: bool = False) -> None:
        self.steps = steps
        self.rows = Rows(LocalTimes(SACCT_REMEDY.format("sacct")))
        self._unfinished: dict[tuple[str, ...], _Row] = {}
        self._leaders: dict[tuple[str, ...], int] = {}
        """Row of the first component of each heterogeneous job and of each of its runs."""
        self._components: set[tuple[str, ...]] = set()
        self._keys, self._jobs, self._submitted = array("q"), array("q"), array("q")
        """Of each row a number for its job, cluster, user and submit (rows of one come from exports that overlap), one
        without the submit, and when this run was submitted."""

    def take(self, row: Iterable[tuple[str, str]]) -> None:
        """One row, each field with sacct's name of it. Raises Malformed naming the field."""
        said = {name: text for name, text in row if text not in _UNSAID}
        job = said.get("JobIDRaw") or said.get("JobID") or ""
        found = _NUMBER.match(job)
        if not found:
            raise Malformed(f"the job's number is {job[:40]!r}")
        if "." in job and not self.steps:
            self.rows.pass_over(STEPS)
            return
        if said.get("State") == "REVOKED":
            self.rows.pass_over(SIBLINGS)
            return
        self._take(_row(job, whole(found[0], "JobID"), said, self.rows))
        if self.rows.clock.is_odd:
            self.rows.remark_on_times()

    def log(self, path: Path, faults: Faults) -> SwfLog:
        """All jobs. One whose last row says that it was requeued is there without a run time."""
        later = _Later(self.rows, self._jobs, self._submitted) if self._unfinished else None
        for row in self._unfinished.values():
            if later is None or not later.takes(row):
                self._last(row)
        self.rows.keep_last_records(self._keys)
        return self.rows.log(path, "from sacct; a job that ran again is its last run", faults)

    def _take(self, row: _Row) -> None:
        key = row.key
        first = self._unfinished.get(key)
        is_earlier = first is not None and row.state in _MAY_GO_ON and row.submitted_s < first.submitted_s
        if first is not None and is_earlier and row.goes_on_in(first):
            self._take_earlier(row, first)
            return
        goes_on = first is not None and first.goes_on_in(row)
        if first is not None and goes_on:
            row = replace(row, submit_s=min(row.submit_s, first.submit_s))
            if first.state == "RESIZING":
                row = replace(row, nodes=first.nodes, procs=first.procs)
        if row.is_second_size and not self.rows.clock.is_local:
            self.rows.remark(NO_FIRST_SIZE)
        elif row.start_s is not None and row.start_s < row.submit_s:
            why = f" (were clocks set back? {_HOW})" if self.rows.clock.is_local else ""
            raise Malformed(f"Start {row.start_s} is before Submit {row.submit_s}{why}")
        if first is not None:
            del self._unfinished[key]
            if goes_on:
                self.rows.pass_over(RESIZES if first.state == "RESIZING" else RUNS)
            else:
                self._last(first)
        if row.state in _MAY_GO_ON:
            self._unfinished[key] = row
        else:
            self._add(row)

    def _take_earlier(self, row: _Row, later: _Row) -> None:
        """A run of a job where a later one has come before it: some outputs have the newest row first."""
        later = replace(later, submit_s=min(row.submit_s, later.submit_s))
        if row.state == "RESIZING":
            later = replace(later, nodes=row.nodes, procs=row.procs)
        self._unfinished[row.key] = later
        self.rows.pass_over(RESIZES if row.state == "RESIZING" else RUNS)

    def _last(self, row: _Row) -> None:
        """The last row of a job that might have gone on."""
        if row.state in _MAYBE_THE_END:
            self._add(row)
        else:
            self.rows.add(number=row.number, submit_s=row.submit_s, nodes=row.nodes)
            self._keep_key(row)

    def _keep_key(self, row: _Row) -> None:
        job = hash(row.key)
        self._keys.append(hash((job, row.submitted_s)))
        self._jobs.append(job)
        self._submitted.append(row.submitted_s)

    def _add(self, row: _Row) -> None:
        said, start_s, nodes = row.said, row.start_s, row.nodes
        if "ReqNodes" in said and start_s is not None and _number(said, "ReqNodes") not in {0, nodes}:
            self.rows.remark(OTHER_NODES)
        size = row.procs if row.procs > 0 else nodes
        gpus = gpus_of(said, nodes)
        if "+" in (said.get("JobID") or row.job) and self._is_component(row, size, gpus):
            return
        self._keep_key(row)
        if "Cluster" in said:
            self.rows.remark_on_source("cluster", said["Cluster"])
        rows, second_size = self.rows, start_s is not None and row.is_second_size
        rows.add_row(
            _GIVEN,
            (
                row.number,
                row.submit_s if start_s is None or not second_size else start_s,
                -1 if start_s is None or second_size else start_s - row.submit_s,
                row.run_s,
                size,
                size,
                nodes,
                row.limit_s,
                memory_kb(said, size, nodes, self.rows),
                gpus,
                self._host(said),
                rows.reservations.number(said.get("Reservation")),
                _STATUS.get(row.state, 0),
                rows.users.number(said.get("User") or said.get("UID")),
                rows.groups.number(said.get("Group") or said.get("GID") or said.get("Account")),
                rows.queues.number(said.get("Partition")),
            ),
        )

    def _is_component(self, row: _Row, size: int, gpus: int) -> bool:
        """Whether it is a further component of a heterogeneous job; then its size is added to the first one's, once."""
        leader, plus, component = row.said.get("JobID", row.job).partition("+")
        if not plus or not component.isdecimal():
            return False
        run = (leader, row.said.get("Cluster", ""), str(row.start_s))
        is_again = (*run, component) in self._components
        self._components.add((*run, component))
        at = self._leaders.setdefault(run, len(self.rows))
        if at == len(self.rows):
            return False
        self.rows.pass_over(SAME_RUN if is_again else COMPONENTS)
        if is_again:
            return True
        for name, more in (
            ("nodes", row.nodes), ("allocated_procs", size), ("requested_procs", size), ("gpus", gpus),
        ):  # fmt: skip
            self.rows.put(name, at, max(self.rows.columns[name][at], 0) + max(more, 0))
        self.rows.put("host", at, -1)
        return True

    def _host(self, said: Mapping[str, str]) -> int:
        names = said.get("NodeList")
        return -1 if names is None or _SEVERAL.search(names) else self.rows.hosts.number(names)


class _Later:
    """The rows that a log has, to find those that are later runs of a job whose earlier run came behind them."""

    def __init__(self, rows: Rows, jobs: Sequence[int], submitted_s: Sequence[int]) -> None:
        self._rows, self._submitted_s = rows, submitted_s
        numbers = np.asarray(jobs, np.int64)
        self._order = np.argsort(numbers, kind="stable")
        self._numbers = numbers[self._order]

    def takes(self, earlier: _Row) -> bool:
        """Whether one of the rows is the next run of this job; then it has this one's submit (and first size)."""
        columns = self._rows.columns
        low, high = np.searchsorted(self._numbers, [hash(earlier.key), hash(earlier.key) + 1])
        for at in self._order[low:high].tolist():
            if not earlier.submitted_s < self._submitted_s[at] or not earlier.is_followed_at(
                self._submitted_s[at]
            ):
                continue
            submit_s, wait_s, run_s = (columns[name][at] for name in ("submit_s", "wait_s", "run_s"))
            first_s = min(submit_s, earlier.submit_s)
            self._rows.put("submit_s", at, first_s)
            if max(wait_s, run_s) >= 0:
                self._rows.put("wait_s", at, submit_s + max(wait_s, 0) - first_s)
            if wait_s < 0 <= run_s:
                self._rows.remarks[NO_FIRST_SIZE] -= 1
            if earlier.state == "RESIZING":
                for name, value in (
                    ("nodes", earlier.nodes), ("allocated_procs", earlier.procs), ("requested_procs", earlier.procs),
                ):  # fmt: skip
                    self._rows.put(name, at, value)
            self._rows.pass_over(RESIZES if earlier.state == "RESIZING" else RUNS)
            return True
        return False


def _row(job: str, number: int, said: Mapping[str, str], rows: Rows) -> _Row:
    clock = rows.clock
    state = said.get("State", "").split(" ")[0].rstrip("+")
    if not state:
        raise Malformed("State is missing")
    submit_s = _time_s(said, "Submit", clock)
    if submit_s is None:
        raise Malformed("Submit is missing")
    start_s = _time_s(said, "Start", clock, submit_s)
    eligible_s: int | None = submit_s
    if said.get("Eligible") != said["Submit"]:  # most are the same
        eligible_s = _time_s(said, "Eligible", clock, submit_s)
    run_s = -1 if state in _NOT_ENDED or start_s is None else _run_s(said, start_s, rows)
    if eligible_s is None or (start_s is not None and eligible_s > start_s):
        eligible_s = submit_s  # who is cancelled before being eligible "starts" then
    if state == "CANCELLED" and run_s == 0:
        start_s, run_s = None, -1  # in the queue: sacct writes the time of its end for its start
    return _Row(
        job=job,
        number=number,
        state=state,
        said=said,
        submitted_s=submit_s,
        submit_s=max(submit_s, eligible_s),
        start_s=start_s,
        run_s=run_s,
        limit_s=_limit_s(said, rows),
        nodes=_size(said, _NODE_COLUMNS),
        procs=_size(said, _CPU_COLUMNS),
        key=(job, said.get("Cluster", ""), said.get("User") or said.get("UID", "")),
    )


def _size(said: Mapping[str, str], columns: tuple[str, str, str]) -> int:
    """Nodes or processors: what it had counts before what it asked for; -1 if unknown.

    A job that was cancelled in the queue has 0 allocated.
    """
    allocated, either, requested = columns
    if had := _number(said, allocated):
        return had
    if "AllocTRES" in said:
        tres = tres_of(said["AllocTRES"])
        had = tres.nodes if columns is _NODE_COLUMNS else tres.procs
    if not had and columns is _NODE_COLUMNS and "NodeList" in said:
        had = nodes_in(said["NodeList"])
    return had or _number(said, either) or _number(said, requested) or -1


def _time_s(
    said: Mapping[str, str], name: str, clock: LocalTimes, not_before_s: int | None = None
) -> int | None:
    """Unix seconds, None if it is not said. Raises Malformed naming the field."""
    text = said.get(name)
    if text is None:
        return None
    if text.isdecimal():
        if _A_DAY < len(text) <= _LONGEST_UNIX or (len(text) <= _A_DAY and not _DATE_ONLY.fullmatch(text)):
            return in_years(int(text), name)
        form = _CLOCK_FORMATS.get(len(text), "")
    else:
        form = None
    try:
        when = datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)  # noqa: DTZ007 - `clock`
    except ValueError:
        if _FRACTION.fullmatch(text):
            return int(in_years(float(text), name))
        if _DATE_ONLY.fullmatch(text):
            raise Malformed(f"{name} is {text!r}, a date without the time of day; {_HOW}") from None
        raise Malformed(f"{name} is {text[:40]!r}, not a time such as 2026-11-21T01:23:44; {_HOW}") from None
    if len(text) <= _LONGEST_DATE:
        raise Malformed(f"{name} is {text!r}, a date without the time of day; {_HOW}")
    if not _FIRST_YEAR <= when.year <= LAST_YEAR:
        raise Malformed(f"{name} is {text!r}, in the year {when.year}; {_HOW}")
    return int(clock.unix_s(when, not_before_s=not_before_s))


def _run_s(said: Mapping[str, str], start_s: int, rows: Rows) -> int:
    """What sacct calls elapsed, else end - start without the time suspended; -1 if it says neither."""
    suspended_s = 0
    if "Suspended" in said and (suspended_s := rows.known(span_s, said["Suspended"], "Suspended", 0)):
        rows.remark(SUSPENDED)
    if "ElapsedRaw" in said:
        return whole(said["ElapsedRaw"], "ElapsedRaw")
    if "Elapsed" in said:
        return span_s(said["Elapsed"], "Elapsed")
    end_s = _time_s(said, "End", rows.clock, start_s)
    if end_s is None:
        return -1
    if end_s < start_s:
        raise Malformed(f"End {end_s} is before Start {start_s}")
    if "Suspended" not in said:
        rows.remark(UNKNOWN_SUSPENSION)
    return max(end_s - start_s - suspended_s, 0)


def _limit_s(said: Mapping[str, str], rows: Rows) -> int:
    if "TimelimitRaw" in said:  # in minutes
        minutes = rows.known(whole, said["TimelimitRaw"], "TimelimitRaw", -1)
        return 60 * minutes if minutes >= 0 else -1
    return rows.known(span_s, said["Timelimit"], "Timelimit", -1) if "Timelimit" in said else -1


def _number(said: Mapping[str, str], name: str) -> int:
    """A whole number, 0 if unsaid."""
    text = said.get(name)
    return 0 if text is None else _count(text, name)


@lru_cache(MOST_KEPT)
def _count(text: str, name: str) -> int:
    """Without --noconvert sacct shortens multiples of 512: 4096 is 4K, 4608 is 4.50K."""
    if text[-1] not in _UNITS:
        return whole(text, name)
    match = _COUNT.fullmatch(text)
    if match is None or (match[2] and match[3] != "K"):
        raise Malformed(f"{name} is {text[:40]!r}, which may be rounded; run sacct with --noconvert")
    return int(match[1]) * _UNITS[match[3]] + (_UNITS["K"] // 2 if match[2] else 0)
