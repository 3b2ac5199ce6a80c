"""What jobs have to do with each other and with the clock: dependencies, arrays, cancellations, deadlines.

They are further columns of the job table (`JobTable.extra`), put there by the input rules of a log, by the transform
`relations` (`relations_file.py`), or by any other transform; `events/job_rules.py` keeps to them. Kinds of
dependencies are those of sbatch(1), and `think`: fields 17 and 18 of the Standard Workload Format, as feedback.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from emulator.workload.table import DEPENDENCY_NUMBER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from emulator.workload.swf import SwfLog
    from emulator.workload.table import JobTable


class After(IntEnum):
    """What a job waits for in another one."""

    START = 0
    """Its start, or its cancellation."""
    OK = 1
    """Its end, and it must have succeeded."""
    NOT_OK = 2
    """Its end, and it must have failed."""
    ANY = 3
    """Its end, whatever it was."""
    THINK = 4
    """Its end, whatever it was; and the job is submitted only then."""


KIND_NAMES = {
    "after": After.START,
    "afterok": After.OK,
    "afternotok": After.NOT_OK,
    "afterany": After.ANY,
    "think": After.THINK,
}

NUMBER, KIND, DELAY = DEPENDENCY_NUMBER, "after_kind", "after_delay_us"
"""Columns of the first dependency of a job; those of the k-th end in `_k`."""
CANCEL, DEADLINE = "cancel_after_us", "deadline_after_us"
"""Both count from the submit."""
ARRAY, ARRAY_LIMIT = "array", "array_limit"

PRECEDING_GONE = "preceding job not in the workload"
CANCELLED_AT_A_TIME = "cancelled at a time"
_CANCELLED_STATUS = 5


@dataclass(frozen=True, slots=True)
class Dependency:
    """The job in row `row` waits for the job in row `other`, and `delay_us` longer."""

    row: int
    other: int
    kind: After
    delay_us: int


def has_relations(jobs: JobTable) -> bool:
    """Whether any of the columns is there."""
    return any(name in jobs.extra for name in (NUMBER, CANCEL, DEADLINE, ARRAY))


def dependencies(jobs: JobTable) -> list[Dependency]:
    """All dependencies by row. One on a job that is not in the table is none: that job counts as over long ago."""
    if NUMBER not in jobs.extra:
        return []
    place = {number: row for row, number in enumerate(jobs.number.tolist())}
    found = []
    for suffix in jobs.dependency_suffixes():
        number = jobs.column(NUMBER + suffix)
        kind, delay_us = jobs.column(KIND + suffix, After.ANY), jobs.column(DELAY + suffix, 0)
        found += [
            Dependency(row, place[int(number[row])], After(int(kind[row])), int(delay_us[row]))
            for row in np.flatnonzero(number >= 0).tolist()
            if int(number[row]) in place
        ]
    return sorted(found, key=lambda each: (each.row, each.other, each.kind, each.delay_us))


def ready_to_run(jobs: JobTable) -> JobTable:
    """The jobs sorted so that they can be run: a `think` job stands where it can be submitted at the earliest.

    Raises ValueError for jobs that wait for each other.
    """
    waits = dependencies(jobs)
    if not waits:
        return jobs
    submit_us = jobs.submit_us.copy()
    thinks: dict[int, list[Dependency]] = {}
    for each in waits:
        if each.kind is After.THINK:
            thinks.setdefault(each.row, []).append(each)
    for row in _in_order(jobs, waits):
        if row in thinks:  # a job that waits for it may end at once: it may be cancelled
            submit_us[row] = max(int(submit_us[each.other]) + each.delay_us for each in thinks[row])
    moved = replace(jobs, submit_us=submit_us)
    return moved.take(np.lexsort((moved.number, moved.submit_us)))


def _in_order(jobs: JobTable, waits: list[Dependency]) -> Iterator[int]:
    """The rows of jobs that are in some dependency, each behind those it waits for."""
    missing: dict[int, int] = {}
    behind: dict[int, list[int]] = {}
    for each in waits:
        missing[each.row] = missing.get(each.row, 0) + 1
        missing.setdefault(each.other, 0)
        behind.setdefault(each.other, []).append(each.row)
    free = deque(row for row, count in missing.items() if not count)
    while free:
        row = free.popleft()
        yield row
        del missing[row]
        for other in behind.get(row, ()):
            missing[other] -= 1
            if not missing[other]:
                free.append(other)
    if missing:
        numbers = sorted(jobs.number[list(missing)].tolist())
        text = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")  # noqa: PLR2004
        raise ValueError(f"jobs wait for each other, so none of them can start: {text}")


# From a log.


def cancelled_at(log: SwfLog) -> NDArray[np.float64]:
    """Of each row how long after its submit it was cancelled, in seconds; -1 if it was not, or if nobody knows.

    It was if its status is 5, and it is known if its wait and what it asked for are.
    """
    wait_s, run_s = log.column("wait_s"), log.column("run_s")
    known = (log.column("status") == _CANCELLED_STATUS) & (wait_s >= 0) & (log.column("requested_s") >= 1)
    return np.where(known, wait_s + np.maximum(run_s, 0), -1.0)


def preceding(
    log: SwfLog, rows: NDArray[np.intp], numbers: NDArray[np.int64], how: str
) -> tuple[dict[str, NDArray[np.int64]], int]:
    """The columns for fields 17 and 18 of these rows, whose job numbers are `numbers`; and how many lost theirs.

    `how`: `start` (it starts after the preceding job's end) or `submit` (it is submitted think time after that).
    """
    predecessor = log.column("preceding")[rows].astype(np.int64)
    is_there = np.isin(predecessor, numbers) & (predecessor > 0) & (predecessor != numbers)
    kind = After.THINK if how == "submit" else After.ANY
    think_s = np.maximum(log.column("think_s")[rows], 0) if how == "submit" else np.zeros(len(rows))
    columns = {
        NUMBER: np.where(is_there, predecessor, -1),
        KIND: np.where(is_there, int(kind), -1),
        DELAY: np.where(is_there, np.rint(think_s * 1e6), -1).astype(np.int64),
    }
    return columns, int(((predecessor > 0) & ~is_there).sum())
