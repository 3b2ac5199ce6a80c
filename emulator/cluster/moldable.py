"""At which sizes jobs can run, and at which they did (`docs/moldable.md`).

A size is a number of nodes with the run time and the walltime on them. They are further columns of the job table
(`JobTable.extra`), put there by the key `moldable` of a scenario (`runs/moldable_sizes.py`) or by any transform.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from emulator.kernel.molding import Size
from emulator.kernel.rows import new_rows, plain, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from emulator.kernel.rows import Rows
    from emulator.record.run_record import RunRecord
    from emulator.workload.table import JobTable

COLUMNS = ("size_nodes", "size_run_us", "size_estimate_us")
"""Of a job's first size; those of the k-th end in `_k`. -1: it has no such size."""
ASKED = "asked_nodes"
"""Column of a record: the nodes that a job asked for, while `nodes` are those that it had."""
_MOST_TOLD = 10


@dataclass(frozen=True, slots=True)
class Sizes:
    """`size[first[j]:first[j + 1]]` are those of job j, the narrowest first.

    A job without any in its columns has what it asks for as its only size.
    """

    first: NDArray[np.int64]
    size: Rows[Size]

    @classmethod
    def of(cls, jobs: JobTable) -> Self:
        """The sizes of these jobs."""
        job, size = sizes_in(jobs)
        rigid = np.setdiff1d(np.arange(len(jobs)), job)
        limit_us = np.maximum(jobs.estimate_us, 1)
        asked = rows_of(Size, nodes=jobs.nodes, run_us=jobs.run_us, estimate_us=limit_us)
        job, size = np.concatenate((job, rigid)), joined((size, asked[rigid]))
        order = np.lexsort((size["nodes"], job))
        first = np.searchsorted(job[order], np.arange(len(jobs) + 1))
        return cls(first.astype(np.int64), size[order])


def joined(sizes: Sequence[Rows[Size]]) -> Rows[Size]:
    """These sizes, one table after the other."""
    return cast("Rows[Size]", np.concatenate(cast("Any", sizes)))


def suffix(number: int) -> str:
    """Behind the names of the columns of a job's size, counted from 1."""
    return "" if number == 1 else f"_{number}"


def sizes_in(jobs: JobTable) -> tuple[NDArray[np.int64], Rows[Size]]:
    """What the columns say: (job, size), one row a size, as in `Sizes.size`."""
    found_job: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    found = [new_rows(Size, 0)]
    for number in count(1):
        if COLUMNS[0] + suffix(number) not in jobs.extra:
            break
        nodes, run_us, estimate_us = (jobs.column(name + suffix(number)) for name in COLUMNS)
        there = nodes >= 0
        found_job.append(np.flatnonzero(there))
        found.append(rows_of(Size, nodes=nodes, run_us=run_us, estimate_us=estimate_us)[there])
    return np.concatenate(found_job), joined(found)


def with_columns(jobs: JobTable, job: NDArray[np.int64], size: Rows[Size]) -> JobTable:
    """The same jobs with these sizes and no others."""
    order = np.lexsort((size["nodes"], job))
    job, size = job[order], size[order]
    number = np.arange(len(job)) - np.searchsorted(job, job)
    most = max(int(number.max(initial=0)) + 1, 1)
    columns = {
        name + suffix(k + 1): np.full(len(jobs), -1, np.int64) for k in range(most) for name in COLUMNS
    }
    for k in range(most):
        selected = number == k
        for name in COLUMNS:
            columns[name + suffix(k + 1)][job[selected]] = size[name.removeprefix("size_")][selected]
    others = {name: each for name, each in jobs.extra.items() if not name.startswith(COLUMNS)}
    return replace(jobs, extra=others).with_extra(**columns)


def is_moldable(jobs: JobTable) -> NDArray[np.bool_]:
    """The jobs that have sizes."""
    return jobs.column(COLUMNS[0]) >= 0


def unlisted(record: RunRecord) -> Iterator[str]:
    """A sentence for each of the first jobs that ran at a size that is none of theirs."""
    jobs = record.jobs
    if not record.scenario.get("moldable") or ASKED not in jobs.extra:
        return
    job, size = sizes_in(jobs)
    had = np.column_stack((jobs.nodes, jobs.run_us, jobs.estimate_us))
    fits = np.zeros(len(jobs), np.bool_)
    fits[job[(plain(size) == had[job]).all(axis=1)]] = True
    fits |= ~is_moldable(jobs) & (jobs.nodes == jobs.column(ASKED))
    ran = np.zeros(len(jobs), np.bool_)
    ran[record.runs.job] = True
    for row in np.flatnonzero(ran & ~fits)[:_MOST_TOLD]:
        yield f"job {jobs.number[row]} ran on {jobs.nodes[row]} nodes in a way that is none of its sizes"
