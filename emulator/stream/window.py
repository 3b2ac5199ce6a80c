"""A cluster that knows only the jobs that are not over yet and the block that comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.cluster.cluster import Cluster
from emulator.kernel import tables as t
from emulator.record.layout import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

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


class Window:
    """Whole nodes under a plain scheduler, in virtual time; jobs come block by block and go when they are over."""

    def __init__(self, node_count: int, scheduler: SchedulerConfig) -> None:
        self._cluster = Cluster(node_count, scheduler)
        self._cluster.choose_nodes_afterwards()
        self._layout = Layout(node_count)
        self._ids = np.empty(0, np.int64)
        """Number of each job of the table, and of each run."""
        self._run_ids = np.empty(0, np.int64)
        self._runs_seen = 0
        self._jobs_seen = 0

    def feed(self, jobs: JobTable) -> None:
        """The next block: its jobs are submitted after all that happened so far."""
        kept, open_runs = self._cluster.go_on_with(jobs)
        self._ids = np.append(self._ids[kept], self._jobs_seen + np.arange(len(jobs)))
        self._jobs_seen += len(jobs)
        self._layout.keep(open_runs)
        self._run_ids = self._run_ids[open_runs]

    def go_on(self, before_us: int) -> Happened:
        """Let everything before this time happen (NEVER: all), which must be later than the block's last submit."""
        cluster = self._cluster
        job, registers = cluster.kernel_state.job, cluster.kernel_state.registers
        known = int(registers.runs_n)
        last_us = before_us if before_us == t.NEVER else before_us - 1
        cluster.advance(last_us)
        ended = int(registers.last_ended)
        if last_us != t.NEVER and (
            registers.next_submit < registers.jobs_n or (ended >= 0 and job["end_us"][ended] == last_us)
        ):
            cluster.finish_instant(last_us)
        return self._happened(known)

    def _happened(self, known: int) -> Happened:
        state = self._cluster.kernel_state
        runs = state.runs[: state.registers.runs_n]
        jobs = runs["job"]
        self._layout.lay_out(runs["start_us"].copy(), runs["end_us"].copy(), state.job["nodes"][jobs])
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
