"""What every machine's tables tell, whatever its kernel does: they begin with the same columns (`tables.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from emulator.kernel.columns import copies
from emulator.record.run_record import RunTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.kernel import tables as t
    from emulator.kernel.rows import Rows


T = TypeVar("T")


def read_only(array: T) -> T:
    """The same memory, for those who only look; so are slices of it."""
    view = cast("NDArray[Any]", array).view()
    view.flags.writeable = False
    return cast("T", view)


class TableViews:
    """The part of `Machine` that only reads. Columns are read-only views of live memory: copy what must not change."""

    _job: t.EveryJobs
    _runs: Rows[t.Run]
    _log: NDArray[np.int32]
    _registers: t.EveryRegisters
    _shown: t.EveryJobs | None = None
    _shown_of: t.EveryJobs | None = None

    def __len__(self) -> int:
        """Jobs in the table."""
        return int(self._registers.jobs_n)

    @property
    def table(self) -> t.EveryJobs:
        """The kernel's job table (`tables.py` says what a row has), also rows without a job."""
        if self._shown is None or self._shown_of is not self._job:  # it has grown
            self._shown, self._shown_of = read_only(self._job), self._job
        return self._shown

    @property
    def state(self) -> NDArray[np.int64]:
        """`JobState` of each job."""
        return self.table["state"][: len(self)]

    @property
    def start_us(self) -> NDArray[np.int64]:
        """When each job started, -1 if it did not."""
        return self.table["start_us"][: len(self)]

    @property
    def end_us(self) -> NDArray[np.int64]:
        return self.table["end_us"][: len(self)]

    @property
    def now_us(self) -> int:
        return int(self._registers.now)

    @property
    def ended_count(self) -> int:
        """Runs that have ended so far."""
        return int(self._registers.ended_n)

    def run_table(self) -> RunTable:
        """Every run so far. A copy, but for the nodes, which are only ever appended: they may fill a gigabyte."""
        runs = self._runs[: self._registers.runs_n]
        logged = int(self._registers.log_n)
        nodes = self._log[:logged]
        nodes.flags.writeable = False
        job, start_us, end_us, outcome = copies(
            runs, {"job": np.int32, "start_us": np.int64, "end_us": np.int64, "outcome": np.int8}
        )
        first = np.append(runs["first"], logged)
        return RunTable(job, start_us, end_us, outcome, first, nodes)
