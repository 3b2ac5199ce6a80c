"""Dependencies, arrays, cancellations and deadlines from a file (transform `relations`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.workload.files import TraceError
from emulator.workload.job_file import lines_by_name, number_in, time_us_in
from emulator.workload.relations import (
    ARRAY,
    ARRAY_LIMIT,
    CANCEL,
    DEADLINE,
    DELAY,
    KIND,
    KIND_NAMES,
    NUMBER,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from emulator.workload.table import JobTable

_MOST_DEPENDENCIES = 1000
_COLUMNS = ("job", "after", "kind", "delay_s", "cancel_after_s", "deadline_after_s", "array", "array_limit")


@dataclass(frozen=True, slots=True)
class Relations:
    """The transform `relations`: dependencies, arrays, cancellations and deadlines from a CSV file with a header.

    `job` and any of `after`, `kind` (after, afterok, afternotok, afterany, think; afterany if empty), `delay_s`,
    `cancel_after_s`, `deadline_after_s`, `array` and `array_limit`. A job that waits for several others has a line for
    each. Jobs that the workload does not have are passed over.
    """

    trace: str

    def __post_init__(self) -> None:
        if not isinstance(self.trace, str | Path):
            raise ValueError(f"relations: trace must be the name of a file, not {self.trace!r}")  # noqa: TRY004 - a border: one kind of error

    def apply(self, jobs: JobTable, *, nodes: int) -> JobTable:  # noqa: ARG002
        place = {number: row for row, number in enumerate(jobs.number.tolist())}
        columns: dict[str, NDArray[np.int64]] = {}
        count: dict[int, int] = {}

        def put(name: str, row: int, value: int) -> None:
            if name not in columns:
                columns[name] = jobs.column(name)
            columns[name][row] = value

        for where, values in lines_by_name(Path(self.trace), _COLUMNS):
            row = place.get(number_in(values, "job", where))
            if row is None:
                continue
            if values["after"]:
                count[row] = count.get(row, 0) + 1
                if count[row] > _MOST_DEPENDENCIES:
                    raise TraceError(f"{where}: a job can wait for {_MOST_DEPENDENCIES} others at most")
                suffix = "" if count[row] == 1 else f"_{count[row]}"
                put(NUMBER + suffix, row, number_in(values, "after", where))
                put(KIND + suffix, row, _kind(values, where))
                put(DELAY + suffix, row, time_us_in(values, "delay_s", where) if values["delay_s"] else 0)
            for name, column in (("cancel_after_s", CANCEL), ("deadline_after_s", DEADLINE)):
                if values[name]:
                    put(column, row, time_us_in(values, name, where))
            for name, column in (("array", ARRAY), ("array_limit", ARRAY_LIMIT)):
                if values[name]:
                    value = number_in(values, name, where)
                    if column == ARRAY_LIMIT and value == 0:
                        raise TraceError(f"{where}: array_limit is 0, so none of its jobs could ever run")
                    put(column, row, value)
        return jobs.with_extra(**columns)


def _kind(values: dict[str, str], where: str) -> int:
    kind = KIND_NAMES.get(values["kind"] or "afterany")
    if kind is None:
        raise TraceError(f"{where}: kind is {values['kind'][:40]!r}; known: {', '.join(KIND_NAMES)}")
    return int(kind)
