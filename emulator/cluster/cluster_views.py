"""What a cluster's tables tell: its nodes, its queue, its jobs. Nothing here changes what happens.

The node table is filled when somebody first asks for single nodes: where jobs are wide it costs more than all else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.cluster.views import TableViews, read_only
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.kernel.tables import node_array
from emulator.record.layout import LaidOutLater, nodes_of_runs
from emulator.workload.table import COLUMNS, JobTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from emulator.cluster.rules import ClusterRules
    from emulator.cluster.selection import Selection
    from emulator.kernel import tables as t
    from emulator.record.run_record import RunTable


class IllegalJobTransition(RuntimeError):
    """A job was told to do what its state does not allow; the message names the job and its runs so far."""


class ClusterViews(TableViews):
    """The part of `Cluster` that only reads."""

    _job: t.Jobs
    _registers: t.Registers
    _runs: t.Runs
    _node: t.Nodes
    _node_job: NDArray[np.int64]
    _node_since: NDArray[np.int64]
    _node_offline: NDArray[np.int64]
    _free: NDArray[np.int32]
    _queue: NDArray[np.int32]
    _returns: int
    _submits_changed: bool
    """Whether a job was submitted at another time than it was known for."""
    _known: JobTable
    _added: list[tuple[int, ...]]
    node_count: int
    selection: Selection | None
    rules: ClusterRules
    has_own_rules: bool
    """Whether it decides over its jobs by rules that are not those of a plain scheduler."""

    @property
    def counts_nodes(self) -> bool:
        """Whether its passes only count whole nodes, which are all alike."""
        return self.selection is None and not self.has_own_rules

    @property
    def takes_events(self) -> bool:
        """Whether its nodes may fail, be maintained or sleep, and its jobs have rules (`ExternalEvents`)."""
        return not self.has_own_rules and (self.selection is None or self.selection.takes_events)

    @property
    def node_names(self) -> tuple[str, ...] | None:
        """Where they are not those of whole nodes."""
        return self.rules.node_names if self.selection is None else self.selection.node_names

    @property
    def kernel_table(self) -> t.Jobs:
        """`table` for compiled functions, which are compiled for arrays that can be written."""
        return self._job

    @property
    def node_job(self) -> NDArray[np.int64]:
        """The job that runs on each node, -1 for none."""
        self._keep_nodes()
        return self._node_job

    @property
    def node_since_us(self) -> NDArray[np.int64]:
        """When each node last became idle."""
        self._keep_nodes()
        return self._node_since

    @property
    def node_offline(self) -> NDArray[np.int64]:
        """1 for each node that is out of the batch pool, or will be when its job ends."""
        return self._node_offline

    @property
    def free_count(self) -> int:
        """Idle nodes of the batch pool."""
        return int(self._registers.idle_nodes)

    @property
    def queue(self) -> NDArray[np.int32]:
        """Waiting jobs, the head first."""
        waiting = self._queue[self._registers.queue_lo : self._registers.queue_hi]
        waiting.flags.writeable = False
        return waiting

    def submitted_us(self, job: int) -> int:
        """When the job was, or will be, submitted."""
        return int(self._job["submit_us"][job])

    def nodes_wanted(self, job: int) -> int:
        return int(self._job["nodes"][job])

    def nodes_of(self, job: int) -> NDArray[np.int32]:
        """The nodes of a running job; those of its last run, if it has ended or left its memory there."""
        if int(self._job["state"][job]) not in (JobState.ENDED, JobState.SUSPENDED):
            self.must_be(job, JobState.RUNNING, "have nodes")
        self._name_nodes()
        first = self._runs["first"][self._job["run_row"][job]]
        return self._log[first : first + self.nodes_wanted(job)].copy()

    def started_since(self, count: int) -> list[int]:
        """Jobs that began a run after the first `count` runs, in order; one that began twice is there twice."""
        jobs: list[int] = self._runs["job"][count : self._registers.runs_n].tolist()
        return jobs

    @property
    def node_changes(self) -> int:
        """Goes up by one whenever a job begins or leaves its nodes, or nodes are put back into the pool."""
        return int(self._registers.runs_n) + int(self._registers.ended_n) + self._returns

    def has_room_for(self, machines: int) -> bool:
        """Whether so many runs as there are nodes can begin, this many times, before the tables have to grow."""
        most = machines * self.node_count
        runs, nodes = len(self._runs) - self._registers.runs_n, len(self._log) - self._registers.log_n
        return bool(runs > most and nodes > most)

    def run_row(self, job: int) -> int:
        """The row of a job's present or last run in the run table."""
        return int(self._job["run_row"][job])

    @property
    def node_log(self) -> NDArray[np.int32]:
        """The nodes of all runs so far, one after the other."""
        return read_only(self._log[: self._registers.log_n])

    def jobs_of_nodes_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Whose runs have their nodes in the log from these places on; no run of theirs is without nodes."""
        runs = self._runs[: self._registers.runs_n]
        rows = np.searchsorted(runs["first"], places, side="right") - 1
        return np.asarray(runs["job"][rows])

    def expected_end_us(self, job: int) -> int:
        """When a running job should be over by its user's estimate."""
        return int(self._job["expected_end_us"][job])

    def ended_since(self, count: int) -> list[int]:
        """Jobs that left their nodes after the first `count` of `ended_count`, the earliest first."""
        row, ended = int(self._registers.last_ended), []
        for _ in range(self.ended_count - count):
            ended.append(row)
            row = int(self._job["ended_before"][row])
        return ended[::-1]

    def _show_nodes(self) -> None:
        """Columns of the node table, for those who only look."""
        self._node_job, self._node_since, self._node_offline = (
            read_only(self._node[field]) for field in ("job", "since_us", "offline")
        )

    def _keep_nodes(self) -> None:
        """Fill the node table from the runs so far; the compiled loops keep it up from now on.

        They do not before somebody asks, because that costs more than all the rest where jobs are wide.
        """
        registers = self._registers
        if registers.nodes_kept:
            return
        self._name_nodes()
        registers.nodes_kept = True
        runs = self._runs[: registers.runs_n]
        nodes = self._log[: registers.log_n]
        run = np.repeat(np.arange(len(runs)), np.diff(runs["first"], append=len(nodes)))
        is_over = runs["end_us"][run] >= 0
        over, open_ = run[is_over], run[~is_over]
        self._node["since_us"][nodes[is_over]] = runs["end_us"][over]  # of several the last one counts
        self._node["job"][nodes[~is_over]] = runs["job"][open_]
        self._node["place"][self._free[: registers.idle_nodes]] = np.arange(registers.idle_nodes)

    def choose_nodes_afterwards(self) -> None:
        """From the begin only count nodes: nobody is expected to ask which before the run is over.

        The runs then have intervals of nodes, as few as can be. Somebody who asks all the same is answered: from then
        on nodes are taken as they always are. Call it before anything has started.
        """
        self._registers.counts_only = not (self._registers.runs_n or self._registers.nodes_kept)

    def run_table(self) -> RunTable:
        """Every run so far."""
        table = super().run_table()
        if self.selection is not None:
            return self.selection.run_table(table, self._job)
        return LaidOutLater.of(table, self.node_count) if self._registers.counts_only else table

    def _laid_out(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Nodes of the runs so far that were only counted."""
        runs = self._runs[: self._registers.runs_n]
        width = self._job["nodes"][runs["job"]]
        columns = (runs["start_us"].copy(), runs["end_us"].copy(), width)
        return nodes_of_runs(self.node_count, *columns)

    def _name_nodes(self) -> None:
        """Somebody asks for single nodes that were only counted: from now on they have names."""
        registers = self._registers
        if not registers.counts_only:
            return
        first, nodes = self._laid_out()
        runs = self._runs[: registers.runs_n]
        self._log[: len(nodes)] = nodes
        is_free = np.ones(self.node_count, np.bool_)
        open_ = runs["end_us"] < 0
        is_free[nodes[np.repeat(open_, np.diff(first))]] = False
        self._free[: registers.idle_nodes] = np.flatnonzero(is_free)[::-1]
        registers.counts_only = False

    def known_nodes(self, nodes: Iterable[int]) -> NDArray[np.int64]:
        """These nodes as an array. Raises ValueError for one that is not there."""
        chosen = node_array(nodes)
        for node in chosen[(chosen < 0) | (chosen >= self.node_count)].tolist():
            raise ValueError(f"there is no node {node}; nodes are 0 to {self.node_count - 1}")
        return chosen

    def must_be(self, job: int, state: JobState, action: str) -> None:
        """Raises IllegalJobTransition, with the job's history, unless the job is in this state."""
        if not 0 <= job < len(self):
            raise ValueError(f"there is no job in row {job}; rows are 0 to {len(self) - 1}")
        found = int(self._job["state"][job])
        if found != state:
            raise IllegalJobTransition(
                f"job {self.number(job)} cannot {action}: it is {JobState(found).name}, not {state.name}"
                f"{self.story(job)}"
            )

    def story(self, job: int) -> str:
        """The runs of a job so far, for messages."""
        rows = np.flatnonzero(self._runs["job"][: self._registers.runs_n] == job)
        runs = ", ".join(
            f"ran {run.start_us / 1e6:g}-{run.end_us / 1e6:g} s ({RunOutcome(int(run.outcome)).name.lower()})"
            for run in self._runs[rows]
        )
        return f"; so far it {runs}" if runs else ""

    def number(self, job: int) -> int:
        """The number of the job in its trace."""
        known = len(self._known)
        return int(self._known.number[job]) if job < known else self._added[job - known][0]

    @property
    def extra_columns(self) -> frozenset[str]:
        """Names of what the job table has beside the columns of every table."""
        return frozenset(self._known.extra)

    def job_table(self) -> JobTable:
        """All jobs, those that were added included, with the submit times they really had. To look at only."""
        columns, extra = list(table_columns(self._known)), self._known.extra
        if self._added:
            added = np.array(self._added, np.int64)
            columns = [
                np.concatenate((known, new.astype(known.dtype)))
                for known, new in zip(columns, added.T, strict=True)
            ]
            unknown = np.full(len(self._added), -1)
            extra = {name: np.append(values, unknown) for name, values in extra.items()}
        if self._submits_changed:
            columns[1] = self._job["submit_us"][: len(self)].copy()
        shown = {name: read_only(values) for name, values in extra.items()}
        jobs = replace(table_of(map(read_only, columns)), extra=shown)
        return jobs if self.selection is None else self.selection.job_table(jobs, self._job)


def table_of(columns: Iterable[NDArray[Any]]) -> JobTable:
    """A job table of `table_columns`."""
    named: dict[str, Any] = dict(zip(COLUMNS, columns, strict=True))
    return JobTable(**named)


def table_columns(jobs: JobTable) -> tuple[NDArray[Any], ...]:
    """The columns of every job table, in their order."""
    return tuple(getattr(jobs, name) for name in COLUMNS)
