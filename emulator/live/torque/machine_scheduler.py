"""A mechanism that brings its own machine, in the batch server, which follows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from balancer.clock import NEVER_US
from emulator.clock.event_priority import EventPriority
from emulator.live.machine_follower import MachineFollower
from emulator.live.torque.workload import announced, row_of
from emulator.live.workload import as_json, phase_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from emulator.kernel.job_states import RunOutcome
    from emulator.live.torque.jobs import JobRequest


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
