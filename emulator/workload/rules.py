"""Input rules: from a log as it was recorded to jobs that can be replayed (design, section 4).

A job keeps its place only if it has a submit time, a run time of at least a second, a size, and fits the
cluster; what is left out is counted by reason. Nothing is repaired silently: every repair is counted too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from balancer.clock import US
from emulator.text.number_text import grouped
from emulator.workload.files import TraceError
from emulator.workload.overruns import Overrun, Size
from emulator.workload.recorded_waits import wait_us_of
from emulator.workload.relations import (
    CANCEL,
    CANCELLED_AT_A_TIME,
    PRECEDING_GONE,
    cancelled_at,
    preceding,
)
from emulator.workload.swf import UNKNOWN, SwfLog, middle_submit_s
from emulator.workload.table import JobTable, Kind
from emulator.workload.workload import MALFORMED_LINE, PASSED_OVER, Workload, is_not_read

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.workload.swf import Column

NO_SUBMIT = "no submit time"
BEFORE_ORIGIN = "submitted before the origin"
NO_RUN = "no run time"
NO_SIZE = "no size"
NO_ESTIMATE = "no estimate"
TOO_LONG = "longer than 285 years"
TOO_FAR = "20 years or more from the rest of the log"
TOO_WIDE = "wider than the cluster"

ESTIMATE_MISSING = "estimate missing, run time taken"
ESTIMATE_CUT = "estimate longer than 285 years, cut"
OVERRUN = "ran longer than its estimate"
INSTANT = "ran for less than a second, taken as one"
MALFORMED = MALFORMED_LINE
RENUMBERED = "job number missing or taken, renumbered"
RELABELLED = "{} number too large, renumbered"

_IN_ORDER = (
    NO_SUBMIT, BEFORE_ORIGIN, NO_RUN, NO_SIZE, NO_ESTIMATE, TOO_WIDE, TOO_LONG, TOO_FAR, MALFORMED, INSTANT,
    ESTIMATE_MISSING, ESTIMATE_CUT, OVERRUN,
)  # fmt: skip

_LONGEST_S = 9_000_000_000
"""What fits 64-bit microseconds a thousand times, so that sums of times fit too."""
_LARGEST_INT32 = 2**31 - 1
_FAR_S = 20 * 31_557_600


class NothingToReplayError(TraceError):
    """The input rules leave out every job; `left_out` counts them by reason."""

    def __init__(self, text: str, left_out: dict[str, int]) -> None:
        super().__init__(text)
        self.left_out = left_out


def to_jobs(
    log: SwfLog,
    *,
    nodes: int | None,
    procs_per_node: int = 1,
    overrun: Overrun = "extend",
    size: Size = "nodes",
    origin_s: float | None = None,
    zero_run: Literal["leave_out", "one_second"] = "leave_out",
    no_estimate: Literal["run_time", "leave_out"] = "run_time",
    dependencies: Literal["start", "submit"] | None = None,
    cancelled: Literal["as_run", "at_time"] = "as_run",
    queue_field: Literal["queue", "partition"] = "queue",
) -> Workload:
    """The jobs of a log for a cluster of `nodes` nodes with `procs_per_node` processors each.

    * Size: the processors a job had (field 5), else those it asked for (field 8), in whole nodes, rounded up.
      Where the log itself says nodes (accounting logs), those, unless `size` is "procs". With "requested" field 8 goes
      before field 5.
    * A recorded run time from 0 to below a second is no run time, or with `zero_run` "one_second" a second.
    * A missing estimate (field 9) takes the run time, or with `no_estimate` "leave_out" the job is left out. A run time
      above the estimate raises the estimate
      (`extend`) or is cut at it (`kill`); with `run_on` both stay.
    * Order (submit, job number); the first kept job is submitted at 0, or, with `origin_s`, that time of the
      log is 0 and what was submitted before is left out. A number that is taken (or missing) is
      replaced by one behind the largest.
    * `nodes=None` takes the size in the header, see `cluster_size`.
    * `dependencies` and `cancelled`: the columns of `relations.py` from fields 17 and 18, and of jobs that were
      cancelled (status 5); those would have run for what they asked for.
    * `queue_field`: the queue is field 15, or with "partition" field 16.
    * `counted` also has what the reader made no rows of, so that with `left_out` every record of the file is told of.
    * User, group, queue or status numbers beyond 32 bits (hashes) are replaced by 1, 2, ... in their order.

    Raises TraceError if the log has no jobs or none can be replayed, ValueError for a bad argument.
    """
    _check_values(
        overrun=overrun, size=size, zero_run=zero_run, no_estimate=no_estimate, dependencies=dependencies or "start",
        cancelled=cancelled, queue_field=queue_field,
    )  # fmt: skip
    cluster = _node_count(log, nodes, procs_per_node)
    check_has_jobs(log)

    sizes = _sizes(log, procs_per_node, size)
    run_s, is_instant, cancel_s = _run_times(log, zero_run, cancelled)
    rows, left_out = _replayable(
        log, run_s, sizes, cluster, origin_s, needs_estimate=no_estimate == "leave_out"
    )
    counted = {PASSED_OVER.format(what): count for what, count in log.passed_over.items()}
    counted |= log.remarks
    counted |= {MALFORMED: log.malformed, INSTANT: int(is_instant[rows].sum())}
    submit_s = log.column("submit_s")[rows]
    shift_s = submit_s.min() if origin_s is None else origin_s
    run_us = _micros(run_s[rows])
    run_us, estimate_us = _limits(run_us, log.column("requested_s")[rows], overrun, counted)
    number = _unique_numbers(_whole(log.column("number")[rows]), counted)
    submit_us = _micros(submit_s - shift_s)
    fields = {"user": "user", "group": "group", "status": "status", "queue": queue_field}
    labels: dict[str, Any] = {name: _labels(log, at, rows, counted) for name, at in fields.items()}
    extra = _cancellations(cancel_s[rows], counted)
    counted |= _not_said(log, rows, dependencies, cancelled, queue_field)
    if dependencies is not None:
        waits, counted[PRECEDING_GONE] = preceding(log, rows, number, dependencies)
        extra |= waits
    order = np.lexsort((number, submit_us))
    jobs = JobTable(
        number=number,
        submit_us=submit_us,
        run_us=run_us,
        estimate_us=estimate_us,
        nodes=sizes[rows].astype(np.int32),
        kind=np.full(len(rows), Kind.BATCH, np.int8),
        **labels,
        extra=extra,
    )
    return Workload(
        jobs=jobs.take(order),
        nodes=cluster,
        rows=rows[order],
        shift_s=float(shift_s),
        left_out=left_out,
        counted={what: count for what, count in counted.items() if count},
        source=log.source,
        wait_us=wait_us_of(log, rows[order]),
        user_names=log.user_names,
        group_names=log.group_names,
        queue_names=log.names_of("Queue") if queue_field == "queue" else {},
    )


def _not_said(
    log: SwfLog, rows: NDArray[np.intp], dependencies: str | None, cancelled: str, queue_field: str
) -> dict[str, int]:
    """What was asked of a log of which no job says it: such a key changes nothing."""
    asked = {
        "dependencies: the log says of no job which it waits for": dependencies is not None
        and not (log.column("preceding")[rows] > 0).any(),
        "cancelled: no job of the log has status 5": cancelled == "at_time"
        and not (log.column("status")[rows] == _CANCELLED).any(),
        "queue_field: the log says of no job in which partition it was": queue_field == "partition"
        and not (log.column("partition")[rows] >= 0).any(),
    }
    return {what: len(rows) for what, is_silent in asked.items() if is_silent}


_CANCELLED = 5
_VALUES: dict[str, tuple[str, ...]] = {
    "overrun": get_args(Overrun),
    "size": get_args(Size),
    "zero_run": ("leave_out", "one_second"),
    "no_estimate": ("run_time", "leave_out"),
    "dependencies": ("start", "submit"),
    "cancelled": ("as_run", "at_time"),
    "queue_field": ("queue", "partition"),
}


def _check_values(**given: str) -> None:
    for name, value in given.items():
        if value not in _VALUES[name]:
            *others, last = (repr(each) for each in _VALUES[name])
            raise ValueError(f"{name} is {', '.join(others)} or {last}, not {value!r}")


def _run_times(
    log: SwfLog, zero_run: str, cancelled: str
) -> tuple[Column, NDArray[np.bool_], NDArray[np.float64]]:
    """The run time of each row, whether it was below a second and is taken as one, and when it was cancelled (-1)."""
    run_s = log.column("run_s")
    is_instant = (run_s >= 0) & (run_s < 1) & (zero_run == "one_second")
    run_s = np.where(is_instant, 1, run_s)
    cancel_s = cancelled_at(log) if cancelled == "at_time" else np.full(len(log), -1.0)
    run_s = np.where(cancel_s >= 0, np.maximum(run_s, log.column("requested_s")), run_s)
    return run_s, is_instant, cancel_s


def _node_count(log: SwfLog, nodes: int | None, procs_per_node: int) -> int:
    """That of the cluster, the log's without one."""
    if procs_per_node < 1:
        raise ValueError(f"a node needs at least 1 processor, not {procs_per_node}")
    found = cluster_size(log, procs_per_node) if nodes is None else nodes
    if not 1 <= found <= _LARGEST_INT32:
        raise ValueError(f"the cluster needs at least 1 node (and at most {_LARGEST_INT32}), not {found}")
    return found


