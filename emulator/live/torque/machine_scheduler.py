"""A mechanism that brings its own machine, in the batch server: the machine keeps the time, the fleet follows it.

Such a machine knows when jobs end by itself, so that nobody can tell it. It is stepped to each of its instants when the
clock is there and everything of that instant has come in; what it did then is read from its run table, and done: nodes
start, change and end the jobs. A job that is submitted late makes the machine wait.

Processes do what a machine tells of the work of its jobs (`HasAccounts`): each is told its account when it begins and
whenever that changes, and what it says of itself is held against it. It is over when the machine says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import NEVER_US
from emulator.harness.account import Account, HasAccounts
from emulator.harness.cluster import Cluster
from emulator.harness.loop import Loop
from emulator.harness.machine import HasSlots
from emulator.harness.mechanism import ability
from emulator.harness.record import JobState, RunOutcome
from emulator.live.torque.workload import Workload, as_json, phase_in
from emulator.ranks import Rank

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from emulator.harness.executor_live import LiveExecutor
    from emulator.harness.machine import Machine
    from emulator.harness.mechanism import Mechanism
    from emulator.harness.record import RunRecord, RunTable
    from emulator.live.torque.job_effects import JobEffects
    from emulator.live.torque.jobs import JobRequest
    from emulator.workload.table import JobTable

_OVER = (RunOutcome.FINISHED, RunOutcome.KILLED, RunOutcome.CANCELLED)


class MachineScheduler:
    """The loop of virtual time, one instant at a time."""

    iteration_us = NEVER_US  # the machine makes its own passes

    def __init__(
        self,
        machine: Machine,
        mechanism: Mechanism,
        name: str,
        workload: JobTable,
        *,
        node_names: tuple[str, ...],
        executor: LiveExecutor,
        effects: JobEffects,
    ) -> None:
        self._machine = machine
        self._executor = executor
        self._effects = effects
        self._has_begun = False
        self._node_count = len(node_names)
        # A machine may count parts of nodes, as many on each; the record then speaks of these.
        has_whole_nodes = machine.node_count == len(node_names)
        names = node_names if has_whole_nodes else getattr(machine, "node_names", None)
        self._loop = Loop(machine, mechanism, node_names=names, name=name)
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
        self._told: dict[int, Account] = {}
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
        self._loop.decisions.begin()
        self._plan()

    def row_of(self, request: JobRequest, number: int, now_us: int) -> int:  # noqa: ARG002 - the workload has both
        return self._workload.submitted(request)

    def submit(self, row: int, now_us: int, *, held: bool) -> None:  # noqa: ARG002 - the machine has known it
        if self._instant_us != NEVER_US:
            self._step(now_us)

    def hold(self, row: int, now_us: int, *, held: bool) -> None:
        """Users hold nothing here."""

    def notice(self, number: int, now_us: int) -> None:  # noqa: ARG002 - the machine's own events tell it
        self._workload.announced(number)

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

    def phase(self, row: int) -> dict[str, Any]:
        account = self._told.get(row)
        if account is None:  # it sleeps until it is told
            return {"since_us": NEVER_US, "end_us": NEVER_US, "rank": int(Rank.JOB_END)}
        told = {"end_us": NEVER_US, "total": account.total, "told_end": True}
        return phase_in(account, Rank.JOB_END) | told

    @property
    def is_over(self) -> bool:
        return self._loop.next_us == NEVER_US and not self._open

    def record(self) -> RunRecord:
        return self._loop.record()

    def export(self, exit_status: Mapping[int, int | None]) -> dict[str, Any]:  # noqa: ARG002 - the record has outcomes
        return {"record": as_json(self._loop.decisions, self._effects.contradictions)}

    # One instant after the other.

    def _plan(self) -> None:
        """Come back at the next instant, after all that others do then."""
        next_us = self._loop.next_us
        if next_us not in (NEVER_US, self._planned_us):
            self._planned_us = next_us
            self._executor.at(next_us, self._come_to, Rank.SCHEDULE)

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
            if went_on.get(job) == row and account == self._told.get(job):
                continue
            is_running = job in self._nodes
            self._nodes[job] = self._nodes_in(runs, row)
            if account is not None:
                self._told[job] = account
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
            told = self._told.pop(job, None)
            if outcome in _OVER:
                total = None if told is None or outcome != RunOutcome.FINISHED else told.total
                self._effects.run_is_over(job, outcome, now_us, total)
            elif self._accounts is None or told is None:
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
        taken = {node for nodes in self._nodes.values() for node in nodes}
        free = [node for node in range(count) if node not in taken] + sorted(taken)
        return free[: min(int(self._width[runs.job[row]]), count)]
