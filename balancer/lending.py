"""For how long nodes were lent to the on-demand side, from the ledger's numbered log."""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from balancer.lifecycle.states import NodeState
from balancer.service.pools import moved

if TYPE_CHECKING:
    from collections.abc import Callable

    from balancer.ledger.reader import Reader, StoredEvent


class _Step(NamedTuple):
    """From `at_us` on `lent` nodes are lent."""

    at_us: int
    lent: int


class LentTime(NamedTuple):
    """`node_us`: nodes lent times the time they were. `since_us`: from when on the log tells it."""

    node_us: int
    since_us: int


class Lending:
    """The number of lent nodes over time. Read back as far as somebody asks, then kept up with the log.

    `counted` gives the number of the last event and the nodes by state after it. Methods from any thread.
    """

    def __init__(self, ledger: Reader, counted: Callable[[], tuple[int, dict[NodeState, int]]]) -> None:
        self._ledger = ledger
        self._counted = counted
        self._lock = threading.Lock()
        self._steps: list[_Step] = []
        """Oldest first."""
        self._seq: int | None = None
        """The last event that has been read."""
        self._from_seq = 0
        """The first event that has been read, and when it was."""
        self._from_us = 0
        self._lent_before = 0
        """Lent nodes before that event."""

    def between(self, start_us: int, end_us: int) -> LentTime:
        """Node time lent in [start_us, end_us); events after `end_us` count for nothing."""
        with self._lock:
            self._follow()
            self._read_back(start_us)
            start_us = max(start_us, min(self._from_us, end_us))
            first = bisect_left(self._steps, (start_us, -1))
            lent = self._steps[first - 1].lent if first else self._lent_before
            at_us, node_us = start_us, 0
            for step in self._steps[first:]:
                if step.at_us >= end_us:
                    break
                node_us += lent * (step.at_us - at_us)
                at_us, lent = step
            return LentTime(node_us + lent * max(0, end_us - at_us), start_us)

    def _follow(self) -> None:
        seq, counts = self._counted()
        lent = counts[NodeState.OD_ALLOC]
        if self._seq is None:
            self._seq, self._from_seq, self._lent_before = seq, seq + 1, lent
            newest = self._ledger.events(seq - 1, 1)
            self._from_us = newest[-1].at_us if newest else 0
            return
        lent = self._steps[-1].lent if self._steps else self._lent_before
        for event in self._ledger.events_between(self._seq, seq):
            if change := _change(event):
                lent += change
                self._steps.append(_Step(event.at_us, lent))
            self._seq = event.seq

    def _read_back(self, start_us: int) -> None:
        """Until an event before `start_us`, or the first that the ledger has."""
        if self._from_us <= start_us:
            return
        earlier: list[_Step] = []
        try:
            for event in self._ledger.newest_events(self._from_seq - 1):
                if change := _change(event):
                    earlier.append(_Step(event.at_us, self._lent_before))
                    self._lent_before -= change
                self._from_seq, self._from_us = event.seq, event.at_us
                if self._from_us <= start_us:
                    return
        finally:
            self._steps[:0] = reversed(earlier)


def _change(event: StoredEvent) -> int:
    """How many more nodes are lent after the event than before it."""
    if NodeState.OD_ALLOC not in event.body:
        return 0
    lent = NodeState.OD_ALLOC.value
    return sum((after == lent) - (before == lent) for _, before, after in moved(event))
