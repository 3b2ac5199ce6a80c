"""How many nodes were in each state over the last day, from the ledger's numbered log."""

from __future__ import annotations

import json
import threading
from itertools import islice
from typing import TYPE_CHECKING

from balancer.clock import micros

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from balancer.ledger.reader import Reader, StoredEvent
    from balancer.lifecycle.states import NodeState

SLOT_US = micros(60)
SLOTS = 1440
_MOST = 20_000
"""Events that are read back at most: a busy day is then shown from later on."""

Counts = dict[str, int]


class PoolHistory:
    """Counts at the ends of the last 1440 slots of a minute. Read back once, then kept up with the log.

    `counted` gives the number of the last event and the nodes by state after it. Methods from any thread.
    """

    def __init__(self, ledger: Reader, counted: Callable[[], tuple[int, dict[NodeState, int]]]) -> None:
        self._ledger = ledger
        self._counted = counted
        self._lock = threading.Lock()
        self._ends: dict[int, Counts] = {}
        self._seq: int | None = None
        self._counts: Counts = {}

    def slots(self, now_us: int) -> tuple[int, list[Counts | None]]:
        """The end of the last slot (now lies in it) and the counts of all, oldest first; None: not known."""
        last = now_us // SLOT_US
        with self._lock:
            seq, counts = self._counted()
            if self._seq is None or seq - self._seq > _MOST:
                self._read_back(seq, {state.value: count for state, count in counts.items()}, last)
            else:
                self._follow(seq)
            self._counts = {state.value: count for state, count in counts.items()}
            self._seq = seq
            self._ends[last] = self._counts
            for old in [slot for slot in self._ends if slot <= last - SLOTS]:
                del self._ends[old]
            found: list[Counts | None] = []
            known = None
            for slot in range(last - SLOTS + 1, last + 1):
                known = self._ends.get(slot, known)  # nothing happened in a slot that is missing
                found.append(known)
        return (last + 1) * SLOT_US, found

    def _follow(self, to: int) -> None:
        counts = dict(self._counts)
        for event in self._ledger.events_between(self._seq or 0, to):
            _apply(counts, moved(event), forward=True)
            self._ends[event.at_us // SLOT_US] = dict(counts)

    def _read_back(self, seq: int, counts: Counts, last: int) -> None:
        """A slot ends with the counts after its last event."""
        self._ends = {}
        counts = dict(counts)
        for event in islice(self._ledger.newest_events(seq), _MOST):
            slot = event.at_us // SLOT_US
            self._ends.setdefault(slot, dict(counts))
            if slot <= last - SLOTS:
                self._ends[last - SLOTS + 1] = self._ends.get(last - SLOTS + 1, self._ends[slot])
                return
            _apply(counts, moved(event), forward=False)


def moved(event: StoredEvent) -> Iterable[tuple[str, str, str]]:
    """(node, state before, state after) of each node that the event moved."""
    if '"moved"' not in event.body:
        return ()
    found: list[tuple[str, str, str]] = json.loads(event.body)["moved"]
    return found


def _apply(counts: Counts, moves: Iterable[tuple[str, str, str]], *, forward: bool) -> None:
    for _, before, after in moves:
        source, target = (before, after) if forward else (after, before)
        counts[source] = counts.get(source, 0) - 1
        counts[target] = counts.get(target, 0) + 1
