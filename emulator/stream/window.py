"""A cluster that knows only the jobs that are not over yet and the block that comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.cluster.cluster import Cluster
from emulator.kernel import tables as t
from emulator.kernel.columns import longer
from emulator.kernel.job_states import JobState
from emulator.kernel.rows import new_rows, plain
from emulator.record.layout import Layout
from emulator.stream.blocks import joined
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.schedulers.config import SchedulerConfig

    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Happened:
    """What a block of time brought. Jobs and runs are numbered from the begin of the log, from 0.

    Run `first_run + k` is of job `started[k]`, begins at `start_us[k]` and has the intervals
    `pieces[cut[k]:cut[k + 1]]` (`layout.PIECE`). `over`: the runs that ended, of job `ended` at `end_us`.
    """

    first_run: int
    started: Ints
    start_us: Ints
    cut: Ints
    pieces: NDArray[Any]
    over: Ints
    ended: Ints
    end_us: Ints


class Window(Cluster):
    """Whole nodes under a plain scheduler, in virtual time; jobs come block by block and go when they are over."""

    def __init__(self, node_count: int, scheduler: SchedulerConfig) -> None:
        super().__init__(node_count, scheduler, JobTable.empty())
        self.choose_nodes_afterwards()
        self._layout = Layout(node_count)
        self._ids = np.empty(0, np.int64)
        """Number of each job of the table, and of each run."""
        self._run_ids = np.empty(0, np.int64)
        self._runs_seen = 0
        self._jobs_seen = 0

    def feed(self, jobs: JobTable) -> None:
        """The next block: its jobs are submitted after all that happened so far."""
        registers, old = self._registers, self._job[: len(self)]
        kept = np.flatnonzero(old["state"] != JobState.ENDED)
        row_of = np.full(len(old), -1, np.int64)
        row_of[kept] = np.arange(len(kept))
        waiting = row_of[self.queue]
        count = len(kept) + len(jobs)
        self._job = new_rows(t.Job, max(count, 64))
        plain(self._job)[: len(kept)] = plain(old)[kept]
        self._known = joined(self._known.take(kept), jobs)
        self._fill_rows(jobs, len(kept))
        self._ids = np.append(self._ids[kept], self._jobs_seen + np.arange(len(jobs)))
        self._jobs_seen += len(jobs)
        self._keep_open_runs(row_of, count)
        ending = self._heap["key"][: registers.heap_n]
        ending[:] = row_of[ending]
        self._queue = np.zeros(2 * len(self._job) + 8, np.int32)
        middle = len(self._queue) // 2
        self._queue[middle : middle + len(waiting)] = waiting
        registers.queue_lo, registers.queue_hi = middle, middle + len(waiting)
        registers.jobs_n, registers.next_submit = count, len(kept)
        registers.last_ended = -1
        registers.kept_submits = np.searchsorted(kept, registers.kept_submits)
        registers.kept_head = row_of[registers.kept_head] if registers.kept_head >= 0 else -1
        self._scratch = self._new_scratch()
        self._make_state()

    def _keep_open_runs(self, row_of: Ints, jobs: int) -> None:
        runs = self._runs[: self._registers.runs_n]
        open_ = np.flatnonzero(runs["end_us"] < 0)
        self._layout.keep(open_)
        self._run_ids = self._run_ids[open_]
        kept = runs[open_]
        kept["job"][:] = row_of[kept["job"]]
        self._job["run_row"][kept["job"]] = np.arange(len(open_))
        self._runs = longer(kept, jobs + 2 * self.node_count + 8)
        self._registers.runs_n = len(open_)
        self._registers.kept_runs = np.searchsorted(open_, self._registers.kept_runs)
        self._log = np.zeros(
            int(self._known.nodes.sum()) + 2 * self.node_count + 8, np.int32
        )  # never touched
        self._registers.log_n = 0

    def go_on(self, before_us: int) -> Happened:
        """Let everything before this time happen (NEVER: all), which must be later than the block's last submit."""
        registers = self._registers
        known = int(registers.runs_n)
        last_us = before_us if before_us == t.NEVER else before_us - 1
        self.advance(last_us)
        ended = int(registers.last_ended)
        if last_us != t.NEVER and (
            registers.next_submit < registers.jobs_n or (ended >= 0 and self._job["end_us"][ended] == last_us)
        ):
            self.finish_instant(last_us)
        return self._happened(known)

    def _happened(self, known: int) -> Happened:
        runs = self._runs[: self._registers.runs_n]
        jobs = runs["job"]
        self._layout.lay_out(runs["start_us"].copy(), runs["end_us"].copy(), self._job["nodes"][jobs])
        first_run = self._runs_seen
        self._runs_seen += len(runs) - known
        self._run_ids = np.append(self._run_ids, np.arange(first_run, self._runs_seen))
        over = np.flatnonzero(runs["end_us"] >= 0)
        cut = self._layout.cut[known:]
        return Happened(
            first_run=first_run,
            started=self._ids[jobs[known:]],
            start_us=runs["start_us"][known:].copy(),
            cut=cut - cut[0],
            pieces=self._layout.pieces[cut[0] :].copy(),
            over=self._run_ids[over],
            ended=self._ids[jobs[over]],
            end_us=runs["end_us"][over].copy(),
        )
