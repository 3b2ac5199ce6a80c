"""What the Balancer asks of a batch system, and the ways in which the asking can fail.

A driver reports what it read, never what it assumes: what cannot be read is `unknown`, and an unknown node is
never idle. Exit statuses are hints; the state that is read back after a command is the outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from balancer.drivers.marks import Stamp, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


NodeState = Literal["idle", "busy", "offline", "down", "unknown"]


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node as the batch system reports it.

    `state`: `idle` may get a job at once; `busy` runs one; `offline` gets no new job (it may still run one:
    see `jobs`); `down` is not reachable for the batch system; `unknown` could not be told. `remaining_us` is
    the longest wall time its jobs may still run, of a driver that can tell; else None. `marked`: it carries
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
    stamp: Stamp | None = None
    """What a mark of ours says of the ledger that wanted it."""
    is_asleep: bool = False
    """It is `down` because power saving has switched it off, is doing so, or is switching it on: nothing is broken."""
    is_off: bool = False
    """It is asleep and quite off: it can be woken now."""

    @property
    def is_handed_over(self) -> bool:
        """The batch system will start nothing here and runs nothing here."""
        return self.state == "offline" and not self.jobs


UNKNOWN = NodeStatus("unknown")


def of_these(nodes: Iterable[str], listed: Mapping[str, NodeStatus]) -> dict[str, NodeStatus]:
    """What the batch system says of these nodes; one that it does not list is `unknown`."""
    return {node: listed.get(node, UNKNOWN) for node in nodes}


def with_ours(status: NodeStatus, note: str) -> NodeStatus:
    """A mark with our `note` in one of the forms of `marks` is ours, one with another is not; "": who knows."""
    if not (status.marked and note):
        return status
    mark = parse(status.note, note)
    if mark is None:
        return replace(status, is_foreign=bool(status.note))
    return replace(status, is_ours=True, stamp=mark.stamp)


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
        """Ask that no job starts on these nodes any more; running jobs go on. A mark that is there already says `why`.

        `why`: ledger and event (`marks.Stamp`), for the note that people and a later Balancer find on the node. What
        somebody else has noted there is kept in front of it. A node that somebody else marked is left alone.
        """

    def restore_nodes(self, nodes: Sequence[str]) -> None:
        """Give these nodes back to the batch system, which then looks for jobs for them. What others noted stays.

        A node that somebody else marked is left alone: they may have done so since the look that led to this.
        """

    def get_status_of_nodes(self, nodes: Iterable[str]) -> Mapping[str, NodeStatus]:
        """Every node asked for; one that the batch system does not list is `unknown`."""

    def get_status_of_all_nodes(self) -> Mapping[str, NodeStatus]:
        """Every node the batch system lists."""


@dataclass(frozen=True, slots=True)
class SiteCheck:
    """One thing that the batch system must be set up for. `problem`: what is wrong and what to do; "": nothing."""

    what: str
    problem: str


@runtime_checkable
class Tidies(Protocol):
    """A driver that keeps something beside its marks which others may have changed."""

    def tidy(self) -> None:
        """Make it what the marks that are there ask for. Now and then after a reading. Raises DriverError."""


@runtime_checkable
class WakesNodes(Protocol):
    """A driver that can have nodes switched on which power saving has switched off (`is_asleep`)."""

    def wake_nodes(self, nodes: Sequence[str]) -> None:
        """Ask for it; whether they come is read back. Raises DriverError."""


@runtime_checkable
class ChecksSite(Protocol):
    """A driver that can tell whether the batch system is set up for it."""

    def check_site(self, nodes: Sequence[str]) -> Sequence[SiteCheck]:
        """For these nodes. It only reads. Raises DriverError."""
