"""A mechanism in the batch server: the harness of virtual time with events from outside and actions that go out.

Submissions, notices and the ends of jobs are learned (from users and node agents) instead of known; all accounting,
and the order of what happens at one time, is that of `emulator/harness/harness.py`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from balancer.clock import NEVER_US, Rank
from emulator.harness import tables as t
from emulator.harness import work as w
from emulator.harness.harness import Harness, _Point
from emulator.harness.record import JobState
from emulator.harness.running import Activity, Save
from emulator.live.torque import errors
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.harness.cluster import Cluster
    from emulator.harness.executor_live import LiveExecutor
    from emulator.harness.mechanism import Mechanism
    from emulator.harness.record import RunOutcome
    from emulator.live.torque.jobs import JobRequest

ON_DEMAND_QUEUE = "ondemand"
ROW_VARIABLE = "WORKLOAD_JOB"
"""`qsub -v WORKLOAD_JOB=17`: the job of the workload with this number."""


class Outside(Protocol):
    """What carries out actions: the batch server. Jobs are rows of the workload."""

    def run_begins(self, row: int, now_us: int) -> None:
        """The job has nodes from now on."""

    def run_leaves(self, row: int, now_us: int, *, save: bool) -> None:
        """The job has lost its nodes and waits again; `save`: it may write a checkpoint first, which takes no time."""

    def run_changes(self, row: int, now_us: int, save_us: int = NEVER_US) -> None:
        """Other nodes or another phase; `save_us`: when what is done by now is a whole checkpoint."""

    def job_rejected(self, row: int, reason: str, now_us: int) -> None:
        """An on-demand job gets nothing."""


class MechanismHost(Harness):
    """`Actions` of a mechanism in a live run. `cluster` holds the whole workload; everything is told the time."""

    def __init__(
        self,
        cluster: Cluster,
        mechanism: Mechanism,
        node_names: tuple[str, ...],
        executor: LiveExecutor,
        outside: Outside,
    ) -> None:
        self._executor = executor
        self._outside = outside
        self._saves_now = False
        self._ended_now: list[int] = []
        self._reserved_and_gone: set[int] = set()
        self.begun = False
        super().__init__(cluster, mechanism, node_names=node_names)
        jobs = cluster.job_table()
        self._kind = jobs.kind
        self._row_of_number = {int(number): row for row, number in enumerate(jobs.number)}
        self._predicted_us = jobs.column("predicted_us")

    def _add_arrivals(self, jobs: Any) -> None:
        """They come when they come."""

    # From outside.

    def row_of(self, request: JobRequest) -> int:
        """The row of the workload that a submission is. Raises PbsError for one that it is not."""
        number = dict(request.variables).get(ROW_VARIABLE, "")
        row = self._row_of_number.get(int(number)) if number.isdecimal() else None
        if row is None or self.cluster.state[row] != JobState.FUTURE:
            problem = (
                f"this server replays a workload: {ROW_VARIABLE} must be a job of it that was not submitted"
            )
            raise errors.not_in_workload(problem)
        queue_is_right = (request.queue == ON_DEMAND_QUEUE) == (self._kind[row] == Kind.ON_DEMAND)
        if not queue_is_right or request.nodes != self.cluster.nodes_wanted(row):
            raise errors.not_in_workload(f"job {number} of the workload is another one")
        return row

    def begin(self, now_us: int) -> None:
        """All nodes are there."""
        self.now_us = now_us
        self.begun = True
        if self._at_predicted is not None:
            for row in np.flatnonzero((self._kind == Kind.ON_DEMAND) & (self._predicted_us >= 0)):
                self._add(int(self._predicted_us[row]), _Point.PREDICTED, int(row))
        if self._at_begin is not None:
            self._at_begin.on_begin(self)

    def submit(self, row: int, now_us: int) -> None:
        """A batch job comes into the queue, an on-demand job arrives."""
        self._enter(now_us)
        if self._kind[row] == Kind.BATCH:
            self.cluster.submit(row, now_us)
        elif self.mechanism is not None:
            self.mechanism.on_arrival(row, self)

    def notice(self, number: int, now_us: int) -> None:
        """An on-demand job is announced. Raises PbsError for a number that is not in the workload."""
        row = self._row_of_number.get(number)
        if row is None or self._kind[row] == Kind.BATCH:
            raise errors.unknown_job(str(number))
        if self._at_notice is not None:
            self._enter(now_us)
            self._at_notice.on_notice(row, self)

    def run_ended(self, row: int, outcome: RunOutcome, now_us: int) -> None:
        """The job's node says that it is over."""
        self._enter(now_us)
        if row in self._lease_ends:
            self._complete(row)
            return
        self.cluster.end(row, now_us, outcome)
        if not self._ended_now:  # when all ends of this time are told, and before anything else of it
            self._executor.at(now_us, self._all_ended, Rank.CHECKPOINT, order=-1)
        self._ended_now.append(row)

    def _all_ended(self, now_us: int) -> None:
        self._enter(now_us)
        ended, self._ended_now = self._ended_now, []
        self._tell_of_ends(ended)

    def run_lost(self, row: int, now_us: int) -> None:
        """A run broke off without anybody's wish: the job waits again with what it had saved."""
        self._enter(now_us)
        nodes = self.running.preempt(row, Save.LATEST_CHECKPOINT, now_us)
        super()._stopped(row, [int(node) for node in nodes])

    def pass_over(self, now_us: int) -> None:
        """The scheduler has started what it could."""
        self.now_us = now_us
        if self._watching_passes:
            self._pass_over()

    def node_gone(self, node: int, now_us: int, *, died: bool) -> None:
        """A node's agent is lost for good, or (not `died`) an operator wants the node for himself."""
        self._enter(now_us)
        if self.cluster.node_offline[node] and self.cluster.node_job[node] < 0:
            self._reserved_and_gone.add(node)
        elif died:
            self.take_down([node])
        else:
            self.cluster.take_offline([node], now_us)

    def node_back(self, node: int, now_us: int) -> None:
        if not self.begun:
            self.cluster.bring_online([node], now_us)
        elif node in self._reserved_and_gone:
            self._reserved_and_gone.discard(node)  # the mechanism has had it all the time
        else:
            self._enter(now_us)
            self.repair([node])

    def _enter(self, now_us: int) -> None:
        self.now_us = now_us
        self._executor.ask_for_pass(now_us)

    # Decision points that this side makes: timers, saves and predicted arrivals.

    def _add(self, at_us: int, point: _Point, job: int) -> None:
        if point != _Point.COMPLETION:  # that is the node's to tell
            self._executor.at(at_us, partial(self._due, at_us, point, job), Rank(point), order=job)

    def _due(self, due_us: int, point: _Point, job: int, now_us: int) -> None:
        is_timer = point == _Point.TIMER and due_us == self._wake_us and self._at_timer is not None
        is_save = point == _Point.CHECKPOINT and self._save_ends.get(job, (-1, False))[0] == due_us
        if is_timer or is_save or point == _Point.PREDICTED:
            self._enter(now_us)
        if is_timer and self._at_timer is not None:
            self._wake_us = NEVER_US
            self._at_timer.on_timer(self)
        elif is_save:
            self._written(job)
        elif point == _Point.PREDICTED and self._at_predicted is not None:
            self._at_predicted.on_predicted(job, self)

    # To the outside: each action does its accounting, then happens.

    def start(self, job: int, nodes: Iterable[int]) -> None:
        super().start(job, nodes)
        self._outside.run_begins(job, self.now_us)

    def reject(self, job: int, reason: str) -> None:
        super().reject(job, reason)
        self._outside.job_rejected(job, reason, self.now_us)

    def requeue(self, job: int, *, front: bool = False) -> None:
        super().requeue(job, front=front)
        self._outside.run_leaves(job, self.now_us, save=False)

    def preempt(
        self, job: int, save: Save = Save.NONE, *, write_us: int = 0, front: bool = False
    ) -> list[int]:
        self._saves_now = save is Save.NOW
        nodes = super().preempt(job, save, write_us=write_us, front=front)
        self._saves_now = False
        if self.cluster.state[job] == JobState.RUNNING:  # it writes, and leaves in `_written`
            self._outside.run_changes(job, self.now_us, self.now_us + write_us)
        return nodes

    def _stopped(self, job: int, nodes: list[int]) -> None:
        super()._stopped(job, nodes)
        self._outside.run_leaves(job, self.now_us, save=self._saves_now)

    def checkpoint(self, job: int, *, write_us: int = 0) -> None:
        super().checkpoint(job, write_us=write_us)
        self._outside.run_changes(job, self.now_us, self.now_us + write_us)

    def resize(self, job: int, nodes: Iterable[int], *, pause_us: int = 0) -> None:
        super().resize(job, nodes, pause_us=pause_us)
        self._outside.run_changes(job, self.now_us)

    def suspend(self, job: int) -> None:
        super().suspend(job)
        self._outside.run_changes(job, self.now_us)

    def resume(self, job: int) -> None:
        super().resume(job)
        self._outside.run_changes(job, self.now_us)

    def set_rate(self, job: int, numerator: int, denominator: int) -> None:
        super().set_rate(job, numerator, denominator)
        self._outside.run_changes(job, self.now_us)

    # For the outside.

    def phase(self, row: int) -> dict[str, Any]:
        """How a running job computes from now on (`emulator.live.runs.Phase`)."""
        rank = Rank.COMPLETION if row in self._lease_ends else Rank.JOB_END
        table = self.cluster.table
        if "running" not in self.__dict__:  # nothing was ever done to a running job
            start_us = int(table[row, t.START])
            return {"since_us": start_us, "end_us": start_us + int(table[row, t.RUN]), "rank": int(rank)}
        running = self.running
        work = running.work
        _, done, since_us, num, den = (int(value) for value in w.phase_of(table, work, row))
        left = running.owed(row) - done
        end_us = NEVER_US
        if since_us != w.STILL:
            end_us = since_us + int(w.length_us(work, row, left, self.cluster.nodes_wanted(row), num, den))
        return {
            "since_us": min(since_us, NEVER_US),
            "end_us": end_us,
            "num": num,
            "den": den,
            "interval_us": int(work[row, w.INTERVAL]),
            "cost_us": int(work[row, w.COST]),
            "suspended": running.activity(row) is Activity.SUSPENDED,
            "fresh": int(work[row, w.SAVED]) == 0,
            "rank": int(rank),
        }

    @property
    def is_idle(self) -> bool:
        """No job runs."""
        return not np.any(self.cluster.state == JobState.RUNNING)

    def export(self) -> dict[str, Any]:
        """The run so far; times in us, jobs are rows, nodes places in the list of nodes."""
        record = self.record()
        runs = record.runs
        return {
            "submit_us": record.jobs.submit_us.tolist(),
            "state": record.state.tolist(),
            "start_us": record.start_us.tolist(),
            "end_us": record.end_us.tolist(),
            "runs": {name: getattr(runs, name).tolist() for name in runs.__slots__},
            "moves": [[move.at_us, list(move.nodes), move.pool.value] for move in self._moves],
            "leases": [[each.job, each.granted, each.decided_us, each.reason] for each in record.leases],
        }
