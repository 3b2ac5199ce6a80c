"""What becomes of a mechanism's actions beyond their accounting: nothing in virtual time, agents are told live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from emulator.machine.points import Point


class Effects(Protocol):
    """Each is called when the accounts are as they will be. Jobs are rows."""

    def run_begins(self, job: int) -> None:
        """The job has nodes from now on."""

    def run_changes(self, job: int) -> None:
        """A running job has other nodes or goes on in another way."""

    def run_suspends(self, job: int) -> None:
        """A running job stands still, others may have its nodes, and its memory stays there."""

    def run_resumes(self, job: int) -> None:
        """A job that left its nodes has them again and goes on."""

    def run_leaves(self, job: int, *, save: bool) -> None:
        """The job has lost its nodes and waits again; `save`: it may write a checkpoint first, which takes no time."""

    def job_rejected(self, job: int, reason: str) -> None:
        """An on-demand job gets nothing."""


class Agenda(Protocol):
    """Where decision points that actions lead to are kept until they are due."""

    def add(self, at_us: int, point: Point, job: int) -> None: ...


class NoEffects:
    """Virtual time: the account is all there is."""

    def run_begins(self, job: int) -> None:
        """It has begun."""

    def run_changes(self, job: int) -> None:
        """It has changed."""

    def run_suspends(self, job: int) -> None:
        """It stands still."""

    def run_resumes(self, job: int) -> None:
        """It goes on."""

    def run_leaves(self, job: int, *, save: bool) -> None:
        """It has left."""

    def job_rejected(self, job: int, reason: str) -> None:
        """It is."""
