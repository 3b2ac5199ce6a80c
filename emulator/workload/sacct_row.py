"""What one row of Slurm's accounting says, whatever form it came in; which rows are one job: `sacct_jobs.py`.

A job that waited for another one or for its begin time comes when it was eligible. Time in which a job was suspended is
no part of `Elapsed`, nor of its run time here: without that column it is `End` - `Start` - `Suspended`.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from emulator.workload.rows import (
    LAST_YEAR,
    SUSPENDED,
    UNKNOWN_SUSPENSION,
    UNSET,
    Malformed,
    in_years,
    span_s,
    whole,
)
from emulator.workload.sacct_tres import MOST_KEPT, nodes_and_procs, nodes_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.workload.local_times import LocalTimes
    from emulator.workload.rows import Rows

UNSAID = {
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
NOT_ENDED = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "COMPLETING"}
STATES = NOT_ENDED | {
    "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
    "LAUNCH_FAILED", "RECONFIG_FAIL", "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT",
    "RESV_DEL_HOLD", "SIGNALING", "STAGE_OUT", "REVOKED", "POWER_UP_NODE", "UPDATE_DB", "EXPEDITING",
}  # fmt: skip
"""All of Slurm 22.05 to 26.05 (`job_state_string_complete` in its sources)."""
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
HOW_TO_AVOID = "run sacct with SLURM_TIME_FORMAT=%s"
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
    "ReqTRES", "ReqMem", "AllocGRES", "ReqGRES", "Reservation", "QOS", "Constraints", "Cluster", "User", "UID",
    "Group", "GID", "Account", "Partition",
)  # fmt: skip
"""All that are read."""
_kept_whole, _kept_span_s = lru_cache(MOST_KEPT)(whole), lru_cache(MOST_KEPT)(span_s)
"""Limits and spans of time that come again are read once."""
_NODE_COLUMNS = ("AllocNodes", "NNodes", "ReqNodes")
_CPU_COLUMNS = ("AllocCPUS", "NCPUS", "ReqCPUS")
"""What a job had, what it had or asked for, what it asked for."""


class Row(NamedTuple):
    """A row, or with what the rows before it say of its job: when it was first submitted, and its first size."""

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
    nodes_asked: int
    """0 if that is not said, or if it never began."""
    key: tuple[str, str, str]
    """Who is the same job."""

    @property
    def starts_before_submit(self) -> bool:
        return self.start_s is not None and self.start_s < self.submit_s

    @property
    def is_second_size(self) -> bool:
        """Whether it was "submitted" while it ran: the row of a resized job, without the one before it."""
        return self.start_s is not None and self.start_s < self.submit_s <= self.start_s + self.run_s

    def goes_on_in(self, other: Row) -> bool:
        """Whether another row is a further run of this job, or it with another size."""
        return self.is_followed_at(other.submitted_s)

    def is_followed_at(self, submitted_s: float) -> bool:
        """Whether a run of this number that was submitted then is a further one of this job."""
        over_s = (self.submitted_s if self.start_s is None else self.start_s) + max(self.run_s, 0)
        return self.submitted_s <= submitted_s <= over_s + _LATE_S


_PAUSE_S, _PAUSE_SHARE, _CLOCKS_SET_S = 300, 0.05, 3600
SHORTER, LONGER = (
    "ran shorter by Elapsed than from Start to End (suspended, or another unit?), and Elapsed counts",
    "ran longer by Elapsed than from Start to End (another unit?), and Elapsed counts",
)


def read_row(job: str, number: int, said: Mapping[str, str], rows: Rows) -> Row:
    """The row of a job, whose number it is, by what is said in it. Raises Malformed naming the field."""
    clock = rows.clock
    state = _state(said.get("State", ""))
    if not state:
        raise Malformed("State is missing")
    submit_s = _time_s(said, "Submit", clock)
    if submit_s is None:
        raise Malformed("Submit is missing")
    start_s = _time_s(said, "Start", clock, submit_s)
    eligible_s: int | None = submit_s
    if said.get("Eligible") != said["Submit"]:  # most are the same
        eligible_s = _time_s(said, "Eligible", clock, submit_s)
    run_s = -1 if state in NOT_ENDED or start_s is None else _run_s(said, start_s, rows)
    if eligible_s is None or (start_s is not None and eligible_s > start_s):
        eligible_s = submit_s  # who is cancelled before being eligible "starts" then
    if state == "CANCELLED" and run_s == 0:
        start_s, run_s = None, -1  # in the queue: sacct writes the time of its end for its start
    return Row(
        job,
        number,
        state,
        said,
        submit_s,
        max(submit_s, eligible_s),
        start_s,
        run_s,
        _limit_s(said, rows),
        _size(said, _NODE_COLUMNS),
        _size(said, _CPU_COLUMNS),
        0 if start_s is None else _number(said, "ReqNodes"),
        (job, said.get("Cluster", ""), said.get("User") or said.get("UID", "")),
    )


@lru_cache(MOST_KEPT)
def _state(text: str) -> str:
    """Without who cancelled it, and whole where a column was too narrow for it but only one state begins so."""
    word = text.split(" ", maxsplit=1)[0].upper()
    if not word.endswith("+"):
        return word
    begins = word.rstrip("+")
    all_of_them = [state for state in STATES if begins and state.startswith(begins)]
    return all_of_them[0] if len(all_of_them) == 1 else begins


def _size(said: Mapping[str, str], columns: tuple[str, str, str]) -> int:
    """Nodes or processors: what it had counts before what it asked for; -1 if unknown.

    A job that was cancelled in the queue has 0 allocated.
    """
    allocated, either, requested = columns
    if had := _number(said, allocated):
        return had
    if "AllocTRES" in said:
        nodes, procs = nodes_and_procs(said["AllocTRES"])
        had = nodes if columns is _NODE_COLUMNS else procs
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
            raise Malformed(f"{name} is {text!r}, a date without the time of day; {HOW_TO_AVOID}") from None
        raise Malformed(
            f"{name} is {text[:40]!r}, not a time such as 2026-11-21T01:23:44; {HOW_TO_AVOID}"
        ) from None
    if len(text) <= _LONGEST_DATE:
        raise Malformed(f"{name} is {text!r}, a date without the time of day; {HOW_TO_AVOID}")
    if not _FIRST_YEAR <= when.year <= LAST_YEAR:
        raise Malformed(f"{name} is {text!r}, in the year {when.year}; {HOW_TO_AVOID}")
    return int(clock.unix_s(when, not_before_s=not_before_s))


def _run_s(said: Mapping[str, str], start_s: int, rows: Rows) -> int:
    """What sacct calls elapsed, else end - start without the time suspended; -1 if it says neither."""
    suspended_s = 0
    if "Suspended" in said and (suspended_s := rows.known(_kept_span_s, said["Suspended"], "Suspended", 0)):
        rows.remark(SUSPENDED)
    if "ElapsedRaw" in said or "Elapsed" in said:
        is_raw = "ElapsedRaw" in said
        run_s = (
            whole(said["ElapsedRaw"], "ElapsedRaw") if is_raw else _kept_span_s(said["Elapsed"], "Elapsed")
        )
        _compare_with_end(said, start_s, run_s + suspended_s, rows)
        return run_s
    end_s = _time_s(said, "End", rows.clock, start_s)
    if end_s is None:
        return -1
    if end_s < start_s:
        raise Malformed(f"End {end_s} is before Start {start_s}")
    if "Suspended" not in said:
        rows.remark(UNKNOWN_SUSPENSION)
    return max(end_s - start_s - suspended_s, 0)


def _compare_with_end(said: Mapping[str, str], start_s: int, lasted_s: int, rows: Rows) -> None:
    """Tell it where Start and End say another length than Elapsed and the time suspended."""
    clock = rows.clock

    def read(_: str, name: str) -> int | None:
        return _time_s(said, name, clock, start_s)

    end_s = rows.known(read, said["End"], "End", None) if "End" in said else None
    if end_s is None:
        return
    more_s = lasted_s - (end_s - start_s)
    if more_s > max(_PAUSE_S, _PAUSE_SHARE * lasted_s) + (_CLOCKS_SET_S if clock.is_local else 0):
        rows.remark(LONGER)
    elif -more_s > max(_PAUSE_S, _PAUSE_SHARE * lasted_s):
        rows.remark(SHORTER)


def _limit_s(said: Mapping[str, str], rows: Rows) -> int:
    if "TimelimitRaw" in said:  # in minutes
        minutes = rows.known(_kept_whole, said["TimelimitRaw"], "TimelimitRaw", -1)
        return 60 * minutes if minutes >= 0 else -1
    return rows.known(_kept_span_s, said["Timelimit"], "Timelimit", -1) if "Timelimit" in said else -1


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
