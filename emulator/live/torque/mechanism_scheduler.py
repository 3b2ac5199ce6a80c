"""A mechanism in the batch server: decisions as in virtual time, with events from outside and effects on agents.

Submissions, notices and the ends of jobs are learned (from users and node agents) instead of known; the accounting is
that of `emulator/machine/actions.py`, and `emulator/simulation/decisions.py` calls the handlers.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import NEVER_US
from emulator.clock.event_priority import EventPriority
from emulator.kernel.job_states import JobState
from emulator.live.machine_follower import MachineFollower, Workload, as_json, phase_in
from emulator.live.torque import errors
from emulator.live.torque.scheduler import WholeNodes
from emulator.machine.points import ARRIVAL, COMPLETION, NOTICE, PREDICTED
from emulator.plugins.failure import PluginError
from emulator.simulation.decisions import Decisions
from emulator.simulation.loop import points_of
from emulator.simulation.mechanism import HasNotice, HasPredicted, ability
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from emulator.cluster.cluster import Cluster
    from emulator.kernel.job_states import RunOutcome
    from emulator.live.torque.job_effects import JobEffects
    from emulator.live.torque.jobs import JobRequest
    from emulator.machine.points import Point
    from emulator.simulation.executor_live import LiveExecutor
    from emulator.simulation.mechanism import Mechanism

ON_DEMAND_QUEUE = "ondemand"
ROW_VARIABLE = "WORKLOAD_JOB"
"""`qsub -v WORKLOAD_JOB=17`: the job of the workload with this number."""


def row_of(workload: Workload, request: JobRequest) -> int:
    """The row of a submission. Raises PbsError."""
    text = dict(request.variables).get(ROW_VARIABLE, "")
    row = workload.row_of(int(text)) if text.isdecimal() else None
    if row is None or row not in workload.missing:
        problem = f"this server replays a workload: {ROW_VARIABLE} must be a job of it that was not submitted"
        raise errors.not_in_workload(problem)
    queue_is_right = (request.queue == ON_DEMAND_QUEUE) == (workload.kind[row] == Kind.ON_DEMAND)
    if not queue_is_right or request.nodes != workload.nodes[row]:
        raise errors.not_in_workload(f"job {text} of the workload has another queue or number of nodes")
    return workload.submitted(int(text))


def announced(workload: Workload, number: int) -> int:
    """The row of an on-demand job. Raises PbsError."""
    row = workload.row_of(number)
    if row is None or workload.kind[row] == Kind.BATCH:
        raise errors.unknown_job(str(number))
    return row


class MachineScheduler(MachineFollower):
    """`Scheduler` of the batch server; the rest is `MachineFollower`'s."""

    iteration_us = NEVER_US  # the machine makes its own passes

    def row_of(self, request: JobRequest, number: int, now_us: int) -> int:  # noqa: ARG002 - the workload has both
        return row_of(self._workload, request)

    def submit(self, row: int, now_us: int, *, held: bool) -> None:  # noqa: ARG002 - the machine has known it
        self.step_if_due(now_us)

    def hold(self, row: int, now_us: int, *, held: bool) -> None:
        """Users hold nothing here."""

    def notice(self, number: int, now_us: int) -> None:  # noqa: ARG002 - the machine's own events tell it
        announced(self._workload, number)

    def schedule_pass(self, now_us: int) -> Sequence[int]:  # noqa: ARG002 - the machine makes its own passes
        return ()

    def pass_over(self, now_us: int) -> None:
        """As above."""

    def run_ended(self, row: int, outcome: RunOutcome, now_us: int) -> bool:  # noqa: ARG002
        """A node cannot end a job here: by the machine's account it goes on."""
        return False

    def run_lost(self, row: int, now_us: int) -> None:
        """As above."""

    def node_gone(self, node: int, now_us: int, *, died: bool) -> bool:  # noqa: ARG002
        """The machine has no failures but those of its mechanism."""
        return False

    def node_back(self, node: int, now_us: int) -> None:
        """As above."""

    def phase(self, row: int) -> dict[str, Any]:
        account = self.account(row)
        if account is None:  # it sleeps until it is told
            return {"since_us": NEVER_US, "end_us": NEVER_US, "rank": int(EventPriority.JOB_END)}
        totals = {"end_us": NEVER_US, "total": account.total, "told_end": True}
        return phase_in(account, EventPriority.JOB_END) | totals

    def export(self, exit_status: Mapping[int, int | None]) -> dict[str, Any]:  # noqa: ARG002 - the record has outcomes
        return {"record": as_json(self.record(), self._effects.contradictions)}


