"""What happened to every node and why, for people: the last changes, their times and their causes."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from balancer.clock import seconds

if TYPE_CHECKING:
    from balancer.lifecycle.states import Cause, NodeState

STORY_LENGTH = 50_000
"""Entries that are kept, over all nodes."""

NODE_STORY_LENGTH = 20
"""Entries of one node that an error prints."""


class StoryEntry(NamedTuple):
    """One change of one node, and the event that caused it."""

    at_us: int
    event_id: str
    node: str
    start: NodeState
    to: NodeState
    cause: Cause
    request_id: str | None

    def __str__(self) -> str:
        whom = f" for {self.request_id}" if self.request_id is not None else ""
        step = f"{self.start} -> {self.to}" if self.start is not self.to else f"{self.start}"
        return f"{seconds(self.at_us):.6f} s  {self.node}: {step} ({self.cause}{whom}) by {self.event_id}"


class Story:
    """A bounded list of changes, newest last."""

    def __init__(self, length: int = STORY_LENGTH) -> None:
        self._entries: deque[StoryEntry] = deque(maxlen=length)
        self.add = self._entries.append

    def about(self, key: str) -> tuple[StoryEntry, ...]:
        """The entries of a node or of an event id, oldest first."""
        return tuple(entry for entry in self._entries if key in (entry.node, entry.event_id))

    def tail(self, node: str) -> tuple[StoryEntry, ...]:
        """The newest entries of a node, oldest first."""
        return self.about(node)[-NODE_STORY_LENGTH:]
