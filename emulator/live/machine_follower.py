"""A machine that keeps the time itself, live: the fleet follows what it does, whatever the batch system.

Such a machine knows when jobs end by itself, so that nobody can tell it. It is stepped to each of its instants when the
clock is there and everything of that instant has come in; what it did then is read from its run table, and done: nodes
start, change and end the jobs. A job that is submitted late makes the machine wait.

Processes do what a machine tells of the work of its jobs (`HasAccounts`): each is told its account when it begins and
whenever that changes, and what it says of itself is held against it. It is over when the machine says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from balancer.clock import NEVER_US
from emulator.clock.event_priority import EventPriority
from emulator.cluster.cluster import Cluster
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.machine.account import Account, HasAccounts
from emulator.machine.machine import HasSlots
from emulator.simulation.loop import Loop
from emulator.simulation.mechanism import ability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.events.external_events import ExternalEvents
    from emulator.machine.machine import Machine
    from emulator.record.run_record import RunRecord, RunTable
    from emulator.simulation.executor_live import LiveExecutor
    from emulator.simulation.mechanism import Mechanism
    from emulator.workload.table import JobTable


class NotInWorkloadError(ValueError):
    """A submission that is none of the workload's jobs, or was there before."""


def phase_in(account: Account, rank: EventPriority) -> dict[str, Any]:
    """What an agent and its job are told of an account (`emulator.live.real_jobs.Phase`)."""
    return {
        "since_us": account.since_us,
        "end_us": account.end_us,
        "num": account.num,
        "den": account.den,
        "interval_us": account.interval_us,
        "cost_us": account.cost_us,
        "suspended": account.suspended,
        "begun": account.done,
        "rank": int(rank),
    }


class Workload:
    """Which submission is which job of the workload."""

    def __init__(self, jobs: JobTable) -> None:
        self.kind = jobs.kind
        self.nodes = jobs.nodes
        self._rows = {int(number): row for row, number in enumerate(jobs.number)}
        self.missing = set(range(len(jobs)))
        """Rows that were not submitted yet."""

    def submitted(self, number: int) -> int:
        """The row of the job with this number, which is submitted now. Raises NotInWorkloadError."""
        row = self._rows.get(number)
        if row is None or row not in self.missing:
            raise NotInWorkloadError(number)
        self.missing.discard(row)
        return row

    def row_of(self, number: int) -> int | None:
        """None: the workload has no such job."""
        return self._rows.get(number)


def as_json(record: RunRecord, contradictions: Sequence[str]) -> dict[str, Any]:
    """The run so far without its input; times in us, jobs are rows, nodes places in the list of nodes."""
    runs = record.runs
    return {
        "node_names": list(record.node_names),
        "submit_us": record.jobs.submit_us.tolist(),
        "nodes": record.jobs.nodes.tolist(),
        "extra": {name: column.tolist() for name, column in record.jobs.extra.items()},
        "state": record.state.tolist(),
        "start_us": record.start_us.tolist(),
        "end_us": record.end_us.tolist(),
        "runs": {name: getattr(runs, name).tolist() for name in runs.__slots__},
        "moves": [[move.at_us, list(move.nodes), move.pool.value] for move in record.moves],
        "leases": [[each.job, each.granted, each.decided_us, each.reason] for each in record.leases],
        "figures": record.figures,
        "contradictions": list(contradictions),
        "interrupted": record.interrupted,
        "traceback": record.traceback,
        "horizon_us": record.horizon_us,
    }


_OVER = (RunOutcome.FINISHED, RunOutcome.KILLED, RunOutcome.CANCELLED)


