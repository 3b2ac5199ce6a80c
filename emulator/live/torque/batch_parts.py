"""What the parts of a batch server that act on its jobs know of it (`batch.py` is it)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from emulator.live.torque.config import ServerConfig
    from emulator.live.torque.format import View
    from emulator.live.torque.jobs import Job
    from emulator.live.torque.nodes import Node
    from emulator.live.torque.scheduler import Scheduler


class Link(Protocol):
    """The way to an agent. `send` never fails: a broken connection is reported as lost instead."""

    def send(self, message: dict[str, Any]) -> None: ...


class Server(Protocol):
    """A batch server's jobs and nodes. Jobs are found by their row of the workload; times are us.

    `contradictions`: what jobs say of themselves that their account does not.
    """

    config: ServerConfig
    scheduler: Scheduler
    nodes: list[Node]
    contradictions: list[str]

    def view(self, now_us: int) -> View:
        """Itself, for what it prints."""

    def job_of_row(self, row: int) -> Job: ...

    def id_of(self, job: Job) -> str: ...

    def name_of(self, number: int) -> str:
        """`26.server`, or just the number of a job that is forgotten."""

    def link_of(self, job: Job) -> Link | None:
        """The way to the agent of a running job's mother superior."""

    def is_served_by(self, node: int, link: Link) -> bool: ...

    def run_begins(self, row: int, now_us: int) -> None:
        """A job has got nodes."""

    def occupy(self, job: Job) -> None:
        """Its nodes have the job."""

    def vacate(self, job: Job) -> None:
        """Its nodes do not have the job any more."""

    def wait_again(self, job: Job, now_us: int) -> None:
        """The job loses its nodes and is queued."""

    def complete(self, job: Job, exit_status: int, now_us: int) -> None:
        """The job is over."""