class MechanismScheduler(WholeNodes):
    """`cluster` holds the whole workload, and does nothing by itself; everything is told the time."""

    iteration_us = (
        NEVER_US  # a mechanism counts passes: there is one when something happens, as in virtual time
    )

    def __init__(
        self,
        cluster: Cluster,
        mechanism: Mechanism,
        name: str,
        *,
        node_names: tuple[str, ...],
        executor: LiveExecutor,
        effects: JobEffects,
    ) -> None:
        self.cluster = cluster
        self._executor = executor
        self._effects = effects
        self._decisions = Decisions(
            cluster, mechanism, agenda=self, effects=self, node_names=node_names, name=name
        )
        self._actions = self._decisions.actions
        self._hears_notices = ability(mechanism, HasNotice) is not None  # type: ignore[type-abstract]
        self._hears_predictions = ability(mechanism, HasPredicted) is not None  # type: ignore[type-abstract]
        self._workload = Workload(cluster.job_table())
        self._points_to_come = 0
        self._has_begun = False
        self._ready: set[int] = set()
        """Nodes that are there before the run begins."""
        self._ended_now: list[int] = []
        self._reserved_and_gone: set[int] = set()
        cluster.take_offline(range(cluster.node_count), 0)

    # What comes in.

    def row_of(self, request: JobRequest, number: int, now_us: int) -> int:  # noqa: ARG002 - the workload has both
        return row_of(self._workload, request)

    def nodes_are_up(self, now_us: int) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        self._actions.now_us = now_us
        # In this order the first node is used first, whichever agent was there first.
        self.cluster.bring_online(sorted(self._ready, reverse=True), now_us)
        jobs = self.cluster.job_table()
        if self._hears_predictions and "predicted_us" in jobs.extra:
            leases = np.flatnonzero(jobs.kind == Kind.ON_DEMAND)
            for at_us, point, job in points_of(jobs.extra["predicted_us"], leases, PREDICTED):
                self.add(at_us, point, job)
        self._decisions.begin()

    def submit(self, row: int, now_us: int, *, held: bool) -> None:  # noqa: ARG002 - users hold nothing here
        self._enter(now_us)
        if self._workload.kind[row] == Kind.BATCH:
            self.cluster.submit(row, now_us)
        else:
            self._decisions.handle(now_us, ARRIVAL, row)

    def hold(self, row: int, now_us: int, *, held: bool) -> None:
        """Users hold nothing here."""

    def notice(self, number: int, now_us: int) -> None:
        row = announced(self._workload, number)
        if self._hears_notices:
            self._enter(now_us)
            self._decisions.handle(now_us, NOTICE, row)

    def run_ended(self, row: int, outcome: RunOutcome, now_us: int) -> bool:
        self._enter(now_us)
        if self._actions.is_lease(row):
            self._decisions.lease_over(row)
            return True
        self.cluster.end(row, now_us, outcome)
        if not self._ended_now:  # when all ends of this time are told, and before anything else of it
            self._executor.at(now_us, self._all_ended, EventPriority.CHECKPOINT, order=-1)
        self._ended_now.append(row)
        return True

    def _all_ended(self, now_us: int) -> None:
        self._enter(now_us)
        ended, self._ended_now = self._ended_now, []
        self._decisions.jobs_ended(ended)

    def run_lost(self, row: int, now_us: int) -> None:
        self._enter(now_us)
        self._actions.run_lost(row)

    def schedule_pass(self, now_us: int) -> Sequence[int]:
        try:
            rows: list[int] = self.cluster.schedule_pass(now_us).tolist()
        except PluginError as error:  # of the queue order: the record tells of it
            self._decisions.machine_failed("schedule_pass", error)
        return rows

    def pass_over(self, now_us: int) -> None:
        self._actions.now_us = now_us
        self._decisions.pass_over()

    def node_gone(self, node: int, now_us: int, *, died: bool) -> bool:
        self._ready.discard(node)
        if not self._has_begun:
            return True
        self._enter(now_us)
        if died:
            self._actions.memory_lost([node])
        if self.cluster.node_offline[node] and self.cluster.node_job[node] < 0:
            self._reserved_and_gone.add(node)
        elif died:
            self._actions.take_down([node])
        else:
            self.cluster.take_offline([node], now_us)
        return True

    def node_back(self, node: int, now_us: int) -> None:
        if not self._has_begun:
            self._ready.add(node)
        elif node in self._reserved_and_gone:
            self._reserved_and_gone.discard(node)  # the mechanism has had it all the time
        else:
            self._enter(now_us)
            self._actions.repair([node])

    def _enter(self, now_us: int) -> None:
        self._actions.now_us = now_us
        self._executor.ask_for_pass(now_us)

    # Decision points that this side makes (`Agenda`): timers, saves and predicted arrivals.

    def add(self, at_us: int, point: Point, job: int) -> None:
        if point != COMPLETION and at_us != NEVER_US:  # a completion is the node's to tell
            self._points_to_come += 1
            self._executor.at(at_us, partial(self._due, at_us, point, job), EventPriority(point), order=job)

    def _due(self, due_us: int, point: Point, job: int, now_us: int) -> None:
        self._points_to_come -= 1
        if not self._actions.is_stale(due_us, point, job):
            self._enter(now_us)
            self._decisions.handle(due_us, point, job)

    # What actions lead to (`Effects`).

    def run_begins(self, job: int) -> None:
        self._effects.run_begins(job, self._actions.now_us)

    def run_changes(self, job: int) -> None:
        now_us, account = self._actions.now_us, self._actions.account(job)
        self._effects.run_changes(job, now_us, account.whole_us(now_us), done=account.done)

    def run_suspends(self, job: int) -> None:
        now_us, account = self._actions.now_us, self._actions.account(job)
        self._effects.run_suspends(job, now_us, done=account.done)

    def run_resumes(self, job: int) -> None:
        now_us, account = self._actions.now_us, self._actions.account(job)
        self._effects.run_resumes(job, now_us, account.whole_us(now_us), done=account.done)

    def run_leaves(self, job: int, *, save: bool) -> None:
        done, _ = self._actions.left(job, self.cluster.run_row(job))
        self._effects.run_leaves(job, self._actions.now_us, save=save, done=done)

    def job_rejected(self, job: int, reason: str) -> None:
        self._effects.job_rejected(job, reason, self._actions.now_us)

    # What can be seen.

    def phase(self, row: int) -> dict[str, Any]:
        rank = EventPriority.COMPLETION if self._actions.is_lease(row) else EventPriority.JOB_END
        return phase_in(self._actions.account(row), rank)

    @property
    def is_over(self) -> bool:
        return not self._points_to_come and not np.any(self.cluster.state == JobState.RUNNING)

    def export(self, exit_status: Mapping[int, int | None]) -> dict[str, Any]:  # noqa: ARG002 - the record has outcomes
        return {"record": as_json(self._decisions.record(), self._effects.contradictions)}