class RunEffects(Protocol):
    """What is done to the jobs of a batch system. Jobs are rows of the workload, times are us.

    `done`: the work that a job has done by now; `save_us`: when that is a whole checkpoint (NEVER_US: it is not).
    """

    @property
    def contradictions(self) -> list[str]:
        """What jobs said of themselves that their account does not."""

    def run_begins(self, row: int, now_us: int) -> None: ...

    def run_changes(
        self, row: int, now_us: int, save_us: int = NEVER_US, *, done: int | None = None
    ) -> None: ...

    def run_leaves(self, row: int, now_us: int, *, save: bool, done: int | None = None) -> None: ...

    def run_is_over(self, row: int, outcome: RunOutcome, now_us: int, done: int | None = None) -> None: ...

    def job_rejected(self, row: int, reason: str, now_us: int) -> None: ...


class MachineFollower:
    """The loop of virtual time, one instant at a time."""

    def __init__(
        self,
        machine: Machine,
        mechanism: Mechanism,
        name: str,
        workload: JobTable,
        *,
        node_names: tuple[str, ...],
        executor: LiveExecutor,
        effects: RunEffects,
        external_events: ExternalEvents | None = None,
    ) -> None:
        """`external_events`: what happens to jobs and nodes whoever schedules."""
        self._machine = machine
        self._executor = executor
        self._effects = effects
        self._has_begun = False
        self._node_count = len(node_names)
        # A machine may count parts of nodes, as many on each; the record then speaks of these.
        has_whole_nodes = machine.node_count == len(node_names)
        names = node_names if has_whole_nodes else getattr(machine, "node_names", None)
        self._loop = Loop(machine, mechanism, node_names=names, name=name, external_events=external_events)
        self._slotted = ability(machine, HasSlots)  # type: ignore[type-abstract]
        known = machine.job_table()
        self._workload = Workload(workload)  # as it is submitted: the machine may count nodes in its own way
        self._submit_us = known.submit_us.copy()
        self._width = known.nodes
        self._nodes: dict[int, list[int]] = {}
        """Nodes of each running job."""
        self._slots: dict[int, list[int]] = {}
        """Slots of each running job, where the machine has slots."""
        self._open: dict[int, int] = {}
        """Running job -> its row of the run table."""
        self._accounts: HasAccounts | None = None
        if isinstance(machine, HasAccounts):
            self._accounts = machine
        elif isinstance(machine, Cluster):
            self._accounts = self._loop.decisions.actions
        self._sent_accounts: dict[int, Account] = {}
        """What the process of each running job knows."""
        self._seen_runs = 0
        self._seen_leases = 0
        self._planned_us = NEVER_US
        self._instant_us = NEVER_US

    # From outside.

    def nodes_are_up(self, now_us: int) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        self._loop.decisions.actions.now_us = now_us
        self._loop.begin()
        self._plan()

    def submitted(self, number: int, now_us: int) -> None:
        """The job with this number is there. Raises NotInWorkloadError."""
        self._workload.submitted(number)
        self.step_if_due(now_us)

    def step_if_due(self, now_us: int) -> None:
        """A submission has come for which the machine may have waited."""
        if self._instant_us != NEVER_US:
            self._step(now_us)

    def nodes_of(self, row: int) -> Sequence[int]:
        return self._nodes[row]

    def slots_of(self, row: int) -> dict[int, tuple[int, ...]]:
        found: dict[int, tuple[int, ...]] = {}
        if self._slotted is not None:
            for slot in self._slots[row]:
                node, place = divmod(slot, self._slotted.slots_per_node)
                found[node] = (*found.get(node, ()), place)
        return found

    def cores_of(self, row: int) -> list[int]:
        if self._slotted is None:
            return []
        cores = {self._slotted.core_of(slot) for slot in self._slots[row]}
        return sorted(cores - {-1})

    def account(self, row: int) -> Account | None:
        """What the process of a running job knows; None where the machine does not tell."""
        return self._sent_accounts.get(row)

    @property
    def now_us(self) -> int:
        """The machine's own time: that of the last instant that it lived through."""
        return self._loop.now_us

    @property
    def is_over(self) -> bool:
        return self._loop.next_us == NEVER_US and not self._open

    def record(self) -> RunRecord:
        return self._loop.record()

    # One instant after the other.

    def _plan(self) -> None:
        """Come back at the next instant, after all that others do then."""
        next_us = self._loop.next_us
        if next_us not in (NEVER_US, self._planned_us):
            self._planned_us = next_us
            self._executor.at(next_us, self._come_to, EventPriority.SCHEDULE)

    def _come_to(self, now_us: int) -> None:
        self._instant_us = self._planned_us
        self._step(now_us)

    def _step(self, now_us: int) -> None:
        """Let the machine live through the instant, unless a submission of it is missing."""
        at_us = self._instant_us
        if any(self._submit_us[row] <= at_us for row in self._workload.missing):
            return
        self._instant_us = NEVER_US
        while self._loop.now_us < at_us or self._loop.next_us == at_us:
            self._loop.step(at_us)
        self._carry_out(now_us)
        self._plan()

    # What it did.

    def _carry_out(self, now_us: int) -> None:
        runs = self._machine.run_table()
        went_on = self._open
        self._open = {
            int(runs.job[row]): int(row) for row in np.flatnonzero(runs.outcome == RunOutcome.RUNNING)
        }
        self._close(runs, went_on, now_us)
        for job, row in self._open.items():
            account = None if self._accounts is None else self._accounts.account(job)
            if went_on.get(job) == row and account == self._sent_accounts.get(job):
                continue
            is_running = job in self._nodes
            self._nodes[job] = self._nodes_in(runs, row)
            if account is not None:
                self._sent_accounts[job] = account
            if not is_running:
                self._effects.run_begins(job, now_us)
            elif account is None:
                self._effects.run_changes(job, now_us)
            else:
                self._effects.run_changes(job, now_us, account.whole_us(self._loop.now_us), done=account.done)
        leases = self._loop.decisions.actions.leases
        for lease in leases[self._seen_leases :]:
            if not lease.granted:
                self._effects.job_rejected(lease.job, lease.reason, now_us)
        self._seen_leases = len(leases)

    def _close(self, runs: RunTable, went_on: dict[int, int], now_us: int) -> None:
        """Ends of the runs that were open, and of those that began and ended in one instant."""
        seen, self._seen_runs = self._seen_runs, len(runs.job)
        for row in sorted({*went_on.values(), *range(seen, len(runs.job))}):
            job, outcome = int(runs.job[row]), RunOutcome(int(runs.outcome[row]))
            if outcome in (RunOutcome.RUNNING, RunOutcome.RESIZED):
                continue
            if job not in self._nodes:
                self._nodes[job] = self._nodes_in(runs, row)
                self._effects.run_begins(job, now_us)
            account = self._sent_accounts.pop(job, None)
            if outcome in _OVER:
                total = None if account is None or outcome != RunOutcome.FINISHED else account.total
                self._effects.run_is_over(job, outcome, now_us, total)
            elif self._accounts is None or account is None:
                self._effects.run_leaves(job, now_us, save=False)
            else:
                done, saved = self._accounts.left(job, row)
                self._effects.run_leaves(job, now_us, save=saved == done, done=done)
            del self._nodes[job]
        for job in went_on.keys() & self._nodes.keys():
            if job not in self._open and self._machine.state[job] != JobState.RUNNING:
                del self._nodes[job]

    def _nodes_in(self, runs: RunTable, row: int) -> list[int]:
        """The run's nodes; a machine that does not tell them gets some that nobody has."""
        named = runs.node[runs.first[row] : runs.first[row + 1]].tolist()
        count = self._node_count
        if named:
            if self._slotted is not None:
                self._slots[int(runs.job[row])] = sorted(named)
            return sorted({int(node) * count // self._machine.node_count for node in named})
        occupied = {node for nodes in self._nodes.values() for node in nodes}
        free = [node for node in range(count) if node not in occupied] + sorted(occupied)
        return free[: min(int(self._width[runs.job[row]]), count)]