def check_has_jobs(log: SwfLog) -> None:
    """Raises TraceError if a log has no job at all."""
    if not len(log):
        but = f" but {log.malformed} malformed ones" if log.malformed else ""
        others = "".join(
            f", {grouped(count)} x {what} passed over" for what, count in log.passed_over.items()
        )
        raise TraceError(f"{log.source}: there are no job lines{but}{others}")


def _cancellations(cancel_s: NDArray[np.float64], counted: dict[str, int]) -> dict[str, NDArray[np.int64]]:
    """The further column of jobs that are cancelled so long after their submit (-1: never)."""
    known = cancel_s >= 0
    if not known.any():
        return {}
    counted[CANCELLED_AT_A_TIME] = int(known.sum())
    return {CANCEL: np.where(known, _micros(cancel_s), -1)}


def not_read(work: Workload) -> list[str]:
    """Sentences on the records that became no rows of the log: passed over, or malformed."""
    return [f"{grouped(count)} x {what}" for what, count in work.counted.items() if is_not_read(what)]


def remarks(log: SwfLog) -> list[str]:
    """Sentences on jobs that are kept and of which the reader has something to tell."""
    return [f"{grouped(count)} jobs: {what}" for what, count in log.remarks.items()]


def in_order(counts: dict[str, int]) -> dict[str, int]:
    """What was left out or counted in parts of a log, in the order in which `to_jobs` has it of a whole one."""
    return {what: counts[what] for what in _IN_ORDER if counts.get(what)}


