"""What the Balancer asks of a batch system, and the ways in which the asking can fail.

A driver reports what it read, never what it assumes: what cannot be read is `unknown`, and an unknown node is
never idle. Exit statuses are hints; the state that is read back after a command is the outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NodeState = Literal["idle", "busy", "offline", "down", "unknown"]


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node as the batch system reports it.

    `state`: `idle` may get a job at once; `busy` runs one; `offline` gets no new job (it may still run one:
    see `jobs`); `down` is not reachable for the batch system; `unknown` could not be told. `remaining_us` is
    the longest wall time its jobs may still run; None where unknown or not asked for. `marked`: it carries
    the offline mark, whatever else is true of it (a node that is down may carry it as well). `is_ours`: the
    mark is known to be one of ours (by its note), `is_foreign`: it is known to be somebody else's; both False where
    that cannot be told.
    """

    state: NodeState
    jobs: tuple[str, ...] = ()
    note: str = ""
    remaining_us: int | None = None
    marked: bool = False
    is_ours: bool = False
    is_foreign: bool = False

    @property
    def is_handed_over(self) -> bool:
        """The batch system will start nothing here and runs nothing here."""
        return self.state == "offline" and not self.jobs


UNKNOWN = NodeStatus("unknown")


def with_ours(nodes: Mapping[str, NodeStatus], note: str) -> dict[str, NodeStatus]:
    """The marks whose note begins with `note` are ours, those with another one are not; with "" nobody can tell."""
    if not note:
        return dict(nodes)
    return {
        name: replace(
            status,
            is_ours=status.note.startswith(note),
            is_foreign=bool(status.note) and not status.note.startswith(note),
        )
        if status.marked
        else status
        for name, status in nodes.items()
    }


def noted(note: str, why: str) -> str:
    """The text of a mark, with the move that it belongs to."""
    return f"{note} ({why})" if note and why else note


class DriverError(Exception):
    """A command did not do what it was asked to, as far as can be told."""

    outcome = "error"


class RefusedError(DriverError):
    """The batch system answered no: nothing changed."""

    outcome = "refused"


class UnreachableError(DriverError):
    """The batch system could not be asked: nothing changed."""

    outcome = "unreachable"


class UnclearError(DriverError):
    """Time-out, or an answer that cannot be read: the command may or may not have had its effect."""

    outcome = "unclear"


class BatchDriver(Protocol):
    """The batch system's side of the Balancer. Commands are idempotent and take several nodes at a time."""

    name: str

    def reclaim_nodes(self, nodes: Sequence[str], *, why: str = "") -> None:
        """Ask that no job starts on these nodes any more; running jobs go on.

        `why`: epoch and event of the move, for the note that people and a later Balancer find on the node.
        """

    def restore_nodes(self, nodes: Sequence[str]) -> None:
        """Give these nodes back to the batch system, which then looks for jobs for them."""

    def get_status_of_nodes(self, nodes: Iterable[str]) -> Mapping[str, NodeStatus]:
        """Every node asked for; one that the batch system does not list is `unknown`."""

    def get_status_of_all_nodes(self, *, remaining: bool = False) -> Mapping[str, NodeStatus]:
        """Every node the batch system lists. `remaining`: also the wall time their jobs may still run."""
