"""What a look at a node means for the command that was given for it: one table, no I/O and no clock.

A command is under way until a look tells its outcome. What is looked for is its `Aim`; what a look found is one
of `NodeReading`; `TABLE` says what that pair means before and after the limit, and `NodeCommand.after` takes the step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from balancer.drivers.base import NodeStatus


class Aim(StrEnum):
    """How the node is to read."""

    RECLAIM = "reclaim"
    """Offline and without a job."""
    GIVE_BACK = "give back"
    """As the batch system's again: it was to be reclaimed and kept its job for longer than the limit."""
    RESTORE = "restore"
    """As the batch system's again."""

    @property
    def wants_mark(self) -> bool:
        return self is Aim.RECLAIM


class NodeReading(StrEnum):
    """What one look found of one node; exactly one of these."""

    IDLE = "idle"
    """Enabled in batch, no job."""
    BUSY = "busy"
    """Enabled in batch and in use; it names no job."""
    RUNS = "runs a job"
    """Enabled in batch, names its job."""
    DRAINED = "offline"
    """Offline, no job."""
    DRAINING = "offline, runs a job"
    """Offline, names a job."""
    FOREIGN = "taken by others"
    """Not enabled in batch, and the mark on it is somebody else's."""
    DOWN = "down"
    """Not reachable for the batch system."""
    ASLEEP = "asleep"
    """Switched off by power saving, and not offline."""
    UNKNOWN = "unknown"
    """Could not be read."""


class Step(StrEnum):
    """What is concluded while there is no outcome yet."""

    WAIT = "wait"
    """Too early to tell."""
    AGREE = "hand over"
    """`reclaimed` once two looks in a row, at least `confirm_poll_s` apart, found it so; until then `wait`."""
    GIVE_BACK = "give back"
    """It keeps its job: our mark is taken off, which may take another `confirm_limit_s`."""


class Outcome(StrEnum):
    """How a command ended."""

    RECLAIMED = "reclaimed"
    """It is on-demand's."""
    KEPT_JOB = "kept its job"
    """Batch has it again, with its job; a request gets another."""
    RECLAIM_UNCLEAR = "reclaim unclear"
    """Told once; looked at, and the command repeated, from then on."""
    RESTORED = "restored"
    """Batch has it again, idle."""
    RESTORED_BUSY = "restored busy"
    """Batch has it again, with a job."""
    RESTORE_UNCLEAR = "restore unclear"
    """Told once; looked at, and the command repeated, from then on."""
    DOWN = "down"
    """It is nobody's until it reads well again."""

    @property
    def is_unclear(self) -> bool:
        """It has not ended: this is told once, and the node is looked at from then on."""
        return self in (Outcome.RECLAIM_UNCLEAR, Outcome.RESTORE_UNCLEAR)


@dataclass(frozen=True, slots=True)
class Cell:
    """What is concluded within the limit, and what after it."""

    within: Step | Outcome
    after: Step | Outcome


def _always(conclusion: Step | Outcome) -> Cell:
    return Cell(conclusion, conclusion)


_TO_RECLAIM = Cell(Step.WAIT, Outcome.RECLAIM_UNCLEAR)
_TO_RESTORE = Cell(Step.WAIT, Outcome.RESTORE_UNCLEAR)

TABLE: dict[Aim, dict[NodeReading, Cell]] = {
    Aim.RECLAIM: {
        NodeReading.IDLE: _TO_RECLAIM,
        NodeReading.BUSY: _TO_RECLAIM,
        NodeReading.RUNS: Cell(Step.WAIT, Step.GIVE_BACK),
        NodeReading.DRAINED: _always(Step.AGREE),
        NodeReading.DRAINING: Cell(Step.WAIT, Step.GIVE_BACK),
        NodeReading.FOREIGN: _always(Outcome.DOWN),
        NodeReading.DOWN: Cell(Step.WAIT, Outcome.DOWN),
        NodeReading.ASLEEP: Cell(Step.WAIT, Outcome.DOWN),
        NodeReading.UNKNOWN: _TO_RECLAIM,
    },
    Aim.GIVE_BACK: dict.fromkeys(NodeReading, _TO_RECLAIM)
    | dict.fromkeys((NodeReading.IDLE, NodeReading.BUSY, NodeReading.RUNS), _always(Outcome.KEPT_JOB))
    | {NodeReading.ASLEEP: _always(Outcome.DOWN)},
    Aim.RESTORE: dict.fromkeys(NodeReading, _TO_RESTORE)
    | {
        NodeReading.IDLE: _always(Outcome.RESTORED),
        NodeReading.BUSY: _always(Outcome.RESTORED_BUSY),
        NodeReading.RUNS: _always(Outcome.RESTORED_BUSY),
        NodeReading.FOREIGN: _always(Outcome.DOWN),
        # Batch has it, and may have switched it off before it was seen idle.
        NodeReading.ASLEEP: _always(Outcome.DOWN),
    },
}
"""Aim -> what is found -> what it means. A node that somebody else has taken is handed to nobody."""


def reading_of(status: NodeStatus) -> NodeReading:
    """The one value of `NodeReading` that this reading is."""
    runs = bool(status.jobs)
    if status.is_foreign and status.state not in ("idle", "busy"):
        return NodeReading.FOREIGN
    match status.state:
        case "idle" | "busy" if runs:
            return NodeReading.RUNS
        case "offline":
            return NodeReading.DRAINING if runs else NodeReading.DRAINED
        case "down" if status.is_asleep and not status.marked:
            return NodeReading.ASLEEP
        case state:
            return NodeReading(state)


def is_to_be_repeated(aim: Aim, status: NodeStatus) -> bool:
    """The command showed no effect. Never of a node that cannot be read: the mark on it may be somebody else's."""
    return (
        status.state != "unknown"
        and status.marked != aim.wants_mark
        and not (status.is_foreign and not aim.wants_mark)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCommand:
    """A command for one node, from its order to its outcome. Wall times."""

    aim: Aim
    limit_us: int
    """How the node reads must be clear by then."""
    event_id: str
    """What caused it."""
    is_late: bool = False
    """That its outcome is unclear has been told."""
    agreed_us: int | None = None
    """When the first of the looks that found it handed over began; None: the latest look did not."""

    def after(
        self, status: NodeStatus, *, looked_us: int, now_us: int, poll_us: int, limit_us: int
    ) -> tuple[NodeCommand, Outcome | None]:
        """The command after a look that began at `looked_us` and was answered by `now_us`, and its outcome, if any.

        `poll_us`: how far apart looks must be that hand a node over. `limit_us`: how long a new aim has.
        """
        cell = TABLE[self.aim][reading_of(status)]
        conclusion = cell.within if now_us < self.limit_us else cell.after
        if conclusion is Step.AGREE:
            since_us = looked_us if self.agreed_us is None else self.agreed_us
            outcome = Outcome.RECLAIMED if looked_us - since_us >= poll_us else None
            return replace(self, agreed_us=since_us), outcome
        plain = self.contradicted()
        if conclusion is Step.GIVE_BACK:
            return replace(plain, aim=Aim.GIVE_BACK, limit_us=now_us + limit_us, is_late=False), None
        if not isinstance(conclusion, Outcome):
            return plain, None
        if conclusion.is_unclear:
            return replace(plain, is_late=True), None if self.is_late else conclusion
        return plain, conclusion

    def contradicted(self) -> NodeCommand:
        """After a look that did not find it handed over."""
        return replace(self, agreed_us=None)