def cluster_size(log: SwfLog, procs_per_node: int = 1) -> int:
    """The number of nodes by the log's header. Raises TraceError, which says where to find it, if the log does not say.

    With one processor a node, a node is whatever the log counts, and MaxProcs says how many there are; with
    more, MaxNodes does. Each stands in for the other.
    """
    max_procs, max_nodes = log.key_int("MaxProcs"), log.key_int("MaxNodes")
    by_procs = max_procs // procs_per_node if max_procs else None
    size = (by_procs or max_nodes) if procs_per_node == 1 else (max_nodes or by_procs)
    if not size or size < 1:
        raise TraceError(f"{log.source}: {no_size(log)}")
    return size


def no_size(log: SwfLog) -> str:
    """That a log does not say how many nodes the cluster has, and what to do."""
    where = f" ({log.size_from})" if log.size_from else ""
    return f"the log does not say how many nodes the cluster has{where}; pass --nodes N (in a scenario: `nodes: N`)"


def to_log(jobs: JobTable, *, nodes: int, note: str = "") -> SwfLog:
    """Jobs as a log, to be written with `write_swf`; `to_jobs` gives the same jobs back.

    The format has no place for leases: ValueError if there is one among the jobs.
    """
    if (jobs.kind != Kind.BATCH).any():
        raise ValueError("the Standard Workload Format has no on-demand leases; write the batch jobs alone")
    header = [
        "; Version: 2.2",
        f"; MaxJobs: {len(jobs)}",
        f"; MaxRecords: {len(jobs)}",
        f"; MaxNodes: {nodes}",
        f"; MaxProcs: {nodes}",
        *(f"; Note: {line}" for line in note.splitlines()),
    ]
    return SwfLog.build(
        len(jobs),
        header,
        number=jobs.number,
        submit_s=jobs.submit_us / US,
        run_s=jobs.run_us / US,
        allocated_procs=jobs.nodes,
        requested_procs=jobs.nodes,
        requested_s=jobs.estimate_us / US,
        status=jobs.status,
        user=jobs.user,
        group=jobs.group,
        queue=jobs.queue,
    )


