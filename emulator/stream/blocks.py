"""A job log in blocks of jobs that can be replayed, in order of submit: the input rules without the whole log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.workload.files import TraceError
from emulator.workload.formats import find_format
from emulator.workload.rules import (
    BEFORE_ORIGIN,
    MALFORMED,
    RENUMBERED,
    NothingToReplayError,
    cluster_size,
    to_jobs,
)
from emulator.workload.swf import SwfFormat
from emulator.workload.table import JobTable, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from emulator.config.run_parts import WorkloadPart
    from emulator.workload.workload import Workload

_HINT = "run it without --stream"


@dataclass(slots=True)
class LogBlocks:
    """The jobs of an SWF log, block by block. `left_out` and `counted` grow with the blocks that are read.

    The blocks together are what `to_jobs` makes of the whole log, for logs whose jobs are in order of submit with
    rising numbers, as archives have them. Another log is refused where that shows (TraceError).
    """

    path: Path
    part: WorkloadPart
    nodes: int | None
    """Of the cluster; None: as the header says, known from the first block on."""
    on_waits: Callable[[NDArray[np.int64]], None]
    """Gets the recorded waits of the jobs, in their order (us, -1: not known)."""
    left_out: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    _origin_s: float | None = None
    _last: tuple[int, int] = (-1, -1)
    """Submit and number of the last job so far."""

    def __iter__(self) -> Iterator[JobTable]:
        """Blocks with at least one job; none begins at the submit with which the one before it ends."""
        reader = find_format(self.path)
        if not isinstance(reader, SwfFormat):
            raise TraceError(f"{self.path}: --stream reads logs in SWF; {_HINT}, or convert it first")
        kept: JobTable | None = None
        for log in reader.read_blocks(self.path, lenient=self.part.lenient):
            if self.nodes is None:
                self.nodes = cluster_size(log, self.part.procs_per_node)
            jobs = self._replayable(log)
            if jobs is None:
                continue
            jobs = jobs if kept is None else joined(kept, jobs)
            cut = int(np.searchsorted(jobs.submit_us, jobs.submit_us[-1]))
            if cut:
                yield jobs.take(np.arange(cut))
            kept = jobs.take(np.arange(cut, len(jobs)))
        if kept is None:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items())
            raise TraceError(f"{self.path}: no job can be replayed ({reasons or 'there are no job lines'})")
        yield kept

    def _replayable(self, log: Any) -> JobTable | None:
        part = self.part
        if not len(log):
            self._count({}, {MALFORMED: log.malformed})
            return None
        try:
            work = to_jobs(
                log,
                nodes=self.nodes,
                procs_per_node=part.procs_per_node,
                overrun=part.overrun,
                size=part.size,
                origin_s=part.origin_s if self._origin_s is None else self._origin_s,
                zero_run=part.zero_run,
                no_estimate=part.no_estimate,
            )
        except NothingToReplayError as error:
            self._count(error.left_out, {MALFORMED: log.malformed})
            return None
        goes_back = self._origin_s is not None and part.origin_s is None and BEFORE_ORIGIN in work.left_out
        self._origin_s = work.shift_s
        self._count(work.left_out, work.counted)
        self._must_be_in_order(work, goes_back=goes_back)
        if work.wait_us is not None:
            self.on_waits(work.wait_us)
        return work.jobs

    def _count(self, left_out: dict[str, int], counted: dict[str, int]) -> None:
        for total, more in ((self.left_out, left_out), (self.counted, counted)):
            for what, count in more.items():
                total[what] = total.get(what, 0) + count

    def _must_be_in_order(self, work: Workload, *, goes_back: bool) -> None:
        jobs = work.jobs
        strange = [what for what in work.counted if what == RENUMBERED or "number too large" in what]
        if strange:
            raise TraceError(f"{self.path}: {strange[0]}: such a log cannot be read in blocks; {_HINT}")
        is_sorted = bool((np.diff(work.rows) > 0).all() and (np.diff(jobs.number) > 0).all())
        first = (int(jobs.submit_us[0]), int(jobs.number[0]))
        if goes_back or not is_sorted or first[0] < self._last[0] or first[1] <= self._last[1]:
            raise TraceError(
                f"{self.path}: jobs are not in order of submit with rising numbers, which --stream needs; {_HINT}"
            )
        self._last = (int(jobs.submit_us[-1]), int(jobs.number[-1]))
