"""The machine: job states, nodes, the queue and the scheduler's pass. No clock, no I/O.

The same object serves a simulated run, where `advance` lets ends and submits happen by themselves, and a live
one, where a server tells it of each submit and end. Jobs are rows of the job table, nodes are indices.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from emulator.cluster.cluster_tables import ClusterTables
from emulator.cluster.cluster_views import IllegalJobTransition, table_columns, table_of
from emulator.cluster.rules import ClusterRules
from emulator.kernel import occupancy, reshape, structures
from emulator.kernel import tables as t
from emulator.kernel.entry_points import entry_points
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from emulator.cluster.selection import Selection
    from emulator.schedulers.config import SchedulerConfig

_OCCUPY, _CHANGE_NODES, _RETIME = entry_points(reshape.occupy, reshape.change_nodes, reshape.retime)
_TAKE_OFFLINE, _BRING_ONLINE, _START_ON, _END_JOB = entry_points(
    occupancy.take_offline, occupancy.bring_online, occupancy.start_on, occupancy.end_job
)
_LATER = 1 << 54
"""More than any time: a key times this, and a time beside it. `t.FRONT` is less than all of them."""
_MOST_PRIORITY = 256


Stop = t.Stop


class Cluster(ClusterTables):
    """`node_count` whole nodes and a batch queue over them.

    `jobs`: known in advance (a simulated run), or none (a live run, which `add`s them).
    `simulated`: jobs end by themselves after their run time; otherwise `end` says so.
    `selection`: which nodes a job gets, where they are not all alike to it (virtual time only).
    `rules`: by which jobs start and end, if not those of a plain scheduler.
    """

    def __init__(
        self,
        node_count: int,
        scheduler: SchedulerConfig,
        jobs: JobTable | None = None,
        *,
        simulated: bool = True,
        selection: Selection | None = None,
        rules: ClusterRules | None = None,
    ) -> None:
        if node_count < 1:
            raise ValueError(f"a cluster needs at least one node, not {node_count}")
        if scheduler.cycle_s and not simulated:
            raise ValueError("scheduler cycle_s: a cycle is kept in virtual time only")
        if scheduler.virtual_only and not simulated:
            raise ValueError(f"scheduler {scheduler.virtual_only[0]}: this is known in virtual time only")
        if selection is not None and not simulated:
            raise ValueError("a selection chooses nodes in virtual time only")
        self.selection = selection
        self.rules = ClusterRules() if rules is None else rules
        self.has_own_rules = bool(self.rules.name)
        if scheduler.commit and selection is not None:
            raise ValueError(
                "scheduler commit: jobs are picked for good where whole nodes of one kind are counted"
            )
        if scheduler.predict is not None:
            if not self.counts_nodes:
                raise ValueError(
                    "scheduler predict: run times are predicted where whole nodes of one kind are counted"
                )
            self.has_own_rules = True
        super().__init__(
            node_count, scheduler, JobTable.empty() if jobs is None else jobs, simulated=simulated
        )

    # Simulated time.

    def advance(
        self, until_us: int, *, stop_on_end: bool = False, stop_on_pass: bool = False, pause_after: int = -1
    ) -> Stop:
        """Let everything before `until_us`, and the job ends at it, happen (NEVER_US: to the end).

        Returns why it stopped; `stop_on_end`, `stop_on_pass` and `pause_after` (instants) make it stop earlier.
        """
        self._registers.stop_on_end = stop_on_end
        self._registers.stop_on_pass = stop_on_pass
        self._registers.instants_left = pause_after
        while (code := self.rules.advance(self._state, until_us)) == t.Stop.NEEDS_ROOM:
            self.make_more_room()
        self.check_hook()
        return Stop(code)

    def finish_instant(self, now_us: int) -> None:
        """Submits of this instant, then one scheduling pass."""
        self._make_room()
        self.rules.finish_instant(self._state, now_us)
        self.check_hook()

    @property
    def next_event_us(self) -> int:
        """The next end, submit or scheduling cycle of a simulated run, t.NEVER if there is none."""
        return self.rules.next_event_us(self._state)

    # A whole run in a mechanism's own compiled loop (`HasWholeRun`).

    def run_whole(self, run: Callable[[t.State], int], pause_after: int) -> int:
        """Let the compiled loop `run` go on with this cluster, of which single nodes are known; why it came back."""
        self._keep_nodes()
        self._registers.stop_on_end = self._registers.stop_on_pass = 0
        self._registers.instants_left = pause_after
        return int(run(self._state))

    # One event at a time.

    def add(
        self,
        *,
        number: int,
        submit_us: int,
        estimate_us: int,
        nodes: int,
        run_us: int = 0,
        kind: int = Kind.BATCH,
        queue: int = -1,
        user: int = -1,
        group: int = -1,
    ) -> int:
        """A job that was not known before. Returns its row; its state is FUTURE until `submit`."""
        row = len(self)
        if row == len(self._job):
            self._grow_jobs()
        values = (number, submit_us, run_us, max(estimate_us, 1), nodes, kind, queue, user, group, -1)
        one = table_of(
            np.array([v], a.dtype) for v, a in zip(values, table_columns(self._known), strict=True)
        )
        self._fill_rows(one, row)  # asks the order, which may raise: then the job was never added
        self._added.append(values)
        self._job["state"][row] = JobState.FUTURE
        self._registers.jobs_n = row + 1
        return row

    def submit(self, job: int, now_us: int) -> None:
        self.must_be(job, JobState.FUTURE, "be submitted")
        self._job["submit_us"][job] = now_us
        self._submits_changed = True
        self._job["state"][job] = JobState.QUEUED
        structures.queue_insert(self._job, self._queue, self._registers, job)

    def hold(self, job: int) -> None:
        self.must_be(job, JobState.QUEUED, "be held")
        structures.queue_remove(self._queue, self._registers, job)
        self._job["state"][job] = JobState.HELD

    def release_hold(self, job: int) -> None:
        self.must_be(job, JobState.HELD, "be released from a hold")
        self._job["state"][job] = JobState.QUEUED
        structures.queue_insert(self._job, self._queue, self._registers, job)

    def hold_back(self, job: int) -> None:
        """A job that is submitted now is held at once."""
        self.must_be(job, JobState.FUTURE, "be held back")
        self._job["state"][job] = JobState.HELD

    def submit_later(self, job: int, now_us: int) -> None:
        """A held job counts as submitted only now, which is no earlier than it did."""
        self.must_be(job, JobState.HELD, "be submitted later")
        self._job["submit_us"][job] = now_us
        self._submits_changed = True
        if self._has_fixed_keys:
            one = replace(self._known.take(np.array([job])), submit_us=np.array([now_us]))
            key = self._order(one, self.scheduler)[0]
            self._job["key"][job] = key * _LATER + now_us if self._keys_have_submits else key

    def expect_later_submits(self) -> None:
        """Call it before anything happens, if `submit_later` will be called: rows are not in order of submit then.

        First come, first served goes by the submits then, and by rows only between equal ones. Other orders leave it at
        that: of equal keys the lower row comes first. Raises ValueError for priorities that leave no room for this.
        """
        if self.scheduler.order_name not in ("fcfs", "priority"):
            return
        keys = self._job["key"][: len(self)]
        if np.abs(keys).max(initial=0) >= _MOST_PRIORITY:
            raise ValueError(
                f"priorities beyond {_MOST_PRIORITY - 1} do not go with jobs that are submitted after others' ends"
            )
        self._job["key"][: len(self)] = keys * _LATER + self._job["submit_us"][: len(self)]
        self._keys_have_submits = True

    def cancel(self, job: int, now_us: int) -> None:
        """Take a job that does not run out of the queue for good."""
        if self._job["state"][job] == JobState.QUEUED:
            structures.queue_remove(self._queue, self._registers, job)
        else:
            self.must_be(job, JobState.HELD, "be cancelled while it waits")
        self._job["state"][job] = JobState.CANCELLED
        self._job["end_us"][job] = now_us

    def reject(self, job: int, now_us: int) -> None:
        """An on-demand lease gets no nodes."""
        self.must_be(job, JobState.FUTURE, "be rejected")
        self._job["state"][job] = JobState.REJECTED
        self._job["end_us"][job] = now_us

    def end(self, job: int, now_us: int, outcome: RunOutcome = RunOutcome.FINISHED) -> None:
        """A running job is over; its nodes return to the pool unless they are offline."""
        self.must_be(job, JobState.RUNNING, "end")
        if self._registers.simulated and self._job["expected_end_us"][job]:
            structures.heap_remove(self._heap, self._registers, job)
        _END_JOB(
            self._job, self._node, self._free, self._plan, self._blocks, self._runs, self._log,
            self._registers, job, now_us, int(outcome),
        )  # fmt: skip
        if outcome == RunOutcome.CANCELLED:
            self._job["state"][job] = JobState.CANCELLED
        self.rules.has_left(job, now_us)

    def requeue(
        self, job: int, now_us: int, *, front: bool = False, outcome: RunOutcome = RunOutcome.REQUEUED
    ) -> None:
        """A running job loses its nodes and waits again, `front`: before all others; held back, if its rules do so."""
        self.end(job, now_us, outcome)
        self._wait_again(job, front=front, is_held=self.rules.holds_back(job, now_us))

    def _wait_again(self, job: int, *, front: bool, is_held: bool = False) -> None:
        self._job["state"][job] = JobState.HELD if is_held else JobState.QUEUED
        self._job["start_us"][job] = self._job["end_us"][job] = -1
        if front:
            self._job["key"][job] = t.FRONT
        if not is_held:
            structures.queue_insert(self._job, self._queue, self._registers, job)

    def suspend(self, job: int, now_us: int) -> None:
        """A running job leaves its nodes and keeps its memory there. It began when its run began."""
        self.end(job, now_us, RunOutcome.SUSPENDED)
        self._job["state"][job] = JobState.SUSPENDED
        self._job["end_us"][job] = -1

    def resume(self, job: int, now_us: int, end_us: int, expected_us: int) -> None:
        """A suspended job has its nodes again, which must be idle; offline ones stay offline."""
        self.must_be(job, JobState.SUSPENDED, "be resumed")
        nodes = t.node_array(self.nodes_of(job))
        self._must_be_idle(job, nodes)
        self._make_room()
        start_us = self._job["start_us"][job]
        _OCCUPY(self._state, job, nodes, now_us, end_us, expected_us)
        self._job["start_us"][job] = start_us

    def lose_memory(
        self, job: int, *, front: bool = False, outcome: RunOutcome = RunOutcome.PREEMPTED
    ) -> None:
        """A suspended job waits again: `outcome` is what became of its run after all."""
        self.must_be(job, JobState.SUSPENDED, "lose its memory")
        self._runs["outcome"][self.run_row(job)] = outcome
        self._wait_again(job, front=front)

    def enqueue(self, job: int, now_us: int, *, front: bool = False) -> None:
        """A lease that could not start at once waits in the batch queue and is started like a batch job."""
        self.must_be(job, JobState.FUTURE, "wait in the queue")
        self._job["state"][job] = JobState.QUEUED
        if front:
            self._job["key"][job] = t.FRONT
        self._registers.now = now_us
        structures.queue_insert(self._job, self._queue, self._registers, job)

    def ask(
        self,
        jobs: NDArray[np.intp],
        *,
        run_us: NDArray[np.int64],
        estimate_us: NDArray[np.int64],
        nodes: NDArray[np.int64],
    ) -> None:
        """What the next runs of jobs that do not run now ask for."""
        self._job["run_us"][jobs] = run_us
        self._job["estimate_us"][jobs] = self.rules.limit_us(jobs, estimate_us)
        self._job["nodes"][jobs] = nodes

    def start_waiting(
        self, job: int, nodes: NDArray[np.int64], now_us: int, end_us: int, expected_us: int
    ) -> None:
        """Run a job of the queue on these nodes, which must be idle; offline ones stay offline."""
        self.must_be(job, JobState.QUEUED, "be started from the queue")
        self._must_be_idle(job, nodes)
        structures.queue_remove(self._queue, self._registers, job)
        if self._registers.kept_head == job:
            self._registers.kept_head = -1
        self._make_room()
        _OCCUPY(self._state, job, nodes, now_us, end_us, expected_us)

    def change_nodes(
        self, job: int, nodes: NDArray[np.int64], now_us: int, end_us: int, expected_us: int
    ) -> None:
        """A running job has exactly these nodes from now on; those it has not yet must be idle."""
        self.must_be(job, JobState.RUNNING, "change its nodes")
        self._must_be_idle(job, nodes)
        self._make_room()
        _CHANGE_NODES(self._state, job, nodes, now_us, end_us, expected_us)

    def change_lease_nodes(self, job: int, nodes: NDArray[np.int64], now_us: int) -> None:
        """A running lease has exactly these nodes from now on; those it has not yet must be offline and idle."""
        self.must_be(job, JobState.RUNNING, "change its nodes")
        self._must_be_idle(job, nodes)
        for node in nodes[self._node["offline"][nodes] == 0]:
            raise IllegalJobTransition(
                f"job {self.number(job)} cannot have node {node}: it is in the batch pool"
            )
        self._make_room()
        reshape.change_lease_nodes(self._state, job, nodes, now_us)

    def retime(self, job: int, end_us: int, expected_us: int) -> None:
        """A running job ends at `end_us` (NEVER: not by itself) and is expected to end at `expected_us`."""
        self.must_be(job, JobState.RUNNING, "get another end")
        _RETIME(self._state, job, end_us, expected_us)

    def _must_be_idle(self, job: int, nodes: NDArray[np.int64]) -> None:
        self._keep_nodes()
        conflict = int(reshape.first_conflict(self._node, np.sort(nodes), job))
        if conflict == reshape.NO_CONFLICT:
            return
        if conflict == reshape.TWICE:
            raise IllegalJobTransition(f"job {self.number(job)} cannot have a node twice: {nodes.tolist()}")
        other = self.number(int(self._node[conflict].job))
        raise IllegalJobTransition(
            f"job {self.number(job)} cannot have node {conflict}: job {other} runs there"
        )

    def schedule_pass(self, now_us: int) -> NDArray[np.int32]:
        """Start what the scheduler starts now; the rows of the started jobs, in order."""
        self._make_room()
        self.rules.start_jobs(self._state, now_us)
        self.check_hook()
        return self._started[: self._registers.started_n].copy()

    def take_offline(self, nodes: Iterable[int], now_us: int) -> None:  # noqa: ARG002 - kept for symmetry
        """Take nodes out of the batch pool: idle ones now, busy ones when their job ends."""
        self._keep_nodes()
        _TAKE_OFFLINE(self._state, self.known_nodes(nodes))
        self.rules.nodes_have_moved()

    def bring_online(self, nodes: Iterable[int], now_us: int) -> None:
        """Put nodes back into the batch pool (they count as idle since now)."""
        self._returns += 1
        _BRING_ONLINE(self._state, self.known_nodes(nodes), now_us)
        self.rules.nodes_have_moved()

    def start_on(self, job: int, nodes: Iterable[int], now_us: int) -> None:
        """Run a lease on these nodes, which must be offline and idle."""
        self.must_be(job, JobState.FUTURE, "be started")
        self._keep_nodes()
        chosen = self.known_nodes(nodes)
        wrong = chosen[(self._node_offline[chosen] == 0) | (self._node_job[chosen] >= 0)]
        for node in wrong:
            raise IllegalJobTransition(
                f"job {self.number(job)} cannot start on node {node}: it is in the batch pool or busy"
            )
        self._make_room()
        _START_ON(self._state, job, chosen, now_us)