def processors(log: SwfLog, size: Size = "nodes") -> Column:
    """The processors of each row, 0 or less where unknown: those it had, else asked for; `requested`: the reverse."""
    requested, allocated = log.column("requested_procs"), log.column("allocated_procs")
    first, second = (requested, allocated) if size == "requested" else (allocated, requested)
    return np.where(first > 0, first, second)


def _sizes(log: SwfLog, procs_per_node: int, size: Size) -> NDArray[np.int64]:
    """Whole nodes of each row, 0 or less where unknown."""
    by_procs: NDArray[np.int64] = -(-_whole(np.ceil(processors(log, size))) // procs_per_node)
    if size != "nodes" or log.nodes is None:
        return by_procs
    recorded = _whole(log.nodes)
    return np.where(recorded > 0, recorded, by_procs)


def _replayable(
    log: SwfLog,
    run_s: Column,
    sizes: NDArray[np.int64],
    cluster: int,
    origin_s: float | None,
    *,
    needs_estimate: bool,
) -> tuple[NDArray[np.intp], dict[str, int]]:
    """The rows that can be replayed, and how many cannot, each counted under the first reason that holds.

    Raises NothingToReplayError if none can.
    """
    submit_s = log.column("submit_s")
    reasons = {
        NO_SUBMIT: submit_s < 0,
        BEFORE_ORIGIN: submit_s < (0 if origin_s is None else origin_s),
        NO_RUN: run_s < 1,
        NO_SIZE: sizes < 1,
        NO_ESTIMATE: (log.column("requested_s") <= 0) & needs_estimate,
        TOO_WIDE: sizes > cluster,
        **_wrong_times(log, run_s),
    }
    fits, left_out = _without(reasons, len(log))
    if not fits.any():
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        on = f" on {cluster} nodes" if cluster < _LARGEST_INT32 else ""
        raise NothingToReplayError(f"{log.source}: no job can be replayed{on} ({why})", left_out)
    return np.flatnonzero(fits), left_out


def with_times_of_jobs(log: SwfLog) -> tuple[SwfLog, dict[str, int]]:
    """The log without the rows whose times no job had, and how many these are, as `to_jobs` leaves them out.

    For what looks at the rows themselves: other rows, without a run or a size, say something there.
    """
    reasons = {NO_SUBMIT: log.column("submit_s") < 0, **_wrong_times(log, log.column("run_s"))}
    fits, left_out = _without(reasons, len(log))
    if not left_out:
        return log, left_out
    columns = tuple(column[fits] for column in log.columns)
    counts = {f"; {key}: {len(log)}": f"; {key}: {len(columns[0])}" for key in ("MaxJobs", "MaxRecords")}
    header = tuple(counts.get(line, line) for line in log.header)
    return replace(log, columns=columns, header=header), left_out


def _without(reasons: dict[str, NDArray[np.bool_]], rows: int) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """The rows for which no reason holds, and how many others there are, each under the first that does."""
    fits = np.ones(rows, np.bool_)
    left_out: dict[str, int] = {}
    for reason, holds in reasons.items():
        count = int((fits & holds).sum())
        if count:
            left_out[reason] = count
        fits &= ~holds
    return fits, left_out


def _wrong_times(log: SwfLog, run_s: Column) -> dict[str, NDArray[np.bool_]]:
    submit_s = log.column("submit_s")
    lasted_s = np.maximum(log.column("wait_s"), 0) + np.maximum(run_s, 0)
    return {
        TOO_LONG: (run_s > _LONGEST_S) | (submit_s > _LONGEST_S),
        TOO_FAR: _is_far(submit_s, lasted_s),
    }


def _is_far(submit_s: Column, lasted_s: Column) -> NDArray[np.bool_]:
    """Of each job whether one of its Unix times is decades from the middle submit: a clock that was wrong."""
    middle_s = middle_submit_s(submit_s)
    if middle_s < _FAR_S:  # not Unix times
        return np.zeros(len(submit_s), np.bool_)
    is_far: NDArray[np.bool_] = (np.abs(submit_s - middle_s) > _FAR_S) | (
        submit_s + lasted_s - middle_s > _FAR_S
    )
    return is_far


def limited(jobs: JobTable, overrun: Overrun, counted: dict[str, int]) -> JobTable:
    """Jobs of any source after the rule for those that run longer than their estimate, which are counted.

    Those of a log have been through it, and are counted: with `run_on` they are still longer.
    """
    over = int((jobs.run_us > jobs.estimate_us).sum())
    if not over:
        return jobs
    counted[OVERRUN] = over + (0 if overrun == "run_on" else counted.get(OVERRUN, 0))
    run_us, estimate_us = _after_overrun(jobs.run_us, jobs.estimate_us, overrun)
    return replace(jobs, run_us=run_us, estimate_us=estimate_us)


def _after_overrun(
    run_us: NDArray[np.int64], estimate_us: NDArray[np.int64], overrun: Overrun
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if overrun == "extend":
        return run_us, np.maximum(run_us, estimate_us)
    if overrun == "run_on":
        return run_us, estimate_us
    return np.minimum(run_us, estimate_us), estimate_us


def _limits(
    run_us: NDArray[np.int64],
    requested_s: Column,
    overrun: Overrun,
    counted: dict[str, int],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Run times and estimates after the rules for both."""
    missing = requested_s <= 0
    # Rounded to microseconds a positive estimate may become 0.
    stated_us = np.maximum(_micros(np.clip(requested_s, 0, _LONGEST_S)), 1)
    estimate_us = np.where(missing, run_us, stated_us)
    over = run_us > estimate_us
    counted[ESTIMATE_MISSING] = int(missing.sum())
    counted[ESTIMATE_CUT] = int((requested_s > _LONGEST_S).sum())
    counted[OVERRUN] = int(over.sum())
    return _after_overrun(run_us, estimate_us, overrun)


def _unique_numbers(number: NDArray[np.int64], counted: dict[str, int]) -> NDArray[np.int64]:
    """Job numbers of which each is there once: a later row with a taken number gets a new one."""
    first = np.zeros(len(number), np.bool_)
    first[np.unique(number, return_index=True)[1]] = True
    renumber = ~first | (number < 0)
    count = int(renumber.sum())
    counted[RENUMBERED] = count
    if not count:
        return number
    numbers = number.copy()
    numbers[renumber] = max(0, int(number.max())) + 1 + np.arange(count)
    return numbers


def _labels(log: SwfLog, name: str, rows: NDArray[np.intp], counted: dict[str, int]) -> NDArray[np.int32]:
    """A column of names in the shape of numbers, in 32 bits; -1 where unknown."""
    values = np.maximum(_whole(log.column(name)[rows]), UNKNOWN)
    if values.max() > _LARGEST_INT32:
        known = values > UNKNOWN
        _, inverse = np.unique(values[known], return_inverse=True)
        values[known] = inverse + 1
        counted[RELABELLED.format(name)] = int(known.sum())
    return values.astype(np.int32)


def _whole(column: Column) -> NDArray[np.int64]:
    if column.dtype == np.int64:
        return column.astype(np.int64)
    return np.clip(np.rint(column), -(2.0**62), 2.0**62).astype(np.int64)


def _micros(time_s: NDArray[Any]) -> NDArray[np.int64]:
    if time_s.dtype == np.int64:
        return time_s.astype(np.int64) * US
    micros: NDArray[np.int64] = np.rint(time_s * US).astype(np.int64)
    return micros
