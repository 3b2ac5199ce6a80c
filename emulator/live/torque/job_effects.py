"""What a mechanism does to the jobs of the batch server: in its books, and by its agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.clock import NEVER_US
from emulator.kernel.job_states import RunOutcome
from emulator.live.torque import accounting
from emulator.live.torque.jobs import DELETED, OVER_WALLTIME, PbsState

if TYPE_CHECKING:
    from emulator.live.torque.accounting import AccountingLog
    from emulator.live.torque.actions import RunActions
    from emulator.live.torque.batch_parts import Server
    from emulator.live.torque.jobs import Job


class JobEffects:
    """Carries out what a mechanism decides. Jobs are rows of the workload, times are us.

    `done`: the work that a job has done by now; what it says of itself is held against that.
    """

    def __init__(self, batch: Server, actions: RunActions, log: AccountingLog) -> None:
        self._batch = batch
        self._actions = actions
        self._log = log

    @property
    def contradictions(self) -> list[str]:
        """What jobs said of themselves that their account does not."""
        return self._batch.contradictions

    def run_begins(self, row: int, now_us: int) -> None:
        """The job has nodes from now on."""
        self._batch.run_begins(row, now_us)

    def run_leaves(self, row: int, now_us: int, *, save: bool, done: int | None = None) -> None:
        """The job has lost its nodes and waits again; `save`: it may write a checkpoint first, which takes no time."""
        job = self._batch.job_of_row(row)
        self._log.write("R", job, self._batch.view(now_us))
        self._actions.leave(job, save=save, done=done)
        self._batch.wait_again(job, now_us)

    def run_changes(self, row: int, now_us: int, save_us: int = NEVER_US, *, done: int | None = None) -> None:
        """Other nodes or another phase; `save_us`: when what is done by now is a whole checkpoint."""
        job = self._batch.job_of_row(row)
        link = self._batch.link_of(job)
        nodes = sorted(self._batch.scheduler.nodes_of(row), reverse=True)
        if link is not None and set(nodes) != set(job.exec_nodes):
            self._batch.vacate(job)
            # The mother superior stays if it can; another node of its agent may take over, else the job moves.
            places = [job.exec_nodes[0], *(node for node in nodes if self._batch.is_served_by(node, link))]
            first = next((node for node in places if node in nodes), nodes[0])
            job.exec_nodes = (first, *(node for node in nodes if node != first))
            self._batch.occupy(job)
            if not self._batch.is_served_by(first, link):
                self._actions.move(job, link, done)
                return
        job.mtime_us = now_us
        self._actions.change(job, self._hosts(job), save_us, done)

    def run_suspends(self, row: int, now_us: int, *, done: int | None = None) -> None:
        """The job stands still and keeps its processes; others may have its nodes."""
        job = self._batch.job_of_row(row)
        self._batch.vacate(job)
        job.state, job.mtime_us = PbsState.SUSPENDED, now_us
        self._actions.change(job, self._hosts(job), NEVER_US, done)

    def run_resumes(self, row: int, now_us: int, save_us: int, *, done: int | None = None) -> None:
        """The job has its nodes again; `save_us` as for `run_changes`."""
        job = self._batch.job_of_row(row)
        self._batch.occupy(job)
        job.state, job.mtime_us = PbsState.RUNNING, now_us
        self._actions.change(job, self._hosts(job), save_us, done)

    def _hosts(self, job: Job) -> list[str]:
        return [self._batch.nodes[index].name for index in job.exec_nodes]

    def run_is_over(self, row: int, outcome: RunOutcome, now_us: int, done: int | None = None) -> None:
        """The job has come to its end by the account of a machine that keeps the time itself."""
        job = self._batch.job_of_row(row)
        self._actions.leave(job, is_over=outcome == RunOutcome.FINISHED, done=done)
        self._batch.vacate(job)
        self._batch.complete(job, OVER_WALLTIME if outcome == RunOutcome.KILLED else 0, now_us)
        view = self._batch.view(now_us)
        self._log.write("E", job, view, accounting.ended(job, view))

    def job_rejected(self, row: int, reason: str, now_us: int) -> None:
        """An on-demand job gets nothing."""
        job = self._batch.job_of_row(row)
        job.comment = reason
        self._log.write(
            "D",
            job,
            self._batch.view(now_us),
            accounting.deleted(f"mechanism@{self._batch.config.server_name}"),
        )
        self._batch.complete(job, DELETED, now_us)
