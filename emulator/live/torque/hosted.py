"""What a mechanism does to the jobs of the batch server that hosts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.clock import NEVER_US
from emulator.harness.record import RunOutcome
from emulator.live.torque import accounting
from emulator.live.torque.jobs import DELETED, OVER_WALLTIME

if TYPE_CHECKING:
    from emulator.live.torque.accounting import AccountingLog
    from emulator.live.torque.actions import RunActions
    from emulator.live.torque.batch import BatchServer


class HostedJobs:
    """Carries out what a mechanism decides (`hosting.Outside`): in the server's books, and by its agents."""

    def __init__(self, batch: BatchServer, actions: RunActions, log: AccountingLog) -> None:
        self._batch = batch
        self._actions = actions
        self._log = log

    def run_begins(self, row: int, now_us: int) -> None:
        self._batch.run_begins(row, now_us)

    def run_leaves(self, row: int, now_us: int, *, save: bool, done: int | None = None) -> None:
        job = self._batch.job_of_row(row)
        self._log.write("R", job, self._batch.view(now_us))
        self._actions.leave(job, save=save, done=done)
        self._batch.wait_again(job, now_us)

    def run_changes(self, row: int, now_us: int, save_us: int = NEVER_US, *, done: int | None = None) -> None:
        job = self._batch.job_of_row(row)
        link = self._batch.link_of(job)
        nodes = sorted(self._batch.nodes_of(row), reverse=True)
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
        self._actions.change(job, [self._batch.nodes[index].name for index in job.exec_nodes], save_us, done)

    def run_is_over(self, row: int, outcome: RunOutcome, now_us: int, done: int | None = None) -> None:
        job = self._batch.job_of_row(row)
        self._actions.leave(job, is_over=outcome == RunOutcome.FINISHED, done=done)
        self._batch.vacate(job)
        self._batch.complete(job, OVER_WALLTIME if outcome == RunOutcome.KILLED else 0, now_us)
        view = self._batch.view(now_us)
        self._log.write("E", job, view, accounting.ended(job, view))

    def job_rejected(self, row: int, reason: str, now_us: int) -> None:
        job = self._batch.job_of_row(row)
        job.comment = reason
        self._log.write(
            "D",
            job,
            self._batch.view(now_us),
            accounting.deleted(f"mechanism@{self._batch.config.server_name}"),
        )
        self._batch.complete(job, DELETED, now_us)
